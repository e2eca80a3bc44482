"""The scan plan: base table once, each region's generations and tail, newest version of each row."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from execnodes.rows.row_mask import CHUNK_ROWS
from execnodes.storage.data_files import StoredFragment
from execnodes.storage.source import ColumnCache
from planner.tables.sources.snapshot import RegionSnapshot, TableSnapshot
from planner.tables.visibility.visibility import Visibility

BASE = ""
"""What stands for the base table where generations have their paths and tails their regions."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that one partition reads together.

    Attributes:
        source: `BASE`, the path of a generation, or the id of a region, for its tail.
        rows: how many are stored.
        fragments: ids of whole fragments.
        first: of a part of the one fragment: its first row; None where fragments are read as a whole.
    """

    source: str
    rows: int
    fragments: tuple[int, ...] = ()
    first: int | None = None


Partition = tuple[Unit, ...]


@dataclass(frozen=True, eq=False)
class Division:
    """A scan that several readers share, each on its own.

    Attributes:
        snapshot: what all of them see.
        scanned_regions: whose rows are read; those of other regions only supersede older ones.
        count: how many readers there are.
    """

    snapshot: TableSnapshot
    scanned_regions: frozenset[str]
    count: int

    def partitions(self) -> tuple[Partition, ...]:
        """What each of them reads."""
        regions = [one for one in self.snapshot.regions.values() if one.region_id in self.scanned_regions]
        return balanced(scan_units(self.snapshot, regions, split_into=self.count), self.count)


def scan_units(
    snapshot: TableSnapshot, scanned: Sequence[RegionSnapshot], *, split_into: int = 1
) -> tuple[Unit, ...]:
    """What a scan has to read, in the order of the snapshot.

    Args:
        snapshot: of the table.
        scanned: regions that are read.
        split_into: fragments of the base table that exceed an even share of so many partitions are divided;
            1 leaves them whole.
    """
    generations = [one for region in scanned for one in region.generations]
    tails = [region.tail for region in scanned if region.tail is not None]
    base = snapshot.base
    total = base.physical_rows + sum(one.rows for one in generations)
    share = max(CHUNK_ROWS, -(-total // split_into))
    units = [unit for fragment in base.fragments for unit in _pieces(fragment, share, split_into)]
    units += [Unit(one.path, one.rows, tuple(one.fragment_rows)) for one in generations]
    units += [Unit(one.region_id, one.rows.num_rows) for one in tails]
    return tuple(units)


def _pieces(fragment: StoredFragment, share: int, split_into: int) -> Iterator[Unit]:
    rows, identity = fragment.physical_rows, (fragment.fragment_id,)
    pieces = min(round(rows / share), split_into)
    if pieces < 2:
        yield Unit(BASE, rows, identity)
        return
    step = -(-rows // pieces)
    for first in range(0, rows, step):
        yield Unit(BASE, min(step, rows - first), identity, first)


def balanced(units: Sequence[Unit], partitions: int) -> tuple[Partition, ...]:
    """One tuple of units per partition; the largest are placed first, each where there is least so far.

    Among equals the order of the units, and then that of the partitions, decides.
    """
    loads = [(0, partition) for partition in range(partitions)]
    placed: list[list[Unit]] = [[] for _ in range(partitions)]
    for unit in sorted(units, key=lambda unit: -unit.rows):
        load, partition = heapq.heappop(loads)
        placed[partition].append(unit)
        heapq.heappush(loads, (load + unit.rows, partition))
    return tuple(map(tuple, placed))


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
