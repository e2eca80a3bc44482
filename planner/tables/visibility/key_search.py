"""Find rows by key in sources that never change.

`find_rows` searches for many keys at once. `KeySearch` keeps where sources have keys, and asks them
for the keys of a tail over and over while it grows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes.rows import lance_filter
from lance_gateway.execnodes.rows.row_mask import group_by_fragment
from lance_gateway.execnodes.storage.data_files import Columns, Place, StoredFragment
from lance_gateway.memwal.base.repeated_rows import hash_keys
from lance_gateway.planner.tables.shared.cache import SHARED_BYTES, Encoding, SharedCache
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.caches import ENTRY_OVERHEAD, ByteCache
from lance_gateway.planner.tables.sources.generations import GenerationDataset, LayerKeys, read_with_keys
from lance_gateway.planner.tables.sources.keys import (
    FragmentKeys,
    FragmentKeysName,
    compute_fragment_keys,
    name_fragment_keys,
    read_physical_keys,
)
from lance_gateway.planner.tables.sources.log_tail import TailRows
from lance_gateway.planner.tables.sources.read_together import Fragment
from lance_gateway.planner.tables.state.log_reader import FlushedGenerationName, FlushedRows
from lance_gateway.planner.tables.visibility.key_join import find_rows
from lance_gateway.planner.tables.visibility.shared_masks import LAYER_KEYS, name_generation_keys

INDEX_PROBE_KEYS = 2_000
"""Up to so many keys, looking each up in the base table's BTREE index beats reading its key column."""
LARGEST_SHARE = 4
"""The keys of one base table take at most one part in so many of the cache."""
INTEGER_BYTES = 12
OTHER_BYTES = 48
"""What a kept key is taken for before it is read."""
_LEAST_KEY_BYTES = 17
"""An integer key, its address, and whether it is a tombstone."""
_LOCKS = 32
_SEARCHES_BEFORE_INDEX = 8
"""An index of hashes takes as long to build as about so many searches without it."""


class LayerPlaces:
    """Index of the rows of a source by key.

    Args:
        keys: of all rows of the source.
    """

    def __init__(self, keys: pa.Array) -> None:
        self.keys = keys
        self._is_integer = pa.types.is_signed_integer(keys.type)
        self._searches = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and of their order."""
        return int(self.keys.nbytes) + len(self.keys) * INTEGER_BYTES

    @cached_property
    def _index(self) -> FragmentKeys:
        return FragmentKeys.of(self.keys if self._is_integer else _hash(self.keys))

    def find(self, wanted: pa.Array) -> np.ndarray:
        """Return ascending numbers of the rows that have one of these distinct keys."""
        if self._is_integer:
            return self._index.find(wanted.to_numpy().astype(np.int64, copy=False))
        self._searches += 1
        if self._searches <= _SEARCHES_BEFORE_INDEX or self.keys.null_count or not len(wanted):
            return np.flatnonzero(_flag_equal(self.keys, wanted))
        places = self._index.find(np.unique(_hash(wanted)))
        found: np.ndarray = places[_flag_equal(self.keys.take(pa.array(places)), wanted)]
        return found


def _hash(keys: pa.Array) -> pa.Array:
    return pa.array(hash_keys(pa.record_batch([keys], names=["key"])).view(np.int64))


def _flag_equal(keys: pa.Array, wanted: pa.Array) -> np.ndarray:
    flags: np.ndarray = pc.is_in(keys, value_set=wanted).to_numpy(zero_copy_only=False)
    return flags


LAYER_PLACES = Encoding(
    lambda places: pa.record_batch([places.keys], names=["keys"]), lambda batch: LayerPlaces(batch.column(0))
)
"""In files the keys lie alone."""


@dataclass(frozen=True, slots=True)
class _GenerationKeysName:
    """Cache key of the keys of a generation."""

    key: Columns
    generation: Place


@dataclass(frozen=True, slots=True)
class _GenerationPlacesName:
    """Cache key of the positions of keys in a generation."""

    key: Columns
    generation: Place


class KeySearch:
    """Search of rows by key, with cached keys and positions. Thread-safe.

    Args:
        cache: keeps keys, and where sources have them.
        executor: reads several fragments at a time.
        shared: keeps both for other processes as well; None where nothing is shared.
    """

    def __init__(self, cache: ByteCache, executor: Executor, shared: SharedCache | None = None) -> None:
        self._cache = cache
        self._executor = executor
        self._shared = shared or SharedCache()
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))

    def read_keys(self, base: BaseTable, generation: GenerationDataset) -> LayerKeys:
        """Read the keys of a generation, or take them from the cache.

        Raises:
            GenerationVanishedError: its files are gone.
        """
        return self._shared.compute(
            self._cache,
            _GenerationKeysName(base.key, generation.place),
            lambda: name_generation_keys(self._shared, base, generation),
            LAYER_KEYS,
            lambda: generation.read_keys(base),
            lambda keys: keys.nbytes + ENTRY_OVERHEAD,
        )

    def read_keys_of_each(self, base: BaseTable, generations: Sequence[GenerationDataset]) -> list[LayerKeys]:
        """Read the keys of generations, small ones together; see `read_keys`."""
        names = [_GenerationKeysName(base.key, one.place) for one in generations]
        with self._locks[hash(base.place) % len(self._locks)]:  # One reads them for all that wait.
            known = self._cache.get_many(names)
            missing = [one for one, keys in zip(generations, known, strict=True) if keys is None]
            together = self._select_together(missing)
            found: dict[Place, LayerKeys] = {}
            if together:
                sources = [one.source(base) for one in together]
                fragments = [(source, one) for source in sources for one in source.fragments.all]
                found = self._keep_keys(
                    base, (keys for _, _, keys in read_with_keys(base, together, fragments))
                )
        return [
            keys or found.get(one.place) or self.read_keys(base, one)
            for one, keys in zip(generations, known, strict=True)
        ]

    def read_along(
        self,
        base: BaseTable,
        generations: Sequence[GenerationDataset],
        fragments: Iterable[Fragment],
        columns: Sequence[str],
    ) -> Iterator[tuple[Fragment, Sequence[pa.Array]]]:
        """Read columns of small fragments, and in the same scan the keys of generations that are not kept."""
        known = self._cache.get_many([_GenerationKeysName(base.key, one.place) for one in generations])
        missing = [one for one, keys in zip(generations, known, strict=True) if keys is None]
        found = list(read_with_keys(base, self._select_together(missing), fragments, columns))
        self._keep_keys(base, (keys for _, _, keys in found))
        yield from ((fragment, rows) for fragment, rows, _ in found)

    def _select_together(self, generations: Iterable[GenerationDataset]) -> list[GenerationDataset]:
        """Return the generations whose keys may be read with others: some have a file of their own."""
        is_shared = self._shared.files is not None
        return [one for one in generations if not (is_shared and one.rows * _LEAST_KEY_BYTES >= SHARED_BYTES)]

    def _keep_keys(
        self, base: BaseTable, found: Iterable[tuple[GenerationDataset, LayerKeys] | None]
    ) -> dict[Place, LayerKeys]:
        by_place = {one[0].place: one[1] for one in found if one is not None}
        self._cache.put_many(
            [
                (_GenerationKeysName(base.key, place), keys, keys.nbytes + ENTRY_OVERHEAD)
                for place, keys in by_place.items()
            ]
        )
        return by_place

    # What a tail supersedes

    def find_in_base(
        self, base: BaseTable, stretches: Sequence[tuple[TailRows, int, int]]
    ) -> Mapping[int, np.ndarray]:
        """Return offsets of base rows, by fragment, that have keys of ranges of tails."""
        found: dict[int, list[np.ndarray]] = {}
        if not stretches:
            return {}
        if self.can_keep_keys(base):
            self.read(base, base.fragments)
            for fragment in base.fragments:
                parts = [
                    part
                    for stretch in stretches
                    for part in self._locate_in_fragment(base, fragment, *stretch)
                ]
                if parts:
                    found[fragment.fragment_id] = parts
        else:
            for log, start, stop in stretches:
                parts = log.locate(
                    base.version_id, start, stop, lambda wanted: self._search_version(base, wanted)
                )
                for fragment_id, offsets in group_by_fragment(_concatenate(parts, np.uint64)).items():
                    found.setdefault(fragment_id, []).append(offsets)
        return {fragment_id: _concatenate(parts, np.uint32) for fragment_id, parts in found.items()}

    def _locate_in_fragment(
        self, base: BaseTable, fragment: StoredFragment, log: TailRows, start: int, stop: int
    ) -> list[np.ndarray]:
        return log.locate(
            fragment.files,
            start,
            stop,
            lambda wanted: self.find_in_fragment(base, fragment, wanted),
        )

    def _search_version(self, base: BaseTable, wanted: pa.Array) -> np.ndarray:
        found = self.find_by_index(base, wanted)
        if found is not None:
            return found
        (found_rows,) = find_rows(base, base.fragments, [[wanted]], self._executor)
        parts = [
            (np.uint64(fragment.fragment_id) << np.uint64(32)) + offsets.astype(np.uint64)
            for fragment, offsets in zip(base.fragments, found_rows, strict=True)
        ]
        return _concatenate(parts, np.uint64)

    def find_in_generation(
        self, base: BaseTable, generation: GenerationDataset, log: TailRows, start: int, stop: int
    ) -> np.ndarray:
        """Return numbers of rows of a generation that have keys of a range of a tail; they may repeat."""
        key = _GenerationPlacesName(base.key, generation.place)

        def find(wanted: pa.Array) -> np.ndarray:
            places: LayerPlaces = self._cache.compute(
                key,
                lambda: LayerPlaces(self.read_keys(base, generation).keys),
                lambda one: one.nbytes + ENTRY_OVERHEAD,
            )
            return places.find(wanted)

        return _concatenate(log.locate(generation.place, start, stop, find), np.int64)

    # What a generation supersedes that was a tail before

    def recall_superseded(
        self, base: BaseTable, generation: GenerationDataset, earlier: Sequence[GenerationDataset]
    ) -> tuple[np.ndarray, ...] | None:
        """Return the rows of earlier generations that a generation supersedes, as found before its flush.

        Args:
            base: the table.
            generation: of a region.
            earlier: generations of the same region.

        Returns:
            For each the numbers of rows, repeats allowed; None where it is not known.
        """
        flushed = self._find_flushed(base, generation)
        if flushed is None:
            return None
        rows, start, stop = flushed.rows, flushed.start, flushed.stop
        return tuple([self.find_in_generation(base, one, rows, start, stop) for one in earlier])

    def recall_superseded_in_base(
        self, base: BaseTable, generation: GenerationDataset
    ) -> Callable[[StoredFragment], np.ndarray] | None:
        """Return a function that finds the offsets of base rows that a generation supersedes.

        Return None if the generation was not read before its flush. Offsets may repeat.
        """
        flushed = self._find_flushed(base, generation)
        if flushed is None:
            return None
        rows, start, stop = flushed.rows, flushed.start, flushed.stop
        if self.can_keep_keys(base):
            return lambda fragment: _concatenate(
                self._locate_in_fragment(base, fragment, rows, start, stop), np.uint32
            )
        known = rows.find_located(base.version_id, start, stop)
        if known is None:
            return None
        offsets = group_by_fragment(_concatenate(known, np.uint64))
        return lambda fragment: offsets.get(fragment.fragment_id, np.empty(0, np.uint32))

    def was_tail(self, base: BaseTable, generation: GenerationDataset) -> bool:
        """Return whether a generation was read before its flush."""
        name = FlushedGenerationName(base.place, generation.region_id, generation.generation)
        return name in self._cache

    def _find_flushed(self, base: BaseTable, generation: GenerationDataset) -> FlushedRows | None:
        name = FlushedGenerationName(base.place, generation.region_id, generation.generation)
        found: FlushedRows | None = self._cache.get(name)
        if found is None or not found.rows.has_same_columns(base):
            return None
        # Every entry of a generation is flushed with it: as many keys are the same keys.
        keys = self.read_keys(base, generation).keys
        return found if found.rows.count_keys(found.start, found.stop) == len(keys) else None

    # Keys of the base table

    def can_keep_keys(self, base: BaseTable) -> bool:
        """Return whether the keys of all fragments fit into the cache."""
        is_integer = self._has_integer_key(base)
        if not is_integer and base.key_index:
            return False
        size = INTEGER_BYTES if is_integer else OTHER_BYTES
        return base.physical_rows * size * LARGEST_SHARE <= self._shared.find_room(base.source, self._cache)

    def read(self, base: BaseTable, fragments: Sequence[StoredFragment]) -> None:
        """Read the keys of fragments into the cache."""
        missing = [
            fragment
            for fragment in fragments
            if self._cache.get(FragmentKeysName(fragment.files, base.key)) is None
        ]
        if len(missing) > 1:
            list(self._executor.map(lambda one: self._read_fragment_keys(base, one), missing))

    def find_in_fragment(self, base: BaseTable, fragment: StoredFragment, wanted: pa.Array) -> np.ndarray:
        """Return offsets (uint32) of the rows of a fragment that have one of these distinct keys."""
        keys = self._read_fragment_keys(base, fragment)
        if isinstance(keys, FragmentKeys):
            found = keys.find(wanted.to_numpy().astype(np.int64, copy=False))
        else:
            found = keys.find(wanted)
        return found.astype(np.uint32)

    def find_by_index(self, base: BaseTable, wanted: pa.Array) -> np.ndarray | None:
        """Find row addresses (uint64) with the table's BTREE index; return None if it can't be used."""
        if not base.key_index or len(wanted) > INDEX_PROBE_KEYS:
            return None
        condition = lance_filter.format_in_list(base.primary_key[0], wanted)
        if condition is None:
            return None
        rows = base.dataset.scanner(columns=[], filter=condition, with_row_address=True).to_table()
        found: np.ndarray = rows.column(0).to_numpy()
        return found

    def _read_fragment_keys(self, base: BaseTable, fragment: StoredFragment) -> FragmentKeys | LayerPlaces:
        if self._has_integer_key(base):
            return compute_fragment_keys(self._cache, self._shared, base, fragment)
        return self._shared.compute(
            self._cache,
            FragmentKeysName(fragment.files, base.key),
            lambda: name_fragment_keys(self._shared, base, fragment),
            LAYER_PLACES,
            lambda: LayerPlaces(read_physical_keys(base, fragment)),
            lambda found: found.nbytes,
        )

    def _has_integer_key(self, base: BaseTable) -> bool:
        if len(base.primary_key) != 1:
            return False
        return bool(pa.types.is_signed_integer(base.schema.field(base.primary_key[0]).type))


def _concatenate(parts: Sequence[np.ndarray], kind: type[np.generic]) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, kind)
