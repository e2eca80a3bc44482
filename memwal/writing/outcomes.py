"""What became of a request's rows, region by region."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memwal.errors import LanceGatewayError
from memwal.writing.changes import (
    Changes,
    FencedError,
    NotOwnerError,
    OutcomeUnknownError,
    PartlyWrittenError,
    WriteReceipt,
)
from memwal.writing.options import UnreachableError, WriteOptions
from memwal.writing.region.region_writer import RegionWriter
from memwal.writing.table.open_table import OpenTable

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


def forwarded(
    options: WriteOptions,
    writer: RegionWriter,
    table: OpenTable,
    changes: Changes,
    deadline: float,
    write: Callable[[], RegionOutcome],
) -> RegionOutcome:
    """Have the owner of a region write changes, who may be this process.

    Args:
        options: with a forwarder.
        writer: of the region, in this process.
        table: whose columns the rows have.
        changes: of that region alone.
        deadline: monotonic time.
        write: writes them here, claiming the region if need be.
    """
    while True:
        try:
            outcome = _sent(options, writer, table, changes) or write()
        except LanceGatewayError as error:
            outcome = RegionOutcome(writer.region_id, changes.num_rows, error)
        # Another process owns it now, by the time that it was to be written: here, or there.
        if not isinstance(outcome.error, FencedError) or time.monotonic() > deadline:
            return outcome


def _sent(
    options: WriteOptions, writer: RegionWriter, table: OpenTable, changes: Changes
) -> RegionOutcome | None:
    """What the owner made of it; None where no other process owns the region that would answer."""
    while not writer.is_owned and options.forwarder is not None:
        owner = writer.ownership.other_owner(table)
        writer.note_owner("" if owner is None else owner.url)
        if owner is None:
            break
        started = time.monotonic()
        try:
            receipt = options.forwarder.forward(owner.url, writer.table_name, writer.region_id, changes)
        except (UnreachableError, NotOwnerError):
            # A third process may own it by now; if not, this epoch is not asked again.
            writer.ownership.gone_epoch = owner.epoch
            continue
        writer.counters.forwards += 1
        seconds = time.monotonic() - started
        options.observer.on_forward(writer.table_name, writer.region_id, owner.url, receipt.num_rows, seconds)
        return RegionOutcome(writer.region_id, receipt.num_rows)
    return None
