"""Indexes brought up to date until they have what the table had when that began."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from memwal.base.index_details import MemWalIndexDetails
from memwal.errors import UnavailableError
from pipeline.indexing.indexes import TableIndexes
from pipeline.indexing.optimising import Optimised, optimise
from pipeline.indexing.planning import catching_up
from pipeline.indexing.verifying import lacking, refusal
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.progress import Progress
from pipeline.jobs.runners import Runner

_ROUNDS = 6
_QUIET_ROUNDS = 2
"""After so many in which nobody else changed the table, an index that Lance fails on is refused."""


def caught_up(
    table: LakeTable, names: Collection[str], runner: Runner, progress: Progress
) -> tuple[Optimised, ...]:
    """Bring indexes up to date, and look whether they are.

    Where others change the table all the time, some of it may be left for the next run.

    Raises:
        PreconditionError: an index lacks rows though nobody else changed the table; names it.
        UnavailableError: others changed the table, and Lance failed; says why.
    """
    goal = latest = TableIndexes.read(table)
    done: list[Optimised] = []
    failed: tuple[Optimised, ...] = ()
    quiet = 0
    for _ in range(_ROUNDS):
        missing = set(names).intersection(lacking(goal, latest))
        if not missing:
            return tuple(done)
        if failed and quiet >= _QUIET_ROUNDS:
            raise refusal(table, failed, tuple(sorted(missing)))
        upkeep = [one for one in catching_up(latest) if one.name in missing]
        outcome = optimise(table, upkeep, runner, progress)
        failed = tuple(one for one in outcome if one.error is not None)
        done += [one for one in outcome if one.error is None]
        before, latest = latest, TableIndexes.read(table)
        quiet = quiet + 1 if is_left_alone(before, latest, commits=len(upkeep)) else 0
    stuck = set(names).intersection(lacking(goal, latest))
    if stuck and quiet == _ROUNDS:
        raise refusal(table, failed, tuple(sorted(stuck)))
    if failed:
        msg = f"{failed[0].error}; others change the table all the time: try again later"
        raise UnavailableError(msg)
    return tuple(done)


def is_left_alone(before: TableIndexes, after: TableIndexes, *, commits: int) -> bool:
    """Whether nobody but us, with at most so many commits, changed a table between two looks at it."""
    return (
        after.version - before.version <= commits
        and before.fragments == after.fragments
        and _told_by_others(before) == _told_by_others(after)
    )


def _told_by_others(indexes: TableIndexes) -> MemWalIndexDetails | None:
    """What the MemWAL index says but for the progress of indexes: merges, and snapshots of regions."""
    return None if indexes.details is None else replace(indexes.details, index_catchup={})
