"""The scan plan: base table once, each region's generations and tail, newest version of each row."""

from __future__ import annotations

from collections.abc import Sequence

from execnodes import (
    DeduplicateExec,
    ExecNode,
    LanceScanExec,
    LanceSource,
    MemTableScanExec,
    RowFilter,
    RowMask,
    RowRange,
    UnionExec,
)
from execnodes.source import ColumnCache
from planner.balance import BASE, Partition, balanced, scan_units
from planner.snapshot import TableSnapshot
from planner.visibility import Visibility


def plan_scan(
    snapshot: TableSnapshot,
    scanned_regions: frozenset[str],
    columns: Sequence[str],
    row_filter: RowFilter | None,
    partitions: int,
    visibility: Visibility,
    column_cache: ColumnCache,
    *,
    split_fragments: bool = False,
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
        split_fragments: whether several partitions may share a large fragment of the base table.
    """
    base = snapshot.base
    deduplicated = bool(base.primary_key) and snapshot.has_fresh_rows
    projected = tuple(columns)
    regions = [region for region in snapshot.regions.values() if region.region_id in scanned_regions]
    units = scan_units(snapshot, regions, split_into=partitions if split_fragments else 1)
    placed = balanced(units, partitions)
    generations = [one for region in regions for one in region.generations]
    sources: list[tuple[str, LanceSource]] = [(BASE, base.source)]
    sources += [(one.path, one.source(base)) for one in generations]
    types = [base.schema.field(name).type for name in projected]
    # A filter is Lance's business in the base table: it has statistics and indexes.
    keep_base = row_filter is None and column_cache.fits(types, base.physical_rows)
    scans: list[ExecNode] = [
        LanceScanExec(
            source,
            projected,
            _fragment_groups(placed, name),
            column_cache,
            row_filter,
            keep_columns=keep_base or name != BASE,
            row_ranges=_row_ranges(placed, name),
        )
        for name, source in sources
    ]
    tails = [region.tail for region in regions if region.tail is not None]
    scans += [
        MemTableScanExec(one.source, projected, row_filter, partition=_home(placed, one.region_id))
        for one in tails
    ]
    if not deduplicated:
        return scans[0] if len(scans) == 1 else UnionExec(tuple(scans))
    masks = visibility.masks(snapshot)
    found: list[RowMask] = [masks.base]
    found += [masks.generations[one.path] for one in generations]
    found += [masks.tails[one.region_id] for one in tails]
    return DeduplicateExec(UnionExec(tuple(scans)), tuple(found))


def _fragment_groups(placed: Sequence[Partition], source: str) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(
            fragment_id
            for unit in units
            if unit.source == source and unit.first is None
            for fragment_id in unit.fragments
        )
        for units in placed
    )


def _row_ranges(placed: Sequence[Partition], source: str) -> tuple[tuple[RowRange, ...], ...]:
    ranges = tuple(
        tuple(
            RowRange(unit.fragments[0], unit.first, unit.rows)
            for unit in units
            if unit.source == source and unit.first is not None
        )
        for units in placed
    )
    return ranges if any(ranges) else ()


def _home(placed: Sequence[Partition], source: str) -> int:
    return next(number for number, units in enumerate(placed) if any(one.source == source for one in units))
