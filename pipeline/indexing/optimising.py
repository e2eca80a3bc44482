"""Rows that indexes lack, into the indexes, until they have what the table had."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from memwal.base.index_details import MemWalIndexDetails
from memwal.base.versions import commit_with_retries
from memwal.errors import PreconditionError, UnavailableError
from pipeline.indexing.indexes import IndexState, TableIndexes
from pipeline.indexing.planning import Upkeep, catching_up
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.runners import Progress, Runner, counted


@dataclass(frozen=True, slots=True)
class OptimisePart:
    """Indexes of a table that one call of Lance brings up to date.

    Attributes:
        table: whose indexes they are.
        upkeep: what is done, the same for all of them but for their names.
    """

    table: LakeTable
    upkeep: tuple[Upkeep, ...]


@dataclass(frozen=True, slots=True)
class Optimised:
    """What became of an index.

    Attributes:
        upkeep: what was to be done.
        error: why it was not; None if it was.
    """

    upkeep: Upkeep
    error: str | None = None


def optimise(
    table: LakeTable, upkeep: Sequence[Upkeep], runner: Runner, progress: Progress
) -> tuple[Optimised, ...]:
    """Bring indexes up to date; one that can't be holds up no other.

    Rows are added to all indexes by one commit where no segments are folded. Each of the others has a
    commit of its own, and they are worked on at the same time.

    Raises:
        UnavailableError: others were first, time after time.
    """
    plain = tuple(one for one in upkeep if not one.fold and not one.retrain)
    groups = [plain] if plain else []
    groups += [(one,) for one in upkeep if one.fold or one.retrain]
    parts = [OptimisePart(table, one) for one in groups]
    done: list[Optimised] = []
    with progress(f"index {table.name}", len(upkeep)) as advance:
        for found in runner.run(run_part, parts, name=f"index {table.name}"):
            done += found
            advance(len(found))
    return tuple(sorted(done, key=lambda one: one.upkeep.name))


def run_part(part: OptimisePart) -> tuple[Optimised, ...]:
    """Do a part; safe to repeat.

    Raises:
        UnavailableError: others were first, time after time.
    """
    table = part.table
    names = [one.name for one in part.upkeep]
    which = part.upkeep[0]
    call = {"retrain": True} if which.retrain else {"num_indices_to_merge": which.fold}

    def change() -> None:
        table.dataset().optimize.optimize_indices(index_names=names, **call)

    try:
        commit_with_retries(
            f"table {table.name!r}: can't bring indexes {', '.join(map(repr, names))} up to date", change
        )
    except PreconditionError as error:
        if len(names) == 1:
            return (Optimised(which, str(error)),)
        # One of them stands in the way: each by itself.
        alone = (run_part(OptimisePart(table, (one,))) for one in part.upkeep)
        return tuple(chain.from_iterable(alone))
    return tuple(map(Optimised, part.upkeep))


def lacking(before: TableIndexes, after: TableIndexes) -> tuple[str, ...]:
    """Indexes that lack something which the table had before, by name.

    Fragments that are gone since, and what was merged since, are left out of account.
    """
    return tuple(one.name for one in after.indexes if _lacks(one, before, after))


def lagging(indexes: TableIndexes) -> tuple[str, ...]:
    """What indexes lack now, for people; empty if they have all."""
    found = []
    for one in indexes.indexes:
        if one.uncovered:
            rows, fragments = counted(one.unindexed_rows, "row"), counted(len(one.uncovered), "fragment")
            found.append(f"{one.name} lacks {rows} of {fragments}")
        for region, reached in sorted(one.behind.items()):
            merged = indexes.merged[region]
            found.append(f"{one.name} is at generation {reached} of {merged} of region {region}")
    return tuple(found)


def refusal(table: LakeTable, failed: tuple[Optimised, ...], stuck: tuple[str, ...]) -> PreconditionError:
    """The error for indexes that can't be brought up to date."""
    names = tuple(one.upkeep.name for one in failed) or stuck
    reasons = "; ".join(dict.fromkeys(one.error or "" for one in failed))
    why = reasons or "Lance brought them up to date, and they still lack rows that the table has"
    msg = (
        f"table {table.name!r}: {'indexes' if len(names) > 1 else 'index'} "
        f"{', '.join(map(repr, names))} can't catch up with the table: {why}. Build what can't be repaired "
        f"anew: lance-gateway pipeline index {table.name} --build COLUMN:TYPE:{names[0]} --replace"
    )
    return PreconditionError(msg)


def _lacks(index: IndexState, before: TableIndexes, after: TableIndexes) -> bool:
    known = {one.fragment_id for one in before.fragments}
    if known.intersection(index.uncovered):
        return True
    reached = {region: index.behind.get(region, merged) for region, merged in after.merged.items()}
    return any(reached.get(region, 0) < merged for region, merged in before.merged.items())


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
        raise UnavailableError(f"{failed[0].error}; others change the table all the time: try again later")
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
