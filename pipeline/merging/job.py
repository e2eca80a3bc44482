"""Merges the pending generations of a table.

Those of a table without a key are moved: each row is appended once, and the rows and the record that they are
merged are one version (see `memwal.writing.base_rows`).
"""

import random
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.memwal.creating import list_key_columns
from lance_gateway.memwal.errors import NotFoundError, UnavailableError
from lance_gateway.memwal.writing import BaseRows, commit_moved_rows
from lance_gateway.pipeline.jobs.lake import LakeTable, TableState, keeps_in_place
from lance_gateway.pipeline.jobs.runners import Progress, Runner, Threads, ignore_progress
from lance_gateway.pipeline.merging.batches import (
    Batch,
    MergePolicy,
    Pending,
    batches,
    find_merge_reason,
    forget,
    forget_merged,
    weigh,
)
from lance_gateway.pipeline.merging.committing import CommitOptions, MergedBatch, commit
from lance_gateway.pipeline.merging.generations import MergedMeanwhileError, Reader
from lance_gateway.pipeline.merging.winners import Prefix, Winners, check_key, find_winners


def move_batches(table: LakeTable, planned: Sequence[Batch]) -> Iterator[MergedBatch]:
    """Move batches in order, one commit each; end where others were faster.

    Raises:
        LanceGatewayError: rows can't be read, written or committed; batches before this one are moved.
    """
    for batch in planned:
        moved = _move(table, batch)
        if moved is None:
            return
        yield moved


def _move(table: LakeTable, batch: Batch) -> MergedBatch | None:
    def find_newest() -> BaseRows:
        return BaseRows(table.name, table.storage, table.dataset())

    read = find_newest()
    reader, rows = Reader.of(table, read.dataset), 0

    def read_rows() -> Iterator[pa.Table]:
        nonlocal rows
        for prefix in batch.prefixes:
            for generation in prefix.generations:
                for found in reader.read(prefix.region_id, generation, None):
                    rows += found.num_rows
                    yield pa.Table.from_batches([found])

    added = read.write_files(read_rows())
    before = {prefix.region_id: prefix.after for prefix in batch.prefixes}
    merged = {prefix.region_id: prefix.through for prefix in batch.prefixes}
    if not commit_moved_rows(read, find_newest, added, before, merged):
        return None
    count = sum(len(prefix.generations) for prefix in batch.prefixes)
    return MergedBatch(merged, count, rows, 0)


_FRUITLESS_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class MergeReport:
    """The result of a merge job.

    Attributes:
        table: name of the table.
        batches: merged batches, one per commit.
        left: generations that stay pending by the policy.
        seconds: duration.
    """

    table: str
    batches: tuple[MergedBatch, ...]
    left: int
    seconds: float

    @property
    def generations(self) -> int:
        """Number of merged generations."""
        return sum(batch.count for batch in self.batches)

    @property
    def regions(self) -> int:
        """Number of regions with merged generations."""
        return len({region for batch in self.batches for region in batch.generations})

    @property
    def upserted(self) -> int:
        """Number of rows inserted or updated."""
        return sum(batch.upserted for batch in self.batches)

    @property
    def deleted(self) -> int:
        """Number of rows deleted."""
        return sum(batch.deleted for batch in self.batches)


@keeps_in_place
def merge(
    table: LakeTable,
    policy: MergePolicy | None = None,
    *,
    regions: Collection[str] = (),
    runner: Runner | None = None,
    progress: Progress = ignore_progress,
) -> MergeReport:
    """Merge the generations that are pending when the job begins.

    Without a key, rows are appended as they are.
    The runner finds the newest rows of each region; this process commits the batches one after another. The
    job can be repeated after a failure, and run beside other jobs.

    Args:
        table: table to merge.
        policy: when to merge, and how much in one commit.
        regions: ids of the regions to merge; () for all.
        runner: runs the search for the newest rows.
        progress: counts generations.

    Raises:
        NotFoundError: a region does not exist.
        UnsupportedError: the table has a key that can't be compared.
    """
    began = time.monotonic()
    policy = policy or MergePolicy()
    state = TableState.read(table)
    _check_regions(state, regions)
    state.check_numbering()
    forget_merged(table.storage, state.details.merged_generations)
    pending = _find_pending(state, regions)
    if not pending:
        return MergeReport(table.name, (), 0, time.monotonic() - began)
    schema = table.dataset(state.version).schema
    has_key = bool(list_key_columns(schema))
    if has_key:
        check_key(table, schema)
    weights = weigh(table, pending)
    if find_merge_reason(table, pending, weights, policy) is None:
        return MergeReport(table.name, (), len(weights), time.monotonic() - began)
    until = {region_id: generations[-1].generation for region_id, generations in pending.items()}
    merged: list[MergedBatch] = []
    with progress(f"merge {table.name}", len(weights), "generation") as advance:
        for now, rest in _rounds(table, state, until, regions):
            if now is not state:
                weights = weigh(table, rest)
            planned = batches(table, rest, now.details.merged_generations, weights, policy)
            if has_key:
                committed = _commit_batches(table, planned, policy, runner or Threads())
            else:
                committed = _move_batches(table, planned)
            for batch in committed:
                merged.append(batch)
                advance(batch.count)
    return MergeReport(table.name, tuple(merged), 0, time.monotonic() - began)


def _check_regions(state: TableState, regions: Collection[str]) -> None:
    for region_id in regions:
        if region_id not in state.regions:
            existing = ", ".join(list(state.regions)[:3]) or "none yet"
            msg = f"table {state.table.name!r} has no region {region_id!r}; it has {existing}"
            raise NotFoundError(msg + (" ..." if len(state.regions) > 3 else ""))


def _find_pending(
    state: TableState, regions: Collection[str], until: Mapping[str, int] | None = None
) -> Pending:
    """Return the pending generations of regions whose oldest one is not newer than the one in `until`."""
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
    """Yield the table and its pending generations, and read them again, until nothing is pending.

    Raises:
        UnavailableError: several rounds made no progress.
    """
    pending = _find_pending(state, regions, until)
    fruitless = 0
    while pending:
        yield state, pending
        manifests = {region_id: region.manifest for region_id, region in state.regions.items()}
        state = TableState.read(table, known=manifests)
        state.check_numbering()
        forget_merged(table.storage, state.details.merged_generations)  # agreements that were not used
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
    """Commit batches in order, each as soon as the newest rows of all its prefixes are found."""
    rest = list(planned)
    prefixes = [prefix for batch in rest for prefix in batch.prefixes]
    ready: dict[tuple[str, int], Winners] = {}
    for winners in runner.run(find_winners, prefixes, name=f"merge {table.name}"):
        if winners is None:
            return  # Another merger was faster: read the table again.
        ready[_identify(winners.prefix)] = winners
        while rest and all(_identify(prefix) in ready for prefix in rest[0].prefixes):
            batch = rest.pop(0)
            parts = [ready.pop(_identify(prefix)) for prefix in batch.prefixes]
            try:
                yield _commit_batch(table, batch, parts, policy)
            except MergedMeanwhileError:
                return


def _move_batches(table: LakeTable, planned: Sequence[Batch]) -> Iterator[MergedBatch]:
    """Move batches of a table without a key, in order."""
    for batch, moved in zip(planned, move_batches(table, planned), strict=False):
        _forget(table, batch)
        yield moved


def _forget(table: LakeTable, batch: Batch) -> None:
    """Forget agreements after the commit: this order must not change (ADR 24)."""
    table.storage.each(lambda prefix: forget(table.storage, prefix.region_id, prefix.first), batch.prefixes)


def _commit_batch(
    table: LakeTable, batch: Batch, winners: Sequence[Winners], policy: MergePolicy
) -> MergedBatch:
    options = CommitOptions(batch.weight.bytes <= policy.batch_bytes, policy.use_key_index)
    merged = commit(table, winners, options)
    _forget(table, batch)
    return merged


def _identify(prefix: Prefix) -> tuple[str, int]:
    return prefix.region_id, prefix.first
