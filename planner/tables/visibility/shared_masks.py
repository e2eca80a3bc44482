"""Files of masks and keys: their names, and how the values lie in them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.rows.row_mask import FragmentMask, RowMask
from lance_gateway.execnodes.storage.data_files import Columns, StoredFragment
from lance_gateway.execnodes.storage.source import LanceSource
from lance_gateway.planner.tables.shared.cache import SHARED_BYTES, Encoding, FileName, Holder, SharedCache
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.generations import GenerationDataset, LayerKeys


@dataclass(frozen=True, slots=True)
class _GenerationKeysFile:
    """Name of the file of the keys of a generation."""

    key: Columns
    generation: bytes


@dataclass(frozen=True, slots=True)
class _BaseMaskFile:
    """Name of the file of the mask of base fragments below generations.

    Deleted rows do not matter: the mask tells only which rows generations supersede.

    Attributes:
        key: columns.
        fragments: id, name of the stored rows and number of physical rows of each.
        generations: names of all their rows, sorted.
    """

    key: Columns
    fragments: tuple[tuple[int, bytes, int], ...]
    generations: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class _RegionFile:
    """Name of the file of the visible rows of the generations of a region, oldest first."""

    key: Columns
    generations: tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class LayerRows:
    """Visible rows of a generation: one flag per live row, in the order of its keys, and the mask."""

    rows: np.ndarray
    mask: RowMask


@dataclass(frozen=True, slots=True)
class _SupersededFile:
    """Name of the file of the rows of some fragments whose key a generation has as well."""

    key: Columns
    fragments: tuple[bytes, ...]
    generation: bytes


def name_generation_keys(
    shared: SharedCache, base: BaseTable, generation: GenerationDataset
) -> FileName | None:
    """Return the name of the file of the keys of a generation; None if they are not shared."""
    source = generation.source(base)
    rows = shared.name_dataset(source)
    if rows is None:
        return None
    return shared.build_name(_GenerationKeysFile(base.key, rows), [(source, source.fragments.all)])


class SharedMasks:
    """Files of what generations supersede in a base table.

    Args:
        shared: the files.
    """

    def __init__(self, shared: SharedCache) -> None:
        self._shared = shared

    def name_base_mask(self, base: BaseTable, generations: Sequence[GenerationDataset]) -> FileName | None:
        """Return the name of the file of a base mask; None if it is not shared."""
        if not self._pays(base):
            return None
        rows = self._name_rows(base, base.fragments)
        layers = [self._shared.name_dataset(one.source(base)) for one in generations]
        known = [name for name in layers if name is not None]
        if rows is None or len(known) < len(layers):
            return None
        fragments = tuple(
            (one.fragment_id, name, one.physical_rows) for one, name in zip(base.fragments, rows, strict=True)
        )
        key = _BaseMaskFile(base.key, fragments, tuple(sorted(known)))
        return self._shared.build_name(key, _list_sources(base, base.fragments, generations))

    def has_base_mask(self, base: BaseTable, generations: Sequence[GenerationDataset]) -> bool:
        """Return whether there is a file of a base mask."""
        name = self.name_base_mask(base, generations)
        return name is not None and self._shared.files is not None and name.name in self._shared.files

    def name_superseded(
        self, base: BaseTable, generation: GenerationDataset, fragments: Sequence[StoredFragment]
    ) -> FileName | None:
        """Return the name of the file of the rows of fragments that a generation supersedes, or None."""
        if not self._pays(base):
            return None
        rows = self._name_rows(base, fragments)
        layer = self._shared.name_dataset(generation.source(base))
        if rows is None or layer is None:
            return None
        key = _SupersededFile(base.key, rows, layer)
        return self._shared.build_name(key, _list_sources(base, fragments, (generation,)))

    def load_superseded(
        self, holder: Holder, keys: Sequence[Hashable], name: FileName | None
    ) -> tuple[np.ndarray, ...] | None:
        """Return the offsets of each fragment (uint32), and keep them in a cache; None without a file."""
        if name is None or self._shared.files is None:
            return None
        batch = self._shared.files.get(name.name)
        if batch is None or batch.num_rows != len(keys):
            return None
        offsets = tuple([np.frombuffer(value.as_buffer(), np.uint32) for value in batch.column(0)])
        for key, found in zip(keys, offsets, strict=True):
            self._shared.hold(holder, key, name, found)
        return offsets

    def store_superseded(self, found: Iterable[tuple[FileName | None, Sequence[np.ndarray] | None]]) -> None:
        """Write the offsets of each fragment to a file for each generation."""
        for name, offsets in found:
            if name is not None and offsets is not None and self._shared.files and name.is_certain():
                values = [np.ascontiguousarray(one, np.uint32).tobytes() for one in offsets]
                self._shared.files.put(name.name, pa.record_batch({"": pa.array(values, pa.large_binary())}))

    def name_region(self, base: BaseTable, generations: Sequence[GenerationDataset]) -> FileName | None:
        """Return the name of the file of the visible rows of a region; None if they are not shared."""
        if self._shared.files is None or sum(one.rows for one in generations) < SHARED_BYTES:
            return None
        sources = [one.source(base) for one in generations]
        names = tuple([name for one in sources if (name := self._shared.name_dataset(one)) is not None])
        if len(names) < len(sources):
            return None
        return self._shared.build_name(
            _RegionFile(base.key, names), [(one, one.fragments.all) for one in sources]
        )

    def load_region(
        self, holder: Holder, keys: Sequence[Hashable], name: FileName | None
    ) -> list[LayerRows] | None:
        """Return the visible rows of each generation, and keep them in a cache; None without a file."""
        if name is None or self._shared.files is None:
            return None
        batch = self._shared.files.get(name.name)
        if batch is None or batch.num_rows != len(keys):
            return None
        layers = _decode_region(batch)
        for key, layer in zip(keys, layers, strict=True):
            self._shared.hold(holder, key, name, layer)
        return layers

    def store_region(self, name: FileName | None, layers: Sequence[LayerRows]) -> None:
        """Write the visible rows of each generation to a file."""
        if name is not None and self._shared.files is not None and name.is_certain():
            self._shared.files.put(name.name, _encode_region(layers))

    def _pays(self, base: BaseTable) -> bool:
        """Return whether a mask of the table is worth a file."""
        return self._shared.files is not None and base.physical_rows >= SHARED_BYTES * 8

    def _name_rows(self, base: BaseTable, fragments: Iterable[StoredFragment]) -> tuple[bytes, ...] | None:
        names = [self._shared.name_rows(base.source, fragment) for fragment in fragments]
        known = tuple([name for name in names if name is not None])
        return known if len(known) == len(names) else None


def _list_sources(
    base: BaseTable, fragments: Sequence[StoredFragment], generations: Iterable[GenerationDataset]
) -> list[tuple[LanceSource, Sequence[StoredFragment]]]:
    layers = [generation.source(base) for generation in generations]
    return [(base.source, fragments), *((one, one.fragments.all) for one in layers)]


def _encode_layer_keys(layer: LayerKeys) -> pa.RecordBatch:
    # Bits would have to be unpacked by each reader.
    dead = pa.array(np.ascontiguousarray(layer.dead, np.bool_).view(np.uint8))
    columns = {f"key{at}": column for at, column in enumerate(layer.columns)}
    return pa.record_batch({"addresses": pa.array(layer.addresses), "dead": dead, **columns})


def _decode_layer_keys(batch: pa.RecordBatch) -> LayerKeys:
    addresses, dead, *columns = batch.columns
    return LayerKeys(tuple(columns), addresses.to_numpy(), dead.to_numpy().view(np.bool_))


def _encode_row_mask(mask: RowMask) -> pa.RecordBatch:
    bits = [
        one.visible.buffers()[1][: (len(one.visible) + 7) // 8].to_pybytes()
        for one in mask.fragments.values()
    ]
    return pa.record_batch(
        {
            "fragment": pa.array(list(mask.fragments), pa.int64()),
            "rows": pa.array([len(one.visible) for one in mask.fragments.values()], pa.int64()),
            "hides_deleted": pa.array([one.hides_deleted for one in mask.fragments.values()], pa.bool_()),
            "bits": pa.array(bits, pa.large_binary()),
        }
    )


def _decode_row_mask(batch: pa.RecordBatch) -> RowMask:
    numbers, rows, hides, bits = batch.columns
    fragments = {}
    for number, count, hides_deleted, value in zip(
        numbers.to_pylist(), rows.to_pylist(), hides.to_pylist(), bits, strict=True
    ):
        visible = pa.Array.from_buffers(pa.bool_(), count, [None, value.as_buffer()])
        fragments[number] = FragmentMask(visible, hides_deleted)
    return RowMask(fragments)


def _encode_region(layers: Sequence[LayerRows]) -> pa.RecordBatch:
    shown = [np.ascontiguousarray(one.rows, np.bool_).tobytes() for one in layers]
    masks = [_encode_row_mask(one.mask).to_struct_array() for one in layers]
    lengths = np.cumsum([0, *map(len, masks)])
    lists = pa.LargeListArray.from_arrays(pa.array(lengths, pa.int64()), pa.concat_arrays(masks))
    return pa.record_batch({"shown": pa.array(shown, pa.large_binary()), "mask": lists})


def _decode_region(batch: pa.RecordBatch) -> list[LayerRows]:
    shown, masks = batch.columns
    return [
        LayerRows(
            np.frombuffer(rows.as_buffer(), np.bool_),
            _decode_row_mask(pa.RecordBatch.from_struct_array(mask.values)),
        )
        for rows, mask in zip(shown, masks, strict=True)
    ]


LAYER_KEYS = Encoding(_encode_layer_keys, _decode_layer_keys)
ROW_MASK = Encoding(_encode_row_mask, _decode_row_mask)
