"""A table's indexes brought up to date, its files put together, and both looked at afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lance.optimize import Compaction

from memwal.base.versions import commit_with_retries
from pipeline.indexing.indexes import IndexPolicy, TableIndexes, record
from pipeline.indexing.optimising import Optimised, caught_up, lagging, optimise, refusal
from pipeline.indexing.planning import Needs, Upkeep, catching_up, gathering, needed
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.runners import Progress, Runner, Threads, silent


@dataclass(frozen=True, slots=True)
class RewritePart:
    """Fragments that are written anew as others.

    Attributes:
        table: whose fragments they are.
        version: of the base table that they belong to.
        number: of the part, in the order of the table's rows.
        task: Lance's `CompactionTask`.
    """

    table: LakeTable
    version: int
    number: int
    task: Any


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was put together.

    Attributes:
        removed: fragments that are gone.
        added: fragments that have their rows.
    """

    removed: int = 0
    added: int = 0


def compact(table: LakeTable, policy: IndexPolicy, runner: Runner, progress: Progress) -> Compacted:
    """Write small fragments, and those with many deleted rows, anew; all in one commit.

    A merge that deletes from one of these fragments in the meantime makes it begin again.

    Raises:
        PreconditionError: Lance refuses it; says why.
        UnavailableError: others were first, time after time.
    """
    options: dict[str, Any] = {
        "target_rows_per_fragment": policy.target_rows,
        "materialize_deletions": True,
        "materialize_deletions_threshold": policy.deleted_fraction,
    }

    def change() -> Compacted:
        dataset = table.dataset()
        plan = Compaction.plan(dataset, options)
        parts = [
            RewritePart(table, plan.read_version, number, task) for number, task in enumerate(plan.tasks)
        ]
        if not parts:
            return Compacted()
        rewrites: dict[int, Any] = {}
        with progress(f"compact {table.name}", len(parts)) as advance:
            for number, rewrite in runner.run(rewrite_part, parts, name=f"compact {table.name}"):
                rewrites[number] = rewrite
                advance(1)
        # In the order of their rows, whichever was ready first: as Lance does it by itself.
        done = Compaction.commit(dataset, [rewrites[number] for number in sorted(rewrites)], options)
        return Compacted(done.fragments_removed, done.fragments_added)

    return commit_with_retries(f"table {table.name!r}: can't put its files together", change)


def rewrite_part(part: RewritePart) -> tuple[int, Any]:
    """Write the rows of a task to new files, which belong to no version yet; safe to repeat."""
    return part.number, part.task.execute(part.table.dataset(part.version))


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a job did.

    Attributes:
        table: its name.
        reasons: why it did something; empty if nothing was needed, and nothing was done.
        version: of the base table afterwards.
        optimised: indexes that were brought up to date.
        retrained: vector indexes that were trained and built anew.
        fragments_removed: fragments that were put together, or freed of deleted rows.
        fragments_added: fragments that have their rows.
        lagging: what indexes lack of what was merged in the meantime, for people.
    """

    table: str
    reasons: tuple[str, ...]
    version: int
    optimised: tuple[str, ...] = ()
    retrained: tuple[str, ...] = ()
    fragments_removed: int = 0
    fragments_added: int = 0
    lagging: tuple[str, ...] = ()


def maintain(
    table: LakeTable,
    policy: IndexPolicy | None = None,
    *,
    runner: Runner | None = None,
    progress: Progress = silent,
) -> IndexReport:
    """Do what a table's indexes and files need: indexes first, then files, then indexes again.

    Files that different indexes cover are not put together, and putting files together makes Lance forget how
    far indexes have caught up with merges. Whatever is interrupted leaves a table that answers as before;
    files without a version are left to Lance's clean-up.

    Args:
        table: with MemWAL or without.
        policy: what may be put up with.
        runner: where indexes and files are worked on.
        progress: who is told.

    Raises:
        PreconditionError: an index can't catch up; names it. All others have, and files are put together.
        UnavailableError: others were first, time after time; what was committed stays.
    """
    policy = policy or IndexPolicy()
    found = needed(TableIndexes.read(table), policy)
    if not found.reasons:
        return IndexReport(table.name, (), found.indexes.version, lagging=lagging(found.indexes))
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
        compacted = Compacted()
        if found.compaction:
            done += self._optimise(self._before_compaction())
            compacted = compact(self.table, self.policy, self.runner, self.progress)
        everything = {one.name for one in TableIndexes.read(self.table).indexes}
        names = everything if compacted.removed else {one.name for one in found.upkeep}
        done += caught_up(self.table, names, self.runner, self.progress)
        untrained = tuple(one for one in done if one.upkeep.retrain and one.error is not None)
        if untrained:
            raise refusal(self.table, untrained, ())
        after = TableIndexes.read(self.table)
        worked = {one.upkeep.name for one in done if one.error is None}
        retrained = {one.upkeep.name for one in done if one.upkeep.retrain and one.error is None}
        for index in after.indexes:
            if index.is_vector:
                before = found.trainings.get(index.name)
                added = index.name in worked - retrained
                record(self.table.storage, before, index, after.rows, added=added)
        return IndexReport(
            self.table.name,
            found.reasons,
            after.version,
            tuple(sorted(worked - retrained)),
            tuple(sorted(retrained)),
            compacted.removed,
            compacted.added,
            lagging(after),
        )

    def _optimise(self, upkeep: Sequence[Upkeep]) -> tuple[Optimised, ...]:
        return optimise(self.table, upkeep, self.runner, self.progress)

    def _before_compaction(self) -> tuple[Upkeep, ...]:
        """Every index covers everything, and what is to be put together lies in one of its segments."""
        indexes = TableIndexes.read(self.table)
        wanted = {one.name: one for one in catching_up(indexes)}
        for one in gathering(indexes, self.policy.target_rows):
            if one.name not in wanted or wanted[one.name].fold < one.fold:
                wanted[one.name] = one
        return tuple(wanted.values())
