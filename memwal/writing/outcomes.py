"""What became of a request's rows, region by region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memwal.errors import LanceGatewayError
from memwal.writing.changes import OutcomeUnknownError, PartlyWrittenError, WriteReceipt

_NAMED = 5


@dataclass(frozen=True, slots=True)
class RegionOutcome:
    """What became of the rows of one region.

    Attributes:
        region_id: UUID in its usual text form.
        num_rows: rows and keys.
        error: why they were not written; None where they were.
    """

    region_id: str
    num_rows: int
    error: LanceGatewayError | None = None


def receipt_of(table: str, outcomes: Sequence[RegionOutcome], *, is_durable: bool) -> WriteReceipt:
    """What is acknowledged.

    Raises:
        PartlyWrittenError: only some regions have their rows.
        LanceGatewayError: no region has.
    """
    receipt = WriteReceipt({one.region_id: one.num_rows for one in outcomes if one.error is None}, is_durable)
    failed = [one for one in outcomes if one.error is not None]
    if not failed:
        return receipt
    unknown = [one for one in failed if isinstance(one.error, OutcomeUnknownError)]
    first = next(one.error for one in (unknown or failed) if one.error is not None)
    if not receipt.regions and (len(failed) == 1 or not unknown or len(unknown) == len(failed)):
        raise first
    certain = [one for one in failed if one not in unknown]
    told = [
        f"{len(receipt.regions)} of {len(outcomes)} regions have their rows ({receipt.num_rows} rows)",
        _told("not written", certain),
        _told("unknown", unknown),
    ]
    msg = f"table {table!r}: {'; '.join(filter(None, told))}. {first}"
    raise PartlyWrittenError(msg, receipt) from first


def _told(what: str, outcomes: Sequence[RegionOutcome]) -> str:
    if not outcomes:
        return ""
    named = ", ".join(f"{one.num_rows} rows of region {one.region_id}" for one in outcomes[:_NAMED])
    more = f" and {len(outcomes) - _NAMED} more regions" if len(outcomes) > _NAMED else ""
    return f"{what}: {named}{more}"
