"""Find newer rows by key, without reading the key column of the base table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lance_gateway.execnodes import KeySet, LanceScanExec, TaskContext
from lance_gateway.execnodes.rows.keys import Key, list_key_tuples
from lance_gateway.execnodes.rows.row_mask import FragmentMask, RowMask
from lance_gateway.execnodes.search.filter_stale import NewerRows
from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.execnodes.storage.source import ColumnCache
from lance_gateway.memwal.bloom import KeyFilter
from lance_gateway.planner.scans.scan_plan import find_key_filters
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.generations import GenerationDataset
from lance_gateway.planner.tables.sources.log_tail import Tail
from lance_gateway.planner.tables.sources.snapshot import RegionSnapshot, TableSnapshot


@dataclass(frozen=True, eq=False)
class NewerGeneration:
    """Keys of a flushed generation, behind its filter.

    Args:
        base: the table.
        generation: whose keys are searched.
        key_filter: over them.
        columns: that are kept decoded.
    """

    base: BaseTable
    generation: GenerationDataset
    key_filter: KeyFilter
    columns: ColumnCache

    @property
    def description(self) -> str:
        """Description of the filter."""
        return f"gen {self.generation.generation}: {self.key_filter.description}"

    def find_possible(self, keys: KeySet) -> frozenset[Key]:
        """Return the keys that the filter can't exclude."""
        pairs = zip(keys.rows, keys.lookup_keys, strict=True)
        return frozenset(row for row, key in pairs if self.key_filter.might_contain(key))

    def confirm(self, keys: KeySet, context: TaskContext) -> frozenset[Key]:
        """Return the keys that a lookup finds."""
        scan = LanceScanExec(
            self.generation.source(self.base),
            keys.columns,
            (tuple(self.generation.fragment_rows),),
            self.columns,
            by_key=True,
        )
        batches = scan.execute(0, replace(context, keys=keys, metrics=None))
        return frozenset(key for batch in batches for key in list_key_tuples(batch, keys.columns))


@dataclass(frozen=True, eq=False)
class NewerTail:
    """Keys of a region's unflushed rows, in memory.

    Args:
        tail: whose keys are searched.
        key: key columns.
    """

    tail: Tail
    key: tuple[str, ...]

    @property
    def description(self) -> str:
        """Description of the tail."""
        return f"WAL {self.tail.first}..{self.tail.last}: in memory"

    def find_possible(self, keys: KeySet) -> frozenset[Key]:
        """Return the keys that the tail has."""
        found = self.tail.find(keys.table)
        if found is None:
            return self._keys.intersection(keys.rows)
        columns = self.tail.rows.select(list(self.key))
        return frozenset(list_key_tuples(columns.take(pa.array(found)), self.key))

    def confirm(self, keys: KeySet, context: TaskContext) -> frozenset[Key]:  # noqa: ARG002
        """Return the keys that the tail has."""
        return self.find_possible(keys)

    @cached_property
    def _keys(self) -> frozenset[Key]:
        return frozenset(list_key_tuples(self.tail.rows, self.key))


@dataclass(frozen=True, eq=False)
class StaleRows:
    """Sources of newer rows, for searches without masks.

    Attributes:
        key: key columns.
        newer: number of a source -> what may supersede its rows, newest first.
    """

    key: tuple[str, ...]
    newer: Mapping[int, tuple[NewerRows, ...]]


def find_stale_rows(
    snapshot: TableSnapshot, sources: Iterable[SearchSource], cache: ByteCache, columns: ColumnCache
) -> StaleRows:
    """Find the sources that may supersede the rows of each source.

    Args:
        snapshot: of a table with a primary key.
        sources: of a search in it that has no masks, and no merged generations.
        cache: keeps key filters.
        columns: that are kept decoded.
    """
    base = snapshot.base
    layers = {
        region.region_id: tuple(_list_newer_rows(base, region, cache, columns))
        for region in snapshot.regions.values()
    }
    everything = tuple(one for found in layers.values() for one in found)
    places: dict[int, tuple[NewerRows, ...]] = {id(base.source): everything}
    for region in snapshot.regions.values():
        found = layers[region.region_id]
        newer = len(found) - len(region.generations)
        for generation in reversed(region.generations):
            places[id(generation.source(base))] = found[:newer]
            newer += 1
    known = {source.number: places.get(id(source.rows), ()) for source in sources}
    return StaleRows(base.primary_key, known)


def mask_own_newest(snapshot: TableSnapshot, sources: Sequence[SearchSource]) -> tuple[SearchSource, ...]:
    """Mask tombstones, and rows of log tails that later rows of the same tail supersede."""
    tails: Mapping[int, Tail] = {id(tail.source): tail for tail in snapshot.tails}
    return tuple(
        replace(source, live=_build_newest_mask(tails[id(source.rows)]))
        if id(source.rows) in tails
        else source
        for source in sources
    )


def _build_newest_mask(tail: Tail) -> RowMask:
    return RowMask({0: FragmentMask(pa.array(tail.find_newest()))})


def _list_newer_rows(
    base: BaseTable, region: RegionSnapshot, cache: ByteCache, columns: ColumnCache
) -> Iterable[NewerRows]:
    if region.tail is not None:
        yield NewerTail(region.tail, base.primary_key)
    generations = region.generations[::-1]
    for generation, keys in zip(generations, find_key_filters(base, generations, cache), strict=True):
        yield NewerGeneration(base, generation, keys, columns)
