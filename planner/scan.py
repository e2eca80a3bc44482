"""The scan plan: base table once, each region's generations and tail, newest version of each row."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from execnodes import (
    DeduplicateExec,
    ExecNode,
    LanceScanExec,
    LanceSource,
    MemTableScanExec,
    RowFilter,
    RowMask,
    UnionExec,
)
from execnodes.source import ColumnCache
from planner.snapshot import TableSnapshot
from planner.visibility import Visibility

Groups = tuple[tuple[int, ...], ...]
"""Fragment ids, one group per partition."""
Unit = tuple[int, tuple[int, ...]]
"""Rows, and the fragments that one partition reads together."""


def plan_scan(
    snapshot: TableSnapshot,
    scanned_regions: frozenset[str],
    columns: Sequence[str],
    row_filter: RowFilter | None,
    partitions: int,
    visibility: Visibility,
    column_cache: ColumnCache,
) -> ExecNode:
    """``DeduplicateExec(UnionExec(LanceScanExec...))``, or a plain union where the table has no primary key.

    Args:
        snapshot: of the table; may have more regions than are scanned: their rows only supersede.
        scanned_regions: regions that may have matching rows.
        columns: to produce.
        row_filter: applied exactly, below deduplication: masks know superseded rows by address.
        partitions: how many.
        visibility: where masks come from.
        column_cache: where columns of flushed generations are kept.
    """
    base = snapshot.base
    deduplicated = bool(base.primary_key) and snapshot.has_fresh_rows
    projected = tuple(columns)
    units: list[list[Unit]] = [[(one.physical_rows, (one.fragment_id,)) for one in base.fragments]]
    sources: list[LanceSource] = [base.source]
    regions = [region for region in snapshot.regions.values() if region.region_id in scanned_regions]
    generations = [one for region in regions for one in region.generations]
    for generation in generations:
        units.append([(generation.rows, tuple(generation.fragment_rows))])
        sources.append(generation.source(base))
    types = [base.schema.field(name).type for name in projected]
    # A filter is Lance's business in the base table: it has statistics and indexes.
    keep_base = row_filter is None and column_cache.fits(types, base.physical_rows)
    scans: list[ExecNode] = [
        LanceScanExec(
            source,
            projected,
            groups,
            column_cache,
            row_filter,
            keep_columns=keep_base or source is not base.source,
        )
        for source, groups in zip(sources, _balanced(units, partitions), strict=True)
    ]
    tails = [region.tail for region in regions if region.tail is not None]
    scans += [MemTableScanExec(one.source, projected, row_filter) for one in tails]
    if not deduplicated:
        return scans[0] if len(scans) == 1 else UnionExec(tuple(scans))
    masks = visibility.masks(snapshot)
    found: list[RowMask] = [masks.base]
    found += [masks.generations[one.path] for one in generations]
    found += [masks.tails[one.region_id] for one in tails]
    return DeduplicateExec(UnionExec(tuple(scans)), tuple(found))


def _balanced(sources: Sequence[Sequence[Unit]], partitions: int) -> Iterator[Groups]:
    """Per source, its fragments in one group per partition; the largest units are placed first."""
    loads = [(0, partition) for partition in range(partitions)]
    groups: list[list[list[int]]] = [[[] for _ in range(partitions)] for _ in sources]
    units = [(rows, index, fragments) for index, source in enumerate(sources) for rows, fragments in source]
    for rows, index, fragments in sorted(units, key=lambda unit: -unit[0]):
        load, partition = heapq.heappop(loads)
        groups[index][partition].extend(fragments)
        heapq.heappush(loads, (load + rows, partition))
    for per_source in groups:
        yield tuple(tuple(group) for group in per_source)
