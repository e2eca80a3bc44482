"""Masks of a snapshot with unflushed rows: those of the query before, less what new rows supersede."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from execnodes.rows.row_mask import FragmentMask, RowMask
from execnodes.storage.data_files import Columns, Place, StoredFragment
from planner.tables.sources.base_table import BaseTable, BaseVersion
from planner.tables.sources.byte_cache import ByteCache
from planner.tables.sources.generations import GenerationDataset, LayerKeys
from planner.tables.sources.key_column import physical_keys
from planner.tables.sources.log_tail import TailRows
from planner.tables.sources.snapshot import TableSnapshot
from planner.tables.state.log_reader import FlushedGenerationName, FlushedRows
from planner.tables.visibility.key_probe import KeyProbe
from planner.tables.visibility.layer_places import BasePlaces, LayerPlaces
from planner.tables.visibility.masks import ENTRY_OVERHEAD, SnapshotMasks, by_fragment

_LOCKS = 32
ReadKeys = Callable[[BaseTable, GenerationDataset], LayerKeys]


@dataclass(frozen=True, eq=False)
class _Grown:
    """Masks as of so many rows of each tail, in the order of the snapshot's tails."""

    rows: tuple[int, ...]
    masks: SnapshotMasks


@dataclass(frozen=True, slots=True)
class _TailMasks:
    """Names masks that grow with tails; as of how many rows they are, the value tells.

    Equal for the same base version under the same generations and logs of each region, where the same columns
    are the key.

    Attributes:
        base: version.
        key: columns.
        regions: generations of each, and `TailRows.number` of its tail.
    """

    base: BaseVersion
    key: Columns
    regions: tuple[tuple[tuple[Place, ...], int | None], ...]


@dataclass(frozen=True, slots=True)
class _GenerationPlaces:
    """Names where a generation has its keys. Equal where the same columns are the key."""

    key: Columns
    generation: Place


class TailMasks:
    """Safe to share between threads.

    Args:
        cache: keeps keys, and the masks made last for each set of tails.
        places: where base tables have keys.
        keys: of a generation.
    """

    def __init__(self, cache: ByteCache, places: BasePlaces, keys: ReadKeys) -> None:
        self._cache = cache
        self._places = places
        self._keys = keys
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))

    def masks(self, snapshot: TableSnapshot, settled: SnapshotMasks) -> SnapshotMasks:
        """Masks of a snapshot that has tails.

        Args:
            snapshot: of a table with a primary key.
            settled: masks of the same snapshot without its tails.
        """
        base = snapshot.base
        rows = tuple(tail.rows.num_rows for tail in snapshot.tails)
        regions = tuple(
            (
                tuple(one.place for one in region.generations),
                None if region.tail is None else region.tail.log.number,
            )
            for region in snapshot.regions.values()
            if region.generations or region.tail is not None
        )
        key = _TailMasks(base.version_id, base.key, regions)
        # What one query works out serves those that wait for it.
        with self._locks[hash(key) % len(self._locks)]:
            known: _Grown | None = self._cache.get(key)
            if known is not None and known.rows == rows:
                return known.masks
            before = _Grown((0,) * len(rows), settled)
            if known is not None and all(one <= other for one, other in zip(known.rows, rows, strict=True)):
                before = known
            grown = _Grown(rows, self._grown(snapshot, before))
            if known is None or before is known:
                self._cache.put(key, grown, grown.masks.nbytes)
            return grown.masks

    def of_flushed(
        self, base: BaseTable, generation: GenerationDataset, earlier: Sequence[GenerationDataset]
    ) -> tuple[np.ndarray, ...] | None:
        """Which rows of earlier generations a generation supersedes, as was known before it was flushed.

        Args:
            base: the table.
            generation: of a region.
            earlier: generations of the same region.

        Returns:
            For each the numbers of rows, repeats allowed; None where it is not known.
        """
        flushed = self._flushed(base, generation)
        if flushed is None:
            return None
        return tuple(
            _joined(self._in_generation(base, one, flushed.rows, flushed.start, flushed.stop), np.int64)
            for one in earlier
        )

    def flushed_in_base(
        self, base: BaseTable, generation: GenerationDataset
    ) -> Callable[[StoredFragment], np.ndarray] | None:
        """Finds the rows (offsets, repeats allowed) of fragments that a generation supersedes.

        None where nothing is known of the time when the generation was unflushed.
        """
        flushed = self._flushed(base, generation)
        if flushed is None:
            return None
        rows, start, stop = flushed.rows, flushed.start, flushed.stop
        if self._places.are_kept(base):
            return lambda fragment: _joined(self._in_fragment(base, fragment, rows, start, stop), np.uint32)
        known = rows.located_so_far(base.version_id, start, stop)
        if known is None:
            return None
        offsets = by_fragment(_joined(known, np.uint64))
        return lambda fragment: offsets.get(fragment.fragment_id, np.empty(0, np.uint32))

    def _flushed(self, base: BaseTable, generation: GenerationDataset) -> FlushedRows | None:
        name = FlushedGenerationName(base.place, generation.region_id, generation.generation)
        found: FlushedRows | None = self._cache.get(name)
        if found is None or not found.rows.reads_as(base):
            return None
        # Every entry of a generation is flushed with it: as many keys are the same keys.
        keys = self._keys(base, generation).keys
        return found if found.rows.distinct_keys(found.start, found.stop) == len(keys) else None

    def _grown(self, snapshot: TableSnapshot, before: _Grown) -> SnapshotMasks:
        base = snapshot.base
        new = [
            (tail, start)
            for tail, start in zip(snapshot.tails, before.rows, strict=True)
            if start < tail.rows.num_rows or not start
        ]
        hidden = self._in_base(base, [(tail.log, start, tail.rows.num_rows) for tail, start in new])
        generations, tails = dict(before.masks.generations), dict(before.masks.tails)
        for tail, start in new:
            for one in snapshot.regions[tail.region_id].generations:
                numbers = _joined(
                    self._in_generation(base, one, tail.log, start, tail.rows.num_rows), np.int64
                )
                if len(numbers):
                    addresses = self._keys(base, one).addresses[numbers]
                    mask = generations[one.path]
                    generations[one.path] = mask.without(by_fragment(addresses), one.fragment_rows)
            tails[tail.region_id] = RowMask({0: FragmentMask(pa.array(tail.newest()))})
        return SnapshotMasks(before.masks.base.without(hidden, base.fragment_rows), generations, tails)

    def _in_base(
        self, base: BaseTable, stretches: Sequence[tuple[TailRows, int, int]]
    ) -> Mapping[int, np.ndarray]:
        """Rows of the base table that have keys of stretches of tails."""
        found: dict[int, list[np.ndarray]] = {}
        if not stretches:
            return {}
        if self._places.are_kept(base):
            self._places.read(base, base.fragments)
            for fragment in base.fragments:
                parts = [part for one in stretches for part in self._in_fragment(base, fragment, *one)]
                if parts:
                    found[fragment.fragment_id] = parts
        else:
            for log, start, stop in stretches:
                parts = log.located(
                    base.version_id, start, stop, lambda wanted: self._in_version(base, wanted)
                )
                for fragment_id, offsets in by_fragment(_joined(parts, np.uint64)).items():
                    found.setdefault(fragment_id, []).append(offsets)
        return {fragment_id: _joined(parts, np.uint32) for fragment_id, parts in found.items()}

    def _in_fragment(
        self, base: BaseTable, fragment: StoredFragment, log: TailRows, start: int, stop: int
    ) -> list[np.ndarray]:
        return log.located(
            fragment.files,
            start,
            stop,
            lambda wanted: self._places.in_fragment(base, fragment, wanted),
        )

    def _in_version(self, base: BaseTable, wanted: pa.Array) -> np.ndarray:
        """Addresses of the base rows that have one of these keys."""
        found = self._places.by_index(base, wanted)
        if found is not None:
            return found
        probe = KeyProbe([wanted])
        parts = [
            (np.uint64(fragment.fragment_id) << np.uint64(32)) + offsets.astype(np.uint64)
            for fragment in base.fragments
            for offsets in probe.search(physical_keys(base, fragment))
        ]
        return _joined(parts, np.uint64)

    def _in_generation(
        self, base: BaseTable, generation: GenerationDataset, log: TailRows, start: int, stop: int
    ) -> list[np.ndarray]:
        """Numbers of the rows of a generation that have keys of a stretch of a tail."""
        key = _GenerationPlaces(base.key, generation.place)

        def find(wanted: pa.Array) -> np.ndarray:
            places: LayerPlaces = self._cache.compute(
                key,
                lambda: LayerPlaces(self._keys(base, generation).keys),
                lambda one: one.nbytes + ENTRY_OVERHEAD,
            )
            return places.find(wanted)

        return log.located(generation.place, start, stop, find)


def _joined(parts: Sequence[np.ndarray], kind: type[np.generic]) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, kind)
