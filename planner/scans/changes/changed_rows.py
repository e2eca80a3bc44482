"""Plan how a state is read without the stored rows that another state of the table shows as well.

A stored row that both states show has not changed, and its key has no other row in either. So of

- a fragment of the base table with the same files in both versions, and
- a generation that lies on top of both,

only those rows are read that one state shows and the other hides. All other sources are read whole: merges
and compaction move rows that did not change, which are then compared by their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes import (
    DeduplicateExec,
    ExecNode,
    LanceScanExec,
    LanceSource,
    MemTableScanExec,
    RowFilter,
    RowMask,
    ScanExec,
    UnionExec,
)
from lance_gateway.execnodes.rows.row_mask import FragmentMask
from lance_gateway.execnodes.scans import SelectedRows
from lance_gateway.execnodes.storage.data_files import StoredFragment
from lance_gateway.execnodes.storage.source import ColumnCache
from lance_gateway.planner.scans.scan_plan import BASE, Partition, Unit, balance_units, group_by_source
from lance_gateway.planner.tables.sources.snapshot import RegionSnapshot, TableSnapshot
from lance_gateway.planner.tables.visibility.visibility import SnapshotMasks, Visibility

_SPARSE = 16
"""Of a fragment of which fewer than one row in so many is wanted, rows are taken one by one."""
_TAKEN_ROWS = 8192
"""Rows that are taken together."""


@dataclass(frozen=True)
class _Shown:
    """Rows of one source that one state shows and the other does not.

    Attributes:
        mask: of fragments that are scanned; others are visible as a whole.
        units: fragments to scan.
        selected: rows of further fragments.
    """

    mask: RowMask
    units: list[Unit] = field(default_factory=list)
    selected: list[SelectedRows] = field(default_factory=list)


@dataclass(frozen=True)
class _OtherSource:
    """The same source in the other state: its dataset, and which of its rows are shown there."""

    source: LanceSource
    mask: RowMask


def plan_changed_rows(
    snapshot: TableSnapshot,
    other: TableSnapshot,
    scanned_regions: frozenset[str],
    columns: tuple[str, ...],
    row_filter: RowFilter | None,
    partitions: int,
    visibility: Visibility,
    cache: ColumnCache,
) -> ExecNode:
    """Plan ``DeduplicateExec(UnionExec(LanceScanExec...))`` over rows that the other state does not show.

    Args:
        snapshot: the state that is read.
        other: the state with which it is compared.
        scanned_regions: regions that may have matching rows.
        columns: to produce.
        row_filter: applied exactly.
        partitions: how many.
        visibility: where masks come from.
        cache: where columns are kept.
    """
    regions = [region for region in snapshot.regions.values() if region.region_id in scanned_regions]
    masks, shown = _show_sources(snapshot, other, regions, visibility, cache)
    tails = [region for region in regions if region.tail is not None]
    units = [unit for _, rows in shown for unit in rows.units]
    units += [Unit(one.region_id, one.tail.rows.num_rows) for one in tails if one.tail is not None]
    placed = balance_units(units, partitions)
    scans = [
        *_scan_sources(shown, placed, columns, row_filter, cache),
        *_scan_tails(tails, placed, columns, row_filter),
    ]
    found = [rows.mask for _, rows in shown] + [masks.tails[one.region_id] for one in tails]
    return DeduplicateExec(UnionExec(tuple(scans)), tuple(found))


def count_changed_rows(
    snapshot: TableSnapshot, other: TableSnapshot, visibility: Visibility, cache: ColumnCache
) -> int:
    """Count the rows that are read of a state for want of what the other state shows.

    Args:
        snapshot: the state that is read.
        other: the state with which it is compared.
        visibility: where masks come from.
        cache: where columns are kept.
    """
    regions = list(snapshot.regions.values())
    _, shown = _show_sources(snapshot, other, regions, visibility, cache)
    stored = sum(unit.rows for _, rows in shown for unit in rows.units)
    selected = sum(len(one.places) for _, rows in shown for one in rows.selected)
    unflushed = sum(int(region.tail.rows.num_rows) for region in regions if region.tail is not None)
    return stored + selected + unflushed


def _show_sources(
    snapshot: TableSnapshot,
    other: TableSnapshot,
    regions: Sequence[RegionSnapshot],
    visibility: Visibility,
    cache: ColumnCache,
) -> tuple[SnapshotMasks, list[tuple[LanceSource, _Shown]]]:
    """Return the masks of a state, and what of its base table and generations the other one does not show."""
    base = snapshot.base
    masks, other_masks = _compute_masks(snapshot, visibility), _compute_masks(other, visibility)
    shown = [
        (
            base.source,
            _select(BASE, base.source, masks.base, _OtherSource(other.base.source, other_masks.base), cache),
        )
    ]
    others = {generation.place: generation for generation in other.generations}
    for generation in (generation for region in regions for generation in region.generations):
        source, same = generation.source(base), others.get(generation.place)
        counterpart = None
        if same is not None:
            counterpart = _OtherSource(same.source(other.base), other_masks.generations[same.path])
        shown.append(
            (source, _select(generation.path, source, masks.generations[generation.path], counterpart, cache))
        )
    return masks, shown


def _compute_masks(snapshot: TableSnapshot, visibility: Visibility) -> SnapshotMasks:
    if not visibility.hides_rows(snapshot):
        return SnapshotMasks(RowMask(), {}, {})
    return visibility.compute_masks(snapshot)


def _scan_sources(
    shown: list[tuple[LanceSource, _Shown]],
    placed: tuple[Partition, ...],
    columns: tuple[str, ...],
    row_filter: RowFilter | None,
    cache: ColumnCache,
) -> Iterator[ScanExec]:
    whole, _, _ = group_by_source(placed)
    for number, (source, rows) in enumerate(shown):
        name = BASE if not number else rows.units[0].source if rows.units else None
        groups = tuple(map(tuple, whole[name])) if name is not None else ((),) * len(placed)
        yield LanceScanExec(
            source,
            columns,
            groups,
            cache,
            row_filter,
            keep_columns=number > 0,
            selected=tuple(tuple(rows.selected[at :: len(placed)]) for at in range(len(placed))),
        )


def _scan_tails(
    tails: list[RegionSnapshot],
    placed: tuple[Partition, ...],
    columns: tuple[str, ...],
    row_filter: RowFilter | None,
) -> Iterator[ScanExec]:
    _, _, homes = group_by_source(placed)
    for region in tails:
        assert region.tail is not None  # noqa: S101 - the caller has selected them
        yield MemTableScanExec(region.tail.source, columns, row_filter, partition=homes[region.region_id])


def _select(
    name: str, source: LanceSource, mask: RowMask, other: _OtherSource | None, cache: ColumnCache
) -> _Shown:
    """Select the rows of a source that one state shows and the other does not."""
    fragments = source.fragments.all
    if other is None:
        return _Shown(mask, [Unit(name, one.physical_rows, (one.fragment_id,)) for one in fragments])
    before = {fragment.fragment_id: fragment for fragment in other.source.fragments.all}
    masks: dict[int, FragmentMask] = {}
    shown = _Shown(RowMask(masks))
    for fragment in fragments:
        fragment_id = fragment.fragment_id
        same = before.get(fragment_id)
        if same is None or same.files is not fragment.files:
            if fragment_id in mask.fragments:
                masks[fragment_id] = mask.fragments[fragment_id]
            shown.units.append(Unit(name, fragment.physical_rows, (fragment_id,)))
        elif not _shows_same_rows(fragment, same, mask, other.mask):
            _add_difference(shown, masks, name, source, fragment, mask, other, cache)
    return shown


def _shows_same_rows(one: StoredFragment, same: StoredFragment, mask: RowMask, other: RowMask) -> bool:
    ids = (one.fragment_id,)
    return one.deletions == same.deletions and mask.digests(ids) == other.digests(ids)


def _add_difference(
    shown: _Shown,
    masks: dict[int, FragmentMask],
    name: str,
    source: LanceSource,
    fragment: StoredFragment,
    mask: RowMask,
    other: _OtherSource,
    cache: ColumnCache,
) -> None:
    """Add those rows of a fragment that this state shows and the other hides."""
    ids, rows = (fragment.fragment_id,), fragment.physical_rows
    here, there = cache.visible(source, ids, mask)[0], cache.visible(other.source, ids, other.mask)[0]
    if there is None:
        return
    hidden = pc.invert(there.visible)
    visible = hidden if here is None else pc.and_(here.visible, hidden)
    count = visible.true_count
    if not count:
        return
    if count * _SPARSE > rows:
        masks[fragment.fragment_id] = FragmentMask(_compact(visible), hides_deleted=True)
        shown.units.append(Unit(name, rows, ids))
        return
    places = np.flatnonzero(visible.to_numpy(zero_copy_only=False))
    (live,) = cache.visible(source, ids, RowMask())
    if live is not None:
        # Lance counts rows that are not deleted.
        places = (np.cumsum(live.visible.to_numpy(zero_copy_only=False)) - 1)[places]
    shown.selected.extend(
        SelectedRows(fragment.fragment_id, places[start : start + _TAKEN_ROWS])
        for start in range(0, len(places), _TAKEN_ROWS)
    )


def _compact(visible: pa.BooleanArray) -> pa.BooleanArray:
    return visible if not visible.offset else pa.concat_arrays([visible])
