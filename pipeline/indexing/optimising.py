"""Adds the rows that indexes lack, until the indexes cover the table."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lance_gateway.memwal.base.index_details import MemWalIndexDetails
from lance_gateway.memwal.base.versions import commit_with_retries
from lance_gateway.memwal.errors import PreconditionError, UnavailableError
from lance_gateway.pipeline.indexing.indexes import IndexState, TableIndexes
from lance_gateway.pipeline.indexing.planning import Upkeep, plan_catch_up
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import Progress, Runner, format_count


@dataclass(frozen=True, slots=True)
class OptimisePart:
    """Indexes of a table that one call of Lance brings up to date.

    Attributes:
        table: the table.
        upkeep: the work, the same for all indexes but for their names.
    """

    table: LakeTable
    upkeep: tuple[Upkeep, ...]


@dataclass(frozen=True, slots=True)
class OptimiseResult:
    """The result for an index.

    Attributes:
        upkeep: the work.
        error: why it failed; None if it succeeded.
    """

    upkeep: Upkeep
    error: str | None = None


def optimise(
    table: LakeTable, upkeep: Sequence[Upkeep], runner: Runner, progress: Progress
) -> tuple[OptimiseResult, ...]:
    """Bring indexes up to date; the failure of one does not affect others.

    One commit adds rows to all indexes whose segments are not folded. Each other index has its own commit,
    and they are processed concurrently.

    Raises:
        UnavailableError: other commits came first in every attempt.
    """
    plain = tuple(index for index in upkeep if not index.fold and not index.retrain)
    groups = [plain] if plain else []
    groups += [(index,) for index in upkeep if index.fold or index.retrain]
    parts = [OptimisePart(table, group) for group in groups]
    done: list[OptimiseResult] = []
    with progress(f"index {table.name}", len(upkeep), "index") as advance:
        for found in runner.run(run_part, parts, name=f"index {table.name}"):
            done += found
            advance(len(found))
    return tuple(sorted(done, key=lambda one: one.upkeep.name))


def run_part(part: OptimisePart) -> tuple[OptimiseResult, ...]:
    """Bring the indexes of a part up to date; safe to repeat.

    Raises:
        UnavailableError: other commits came first in every attempt.
    """
    table = part.table
    names = [index.name for index in part.upkeep]
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
            return (OptimiseResult(which, str(error)),)
        # One index fails: try each by itself.
        alone = (run_part(OptimisePart(table, (index,))) for index in part.upkeep)
        return tuple(chain.from_iterable(alone))
    return tuple(map(OptimiseResult, part.upkeep))


def find_lacking_indexes(before: TableIndexes, after: TableIndexes) -> tuple[str, ...]:
    """Return the names of indexes that lack rows which the table had before.

    Ignores fragments that were removed and rows that were merged since.
    """
    return tuple(index.name for index in after.indexes if _is_lacking(index, before, after))


def describe_lag(indexes: TableIndexes) -> tuple[str, ...]:
    """Describe what indexes lack, for people; empty if they are up to date."""
    found = []
    for index in indexes.indexes:
        if index.uncovered:
            rows, fragments = (
                format_count(index.unindexed_rows, "row"),
                format_count(len(index.uncovered), "fragment"),
            )
            found.append(f"{index.name} lacks {rows} of {fragments}")
        for region, reached in sorted(index.behind.items()):
            merged = indexes.merged[region]
            found.append(f"{index.name} is at generation {reached} of {merged} of region {region}")
    return tuple(found)


def catch_up_error(
    table: LakeTable, failed: tuple[OptimiseResult, ...], stuck: tuple[str, ...]
) -> PreconditionError:
    """Return the error for indexes that can't be brought up to date."""
    names = tuple(one.upkeep.name for one in failed) or stuck
    reasons = "; ".join(dict.fromkeys(one.error or "" for one in failed))
    why = reasons or "Lance brought them up to date, and they still lack rows that the table has"
    msg = (
        f"table {table.name!r}: {'indexes' if len(names) > 1 else 'index'} "
        f"{', '.join(map(repr, names))} can't catch up with the table: {why}. Build what can't be repaired "
        f"again: lance-gateway pipeline index {table.name} --build COLUMN:TYPE:{names[0]} --replace"
    )
    return PreconditionError(msg)


def _is_lacking(index: IndexState, before: TableIndexes, after: TableIndexes) -> bool:
    known = {fragment.fragment_id for fragment in before.fragments}
    if known.intersection(index.uncovered):
        return True
    reached = {region: index.behind.get(region, merged) for region, merged in after.merged.items()}
    return any(reached.get(region, 0) < merged for region, merged in before.merged.items())


_ROUNDS = 6
_QUIET_ROUNDS = 2
"""After so many rounds without other commits, an index that Lance fails on is an error."""


def catch_up(
    table: LakeTable, names: Collection[str], runner: Runner, progress: Progress
) -> tuple[OptimiseResult, ...]:
    """Bring indexes up to date, and check that they are.

    If other commits keep changing the table, some work may be left for the next run.

    Raises:
        PreconditionError: an index lacks rows though nobody else changed the table; names it.
        UnavailableError: Lance failed while others changed the table; names the reason.
    """
    goal = latest = TableIndexes.read(table)
    done: list[OptimiseResult] = []
    failed: tuple[OptimiseResult, ...] = ()
    quiet = 0
    for _ in range(_ROUNDS):
        missing = set(names).intersection(find_lacking_indexes(goal, latest))
        if not missing:
            return tuple(done)
        if failed and quiet >= _QUIET_ROUNDS:
            raise catch_up_error(table, failed, tuple(sorted(missing)))
        upkeep = [task for task in plan_catch_up(latest) if task.name in missing]
        outcome = optimise(table, upkeep, runner, progress)
        failed = tuple(one for one in outcome if one.error is not None)
        done += [one for one in outcome if one.error is None]
        before, latest = latest, TableIndexes.read(table)
        quiet = quiet + 1 if is_unchanged_by_others(before, latest, commits=len(upkeep)) else 0
    stuck = set(names).intersection(find_lacking_indexes(goal, latest))
    if stuck and quiet == _ROUNDS:
        raise catch_up_error(table, failed, tuple(sorted(stuck)))
    if failed:
        raise UnavailableError(f"{failed[0].error}; others change the table all the time: try again later")
    return tuple(done)


def is_unchanged_by_others(before: TableIndexes, after: TableIndexes, *, commits: int) -> bool:
    """Whether a table has changed by at most so many commits, all of which are ours."""
    return (
        after.version - before.version <= commits
        and before.fragments == after.fragments
        and _strip_catch_up(before) == _strip_catch_up(after)
    )


def _strip_catch_up(indexes: TableIndexes) -> MemWalIndexDetails | None:
    """Return the details of the MemWAL index without the progress of indexes."""
    return None if indexes.details is None else replace(indexes.details, index_catchup={})
