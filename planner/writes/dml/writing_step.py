"""The step that reads rows, computes changes and writes them.

It holds the regions that it writes, and is repeated if another writer claims one of them.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from lance_gateway.memwal.writing import Changes, FencedError, TableWriter, WriteReceipt
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.writes.dml.reading.read_rows import ReadStep
from lance_gateway.planner.writes.dml.statement.target import Target

ATTEMPTS = 12
"""Attempts per statement. Each claims the regions again, so more of them would slow other writers."""
_PAUSE_SECONDS = 0.005
_MAX_PAUSE_SECONDS = 0.5

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Outcome:
    """Changes computed from rows that were read.

    Attributes:
        affected: number of rows that the statement reports.
        changes: rows and keys to write; None if there are none.
        returned_rows: rows that RETURNING is evaluated over.
    """

    affected: int
    changes: Changes | None
    returned_rows: pa.Table


def empty_outcome(target: Target) -> Outcome:
    """Return the outcome of a statement that found no rows to change."""
    return Outcome(0, None, target.schema.empty_table())


def retry_if_fenced(step: Callable[[], T], table: str) -> T:
    """Run a step, and run it again if another writer fenced it.

    Args:
        step: writes all or nothing, and raises `FencedError` if it wrote nothing; fails if it was stopped.
        table: name of the table, for messages.

    Raises:
        FencedError: every attempt was fenced; nothing was written.
        LanceGatewayError: an error of the step.
    """
    for attempt in range(ATTEMPTS):
        try:
            return step()
        except FencedError as error:
            if attempt == ATTEMPTS - 1:
                msg = (
                    f"other writers claimed regions of table {table!r} {ATTEMPTS} times while this statement "
                    f"was about to write, and nothing was written: send it again ({error})"
                )
                raise FencedError(msg) from error
        pause(attempt)
    raise AssertionError


def read_and_write(
    target: Target,
    step: ReadStep,
    compute: Callable[[pa.Table], Outcome],
    control: RunControl,
    *,
    durable: bool,
) -> tuple[Outcome, WriteReceipt]:
    """Read rows, compute changes and write them while holding the regions exclusively.

    Args:
        target: table.
        step: reads at consistency "strong", once per attempt.
        compute: computes the changes from the rows.
        control: cancels the execution before it writes.
        durable: whether acknowledged rows must survive the end of this process.

    Raises:
        FencedError: every attempt was fenced by another writer; nothing was written.
        LanceGatewayError: reading, computing or writing failed.
    """
    if control.transaction is not None:
        outcome = compute(step.rows())
        if outcome.changes is None:
            return outcome, WriteReceipt({}, durable)
        return outcome, write_rows(target, outcome.changes, control, durable=durable, reads_first=True)
    writer = target.table.writer()
    held_ids: set[str] = set()

    def attempt() -> tuple[Outcome, WriteReceipt] | None:
        control.check()
        held_ids.update(step.regions(writer))
        with writer.exclusive(frozenset(held_ids)) as held:
            outcome = compute(step.rows())
            if outcome.changes is None:
                return outcome, WriteReceipt({}, durable)
            needed = set() if step.is_whole else _find_regions(target, writer, outcome.changes)
            if not needed <= held_ids:
                # Some rows lie in regions that were created meanwhile, or that only their values tell.
                held_ids.update(needed)
                return None
            _take_room(target, outcome.changes)
            control.begin_writing()
            with target.detecting_alterations():
                return outcome, held.write(outcome.changes, durable=durable)

    while (result := retry_if_fenced(attempt, target.name)) is None:
        pass
    return result


def write_rows(
    target: Target, changes: Changes, control: RunControl, *, durable: bool, reads_first: bool = False
) -> WriteReceipt:
    """Write changes, or keep them in the transaction that the execution is part of.

    Args:
        target: table.
        changes: of any number of regions.
        control: cancels the execution before it writes.
        durable: whether acknowledged rows must survive the end of this process.
        reads_first: whether they were computed from rows of the same keys, which a transaction has read.

    Raises:
        LanceGatewayError: as `TableWriter.write`.
    """
    _take_room(target, changes)
    if control.transaction is None:
        control.begin_writing()
        with target.detecting_alterations():
            return target.table.writer().write(changes, durable=durable)
    control.check()
    kept: WriteReceipt = control.transaction.write(target, changes, reads_first=reads_first)
    return kept


def _take_room(target: Target, changes: Changes) -> None:
    target.table.take_room(
        sum(rows.nbytes for rows in (changes.upserts, changes.deletes) if rows is not None)
    )


def _find_regions(target: Target, writer: TableWriter, changes: Changes) -> set[str]:
    written = [rows for rows in (changes.upserts, changes.deletes) if rows is not None]
    places = [rows.select(list(target.place_columns)) for rows in written]
    return {region_id for rows in places for region_id in writer.find_regions(rows)}


def pause(attempt: int) -> None:
    """Sleep for a random time, so that two processes don't keep fencing each other."""
    longest = min(_PAUSE_SECONDS * 2**attempt, _MAX_PAUSE_SECONDS)
    threading.Event().wait(random.uniform(0, longest))  # noqa: S311 - no secret
