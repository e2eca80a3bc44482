"""Reading and writing as one step: the loop that begins anew when another writer was quicker."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from memwal.writing import Changes, FencedError, WriteReceipt
from planner.bridge.run_control import RunControl
from planner.writes.dml.statement.target import Target

__all__ = ["Outcome", "again_if_fenced", "rewritten"]

ATTEMPTS = 12
"""Each of them claims the regions anew; more would only add to a fight between writers."""
_PAUSE_SECONDS = 0.005
_MAX_PAUSE_SECONDS = 0.5

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was computed from rows that were read.

    Attributes:
        affected: rows that the statement counts.
        changes: to be written; None for none.
        shown: rows that RETURNING is about.
    """

    affected: int
    changes: Changes | None
    shown: pa.Table


def again_if_fenced(step: Callable[[], T], control: RunControl, table: str) -> T:
    """Do something until no other writer comes between.

    Args:
        step: writes all or nothing, and raises `FencedError` where it wrote nothing.
        control: may stop it between two attempts.
        table: for the message.

    Raises:
        FencedError: others came between every time; nothing was written.
        LanceGatewayError: whatever the step raises.
    """
    for attempt in range(ATTEMPTS):
        control.check()
        try:
            return step()
        except FencedError as error:
            if attempt == ATTEMPTS - 1:
                msg = (
                    f"other writers claimed regions of table {table!r} {ATTEMPTS} times while this statement "
                    f"was about to write, and nothing was written: send it again ({error})"
                )
                raise FencedError(msg) from error
        _pause(attempt)
    raise AssertionError


def rewritten(
    target: Target,
    regions: Callable[[], Collection[str]],
    compute: Callable[[], Outcome],
    control: RunControl,
    *,
    durable: bool,
) -> tuple[Outcome, WriteReceipt]:
    """Read rows and write what becomes of them, with nobody in between.

    Args:
        target: table.
        regions: where matching rows may be, as far as is known before they are read.
        compute: reads at consistency "strong", and computes; anew for every attempt.
        control: may stop it before it writes.
        durable: whether what is acknowledged survives the end of this process.

    Raises:
        FencedError: others came between every time; nothing was written.
        LanceGatewayError: what went wrong.
    """
    writer = target.table.writer()
    held_ids: set[str] = set()

    def attempt() -> tuple[Outcome, WriteReceipt] | None:
        held_ids.update(regions())
        with writer.exclusive(frozenset(held_ids)) as held:
            outcome = compute()
            if outcome.changes is None:
                return outcome, WriteReceipt({}, durable)
            needed = _regions_of(target, outcome.changes)
            if not needed <= held_ids:
                # Rows of the base table whose region did not exist yet, or that only the rows tell.
                held_ids.update(needed)
                return None
            control.check()
            return outcome, held.write(outcome.changes, durable=durable)

    while (done := again_if_fenced(attempt, control, target.name)) is None:
        pass
    return done


def _regions_of(target: Target, changes: Changes) -> set[str]:
    writer = target.table.writer()
    found: set[str] = set()
    for rows in (changes.upserts, changes.deletes):
        if rows is not None and rows.num_rows:
            found.update(writer.regions_of(rows.select(list(target.place_columns))))
    return found


def _pause(attempt: int) -> None:
    """Wait a little, differently long in every process, so that two don't fence each other in step."""
    longest = min(_PAUSE_SECONDS * 2**attempt, _MAX_PAUSE_SECONDS)
    threading.Event().wait(random.uniform(0, longest))  # noqa: S311 - no secret
