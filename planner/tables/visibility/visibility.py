"""Visibility masks: which row of a key is the newest, decided once per pair of immutable things.

A flushed generation never changes, and neither does the key of a physical row in a fragment of the base
table. So which base rows a generation supersedes is worked out once and kept, by row address; a query only
combines what is kept. Merging a generation or deleting rows leaves all of it valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from execnodes.rows.row_mask import RowMask
from execnodes.storage.data_files import Columns, FragmentFiles, Place, StoredFragment
from planner.tables.sources.base_table import BaseTable, BaseVersion
from planner.tables.sources.byte_cache import ByteCache
from planner.tables.sources.generations import GenerationDataset, LayerKeys
from planner.tables.sources.key_column import physical_keys
from planner.tables.sources.snapshot import TableSnapshot
from planner.tables.visibility.key_probe import KeyProbe
from planner.tables.visibility.layer_places import BasePlaces
from planner.tables.visibility.masks import ENTRY_OVERHEAD, SnapshotMasks, layer_mask
from planner.tables.visibility.tail_masks import TailMasks

Offsets = Mapping[int, np.ndarray]
"""Fragment id -> offsets of rows (uint32)."""


@dataclass(frozen=True, slots=True)
class _SettledMasks:
    """Names masks of a snapshot without unflushed rows.

    Equal for the same base version, under the same generations of each region, where the same columns are the
    key.
    """

    base: BaseVersion
    key: Columns
    regions: tuple[tuple[Place, ...], ...]


@dataclass(frozen=True, slots=True)
class _BaseMask:
    """Names the rows of a base version that generations leave visible.

    Equal for the same version and the same generations, in any order, where the same columns are the key.
    """

    base: BaseVersion
    key: Columns
    generations: frozenset[Place]


@dataclass(frozen=True, slots=True)
class _GenerationKeys:
    """Names the keys of a generation. Equal where the same columns are the key."""

    key: Columns
    generation: Place


@dataclass(frozen=True, slots=True)
class _Layers:
    """Names the rows of a generation that later ones of its region leave visible, as flags.

    Equal for the same generation under the same ones, where the same columns are the key.

    Attributes:
        key: columns.
        generations: the generation, and all later ones, in their order.
    """

    key: Columns
    generations: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class _GenerationMask:
    """Names the same rows as a mask."""

    layers: _Layers


@dataclass(frozen=True, slots=True)
class _Superseded:
    """Names the rows of a fragment whose key a generation has too.

    Equal for the same stored rows and the same generation, where the same columns are the key.
    """

    files: FragmentFiles
    key: Columns
    generation: Place


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
        self._tails = TailMasks(cache, BasePlaces(cache, executor), self.keys)

    def masks(self, snapshot: TableSnapshot) -> SnapshotMasks:
        """Masks of a table with a primary key.

        Raises:
            LanceGatewayError: a source can't be read.
        """
        base = snapshot.base
        regions = tuple(
            _places(region.generations) for region in snapshot.regions.values() if region.generations
        )
        settled = self._cache.compute(
            _SettledMasks(base.version_id, base.key, regions),
            lambda: self._settled(snapshot),
            lambda masks: masks.nbytes,
        )
        return self._tails.masks(snapshot, settled) if snapshot.tails else settled

    def _settled(self, snapshot: TableSnapshot) -> SnapshotMasks:
        """Masks as they would be if nothing were unflushed."""
        base = snapshot.base
        regions = [one.generations for one in snapshot.regions.values() if one.generations]
        generations: dict[str, RowMask] = {}
        for found in self.executor.map(lambda one: self._region_masks(base, one), regions):
            generations.update(found)
        return SnapshotMasks(self._base_mask(base, snapshot.generations), generations, {})

    def _region_masks(
        self, base: BaseTable, generations: tuple[GenerationDataset, ...]
    ) -> Mapping[str, RowMask]:
        """Path -> mask of a region's generations."""
        visible = self._visible_in_region(base, generations)
        masks = {}
        for at, (generation, rows) in enumerate(zip(generations, visible, strict=True)):
            masks[generation.path] = self._cache.compute(
                _GenerationMask(_Layers(base.key, _places(generations[at:]))),
                lambda one=generation, rows=rows: layer_mask(  # type: ignore[misc]
                    self.keys(base, one), rows, one.fragment_rows
                ),
                lambda mask: mask.nbytes + ENTRY_OVERHEAD,
            )
        return masks

    def _base_mask(self, base: BaseTable, generations: Sequence[GenerationDataset]) -> RowMask:
        """Base rows that no flushed generation supersedes."""
        return self._cache.compute(
            _BaseMask(base.version_id, base.key, frozenset(_places(generations))),
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
        return self._cache.compute(
            _GenerationKeys(base.key, generation.place),
            lambda: generation.read_keys(base),
            lambda keys: keys.nbytes + ENTRY_OVERHEAD,
        )

    def _visible_in_region(
        self, base: BaseTable, generations: tuple[GenerationDataset, ...]
    ) -> tuple[np.ndarray, ...]:
        """For each generation of a region, which of its rows no later generation supersedes.

        It depends on the later ones only: a merge, which removes the oldest, leaves it as it is.
        """

        def name(layers: Sequence[GenerationDataset]) -> _Layers:
            return _Layers(base.key, _places(layers))

        known = [self._cache.get(name(generations[at:])) for at in range(len(generations))]
        if any(one is None for one in known):
            known = list(self._newly_visible(base, generations, name))
            for at, rows in enumerate(known):
                self._cache.put(name(generations[at:]), rows, rows.nbytes + ENTRY_OVERHEAD)
        return tuple(known)

    def _newly_visible(
        self,
        base: BaseTable,
        generations: tuple[GenerationDataset, ...],
        name: Callable[[Sequence[GenerationDataset]], _Layers],
    ) -> tuple[np.ndarray, ...]:
        *earlier, last = generations
        before = [self._cache.get(name(earlier[at:])) for at in range(len(earlier))]
        hidden = None
        if all(one is not None for one in before):
            hidden = self._tails.of_flushed(base, last, earlier)
        if hidden is None:
            return newest_of_layers([self.keys(base, one) for one in generations])
        left = []
        for rows, numbers in zip(before, hidden, strict=True):
            shown = rows.copy()
            shown[numbers] = False
            left.append(shown)
        return (*left, newest(self.keys(base, last)))

    def _superseded_by_generations(
        self, base: BaseTable, generations: Sequence[GenerationDataset]
    ) -> Offsets:
        """Base rows whose key any of the generations has."""

        def key(fragment: StoredFragment, generation: GenerationDataset) -> _Superseded:
            return _Superseded(fragment.files, base.key, generation.place)

        for generation in generations:
            unknown = [one for one in base.fragments if self._cache.get(key(one, generation)) is None]
            find = self._tails.flushed_in_base(base, generation) if unknown else None
            if find is not None:
                for fragment in unknown:
                    offsets = find(fragment)
                    self._cache.put(key(fragment, generation), offsets, offsets.nbytes + ENTRY_OVERHEAD)
        found: dict[int, list[np.ndarray]] = {}
        missing: dict[tuple[GenerationDataset, ...], list[StoredFragment]] = {}
        for fragment in base.fragments:
            unresolved = []
            for generation in generations:
                offsets = self._cache.get(key(fragment, generation))
                if offsets is None:
                    unresolved.append(generation)
                else:
                    found.setdefault(fragment.fragment_id, []).append(offsets)
            if unresolved:
                missing.setdefault(tuple(unresolved), []).append(fragment)
        for unknown_generations, fragments in missing.items():
            probe = KeyProbe([self.keys(base, one).keys for one in unknown_generations])
            for fragment, per_layer in self._probe_fragments(base, fragments, probe):
                for generation, offsets in zip(unknown_generations, per_layer, strict=True):
                    self._cache.put(key(fragment, generation), offsets, offsets.nbytes + ENTRY_OVERHEAD)
                    found.setdefault(fragment.fragment_id, []).append(offsets)
        return {fragment_id: np.concatenate(parts) for fragment_id, parts in found.items()}

    def _probe_fragments(
        self, base: BaseTable, fragments: Iterable[StoredFragment], probe: KeyProbe
    ) -> Iterable[tuple[StoredFragment, list[np.ndarray]]]:
        def search(fragment: StoredFragment) -> tuple[StoredFragment, list[np.ndarray]]:
            return fragment, probe.search(physical_keys(base, fragment))

        return self.executor.map(search, fragments)


def _places(generations: Iterable[GenerationDataset]) -> tuple[Place, ...]:
    return tuple([one.place for one in generations])


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
