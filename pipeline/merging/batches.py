"""Plans which generations are merged by which commit.

Mergers of a region agree where its next merge ends before any of them begins. Lance accepts a commit that
records generation 7 of a region even if another merger has recorded 6 since the first one read the table.
That is right if generations only add rows. But a key that 6 inserts and 7 deletes did not exist yet when the
first merger deleted, so it would come back. So a file that is created once fixes the end of each merge:
mergers that begin at the same generation end at the same one, and Lance refuses the second commit of the same
generation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import zip_longest

from lance_gateway.memwal.errors import (
    CorruptDataError,
    InvalidInputError,
    LanceGatewayError,
    UnavailableError,
)
from lance_gateway.memwal.regions.generation_numbers import EXTENTS, extent_path
from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.memwal.storage.files import Storage, generation_directory
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging.generations import open_generation
from lance_gateway.pipeline.merging.winners import Prefix


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When a table is merged, and how large a commit may be.

    A table is merged if one of the first four conditions holds, and always if none of them is set.

    Attributes:
        min_generations: merge if at least so many generations are pending.
        min_rows: merge if pending generations have at least so many rows.
        min_bytes: merge if pending generations take at least so many bytes in storage.
        max_lag_seconds: merge if the oldest pending generation was flushed so long ago.
        batch_rows: approximate number of rows of a commit; a single generation may have more. The keys of so
            many rows are in memory while a commit is prepared.
        batch_bytes: approximate size of a commit in storage. Larger generations are streamed into the base
            table.
        use_key_index: whether few rows are looked up in an index on the key, instead of reading the keys of a
            large base table. Lance then misses a concurrent insert of one of the keys that bypasses MemWAL.
    """

    min_generations: int | None = None
    min_rows: int | None = None
    min_bytes: int | None = None
    max_lag_seconds: float | None = None
    batch_rows: int = 5_000_000
    batch_bytes: int = 256 << 20
    use_key_index: bool = True

    def __post_init__(self) -> None:
        for name in ("min_generations", "min_rows", "min_bytes", "batch_rows", "batch_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(f"{name} is {value}, but must be 1 or more")
        if self.max_lag_seconds is not None and self.max_lag_seconds < 0:
            raise InvalidInputError(
                f"max_lag_seconds is {self.max_lag_seconds}, but time does not run backwards: give 0 or more"
            )

    @property
    def is_unconditional(self) -> bool:
        """Whether every table with pending generations is merged."""
        return all(getattr(self, field.name) is None for field in fields(self)[:4])


_DATA = "data"


@dataclass(frozen=True, slots=True)
class Weight:
    """The size of generations.

    Attributes:
        rows: number of rows, older duplicates of a key included.
        bytes: size of the data files.
    """

    rows: int
    bytes: int

    @staticmethod
    def total(weights: Iterable[Weight]) -> Weight:
        """Add weights."""
        terms = tuple(weights)
        return Weight(sum(term.rows for term in terms), sum(term.bytes for term in terms))


Pending = Mapping[str, tuple[FlushedGeneration, ...]]
"""Region id -> generations that the base table lacks, ascending; at least one."""
Weights = Mapping[tuple[str, int], Weight]
"""(region id, generation) -> weight."""


def weigh(table: LakeTable, pending: Pending) -> Weights:
    """Read the weights of pending generations, with one listing for each."""
    pairs = [(region_id, flushed) for region_id, generations in pending.items() for flushed in generations]
    weights = table.storage.each(lambda pair: _read_weight(table, *pair), pairs)
    return {
        (region_id, flushed.generation): weight
        for (region_id, flushed), weight in zip(pairs, weights, strict=True)
    }


def find_merge_reason(
    table: LakeTable, pending: Pending, weights: Weights, policy: MergePolicy
) -> str | None:
    """Return why the policy merges a table now; None if it does not."""
    if not pending:
        return None
    if policy.is_unconditional:
        return "generations are pending"
    total = Weight.total(weights.values())
    for name, count, minimum in (
        ("generations", len(weights), policy.min_generations),
        ("rows", total.rows, policy.min_rows),
        ("bytes", total.bytes, policy.min_bytes),
    ):
        if minimum is not None and count >= minimum:
            return f"{count} {name} are pending"
    if policy.max_lag_seconds is not None:
        oldest = [(region_id, generations[0]) for region_id, generations in pending.items()]
        lag = max(table.storage.each(lambda pair: _measure_lag(table, *pair), oldest))
        if lag >= policy.max_lag_seconds:
            return f"the oldest generation has been pending for {lag:.0f} s"
    return None


def _read_weight(table: LakeTable, region_id: str, generation: FlushedGeneration) -> Weight:
    rows = generation.physical_rows
    if rows is None:
        try:
            rows = open_generation(table, region_id, generation).count_rows()
        except LanceGatewayError:
            rows = 0  # The merge itself reports the error.
    files = table.storage.list(f"{generation_directory(region_id, generation.path)}/{_DATA}")
    return Weight(rows, sum(file.size for file in files))


def _measure_lag(table: LakeTable, region_id: str, generation: FlushedGeneration) -> float:
    """Return the seconds since a generation was flushed."""
    try:
        (first, *_) = open_generation(table, region_id, generation).versions()
    except LanceGatewayError:
        return 0.0
    flushed: datetime = first["timestamp"]
    # Lance returns local time without a zone.
    return (datetime.now(UTC) - flushed.astimezone(UTC)).total_seconds()


def agree(storage: Storage, region_id: str, first: int, through: int) -> int:
    """Agree with other mergers on the generation at which a merge that begins at `first` ends.

    The agreement holds for mergers that read the base table after this call and find `first` not merged.

    Args:
        storage: directory of the table.
        region_id: id of the region.
        first: oldest pending generation.
        through: last generation that the caller would merge.

    Raises:
        CorruptDataError: the file says something else.
    """
    path = extent_path(region_id, first)
    while not storage.put_if_absent(path, json.dumps({"through": through}).encode()):
        with suppress(FileNotFoundError):  # Another merger has just finished and removed the file.
            return _read_extent(storage.read(path), first, storage.locate(path))
    return through


def forget(storage: Storage, region_id: str, first: int) -> None:
    """Remove the file of a finished merge; ignores an unavailable storage."""
    with suppress(UnavailableError):
        storage.delete(extent_path(region_id, first))


def forget_merged(storage: Storage, merged: Mapping[str, int]) -> None:
    """Remove the files of finished merges that their mergers have left.

    Args:
        storage: directory of the table.
        merged: region id -> newest generation that the base table contains.
    """
    done = [
        (region_id, int(first))
        for region_id, first in _list_extents(storage)
        if first.isdecimal() and int(first) <= merged.get(region_id, 0)
    ]
    storage.each(lambda one: forget(storage, *one), done)


def _list_extents(storage: Storage) -> Iterable[tuple[str, str]]:
    for entry in storage.list(EXTENTS):
        region_id, _, first = entry.name.rpartition(".")
        yield region_id, first


def _read_extent(data: bytes, first: int, source: str) -> int:
    try:
        through = json.loads(data)["through"]
    except (ValueError, KeyError, TypeError):
        through = None
    if not isinstance(through, int) or through < first:
        raise CorruptDataError(
            f"{source} does not say where a merge from generation {first} ends: remove the file"
        )
    return through


@dataclass(frozen=True, slots=True)
class Batch:
    """The prefixes that one commit merges."""

    prefixes: tuple[Prefix, ...]
    weight: Weight

    def __post_init__(self) -> None:
        regions = {prefix.region_id for prefix in self.prefixes}
        if not regions or len(regions) != len(self.prefixes):
            raise InvalidInputError(
                f"a batch has one prefix of each of its regions, but this one has {len(self.prefixes)}"
            )


def batches(
    table: LakeTable, pending: Pending, merged: Mapping[str, int], weights: Weights, policy: MergePolicy
) -> tuple[Batch, ...]:
    """Divide pending generations into batches, in the order in which they must be committed.

    Small generations of many regions share a commit. The generations of a large region are distributed over
    several commits, ascending.

    Args:
        table: table to merge.
        pending: generations to merge.
        merged: region id -> newest generation that the base table contains.
        weights: weights of the generations.
        policy: limits of a batch.
    """
    cut = table.storage.each(
        lambda one: tuple(_cut_prefixes(table, *one, merged, weights, policy)), pending.items()
    )
    planned: list[Batch] = []
    for nth in zip_longest(*cut):
        planned += _group_prefixes([prefix for prefix in nth if prefix is not None], weights, policy)
    return tuple(planned)


def _cut_prefixes(
    table: LakeTable,
    region_id: str,
    pending: Sequence[FlushedGeneration],
    merged: Mapping[str, int],
    weights: Weights,
    policy: MergePolicy,
) -> Iterator[Prefix]:
    """Cut a region's generations into consecutive prefixes that fit into a batch."""
    rest, after = tuple(pending), merged.get(region_id, 0)
    while rest:
        fits = 1
        while fits < len(rest) and _fits(_total_weight(region_id, rest[: fits + 1], weights), policy):
            fits += 1
        # Agree before the commit reads the base table: this order must not change (ADR 24).
        through = agree(table.storage, region_id, rest[0].generation, rest[fits - 1].generation)
        prefix = tuple(one for one in rest if one.generation <= through)
        if prefix[-1].generation != through:
            return  # Another merger agreed on a generation that was flushed after this state was read.
        yield Prefix(table, region_id, after, prefix)
        rest, after = rest[len(prefix) :], through


def _group_prefixes(prefixes: Iterable[Prefix], weights: Weights, policy: MergePolicy) -> Iterator[Batch]:
    group: list[Prefix] = []
    weight = Weight(0, 0)
    for prefix in prefixes:
        own = _total_weight(prefix.region_id, prefix.generations, weights)
        together = Weight.total((weight, own))
        if group and not _fits(together, policy):
            yield Batch(tuple(group), weight)
            group, together = [], own
        group.append(prefix)
        weight = together
    if group:
        yield Batch(tuple(group), weight)


def _total_weight(region_id: str, generations: Iterable[FlushedGeneration], weights: Weights) -> Weight:
    return Weight.total(weights[region_id, generation.generation] for generation in generations)


def _fits(weight: Weight, policy: MergePolicy) -> bool:
    return weight.rows <= policy.batch_rows and weight.bytes <= policy.batch_bytes
