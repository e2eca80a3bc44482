"""Maintains a table: brings its indexes up to date, and compacts its files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lance.optimize import Compaction

from lance_gateway.memwal.base.versions import commit_with_retries
from lance_gateway.memwal.writing.base_rows import remove_repeated_rows
from lance_gateway.pipeline.indexing.building import build_key_indexes
from lance_gateway.pipeline.indexing.indexes import IndexPolicy, TableIndexes, record_training
from lance_gateway.pipeline.indexing.optimising import (
    OptimiseResult,
    catch_up,
    catch_up_error,
    describe_lag,
    optimise,
)
from lance_gateway.pipeline.indexing.planning import Needs, Upkeep, find_needs, plan_catch_up, plan_gathering
from lance_gateway.pipeline.jobs.lake import LakeTable, keeps_in_place
from lance_gateway.pipeline.jobs.runners import Progress, Runner, Threads, ignore_progress


@dataclass(frozen=True, slots=True)
class RewritePart:
    """Fragments that a compaction rewrites.

    Attributes:
        table: the table.
        version: version of the base table.
        number: number of the part, in the order of the table's rows.
        task: Lance's `CompactionTask`.
    """

    table: LakeTable
    version: int
    number: int
    task: Any


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction.

    Attributes:
        removed: number of removed fragments.
        added: number of new fragments.
    """

    removed: int = 0
    added: int = 0


def compact(table: LakeTable, policy: IndexPolicy, runner: Runner, progress: Progress) -> CompactionResult:
    """Rewrite small fragments, and fragments with many deleted rows, in one commit.

    The compaction begins again if a merge deletes rows from one of these fragments in the meantime.

    Raises:
        PreconditionError: Lance refuses the compaction; names its reason.
        UnavailableError: other commits came first in every attempt.
    """
    options: dict[str, Any] = {
        "target_rows_per_fragment": policy.target_rows,
        "materialize_deletions": True,
        "materialize_deletions_threshold": policy.deleted_fraction,
    }

    def change() -> CompactionResult:
        dataset = table.dataset()
        plan = Compaction.plan(dataset, options)
        if plan.tasks and remove_repeated_rows(str(table.name), table.storage, table.dataset):
            dataset = table.dataset()
            plan = Compaction.plan(dataset, options)
        parts = [
            RewritePart(table, plan.read_version, number, task) for number, task in enumerate(plan.tasks)
        ]
        if not parts:
            return CompactionResult()
        rewrites: dict[int, Any] = {}
        with progress(f"compact {table.name}", len(parts), "part") as advance:
            for number, rewrite in runner.run(rewrite_part, parts, name=f"compact {table.name}"):
                rewrites[number] = rewrite
                advance(1)
        # In the order of their rows, as Lance does it.
        done = Compaction.commit(dataset, [rewrites[number] for number in sorted(rewrites)], options)
        return CompactionResult(done.fragments_removed, done.fragments_added)

    return commit_with_retries(f"table {table.name!r}: can't put its files together", change)


def rewrite_part(part: RewritePart) -> tuple[int, Any]:
    """Write the rows of a task to new files, which belong to no version yet; safe to repeat."""
    return part.number, part.task.execute(part.table.dataset(part.version))


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of a maintenance job.

    Attributes:
        table: name of the table.
        reasons: reasons for the work; empty if there was nothing to do.
        version: version of the base table afterwards.
        optimised: indexes that were brought up to date.
        retrained: vector indexes that were trained and built again.
        fragments_removed: number of fragments that were compacted.
        fragments_added: number of new fragments.
        lagging: what indexes lack of rows that were merged in the meantime, for people.
        built: indexes of key columns that were built.
    """

    table: str
    reasons: tuple[str, ...]
    version: int
    optimised: tuple[str, ...] = ()
    retrained: tuple[str, ...] = ()
    fragments_removed: int = 0
    fragments_added: int = 0
    lagging: tuple[str, ...] = ()
    built: tuple[str, ...] = ()


@keeps_in_place
def maintain(
    table: LakeTable,
    policy: IndexPolicy | None = None,
    *,
    runner: Runner | None = None,
    progress: Progress = ignore_progress,
) -> IndexReport:
    """Maintain a table: indexes first, then files, then indexes again; key columns get those that they lack.

    Files that different segments cover are not compacted together, and a compaction resets how far indexes
    have caught up with merges. An interrupted job leaves a table that answers as before; Lance's clean-up
    removes its uncommitted files.

    Args:
        table: table with a MemWAL or without.
        policy: when indexes and files are maintained.
        runner: runs the work on indexes and files.
        progress: shows the progress.

    Raises:
        PreconditionError: an index can't catch up; names it. All other work is done.
        UnavailableError: other commits came first in every attempt; committed work stays.
    """
    policy = policy or IndexPolicy()
    found = find_needs(TableIndexes.read(table), policy)
    if not found.reasons:
        return IndexReport(table.name, (), found.indexes.version, lagging=describe_lag(found.indexes))
    return _Maintenance(table, policy, runner or Threads(), progress).of(found)


@dataclass(frozen=True, slots=True)
class _Maintenance:
    table: LakeTable
    policy: IndexPolicy
    runner: Runner
    progress: Progress

    def of(self, found: Needs) -> IndexReport:
        # Indexes, then files, then indexes again: this order must not change (ADR 26).
        done = list(self._optimise(found.upkeep))
        compacted = CompactionResult()
        if found.compaction:
            done += self._optimise(self._before_compaction())
            compacted = compact(self.table, self.policy, self.runner, self.progress)
        # After the compaction, which would have to rewrite them.
        built = build_key_indexes(self.table, found.key_columns, self.runner, self.progress)
        everything = {index.name for index in TableIndexes.read(self.table).indexes}
        names = everything if compacted.removed else {index.name for index in found.upkeep}
        done += catch_up(self.table, names, self.runner, self.progress)
        untrained = tuple(one for one in done if one.upkeep.retrain and one.error is not None)
        if untrained:
            raise catch_up_error(self.table, untrained, ())
        after = TableIndexes.read(self.table)
        worked = {one.upkeep.name for one in done if one.error is None}
        retrained = {one.upkeep.name for one in done if one.upkeep.retrain and one.error is None}
        for index in after.indexes:
            if index.is_vector:
                before = found.trainings.get(index.name)
                added = index.name in worked - retrained
                record_training(self.table.storage, before, index, after.rows, added=added)
        return IndexReport(
            self.table.name,
            found.reasons,
            after.version,
            tuple(sorted(worked - retrained)),
            tuple(sorted(retrained)),
            compacted.removed,
            compacted.added,
            describe_lag(after),
            built,
        )

    def _optimise(self, upkeep: Sequence[Upkeep]) -> tuple[OptimiseResult, ...]:
        return optimise(self.table, upkeep, self.runner, self.progress)

    def _before_compaction(self) -> tuple[Upkeep, ...]:
        """Return the work after which one segment of each index covers all small fragments."""
        indexes = TableIndexes.read(self.table)
        wanted = {task.name: task for task in plan_catch_up(indexes)}
        for task in plan_gathering(indexes, self.policy.target_rows):
            if task.name not in wanted or wanted[task.name].fold < task.fold:
                wanted[task.name] = task
        return tuple(wanted.values())
