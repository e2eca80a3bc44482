"""Visibility masks: which row of a key is the newest, decided once per pair of immutable things.

A flushed generation never changes, and neither does the key of a physical row in a fragment of the base
table. So which base rows a generation supersedes is worked out once and kept, by row address; a query only
combines what is kept. Merging a generation or deleting rows leaves all of it valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from execnodes import lance_filter
from execnodes.row_mask import OFFSET_BITS, OFFSET_MASK, FragmentMask, RowMask
from planner.base_table import BaseTable, Fragment
from planner.byte_cache import ByteCache
from planner.fresh_rows import GenerationDataset, LayerKeys
from planner.key_probe import KeyProbe
from planner.physical_keys import physical_keys
from planner.snapshot import RegionSnapshot, TableSnapshot
from planner.tail import Tail

INDEX_PROBE_KEYS = 2_000
"""Up to so many keys, looking each up in the base table's BTREE index beats reading its key column."""

ENTRY_OVERHEAD = 128
Offsets = Mapping[int, np.ndarray]
"""Fragment id -> offsets of rows (uint32)."""


@dataclass(frozen=True, eq=False)
class SnapshotMasks:
    """Masks of all sources of one snapshot.

    Attributes:
        base: rows of the base table that no fresh row supersedes.
        generations: path -> mask.
        tails: region id -> mask.
    """

    base: RowMask
    generations: Mapping[str, RowMask]
    tails: Mapping[str, RowMask]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        parts = (self.base, *self.generations.values(), *self.tails.values())
        return sum(mask.nbytes for mask in parts) + ENTRY_OVERHEAD


class Visibility:
    """Computes and keeps masks.

    Attributes:
        executor: reads several sources at a time.

    Args:
        cache: holds everything that is kept, within its budget.
        executor: see there.
    """

    def __init__(self, cache: ByteCache, executor: Executor) -> None:
        self.executor = executor
        self._cache = cache

    def masks(self, snapshot: TableSnapshot) -> SnapshotMasks:
        """Masks of a table with a primary key.

        Raises:
            LanceGatewayError: a source can't be read.
        """
        return self._cache.compute(
            ("masks", *snapshot.identity), lambda: self._compute(snapshot), lambda masks: masks.nbytes
        )

    def _compute(self, snapshot: TableSnapshot) -> SnapshotMasks:
        base = snapshot.base
        regions = tuple(snapshot.regions.values())
        found = self.executor.map(lambda region: self._region_masks(base, region), regions)
        generations: dict[str, RowMask] = {}
        tails: dict[str, RowMask] = {}
        for region, (of_generations, of_tail) in zip(regions, found, strict=True):
            generations.update(zip((one.path for one in region.generations), of_generations, strict=True))
            if of_tail is not None:
                tails[region.region_id] = of_tail
        mask = self._base_mask(base, snapshot.generations)
        for tail in snapshot.tails:
            mask = mask.without(self._superseded_by_tail(base, tail), base.fragment_rows)
        return SnapshotMasks(mask, generations, tails)

    def _region_masks(
        self, base: BaseTable, region: RegionSnapshot
    ) -> tuple[tuple[RowMask, ...], RowMask | None]:
        """Masks of a region's generations and of its tail."""
        tail = region.tail

        def compute() -> tuple[tuple[RowMask, ...], RowMask | None]:
            tail_mask, tail_keys = None, None
            if tail is not None:
                tail_keys = tail.keys(base)
                tail_mask = _mask(tail_keys, newest(tail_keys), {0: tail.rows.num_rows})
            masks = []
            visible = self._visible_in_region(base, region.generations)
            for generation, newest_rows in zip(region.generations, visible, strict=True):
                keys, kept = self.keys(base, generation), newest_rows
                if tail_keys is not None:
                    in_tail = pc.is_in(keys.keys, value_set=tail_keys.keys)
                    kept = newest_rows & ~in_tail.to_numpy(zero_copy_only=False)
                masks.append(_mask(keys, kept, generation.fragment_rows))
            return tuple(masks), tail_mask

        def size(found: tuple[tuple[RowMask, ...], RowMask | None]) -> int:
            of_generations, of_tail = found
            return sum(one.nbytes for one in (*of_generations, of_tail) if one) + ENTRY_OVERHEAD

        paths = tuple(one.path for one in region.generations)
        span = None if tail is None else (tail.first, tail.last)
        key = ("region masks", base.place, region.region_id, paths, span, base.primary_key)
        return self._cache.compute(key, compute, size)

    def _base_mask(self, base: BaseTable, generations: Sequence[GenerationDataset]) -> RowMask:
        """Base rows that no flushed generation supersedes."""
        paths = tuple(sorted(one.path for one in generations))
        return self._cache.compute(
            ("base mask", base.place, base.version, paths),
            lambda: RowMask({}).without(
                self._superseded_by_generations(base, generations), base.fragment_rows
            ),
            lambda mask: mask.nbytes + ENTRY_OVERHEAD,
        )

    def keys(self, base: BaseTable, generation: GenerationDataset) -> LayerKeys:
        """The keys of a generation.

        Raises:
            GenerationVanishedError: its files are gone.
        """
        key = ("keys", base.place, generation.path, base.primary_key)
        return self._cache.compute(
            key, lambda: generation.read_keys(base), lambda keys: keys.nbytes + ENTRY_OVERHEAD
        )

    def _visible_in_region(
        self, base: BaseTable, generations: tuple[GenerationDataset, ...]
    ) -> tuple[np.ndarray, ...]:
        """For each generation of a region, which of its rows no later generation supersedes."""
        paths = tuple(generation.path for generation in generations)

        def compute() -> tuple[np.ndarray, ...]:
            return newest_of_layers([self.keys(base, one) for one in generations])

        return self._cache.compute(
            ("region", base.place, paths, base.primary_key),
            compute,
            lambda found: sum(rows.nbytes for rows in found) + ENTRY_OVERHEAD,
        )

    def _superseded_by_generations(
        self, base: BaseTable, generations: Sequence[GenerationDataset]
    ) -> Offsets:
        """Base rows whose key any of the generations has."""

        def key(fragment: Fragment, generation: GenerationDataset) -> tuple[object, ...]:
            return ("superseded", base.place, fragment.files, generation.path, base.primary_key)

        found: dict[int, list[np.ndarray]] = {}
        missing: dict[tuple[GenerationDataset, ...], list[Fragment]] = {}
        for fragment in base.fragments:
            unknown = []
            for generation in generations:
                offsets = self._cache.get(key(fragment, generation))
                if offsets is None:
                    unknown.append(generation)
                else:
                    found.setdefault(fragment.fragment_id, []).append(offsets)
            if unknown:
                missing.setdefault(tuple(unknown), []).append(fragment)
        for unknown_generations, fragments in missing.items():
            probe = KeyProbe([self.keys(base, one).keys for one in unknown_generations])
            for fragment, per_layer in self._probe_fragments(base, fragments, probe):
                for generation, offsets in zip(unknown_generations, per_layer, strict=True):
                    self._cache.put(key(fragment, generation), offsets, offsets.nbytes + ENTRY_OVERHEAD)
                    found.setdefault(fragment.fragment_id, []).append(offsets)
        return {fragment_id: np.concatenate(parts) for fragment_id, parts in found.items()}

    def _superseded_by_tail(self, base: BaseTable, tail: Tail) -> Offsets:
        """Base rows whose key the tail has; a tail that grew costs only its new rows."""
        cache_key = ("tail", base.place, base.version, tail.region_id, tail.first)
        kept: _TailProgress | None = self._cache.get(cache_key)
        if kept is None or kept.rows > tail.rows.num_rows:
            kept = _TailProgress(0, {})
        if kept.rows < tail.rows.num_rows:
            fresh = pc.unique(tail.keys(base, kept.rows).keys)
            kept = kept.extended(tail.rows.num_rows, self._locate(base, fresh))
            self._cache.put(cache_key, kept, kept.nbytes)
        return kept.offsets

    def _locate(self, base: BaseTable, keys: pa.Array) -> Offsets:
        """Where the base table has these keys."""
        if base.key_index and len(keys) <= INDEX_PROBE_KEYS:
            condition = lance_filter.one_of(base.primary_key[0], keys)
            if condition is not None:
                rows = base.dataset.scanner(columns=[], filter=condition, with_row_address=True).to_table()
                return by_fragment(rows.column(0).to_numpy())
        located = self._probe_fragments(base, base.fragments, KeyProbe([keys]))
        return {fragment.fragment_id: offsets for fragment, (offsets,) in located if len(offsets)}

    def _probe_fragments(
        self, base: BaseTable, fragments: Iterable[Fragment], probe: KeyProbe
    ) -> Iterable[tuple[Fragment, list[np.ndarray]]]:
        def search(fragment: Fragment) -> tuple[Fragment, list[np.ndarray]]:
            return fragment, probe.search(physical_keys(base, fragment))

        return self.executor.map(search, fragments)


@dataclass(frozen=True, eq=False)
class _TailProgress:
    """Base rows superseded by the first `rows` rows of a tail; a row may be listed more than once."""

    rows: int
    offsets: Offsets

    @property
    def nbytes(self) -> int:
        return sum(int(offsets.nbytes) for offsets in self.offsets.values()) + ENTRY_OVERHEAD

    def extended(self, rows: int, more: Offsets) -> _TailProgress:
        both = {
            fragment_id: np.concatenate((self.offsets.get(fragment_id, _NONE), more.get(fragment_id, _NONE)))
            for fragment_id in {*self.offsets, *more}
        }
        return _TailProgress(rows, both)


_NONE = np.empty(0, dtype=np.uint32)


def newest(layer: LayerKeys) -> np.ndarray:
    """Which rows of one layer are the last of their key and no tombstone."""
    return newest_of_layers([layer])[0]


def newest_of_layers(layers: Sequence[LayerKeys]) -> tuple[np.ndarray, ...]:
    """For each layer, oldest first, which rows are the last of their key and no tombstone."""
    if not layers:
        return ()
    keys = pa.concat_arrays([layer.keys for layer in layers])
    visible = _last_of_narrow_integers(keys)
    if visible is None:
        visible = _last_of_any(keys)
    visible &= ~np.concatenate([layer.dead for layer in layers])
    cuts = np.cumsum([len(layer.keys) for layer in layers])[:-1]
    return tuple(np.split(visible, cuts))


def _last_of_any(keys: pa.Array) -> np.ndarray:
    codes = pc.dictionary_encode(keys)
    indices = codes.indices.to_numpy()
    rows = np.arange(len(indices))
    last = np.empty(len(codes.dictionary), dtype=np.int64)
    last[indices] = rows  # of repeated indices the last assignment stays
    visible: np.ndarray = last[indices] == rows
    return visible


def _last_of_narrow_integers(keys: pa.Array) -> np.ndarray | None:
    """As `_last_of_any`, by sorting one integer that holds key and row: several times as fast as hashing.

    None where key and row don't fit into 63 bits together.
    """
    count = len(keys)
    if not count or not pa.types.is_signed_integer(keys.type):
        return None
    values = keys.to_numpy().astype(np.int64, copy=False)
    lowest = int(values.min())
    if (int(values.max()) - lowest + 1) * count >= 1 << 63:
        return None
    packed = (values - lowest) * count + np.arange(count)
    packed.sort()
    sorted_keys = packed // count
    is_last = np.ones(count, dtype=np.bool_)
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=is_last[:-1])
    visible = np.zeros(count, dtype=np.bool_)
    visible[packed[is_last] % count] = True
    return visible


def by_fragment(addresses: np.ndarray) -> dict[int, np.ndarray]:
    """Row addresses as ascending offsets per fragment."""
    if not len(addresses):
        return {}
    ordered = np.sort(addresses)
    fragment_ids = ordered >> OFFSET_BITS
    starts = [0, *(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist()]
    offsets = np.split((ordered & OFFSET_MASK).astype(np.uint32), starts[1:])
    return {int(fragment_ids[start]): part for start, part in zip(starts, offsets, strict=True)}


def _mask(layer: LayerKeys, visible: np.ndarray, fragment_rows: Mapping[int, int]) -> RowMask:
    """What a layer shows: from what is visible, since its keys are those of rows that are not deleted."""
    return showing(layer.addresses[visible], fragment_rows)


def showing(addresses: np.ndarray, fragment_rows: Mapping[int, int]) -> RowMask:
    """The mask that shows rows at these addresses, none of which is deleted, and no others."""
    shown = by_fragment(addresses)
    masks = {}
    for fragment_id, rows in fragment_rows.items():
        flags = np.zeros(rows, dtype=np.bool_)
        flags[shown.get(fragment_id, _NONE)] = True
        masks[fragment_id] = FragmentMask(pa.array(flags), hides_deleted=True)
    return RowMask(masks)
