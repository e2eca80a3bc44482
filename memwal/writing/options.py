"""Options of writers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from lance_gateway.memwal.errors import InvalidInputError, UnavailableError
from lance_gateway.memwal.writing.changes import Changes, WriteReceipt
from lance_gateway.memwal.writing.observing import WriteObserver


class UnreachableError(UnavailableError):
    """The owner's address does not answer, or does not own the region; nothing was written."""


class Forwarder(Protocol):
    """Sends changes to the owner of their region; safe to share between threads."""

    def forward(self, url: str, table: str, region_id: str, changes: Changes) -> WriteReceipt:
        """Send changes to the owner, which writes them durably.

        Args:
            url: of the owner, as its owner record says.
            table: name in the catalog.
            region_id: that all rows belong to.
            changes: of that region alone.

        Raises:
            UnreachableError: nothing was written, and the region may be claimed.
            OutcomeUnknownError: the connection broke while the rows were on their way.
            LanceGatewayError: the owner's own answer.
        """

    def flush(self, url: str, table: str, region_id: str) -> int:
        """Ask the owner of a region to flush it; return how many rows it flushed.

        Args:
            url: of the owner, as its owner record says.
            table: name in the catalog.
            region_id: of the region.

        Raises:
            UnreachableError: no answer came, and the region may be claimed.
            LanceGatewayError: the owner's own answer.
        """


class OwnershipPolicy(Enum):
    """How a process treats rows for a region that another process owns."""

    CLAIM = "claim"
    FORWARD = "forward"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of one process for all of its tables.

    Attributes:
        ownership: of regions that another process owns.
        hold_ms: a region that was claimed stays with its owner for this long, if the owner is alive.
        claim_timeout_ms: how long a request waits for a region until it is told to come again.
        max_queued_bytes: of requests that wait for one region's writer; more of them wait before that.
        max_memtable_rows: rows of one MemTable, and of one batch that is written as a whole.
        max_memtable_bytes: of one MemTable.
        idle_close_seconds: a region that nobody writes to for this long is flushed and let go; 0 for never.
        url: by which other processes reach this one, for their owner records; empty where they can't.
        forwarder: sends rows to the owners of their regions; needed for `OwnershipPolicy.FORWARD`.
        observer: is told what writers do.
    """

    ownership: OwnershipPolicy = OwnershipPolicy.CLAIM
    hold_ms: int = 1000
    claim_timeout_ms: int = 30_000
    max_queued_bytes: int = 64 << 20
    max_memtable_rows: int = 100_000
    max_memtable_bytes: int = 256 << 20
    idle_close_seconds: float = 300.0
    url: str = ""
    forwarder: Forwarder | None = None
    observer: WriteObserver = field(default_factory=WriteObserver)

    def __post_init__(self) -> None:
        for name in ("claim_timeout_ms", "max_queued_bytes", "max_memtable_rows", "max_memtable_bytes"):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, but must be 1 or more"
                raise InvalidInputError(msg)
        if self.hold_ms < 0 or self.idle_close_seconds < 0:
            given = f"hold_ms is {self.hold_ms}, idle_close_seconds {self.idle_close_seconds}"
            msg = f"{given}, but neither can be negative"
            raise InvalidInputError(msg)
        if self.ownership is OwnershipPolicy.FORWARD and self.forwarder is None:
            msg = "rows can't be forwarded to the owners of their regions without a forwarder"
            raise InvalidInputError(msg)
