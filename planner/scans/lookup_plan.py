"""The point-lookup plan: newest source first, key filter before I/O, first hit wins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from execnodes import (
    BloomFilterGuardExec,
    CoalesceFirstExec,
    ExecNode,
    KeySet,
    LanceScanExec,
    MemTableScanExec,
    RowFilter,
    TakeLastExec,
)
from execnodes.storage.data_files import Columns, Place
from execnodes.storage.source import ColumnCache
from memwal.bloom import KeyFilter, build_key_filter, load_key_filter
from memwal.errors import CorruptDataError
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.byte_cache import ByteCache
from planner.tables.sources.generations import GenerationDataset
from planner.tables.sources.key_locator import BaseKeyLocator, KeyPlaces
from planner.tables.sources.snapshot import SnapshotRows, TableSnapshot

NODE_BYTES = 4_096
"""What a planned lookup in one source is booked at in the cache."""


@dataclass(frozen=True, slots=True)
class _Lookups:
    """Names the nodes of a lookup, but for the keys. Equal for the same rows, columns and helpers.

    Attributes:
        snapshot: whose rows they read.
        regions: that are read.
        columns: that they produce.
        kept: where columns are kept.
        places: where keys are known.
    """

    snapshot: SnapshotRows
    regions: frozenset[str]
    columns: tuple[str, ...]
    kept: ColumnCache
    places: KeyPlaces


@dataclass(frozen=True, slots=True)
class _KeyFilterName:
    """Names the filter over the keys of a generation. Equal where the same columns are the key."""

    key: Columns
    generation: Place


def plan_lookup(
    snapshot: TableSnapshot,
    scanned_regions: frozenset[str],
    keys: KeySet,
    columns: Sequence[str],
    row_filter: RowFilter | None,
    cache: ByteCache,
    column_cache: ColumnCache,
    places: KeyPlaces,
) -> ExecNode:
    """``CoalesceFirstExec(BloomFilterGuardExec(TakeLastExec(LanceScanExec))...)``, base table last.

    Args:
        snapshot: of a table with a primary key.
        scanned_regions: regions that may hold one of the keys.
        keys: wanted.
        columns: to produce.
        row_filter: applied to the rows found.
        cache: keeps key filters, and the lookups of a snapshot, which are the same for all keys.
        column_cache: where columns of flushed generations are kept.
        places: may know where the base table has its keys.
    """
    base = snapshot.base
    wanted = {*base.primary_key, *columns, *(() if row_filter is None else row_filter.columns)}
    # In the table's order, which Lance reads fastest.
    needed = tuple([name for name in base.schema.names if name in wanted])
    inputs = cache.compute(
        _Lookups(snapshot.identity, scanned_regions, needed, column_cache, places),
        lambda: tuple(_lookups(snapshot, scanned_regions, needed, cache, column_cache, places)),
        lambda nodes: NODE_BYTES * len(nodes),
    )
    return CoalesceFirstExec(inputs, keys, tuple(columns), row_filter)


def _lookups(
    snapshot: TableSnapshot,
    scanned_regions: frozenset[str],
    needed: tuple[str, ...],
    cache: ByteCache,
    column_cache: ColumnCache,
    places: KeyPlaces,
) -> Iterator[ExecNode]:
    base = snapshot.base
    regions = [region for region in snapshot.regions.values() if region.region_id in scanned_regions]
    # Log tails, generations from the newest to the oldest, base table: this order must not change (ADR 2).
    for region in regions:
        if region.tail is not None:
            tail = MemTableScanExec(region.tail.source, needed, with_tombstone=True, by_key=True)
            yield TakeLastExec(tail, base.primary_key)
    for region in regions:
        for generation in reversed(region.generations):
            scan = LanceScanExec(
                generation.source(base),
                needed,
                (tuple(generation.fragment_rows),),
                column_cache,
                keep_columns=True,
                with_tombstone=generation.has_tombstones,
                by_key=True,
            )
            guard = key_filter(base, generation, cache)
            yield BloomFilterGuardExec(TakeLastExec(scan, base.primary_key), guard)
    fragments = tuple(fragment.fragment_id for fragment in base.fragments)
    locator = BaseKeyLocator(places, base)
    yield LanceScanExec(base.source, needed, (fragments,), column_cache, by_key=True, locator=locator)


def key_filter(base: BaseTable, generation: GenerationDataset, cache: ByteCache) -> KeyFilter:
    """Lance's own filter where it is whole and usable, else one built from the key columns."""
    types = [base.schema.field(name).type for name in base.primary_key]

    def make() -> KeyFilter:
        try:
            stored = load_key_filter(base.storage, generation.path, types, generation.rows)
        except CorruptDataError:
            stored = None  # The rows are all there: a filter only saves reading them.
        return stored if stored is not None else build_key_filter(_keys(base, generation))

    return cache.compute(_KeyFilterName(base.key, generation.place), make, lambda one: one.nbytes)


def _keys(base: BaseTable, generation: GenerationDataset) -> pa.Table:
    stored = base.stored_columns(generation.fields)
    rows = generation.dataset.to_table(columns=[stored[name].name for name in base.primary_key])
    return rows.rename_columns(list(base.primary_key)).cast(
        pa.schema([base.schema.field(name) for name in base.primary_key])
    )
