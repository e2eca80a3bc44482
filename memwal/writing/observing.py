"""Counters and events of writers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(slots=True)
class Counters:
    """Counters of one region's writer, as in `RegionStats`; the thread that leads its queue changes them."""

    rows: int = 0
    bytes: int = 0
    groups: int = 0
    group_requests: int = 0
    claims: int = 0
    fences: int = 0
    forwards: int = 0
    in_doubt: int = 0
    failed_later: int = 0
    flushes: int = 0


@dataclass(frozen=True, slots=True)
class RegionStats:
    """The state of one region as its writer in this process knows it.

    Attributes:
        region_id: UUID in its usual text form.
        epoch: of the claim; 0 where this process does not own the region.
        since: when it was claimed; None where it is not.
        is_open: whether this process owns it, as far as it knows.
        rows: rows and keys that were written.
        bytes: of these.
        groups: WAL entries that were written.
        group_requests: requests in them.
        claims: how often the region was claimed.
        fences: how often it was lost to another writer.
        forwards: requests that its owner was asked to write.
        in_doubt: writes that failed in a way that did not tell whether the rows arrived.
        failed_later: rows that were acknowledged before they were durable, and then lost.
        flushes: how often it was flushed and let go.
        queued_bytes: of requests that wait.
        queued_requests: that wait.
        unflushed_rows: that are held in memory.
        unflushed_bytes: of these.
        wal_position: of the newest entry; 0 where this process does not own the region.
        owner_url: of the process that owns it, where that is another and known.
    """

    region_id: str
    epoch: int
    since: datetime | None
    is_open: bool
    rows: int
    bytes: int
    groups: int
    group_requests: int
    claims: int
    fences: int
    forwards: int
    in_doubt: int
    failed_later: int
    flushes: int
    queued_bytes: int
    queued_requests: int
    unflushed_rows: int
    unflushed_bytes: int
    wal_position: int
    owner_url: str


class WriteObserver:
    """Observes writers on their own threads; subclasses override the events that they need.

    They must be quick and raise nothing.
    """

    def on_group(
        self, table: str, region_id: str, requests: int, rows: int, nbytes: int, seconds: float
    ) -> None:
        """Observe the write of a WAL entry with the rows of one or more requests."""

    def on_claim(self, table: str, region_id: str, epoch: int, seconds: float) -> None:
        """Observe the claim of a region; `seconds` includes the wait for its previous owner."""

    def on_fenced(self, table: str, region_id: str, epoch: int) -> None:
        """Observe the loss of a region to another writer; `epoch` is that of the lost claim."""

    def on_forward(self, table: str, region_id: str, url: str, rows: int, seconds: float) -> None:
        """Observe rows that the owner of a region wrote for this process."""
