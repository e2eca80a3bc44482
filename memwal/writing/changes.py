"""Changes to a table, their receipts, and the errors of writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

import pyarrow as pa

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnavailableError,
)

_NAMED = 5


@dataclass(frozen=True, eq=False)
class Changes:
    """The rows and keys that one statement, or one batch of it, writes to a table.

    Attributes:
        upserts: rows that become the newest of their key, all columns of the table in its order and types;
            None for none. Of several rows of one key the last counts.
        deletes: rows whose keys die; key columns in key order suffice where the table's regions follow from
            the key, other columns are used to find the region where they are given. None for none. A key may
            not be among both.
    """

    upserts: pa.Table | None = None
    deletes: pa.Table | None = None

    def __post_init__(self) -> None:
        if self.upserts is None and self.deletes is None:
            msg = "changes need rows to write or keys to delete"
            raise InvalidInputError(msg)

    @property
    def num_rows(self) -> int:
        """Number of rows and keys."""
        return sum(0 if part is None else part.num_rows for part in (self.upserts, self.deletes))

    @property
    def nbytes(self) -> int:
        """Bytes of rows and keys."""
        return sum(0 if part is None else int(part.nbytes) for part in (self.upserts, self.deletes))


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """The number of acknowledged rows by region.

    Attributes:
        regions: region id -> rows and keys written there.
        is_durable: whether it survives the end of this process.
    """

    regions: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    is_durable: bool = True

    @property
    def num_rows(self) -> int:
        """Number of rows and keys in all regions."""
        return sum(self.regions.values())


class FencedError(UnavailableError):
    """Another writer claimed the region; nothing of the request was written, and it may be retried."""


class NotOwnerError(UnavailableError):
    """Another process owns the region, and the options forbid to claim it."""


class SealedError(PreconditionError):
    """The region takes no more rows; nothing was written."""


class OutcomeUnknownError(UnavailableError):
    """Storage failed, or another writer claimed the region, during the write; its outcome is unknown."""


class PartlyWrittenError(LanceGatewayError):
    """Some regions have their rows and others do not; the message names both.

    Attributes:
        receipt: what was written.
    """

    status: ClassVar[str] = "UNAVAILABLE"

    def __init__(self, message: str, receipt: WriteReceipt) -> None:
        super().__init__(message)
        self.receipt = receipt


@dataclass(frozen=True, slots=True)
class RegionOutcome:
    """The outcome of a write to one region.

    Attributes:
        region_id: UUID in its usual text form.
        num_rows: rows and keys.
        error: why they were not written; None where they were.
    """

    region_id: str
    num_rows: int
    error: LanceGatewayError | None = None


def build_receipt(table: str, outcomes: Sequence[RegionOutcome], *, is_durable: bool) -> WriteReceipt:
    """Return the receipt of a write, or raise its error.

    Raises:
        PartlyWrittenError: only some regions have their rows.
        LanceGatewayError: no region has.
    """
    receipt = WriteReceipt(
        {outcome.region_id: outcome.num_rows for outcome in outcomes if outcome.error is None}, is_durable
    )
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if not failed:
        return receipt
    unknown = [outcome for outcome in failed if isinstance(outcome.error, OutcomeUnknownError)]
    first = next(outcome.error for outcome in (unknown or failed) if outcome.error is not None)
    if not receipt.regions and (len(failed) == 1 or not unknown or len(unknown) == len(failed)):
        raise first
    certain = [outcome for outcome in failed if outcome not in unknown]
    messages = [
        f"{len(receipt.regions)} of {len(outcomes)} regions have their rows ({receipt.num_rows} rows)",
        _format_outcomes("not written", certain),
        _format_outcomes("unknown", unknown),
    ]
    msg = f"table {table!r}: {'; '.join(filter(None, messages))}. {first}"
    raise PartlyWrittenError(msg, receipt) from first


def _format_outcomes(label: str, outcomes: Sequence[RegionOutcome]) -> str:
    if not outcomes:
        return ""
    named = ", ".join(
        f"{outcome.num_rows} rows of region {outcome.region_id}" for outcome in outcomes[:_NAMED]
    )
    more = f" and {len(outcomes) - _NAMED} more regions" if len(outcomes) > _NAMED else ""
    return f"{label}: {named}{more}"
