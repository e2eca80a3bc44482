"""Index catch-up: merged generations answer for rows that the base table's index does not have yet.

When a generation is merged, its rows move into fragments of the base table that no index covers until the
index is built further. Until the generation is cleaned up, its own indexes still have these rows. So a search
that needs index I takes the rows that were merged from the generations of every region in

    (caught up for I, merged]

from there, and leaves them out where it looks at the fragments of the base table that I does not cover.

What was merged may have been changed in the base table since, by another merge or directly. So a row is taken
from a generation only if it is, in every column, the row that the base table has now. Whether two stored rows
are the same never changes: it is found out once for a pair of a fragment's files and a generation, and kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.rows.row_mask import EVERYTHING_VISIBLE, FragmentMask, RowMask, build_mask
from lance_gateway.execnodes.storage.data_files import Columns, FragmentFiles, Place
from lance_gateway.execnodes.storage.source import LanceSource
from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.planner.search.sources.index_coverage import (
    MIN_VECTOR_BYTES,
    Coverage,
    IndexKind,
    count_vector_bytes,
    find_own_index,
)
from lance_gateway.planner.search.sources.same_rows import Layer, SameRows, find_same_rows
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.caches import ENTRY_OVERHEAD
from lance_gateway.planner.tables.sources.generations import GenerationDataset, GenerationVanishedError
from lance_gateway.planner.tables.sources.snapshot import SnapshotRows, TableSnapshot
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.visibility.visibility import Visibility

MIN_TEXT_ROWS = 100
"""Fewer texts than this are sooner read than compared with a generation's."""


class CatchUpMode(Enum):
    """When merged generations are searched in place of uncovered base rows.

    AUTO: where that takes less time than looking at the rows in the base table.
    ALWAYS: wherever they can.
    NEVER: rows that no index covers are looked at.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, eq=False, slots=True)
class MovedGeneration:
    """Merged generation that is searched for rows of the base table.

    Attributes:
        generation: of which region, and where.
        rows: as a source; its label names the indexes that lack the rows.
        live: the rows that it answers for.
    """

    generation: GenerationDataset
    rows: LanceSource
    live: RowMask

    @property
    def nbytes(self) -> int:
        """Bytes of the mask."""
        return self.live.nbytes + ENTRY_OVERHEAD


@dataclass(frozen=True, eq=False, slots=True)
class MovedRows:
    """Division of the live base rows between the base table and merged generations.

    Attributes:
        live: rows that are left to the base table.
        generations: that answer for the others, by region and newest first.
        emptied: fragments of the base table in which nothing is left to look at.
        by_index: whether these generations are to be asked by index even where looking at them is quicker.
    """

    live: RowMask
    generations: tuple[MovedGeneration, ...] = ()
    emptied: frozenset[int] = frozenset()
    by_index: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the masks."""
        return self.live.nbytes + sum(generation.nbytes for generation in self.generations) + ENTRY_OVERHEAD


@dataclass(frozen=True, slots=True)
class _MovedRowsName:
    """Cache key of a division of rows.

    Attributes:
        snapshot: whose rows are divided.
        generations: that may answer.
        fragments: of the base table, whose rows may be taken from them.
        lacking: column, kind and name of each index that lacks rows.
        mode: when generations answer.
        is_masked: whether rows that fresh ones supersede were left out before.
    """

    snapshot: SnapshotRows
    generations: tuple[Place, ...]
    fragments: tuple[int, ...]
    lacking: tuple[tuple[str, IndexKind, str], ...]
    mode: CatchUpMode
    is_masked: bool


@dataclass(frozen=True, slots=True)
class _SameRowsName:
    """Cache key of the rows that are equal in a fragment and in generations.

    Equal for the same stored rows, as long as the table has the same columns and the same key.

    Attributes:
        files: of the fragment.
        generations: one, or those that were compared together.
        columns: of the table.
        key: columns.
    """

    files: FragmentFiles
    generations: tuple[Place, ...]
    columns: Columns
    key: Columns


@dataclass(frozen=True, slots=True)
class _ComparisonName:
    """Cache key of one comparison with several generations, in their order."""

    rows: _SameRowsName


@dataclass(frozen=True, eq=False, slots=True)
class CatchUp:
    """Divide rows between the base table and merged generations.

    Args:
        table: whose caches are used.
        visibility: knows keys of generations.
        mode: when merged generations answer.
        check: called before each fragment that is read; raises when the statement is to stop.
    """

    table: Table
    visibility: Visibility
    mode: CatchUpMode = CatchUpMode.AUTO
    check: Callable[[], None] = lambda: None

    def divide_rows(
        self, snapshot: TableSnapshot, regions: frozenset[str], live: RowMask, needed: Sequence[Coverage]
    ) -> MovedRows:
        """Divide the rows for a search that needs these indexes.

        Args:
            snapshot: of the table.
            regions: whose generations may answer.
            live: rows of the base table that no fresh row supersedes.
            needed: one coverage for each column that is searched.

        Raises:
            LanceGatewayError: a source can't be read.
        """
        base = snapshot.base
        lacking = self.find_lacking(base, needed)
        if not lacking:
            return MovedRows(live)
        generations = self._find_generations(snapshot, regions, lacking)
        if not generations:
            return MovedRows(live)
        fragments = tuple(sorted({one for coverage in lacking for one in coverage.uncovered}))
        key = _MovedRowsName(
            snapshot.identity,
            tuple(generation.place for generation in generations),
            fragments,
            tuple((one.column, one.kind, "" if one.index is None else one.index.name) for one in lacking),
            self.mode,
            is_masked=live is not EVERYTHING_VISIBLE,
        )
        known: MovedRows | None = self.table.cache.get(key)
        if known is not None:
            return known
        try:
            same = {fragment: self._find_same_rows(base, fragment, generations) for fragment in fragments}
        except GenerationVanishedError:
            return MovedRows(live)  # cleaned up this moment: what it has is looked at in the base table
        moved = self._divide_rows(base, live, same, generations, lacking)
        self.table.cache.put(key, moved, moved.nbytes)
        return moved

    def find_lacking(self, base: BaseTable, needed: Sequence[Coverage]) -> tuple[Coverage, ...]:
        """Return those of the needed indexes that lack enough rows to search merged generations for them."""
        if self.mode is CatchUpMode.NEVER or not base.primary_key or base.details is None:
            return ()
        ordered = sorted(needed, key=lambda one: (one.column, one.kind.value))
        return tuple(one for one in ordered if self._is_wanted(base, one))

    def _is_wanted(self, base: BaseTable, coverage: Coverage) -> bool:
        """Return whether an index lacks enough rows to search generations for them."""
        if coverage.index is None or not coverage.uncovered:
            return False
        rows = sum(base.fragment_rows[one] for one in coverage.uncovered)
        return self._is_enough(base, coverage, rows)

    def _is_enough(self, base: BaseTable, coverage: Coverage, rows: int) -> bool:
        """Return whether a generation's index finds so many rows faster than a scan."""
        if self.mode is CatchUpMode.ALWAYS:
            return rows > 0
        if coverage.kind is IndexKind.TEXT:
            return rows >= MIN_TEXT_ROWS
        return rows * count_vector_bytes(base.schema.field(coverage.column).type) >= MIN_VECTOR_BYTES

    def _find_generations(
        self, snapshot: TableSnapshot, regions: frozenset[str], lacking: Sequence[Coverage]
    ) -> tuple[GenerationDataset, ...]:
        """Return existing merged generations that have an index for an uncovered column, newest first."""
        base = snapshot.base
        found = [
            generation
            for region in snapshot.regions.values()
            if region.region_id in regions and region.manifest is not None
            for flushed in reversed(region.manifest.merged(region.newest_merged))
            if any(flushed.generation > _find_newest_indexed(base, one, region.region_id) for one in lacking)
            for generation in self._open_generation(base, region.region_id, flushed)
            if any(self._can_answer(base, generation, one) for one in lacking)
        ]
        # What was opened once stays known when its directory is removed.
        is_there = base.storage.exists(*(one.first_file for one in found)) if found else ()
        return tuple(itertools.compress(found, is_there))

    def _open_generation(
        self, base: BaseTable, region_id: str, flushed: FlushedGeneration
    ) -> tuple[GenerationDataset, ...]:
        try:
            return self.table.open_generations(base, region_id, (flushed,))
        except GenerationVanishedError:
            return ()  # cleaned up: its rows are looked at in the base table

    def _can_answer(self, base: BaseTable, generation: GenerationDataset, coverage: Coverage) -> bool:
        return find_own_index(base, generation, coverage) is not None and self._is_enough(
            base, coverage, generation.rows
        )

    def _divide_rows(
        self,
        base: BaseTable,
        live: RowMask,
        same: Mapping[int, Mapping[str, SameRows]],
        generations: Sequence[GenerationDataset],
        lacking: Sequence[Coverage],
    ) -> MovedRows:
        left = {one: self._find_live_rows(base, one, live) for one in same}
        moved = []
        for generation in generations:
            equal = {
                one: found for one, rows in same.items() if len((found := rows[generation.path]).offsets)
            }
            pairs = {one: found.of(left[one]) for one, found in equal.items()}
            rows = sum(len(pair.offsets) for pair in pairs.values())
            if any(self._is_enough(base, one, rows) for one in lacking):
                for one, pair in pairs.items():
                    left[one][pair.offsets] = False
                addresses = [pair.addresses for pair in pairs.values()]
                moved.append(_build_moved_generation(base, generation, lacking, addresses))
        if not moved:
            return MovedRows(live)
        masks = {one: FragmentMask(pa.array(flags), hides_deleted=True) for one, flags in left.items()}
        emptied = frozenset(one for one, flags in left.items() if not flags.any())
        always = self.mode is CatchUpMode.ALWAYS
        return MovedRows(RowMask({**live.fragments, **masks}), tuple(moved), emptied, always)

    def _find_live_rows(self, base: BaseTable, fragment_id: int, live: RowMask) -> np.ndarray:
        """Flag the rows of a fragment that are neither superseded nor deleted."""
        (shown,) = self.table.columns.visible(base.source, (fragment_id,), live)
        if shown is None:
            return np.ones(base.fragment_rows[fragment_id], dtype=np.bool_)
        flags: np.ndarray = shown.visible.to_numpy(zero_copy_only=False)
        return flags

    def _find_same_rows(
        self, base: BaseTable, fragment_id: int, generations: Sequence[GenerationDataset]
    ) -> Mapping[str, SameRows]:
        """Return, by path of generation, its rows that are equal in the fragment."""
        cache = self.table.cache
        fragment = base.source.fragments.get(fragment_id)

        def name(*with_generations: GenerationDataset) -> _SameRowsName:
            places = tuple(generation.place for generation in with_generations)
            return _SameRowsName(fragment.files, places, base.columns, base.key)

        found: dict[str, SameRows] = {}
        for generation in generations:
            known = cache.get(name(generation))
            if known is not None:
                found[generation.path] = known
        missing = [generation for generation in generations if generation.path not in found]
        if not missing:
            return found
        self.check()

        def compare() -> list[SameRows]:
            layers = [Layer(one, self.visibility.search.read_keys(base, one)) for one in missing]
            return find_same_rows(base, fragment, layers)

        # Concurrent statements share one comparison; its results are cached one by one.
        together = _ComparisonName(name(*missing))
        compared = cache.compute(together, compare, lambda found: sum(one.nbytes for one in found))
        for generation, rows in zip(missing, compared, strict=True):
            cache.put(name(generation), rows, rows.nbytes + ENTRY_OVERHEAD)
            found[generation.path] = rows
        return found


def _find_newest_indexed(base: BaseTable, coverage: Coverage, region_id: str) -> int:
    """Return the newest generation of a region that an index covers; 0 if not recorded."""
    if base.details is None or coverage.index is None:
        return 0
    return base.details.newest_covered(coverage.index.name, region_id)


def _build_moved_generation(
    base: BaseTable,
    generation: GenerationDataset,
    lacking: Sequence[Coverage],
    addresses: Sequence[np.ndarray],
) -> MovedGeneration:
    names = ", ".join(one.index.name for one in lacking if one.index is not None)
    source = generation.source(base)
    label = f"{source.label} (catch-up for {names})"
    # One object for all searches of a version: it tells whether two of them found the same row.
    rows = base.generation_sources.setdefault((generation.place, names), replace(source, label=label))
    return MovedGeneration(generation, rows, build_mask(np.concatenate(addresses), generation.fragment_rows))
