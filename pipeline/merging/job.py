"""All that is pending of a table, merged."""

import random
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memwal.errors import NotFoundError, UnavailableError
from pipeline.jobs.lake import LakeTable, TableState
from pipeline.jobs.runners import Progress, Runner, Threads, ignore_progress
from pipeline.merging.batches import (
    Batch,
    MergePolicy,
    Pending,
    batches,
    find_merge_reason,
    forget,
    forget_merged,
    weigh,
)
from pipeline.merging.committing import CommitOptions, MergedBatch, commit
from pipeline.merging.generations import MergedMeanwhileError
from pipeline.merging.uniting import unite
from pipeline.merging.winners import Prefix, Winners, check_key, find_winners

_FRUITLESS_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a job did.

    Attributes:
        table: its name.
        batches: one for each commit.
        left: generations that are pending because the policy leaves them.
        seconds: how long it took.
        united: regions that had two ids and have one now.
    """

    table: str
    batches: tuple[MergedBatch, ...]
    left: int
    seconds: float
    united: int = 0

    @property
    def generations(self) -> int:
        """How many were merged."""
        return sum(one.count for one in self.batches)

    @property
    def regions(self) -> int:
        """Regions that advanced."""
        return len({region for one in self.batches for region in one.generations})

    @property
    def upserted(self) -> int:
        """Rows inserted or updated."""
        return sum(one.upserted for one in self.batches)

    @property
    def deleted(self) -> int:
        """Rows deleted."""
        return sum(one.deleted for one in self.batches)


def merge(
    table: LakeTable,
    policy: MergePolicy | None = None,
    *,
    regions: Collection[str] = (),
    newer: Collection[str] = (),
    runner: Runner | None = None,
    progress: Progress = ignore_progress,
) -> MergeReport:
    """Merge the generations that are pending when the job begins.

    Regions with two ids are brought back to one first, whatever the policy says: until then nobody reads
    them. Newest rows are found region by region, where the runner says; commits are made by this process, one
    after the other. It may be run again after it failed, and beside others.

    Args:
        table: which one.
        policy: when, and how much at once.
        regions: ids of those to merge; all of them where none is given.
        newer: ids of regions whose rows count as newer than those that the same region has under another id,
            where no time tells which are.
        runner: where the newest rows are found.
        progress: is told of generations.

    Raises:
        NotFoundError: there is no such region.
        PreconditionError: a region has two ids, and which of its rows are newer can't be told.
        UnsupportedError: the table has no key, or one that can't be compared.
    """
    began = time.monotonic()
    policy = policy or MergePolicy()
    state = TableState.read(table)
    _check_regions(state, (*regions, *newer))
    state.check_numbering()
    united = unite(state, newer)
    if united:
        state = TableState.read(table)
        state.check_numbering()
    forget_merged(table.storage, state.details.merged_generations)
    pending = _find_pending(state, regions)
    if not pending:
        return MergeReport(table.name, (), 0, time.monotonic() - began, united)
    check_key(table, table.dataset(state.version).schema)
    weights = weigh(table, pending)
    if find_merge_reason(table, pending, weights, policy) is None:
        return MergeReport(table.name, (), len(weights), time.monotonic() - began, united)
    until = {region_id: found[-1].generation for region_id, found in pending.items()}
    done: list[MergedBatch] = []
    with progress(f"merge {table.name}", len(weights)) as advance:
        for now, rest in _rounds(table, state, until, regions):
            if now is not state:
                weights = weigh(table, rest)
            planned = batches(table, rest, now.details.merged_generations, weights, policy)
            for one in _commit_batches(table, planned, policy, runner or Threads()):
                done.append(one)
                advance(one.count)
    return MergeReport(table.name, tuple(done), 0, time.monotonic() - began, united)


def _check_regions(state: TableState, regions: Collection[str]) -> None:
    for region_id in regions:
        if region_id not in state.regions:
            known = ", ".join(list(state.regions)[:3]) or "none yet"
            msg = f"table {state.table.name!r} has no region {region_id!r}; it has {known}"
            raise NotFoundError(msg + (" ..." if len(state.regions) > 3 else ""))


def _find_pending(
    state: TableState, regions: Collection[str], until: Mapping[str, int] | None = None
) -> Pending:
    """What the chosen regions could merge, as long as that begins with certain generations or older ones."""
    return {
        region_id: region.pending
        for region_id, region in state.regions.items()
        if region.pending
        and (not regions or region_id in regions)
        and (until is None or region.pending[0].generation <= until.get(region_id, 0))
    }


def _rounds(
    table: LakeTable, state: TableState, until: Mapping[str, int], regions: Collection[str]
) -> Iterator[tuple[TableState, Pending]]:
    """The table, and what is pending of it, again and again until nothing is.

    Raises:
        UnavailableError: nothing moves any more.
    """
    pending = _find_pending(state, regions, until)
    fruitless = 0
    while pending:
        yield state, pending
        known = {region_id: one.manifest for region_id, one in state.regions.items()}
        state = TableState.read(table, known=known)
        state.check_numbering()
        forget_merged(table.storage, state.details.merged_generations)  # what we agreed to in vain
        before, pending = pending, _find_pending(state, regions, until)
        fruitless = fruitless + 1 if pending == before else 0
        if fruitless > _FRUITLESS_ROUNDS:
            raise UnavailableError(
                f"table {table.name!r}: merges make no progress, since others change it: merge again later"
            )
        if fruitless:
            time.sleep(random.uniform(0, min(5.0, 0.05 * 2**fruitless)))  # noqa: S311 - no secret


def _commit_batches(
    table: LakeTable, planned: Sequence[Batch], policy: MergePolicy, runner: Runner
) -> Iterator[MergedBatch]:
    """Commit batches in their order, each as soon as its newest rows are known."""
    rest = list(planned)
    prefixes = [prefix for batch in rest for prefix in batch.prefixes]
    known: dict[tuple[str, int], Winners] = {}
    for found in runner.run(find_winners, prefixes, name=f"merge {table.name}"):
        if found is None:
            return  # Another merger was faster: look at the table again.
        known[_identify(found.prefix)] = found
        while rest and all(_identify(one) in known for one in rest[0].prefixes):
            batch = rest.pop(0)
            try:
                yield _commit_batch(
                    table, batch, [known.pop(_identify(one)) for one in batch.prefixes], policy
                )
            except MergedMeanwhileError:
                return


def _commit_batch(
    table: LakeTable, batch: Batch, found: Sequence[Winners], policy: MergePolicy
) -> MergedBatch:
    manner = CommitOptions(batch.weight.bytes <= policy.batch_bytes, policy.use_key_index)
    # What mergers agreed to is forgotten after the commit: this order must not change (ADR 24).
    merged = commit(table, found, manner)
    table.storage.each(lambda one: forget(table.storage, one.region_id, one.first), batch.prefixes)
    return merged


def _identify(prefix: Prefix) -> tuple[str, int]:
    return prefix.region_id, prefix.first
