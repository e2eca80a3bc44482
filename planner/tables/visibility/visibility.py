"""Compute which rows of a snapshot are visible: of each key, the newest.

A row is shown if it is not a tombstone and no newer row has its key. Rows are newer

- in a log tail or a generation: than those before them;
- in a log tail: than those of all generations of the region;
- in a generation: than those of generations of the region with lower numbers;
- in any of these: than those of the base table;
- in the base table: than those with lower row addresses.

A mask says for one source, by row address, which of its rows are shown. So `Visibility` has three steps:

1. In a region, each generation without what itself and later generations supersede (`_compute_region_masks`).
2. The base table without what any generation supersedes, and without rows whose key a newer row of it has
   (`_compute_base_mask`).
3. Of each log tail the newest rows, and the other masks without what it supersedes (`_apply_tails`).

Flushed generations and the keys of physical rows never change. So the rows that one source supersedes in
another are computed once and cached, and stay valid when generations are merged or rows deleted. While a tail
grows, only its new rows are applied to the masks of the previous query.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.rows.row_mask import FragmentMask, RowMask, build_mask, group_by_fragment
from lance_gateway.execnodes.storage.data_files import Columns, FragmentFiles, Place, StoredFragment
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.sources.base_table import BaseTable, BaseVersion
from lance_gateway.planner.tables.sources.caches import ENTRY_OVERHEAD, ByteCache
from lance_gateway.planner.tables.sources.generations import GenerationDataset
from lance_gateway.planner.tables.sources.read_together import Fragment
from lance_gateway.planner.tables.sources.snapshot import TableSnapshot
from lance_gateway.planner.tables.visibility.key_join import KeysAhead, find_rows
from lance_gateway.planner.tables.visibility.key_search import KeySearch
from lance_gateway.planner.tables.visibility.newest import find_newest, find_newest_in_layers
from lance_gateway.planner.tables.visibility.repeated_keys import RepeatedKeys
from lance_gateway.planner.tables.visibility.shared_masks import ROW_MASK, LayerRows, SharedMasks

_LOCKS = 32


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
        """Bytes of all masks."""
        parts = (self.base, *self.generations.values(), *self.tails.values())
        return sum(mask.nbytes for mask in parts) + ENTRY_OVERHEAD


@dataclass(frozen=True, slots=True)
class _MasksName:
    """Cache key of the masks of a snapshot, which grow with its tails; the value has the number of rows.

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


@dataclass(frozen=True, eq=False)
class _TailMasks:
    """Masks for a number of rows of each tail, in the order of the snapshot's tails."""

    rows: tuple[int, ...]
    masks: SnapshotMasks


@dataclass(frozen=True, slots=True)
class _LayerName:
    """Cache key of the visible rows of a generation below the later generations of its region.

    Equal for the same generation under the same ones, where the same columns are the key.

    Attributes:
        key: columns.
        generations: digest of the places of the generation, and of all later ones, in their order: to compare
            all names of a region place by place would take the square of their number.
    """

    key: Columns
    generations: bytes


@dataclass(frozen=True, slots=True)
class _BaseMaskName:
    """Cache key of the mask of a base version below generations.

    Equal for the same version and the same generations, in any order, where the same columns are the key.
    """

    base: BaseVersion
    key: Columns
    generations: frozenset[Place]


@dataclass(frozen=True, slots=True)
class _SupersededName:
    """Cache key of the rows of a fragment whose key a generation has as well.

    Equal for the same stored rows and the same generation, where the same columns are the key.
    """

    files: FragmentFiles
    key: Columns
    generation: Place


class Visibility:
    """Compute and cache masks. Thread-safe.

    Attributes:
        executor: reads several sources at a time.
        search: finds rows by key.
        repeated: finds rows of base tables whose key a newer row of them has.

    Args:
        cache: holds everything that is kept, within its budget.
        executor: see there.
        shared: what is kept for other processes as well; None where nothing is shared.
    """

    def __init__(self, cache: ByteCache, executor: Executor, shared: SharedCache | None = None) -> None:
        self.executor = executor
        self.search = KeySearch(cache, executor, shared)
        self._cache = cache
        self._shared = shared or SharedCache()
        self.repeated = RepeatedKeys(cache, self._shared)
        self._files = SharedMasks(self._shared)
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))

    def read_base_ahead(self, snapshot: TableSnapshot) -> KeysAhead | None:
        """Begin to read the keys of the base table if all of them are to be searched; else return None."""
        base, generations = snapshot.base, snapshot.generations
        if not generations or self._is_known(base, generations):
            return None
        return KeysAhead(base, self.executor)

    def _is_known(self, base: BaseTable, generations: Sequence[GenerationDataset]) -> bool:
        """Return whether anything is known of the base rows that generations supersede."""
        names = [name for one in generations for name in _name_superseded(base, one, base.fragments[:1])]
        return (
            _name_base_mask(base, generations) in self._cache
            or any(name in self._cache for name in names)
            or any(self.search.was_tail(base, one) for one in generations)
            or self._files.has_base_mask(base, generations)
        )

    def hides_rows(self, snapshot: TableSnapshot) -> bool:
        """Return whether rows of a snapshot may hide others, so that its masks are needed.

        Raises:
            LanceGatewayError: a key column can't be read.
        """
        base = snapshot.base
        return bool(base.primary_key) and (snapshot.has_fresh_rows or bool(self.repeated.find(base)))

    def compute_masks(self, snapshot: TableSnapshot, ahead: KeysAhead | None = None) -> SnapshotMasks:
        """Compute the masks of a snapshot of a table with a primary key.

        Args:
            snapshot: of the table.
            ahead: see `read_base_ahead`.

        Raises:
            LanceGatewayError: a source can't be read.
        """
        base = snapshot.base
        rows = tuple([tail.rows.num_rows for tail in snapshot.tails])
        regions = [
            (_list_places(region.generations), None if region.tail is None else region.tail.log.number)
            for region in snapshot.regions.values()
            if region.generations or region.tail is not None
        ]
        key = _MasksName(base.version_id, base.key, tuple(regions))
        # One query computes the masks for all that wait.
        with self._locks[hash(key) % len(self._locks)]:
            known: _TailMasks | None = self._cache.get(key)
            if known is not None and known.rows == rows:
                return known.masks
            if known is not None and all(one <= other for one, other in zip(known.rows, rows, strict=True)):
                before = known
            else:
                before = _TailMasks((0,) * len(rows), self._compute_flushed_masks(snapshot, ahead))
            grown = _TailMasks(rows, self._apply_tails(snapshot, before) if rows else before.masks)
            if known is None or before is known:
                self._cache.put(key, grown, grown.masks.nbytes)
            return grown.masks

    def read_along(
        self, snapshot: TableSnapshot, fragments: Iterable[Fragment], columns: Sequence[str]
    ) -> Iterator[tuple[Fragment, Sequence[pa.Array]]]:
        """Read columns of small generations, and in the same scan the keys that masks need."""
        missing = [
            generation
            for region in snapshot.regions.values()
            if not all(name in self._cache for name in _name_layers(snapshot.base, region.generations))
            for generation in region.generations
        ]
        return self.search.read_along(snapshot.base, missing, fragments, columns)

    def _compute_flushed_masks(self, snapshot: TableSnapshot, ahead: KeysAhead | None) -> SnapshotMasks:
        base = snapshot.base
        regions = [region.generations for region in snapshot.regions.values() if region.generations]
        # The regions are computed meanwhile.
        computed = self.executor.map(lambda one: self._compute_region_masks(base, one), regions)
        of_base = self._compute_base_mask(base, snapshot.generations, ahead)
        generations: dict[str, RowMask] = {}
        for found in computed:
            generations.update(found)
        return SnapshotMasks(of_base, generations, {})

    # 1. In a region, each generation without what itself and later generations supersede

    def _compute_region_masks(
        self, base: BaseTable, generations: Sequence[GenerationDataset]
    ) -> Mapping[str, RowMask]:
        """Compute the masks of a region's generations, by path.

        It depends on the later ones only: a merge, which removes the oldest, leaves it as it is.
        """
        names = _name_layers(base, generations)
        layers: list[LayerRows | None] = self._cache.get_many(names)
        found = [one for one in layers if one is not None]
        if len(found) == len(generations):
            return {one.path: layer.mask for one, layer in zip(generations, found, strict=True)}
        file = self._files.name_region(base, generations)
        loaded = self._files.load_region(self._cache, names, file)
        if loaded is None:
            layers_of_rows = self._compute_visible_rows(base, generations)
            keys = self.search.read_keys_of_each(base, generations)
            found = [
                LayerRows(rows, build_mask(layer.addresses[rows], one.fragment_rows))
                for one, layer, rows in zip(generations, keys, layers_of_rows, strict=True)
            ]
            self._cache.put_many(
                [
                    (name, layer, layer.rows.nbytes + layer.mask.nbytes + ENTRY_OVERHEAD)
                    for name, layer in zip(names, found, strict=True)
                ]
            )
            self._files.store_region(file, found)
        else:
            found = loaded
        return {one.path: layer.mask for one, layer in zip(generations, found, strict=True)}

    def _compute_visible_rows(
        self, base: BaseTable, generations: Sequence[GenerationDataset]
    ) -> tuple[np.ndarray, ...]:
        *earlier, last = generations
        before: list[LayerRows | None] = self._cache.get_many(_name_layers(base, earlier))
        hidden = None
        if all(one is not None for one in before):
            hidden = self.search.recall_superseded(base, last, earlier)
        if hidden is None:
            return find_newest_in_layers(self.search.read_keys_of_each(base, generations))
        left = []
        for layer, numbers in zip(before, hidden, strict=True):
            assert layer is not None  # noqa: S101 - that was asked above
            shown = layer.rows.copy()
            shown[numbers] = False
            left.append(shown)
        return (*left, find_newest(self.search.read_keys(base, last)))

    # 2. The base table without what any generation supersedes

    def _compute_base_mask(
        self, base: BaseTable, generations: Sequence[GenerationDataset], ahead: KeysAhead | None
    ) -> RowMask:
        mask = self._shared.compute(
            self._cache,
            _name_base_mask(base, generations),
            lambda: self._files.name_base_mask(base, generations),
            ROW_MASK,
            lambda: RowMask({}).without(self._find_superseded(base, generations, ahead), base.fragment_rows),
            lambda mask: mask.nbytes + ENTRY_OVERHEAD,
        )
        repeated = self.repeated.find(base)
        return mask.without(repeated, base.fragment_rows) if repeated else mask

    def _find_superseded(
        self, base: BaseTable, generations: Sequence[GenerationDataset], ahead: KeysAhead | None
    ) -> Mapping[int, np.ndarray]:
        """Return fragment id -> offsets of base rows whose key any of the generations has."""
        fragments = base.fragments
        found = [self._find_kept_offsets(base, generation) for generation in generations]
        missing: dict[tuple[int, ...], list[int]] = {}
        for at in range(len(fragments)):
            unresolved = tuple([number for number, offsets in enumerate(found) if offsets[at] is None])
            if unresolved:
                missing.setdefault(unresolved, []).append(at)
        for numbers, places in missing.items():
            unresolved_generations = [generations[number] for number in numbers]
            probed = self._load_or_probe(
                base, unresolved_generations, [fragments[at] for at in places], ahead
            )
            for number, of_generation in zip(numbers, probed, strict=True):
                for at, offsets in zip(places, of_generation, strict=True):
                    found[number][at] = offsets
        return {
            fragment.fragment_id: np.concatenate(parts)
            for fragment, *parts in zip(fragments, *found, strict=True)
            if parts
        }

    def _find_kept_offsets(self, base: BaseTable, generation: GenerationDataset) -> list[np.ndarray | None]:
        """Return offsets, by fragment, of rows that a generation supersedes; None if not computed yet."""
        fragments = base.fragments
        found: list[np.ndarray | None] = self._cache.get_many(_name_superseded(base, generation, fragments))
        unknown = [at for at, offsets in enumerate(found) if offsets is None]
        find = self.search.recall_superseded_in_base(base, generation) if unknown else None
        if find is not None:
            offsets_found = [find(fragments[at]) for at in unknown]
            self._keep(base, generation, [fragments[at] for at in unknown], offsets_found)
            for at, offsets in zip(unknown, offsets_found, strict=True):
                found[at] = offsets
        return found

    def _load_or_probe(
        self,
        base: BaseTable,
        generations: Sequence[GenerationDataset],
        fragments: Sequence[StoredFragment],
        ahead: KeysAhead | None,
    ) -> list[Sequence[np.ndarray]]:
        """Find, for each generation and fragment, the rows whose key the generation has."""
        names = [self._files.name_superseded(base, one, fragments) for one in generations]
        found: list[Sequence[np.ndarray] | None] = [
            self._files.load_superseded(self._cache, _name_superseded(base, generation, fragments), name)
            for generation, name in zip(generations, names, strict=True)
        ]
        missing = [number for number, offsets in enumerate(found) if offsets is None]
        if missing:
            unknown = [generations[number] for number in missing]
            probed = self._probe_fragments(base, unknown, fragments, ahead)
            for number, offsets in zip(missing, probed, strict=True):
                found[number] = offsets
                self._keep(base, generations[number], fragments, offsets)
            self._files.store_superseded([(names[number], found[number]) for number in missing])
        return [offsets for offsets in found if offsets is not None]

    def _probe_fragments(
        self,
        base: BaseTable,
        generations: Sequence[GenerationDataset],
        fragments: Sequence[StoredFragment],
        ahead: KeysAhead | None,
    ) -> list[tuple[np.ndarray, ...]]:
        """Search, for each generation, the rows of each fragment whose key it has."""
        layers = [keys.columns for keys in self.search.read_keys_of_each(base, generations)]
        return find_rows(base, fragments, layers, self.executor, ahead)

    def _keep(
        self,
        base: BaseTable,
        generation: GenerationDataset,
        fragments: Sequence[StoredFragment],
        found: Sequence[np.ndarray],
    ) -> None:
        names = _name_superseded(base, generation, fragments)
        self._cache.put_many(
            [
                (name, offsets, offsets.nbytes + ENTRY_OVERHEAD)
                for name, offsets in zip(names, found, strict=True)
            ]
        )

    # 3. Of each log tail the newest rows, and the other masks without what it supersedes

    def _apply_tails(self, snapshot: TableSnapshot, before: _TailMasks) -> SnapshotMasks:
        base = snapshot.base
        new = [
            (tail, start, tail.rows.num_rows)
            for tail, start in zip(snapshot.tails, before.rows, strict=True)
            if start < tail.rows.num_rows or not start
        ]
        hidden = self.search.find_in_base(base, [(tail.log, start, stop) for tail, start, stop in new])
        generations, tails = dict(before.masks.generations), dict(before.masks.tails)
        for tail, start, stop in new:
            for generation in snapshot.regions[tail.region_id].generations:
                numbers = self.search.find_in_generation(base, generation, tail.log, start, stop)
                if len(numbers):
                    addresses = self.search.read_keys(base, generation).addresses[numbers]
                    mask = generations[generation.path]
                    generations[generation.path] = mask.without(
                        group_by_fragment(addresses), generation.fragment_rows
                    )
            tails[tail.region_id] = RowMask({0: FragmentMask(pa.array(tail.find_newest()))})
        return SnapshotMasks(before.masks.base.without(hidden, base.fragment_rows), generations, tails)


def _list_places(generations: Iterable[GenerationDataset]) -> tuple[Place, ...]:
    return tuple([generation.place for generation in generations])


def _name_base_mask(base: BaseTable, generations: Iterable[GenerationDataset]) -> _BaseMaskName:
    return _BaseMaskName(base.version_id, base.key, frozenset(_list_places(generations)))


def _name_layers(base: BaseTable, generations: Sequence[GenerationDataset]) -> list[_LayerName]:
    names: list[_LayerName] = []
    later = b""
    for place in reversed(_list_places(generations)):
        later = hashlib.blake2b(
            b"%b%d %b" % (later, place.number, place.uri.encode(errors="surrogatepass")), digest_size=16
        ).digest()
        names.append(_LayerName(base.key, later))
    return names[::-1]


def _name_superseded(
    base: BaseTable, generation: GenerationDataset, fragments: Iterable[StoredFragment]
) -> list[_SupersededName]:
    return [_SupersededName(fragment.files, base.key, generation.place) for fragment in fragments]
