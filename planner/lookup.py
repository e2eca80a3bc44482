"""The point-lookup plan: newest source first, key filter before I/O, first hit wins."""

from __future__ import annotations

from collections.abc import Sequence

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
from memwal.bloom import KeyFilter, build_key_filter, load_key_filter
from planner.base_table import BaseTable
from planner.byte_cache import ByteCache
from planner.fresh_rows import GenerationDataset
from planner.snapshot import TableSnapshot


def plan_lookup(
    snapshot: TableSnapshot,
    scanned_regions: frozenset[str],
    keys: KeySet,
    columns: Sequence[str],
    row_filter: RowFilter | None,
    cache: ByteCache,
) -> ExecNode:
    """``CoalesceFirstExec(BloomFilterGuardExec(TakeLastExec(LanceScanExec))...)``, base table last.

    Args:
        snapshot: of a table with a primary key.
        scanned_regions: regions that may hold one of the keys.
        keys: wanted.
        columns: to produce.
        row_filter: applied to the rows found.
        cache: keeps key filters.
    """
    base = snapshot.base
    filtered = frozenset() if row_filter is None else row_filter.columns
    needed = (*base.primary_key, *sorted({*columns, *filtered} - {*base.primary_key}))
    inputs: list[ExecNode] = []
    regions = [region for region in snapshot.regions.values() if region.region_id in scanned_regions]
    for region in regions:
        if region.tail is not None:
            tail = MemTableScanExec(region.tail.source, needed, with_tombstone=True, by_key=True)
            inputs.append(TakeLastExec(tail, base.primary_key))
    for region in regions:
        for generation in reversed(region.generations):
            scan = LanceScanExec(
                generation.source(base),
                needed,
                (tuple(generation.fragment_rows),),
                with_tombstone=generation.has_tombstones,
                by_key=True,
            )
            key_filter = _key_filter(base, generation, cache)
            inputs.append(BloomFilterGuardExec(TakeLastExec(scan, base.primary_key), key_filter))
    fragments = tuple(fragment.fragment_id for fragment in base.fragments)
    inputs.append(LanceScanExec(base.source, needed, (fragments,), by_key=True))
    return CoalesceFirstExec(tuple(inputs), keys, tuple(columns), row_filter)


def _key_filter(base: BaseTable, generation: GenerationDataset, cache: ByteCache) -> KeyFilter:
    """Lance's own filter where it is usable, else one built from the key columns."""
    types = [base.schema.field(name).type for name in base.primary_key]

    def make() -> KeyFilter:
        stored = load_key_filter(base.storage, generation.path, types, generation.rows)
        return stored if stored is not None else build_key_filter(_keys(base, generation))

    key = ("key filter", base.storage.uri, generation.path, base.primary_key)
    return cache.compute(key, make, lambda one: one.nbytes)


def _keys(base: BaseTable, generation: GenerationDataset) -> pa.Table:
    names = base.stored_names(generation.field_names)
    rows = generation.dataset.to_table(columns=[names[name] for name in base.primary_key])
    return rows.rename_columns(list(base.primary_key)).cast(
        pa.schema([base.schema.field(name) for name in base.primary_key])
    )
