"""Which generations are merged by which commit: what waits, when it is merged, and how much at once.

Mergers of one region agree on how far its next merge goes, before any of them begins. Lance takes a commit
that records generation 7 of a region also where another merger has recorded 6 since the first one looked.
That is right where generations only add rows. But a key that 6 inserts and 7 deletes was not there yet when
the first merger deleted, and would come back. So the end of each merge is fixed by a file that is created
once: mergers that begin at the same generation end at the same one, and of two that record the same
generation Lance refuses the second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import zip_longest

from memwal.errors import CorruptDataError, InvalidInputError, LanceGatewayError, UnavailableError
from memwal.regions.generation_numbers import EXTENTS, extent_path
from memwal.regions.manifest import FlushedGeneration
from memwal.storage.files import Storage, generation_directory
from pipeline.jobs.lake import LakeTable
from pipeline.merging.generations import open_generation
from pipeline.merging.winners import Prefix


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When a table is merged, and how large a commit may be.

    A table is merged when one of the first four says so, and always when none of them is set.

    Attributes:
        min_generations: at least so many generations are pending.
        min_rows: pending generations hold at least so many rows.
        min_bytes: pending generations take at least so many bytes in storage.
        max_lag_seconds: the oldest pending generation was flushed so long ago.
        batch_rows: a commit takes about so many rows, or a single generation that has more. While it is
            prepared, the keys of so many rows are in memory.
        batch_bytes: the same in bytes of storage. Larger generations are streamed into the base table.
        use_key_index: whether a few rows are looked up in an index on the key instead of reading the keys of
            a large base table. Lance does not notice then that a writer who bypasses MemWAL inserts one of
            those keys at the same moment.
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
    """Of a generation.

    Attributes:
        rows: that it holds, older duplicates of a key included.
        bytes: of its data files.
    """

    rows: int
    bytes: int

    @staticmethod
    def total(weights: Iterable[Weight]) -> Weight:
        """Of several generations together."""
        every = tuple(weights)
        return Weight(sum(one.rows for one in every), sum(one.bytes for one in every))


Pending = Mapping[str, tuple[FlushedGeneration, ...]]
"""Region id -> generations that the base table lacks, ascending; at least one."""
Weights = Mapping[tuple[str, int], Weight]
"""By region id and generation."""


def weigh(table: LakeTable, pending: Pending) -> Weights:
    """Weigh pending generations: one listing each."""
    every = [(region_id, one) for region_id, found in pending.items() for one in found]
    weights = table.storage.each(lambda one: _read_weight(table, *one), every)
    return {(region, one.generation): weight for (region, one), weight in zip(every, weights, strict=True)}


def find_merge_reason(
    table: LakeTable, pending: Pending, weights: Weights, policy: MergePolicy
) -> str | None:
    """Why a table is to be merged now; None where it is not."""
    if not pending:
        return None
    if policy.is_unconditional:
        return "generations are pending"
    total = Weight.total(weights.values())
    for name, found, least in (
        ("generations", len(weights), policy.min_generations),
        ("rows", total.rows, policy.min_rows),
        ("bytes", total.bytes, policy.min_bytes),
    ):
        if least is not None and found >= least:
            return f"{found} {name} are pending"
    if policy.max_lag_seconds is not None:
        oldest = [(region_id, found[0]) for region_id, found in pending.items()]
        lag = max(table.storage.each(lambda one: _measure_lag(table, *one), oldest))
        if lag >= policy.max_lag_seconds:
            return f"the oldest generation has been pending for {lag:.0f} s"
    return None


def _read_weight(table: LakeTable, region_id: str, generation: FlushedGeneration) -> Weight:
    rows = generation.physical_rows
    if rows is None:
        try:
            rows = open_generation(table, region_id, generation).count_rows()
        except LanceGatewayError:
            rows = 0  # Whoever reads it says what is wrong, if it is still to be read by then.
    files = table.storage.list(f"{generation_directory(region_id, generation.path)}/{_DATA}")
    return Weight(rows, sum(one.size for one in files))


def _measure_lag(table: LakeTable, region_id: str, generation: FlushedGeneration) -> float:
    """Seconds since a generation was flushed."""
    try:
        (first, *_) = open_generation(table, region_id, generation).versions()
    except LanceGatewayError:
        return 0.0
    flushed: datetime = first["timestamp"]
    # Lance tells the time without a zone: this machine's.
    return (datetime.now(UTC) - flushed.astimezone(UTC)).total_seconds()


def agree(storage: Storage, region_id: str, first: int, through: int) -> int:
    """The generation at which a merge ends that begins at `first`.

    It holds for whoever looks at the base table after this call, and finds that `first` is not merged yet.

    Args:
        storage: directory of the table.
        region_id: of the region.
        first: oldest generation that is pending.
        through: where it would end as far as the caller is concerned.

    Raises:
        CorruptDataError: the file says something else.
    """
    path = extent_path(region_id, first)
    while not storage.put_if_absent(path, json.dumps({"through": through}).encode()):
        with suppress(FileNotFoundError):  # Another merger was done just now.
            return _read_extent(storage.read(path), first, storage.locate(path))
    return through


def forget(storage: Storage, region_id: str, first: int) -> None:
    """Remove the file of a merge that is done; it stays where storage does not answer."""
    with suppress(UnavailableError):
        storage.delete(extent_path(region_id, first))


def forget_merged(storage: Storage, merged: Mapping[str, int]) -> None:
    """Remove files of merges that are done, by mergers that died after their commit or were slower.

    Args:
        storage: directory of the table.
        merged: newest generation by region that the base table contains.
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
    """What one commit merges."""

    prefixes: tuple[Prefix, ...]
    weight: Weight

    def __post_init__(self) -> None:
        regions = {one.region_id for one in self.prefixes}
        if not regions or len(regions) != len(self.prefixes):
            raise InvalidInputError(
                f"a batch has one prefix of each of its regions, but this one has {len(self.prefixes)}"
            )


def batches(
    table: LakeTable, pending: Pending, merged: Mapping[str, int], weights: Weights, policy: MergePolicy
) -> tuple[Batch, ...]:
    """Divide what is pending into batches; they are to be committed in this order.

    Small generations of many regions share a commit. The generations of a large region are spread over
    several, ascending.

    Args:
        table: which one.
        pending: what is to be merged.
        merged: newest generation by region that the base table contains.
        weights: of what is pending.
        policy: how much fits into a batch.
    """
    cut = table.storage.each(
        lambda one: tuple(_cut_prefixes(table, *one, merged, weights, policy)), pending.items()
    )
    found: list[Batch] = []
    for nth in zip_longest(*cut):
        found += _group_prefixes([one for one in nth if one is not None], weights, policy)
    return tuple(found)


def _cut_prefixes(
    table: LakeTable,
    region_id: str,
    pending: Sequence[FlushedGeneration],
    merged: Mapping[str, int],
    weights: Weights,
    policy: MergePolicy,
) -> Iterator[Prefix]:
    """A region's generations as prefixes that are small enough, one after the other."""
    rest, after = tuple(pending), merged.get(region_id, 0)
    while rest:
        fits = 1
        while fits < len(rest) and _fits(_total_weight(region_id, rest[: fits + 1], weights), policy):
            fits += 1
        # Agreed to before the commit looks at the base table: this order must not change (ADR 24).
        through = agree(table.storage, region_id, rest[0].generation, rest[fits - 1].generation)
        prefix = tuple(one for one in rest if one.generation <= through)
        if prefix[-1].generation != through:
            return  # Another merger has seen a generation that is newer than this look at the table.
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
    return Weight.total(weights[region_id, one.generation] for one in generations)


def _fits(weight: Weight, policy: MergePolicy) -> bool:
    return weight.rows <= policy.batch_rows and weight.bytes <= policy.batch_bytes
