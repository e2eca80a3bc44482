"""Find rows of a flushed generation that are equal to rows of the base table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes.storage.data_files import StoredFragment
from lance_gateway.execnodes.storage.source import LanceSource, combine_chunks, convert_columns
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.generations import (
    GenerationDataset,
    LayerKeys,
    build_generation_error,
)
from lance_gateway.planner.tables.sources.keys import read_physical_keys
from lance_gateway.planner.tables.visibility.newest import find_newest

_INTEGERS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def compare_values(one: pa.Array, other: pa.Array) -> np.ndarray:
    """Flag the rows in which both arrays have the same value, or both NULL.

    What can't be compared counts as different. Numbers are compared as they are stored: minus zero is not
    zero, and NaN is itself.

    Args:
        one: values.
        other: as many values of the same type.
    """
    if not one.type.equals(other.type) or len(one) != len(other):
        msg = f"values of {one.type} x {len(one)} and {other.type} x {len(other)} can't be compared"
        raise ValueError(msg)
    valid, also_valid = _to_flags(one.is_valid()), _to_flags(other.is_valid())
    both: np.ndarray = valid & also_valid
    same: np.ndarray = valid == also_valid
    if both.any():
        same &= ~both | _compare_valid(one, other, both)
    return same


def _compare_valid(one: pa.Array, other: pa.Array, both: np.ndarray) -> np.ndarray:
    """Flag equal rows; flags of rows that are not valid in `both` have no meaning."""
    kind = one.type
    if isinstance(kind, pa.BaseExtensionType):
        return compare_values(one.storage, other.storage)
    if pa.types.is_dictionary(kind):
        return compare_values(one.dictionary_decode(), other.dictionary_decode())
    if pa.types.is_floating(kind):
        stored = _INTEGERS[kind.bit_width]
        return _to_flags(pc.equal(one.view(stored), other.view(stored)).fill_null(False))  # noqa: FBT003
    if pa.types.is_struct(kind):
        same = np.ones(len(one), dtype=np.bool_)
        for left, right in zip(one.flatten(), other.flatten(), strict=True):
            same &= compare_values(left, right)
        return same
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _compare_lists(one, other, both)
    try:
        return _to_flags(pc.equal(one, other).fill_null(False))  # noqa: FBT003
    except pa.ArrowNotImplementedError:
        return np.zeros(len(one), dtype=np.bool_)


def _compare_lists(one: pa.Array, other: pa.Array, both: np.ndarray) -> np.ndarray:
    lengths = pc.list_value_length(one).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    others = pc.list_value_length(other).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    same: np.ndarray = both & (lengths == others)
    rows = np.flatnonzero(same)
    flags = pa.array(same)
    elements = compare_values(one.filter(flags).flatten(), other.filter(flags).flatten())
    # Adding up differences per row: a list is equal if none of its elements differs.
    owners = np.repeat(rows, lengths[rows])
    same[owners[~elements]] = False
    return same


def _to_flags(values: pa.BooleanArray) -> np.ndarray:
    flags: np.ndarray = values.to_numpy(zero_copy_only=False)
    return flags


MIN_SHARE = 100
"""A fragment is not read where fewer than one in so many of its rows have a key of a generation."""
COMPARED_BYTES = 32 << 20
"""Of a fragment's files, so much is read and compared at a time."""
MAX_COMPARED_ROWS = 1 << 16


@dataclass(frozen=True, eq=False, slots=True)
class SameRows:
    """Pairs of rows that are equal in every column of the table.

    Attributes:
        offsets: of the physical rows of a fragment, uint32, ascending; deleted ones may be among them.
        addresses: of the generation's rows, uint64; each is the newest of its key and no tombstone.
    """

    offsets: np.ndarray
    addresses: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.offsets.nbytes + self.addresses.nbytes)

    def of(self, flags: np.ndarray) -> SameRows:
        """Return the pairs whose row of the fragment is flagged."""
        chosen = flags[self.offsets]
        return SameRows(self.offsets[chosen], self.addresses[chosen])


NO_ROWS = SameRows(np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.uint64))


@dataclass(frozen=True, eq=False, slots=True)
class Layer:
    """Generation with its keys, oldest row first."""

    generation: GenerationDataset
    keys: LayerKeys


def find_same_rows(base: BaseTable, fragment: StoredFragment, layers: Sequence[Layer]) -> list[SameRows]:
    """Find, for each generation, its rows that a fragment has with the same key and values.

    Args:
        base: table.
        fragment: of the base table.
        layers: generations of the table; the more at a time, the less often the fragment is read.

    Raises:
        GenerationVanishedError: files of a generation are gone.
    """
    if base.source.blobs:
        return [NO_ROWS for _ in layers]  # To compare blobs would read all of them.
    keys = read_physical_keys(base, fragment)
    pairs = [_Pairs.of(layer, keys) for layer in layers]
    if sum(len(pair.offsets) for pair in pairs) * MIN_SHARE < fragment.physical_rows:
        return [NO_ROWS for _ in layers]
    if not _list_compared_columns(base):
        return [pair.to_same_rows([pair]) for pair in pairs]
    parts: list[list[_Pairs]] = [[] for _ in layers]
    count = _choose_batch_rows(base, fragment)
    for first in range(0, fragment.physical_rows, count):
        within = [pair.select_range(first, first + count) for pair in pairs]
        if any(len(one.offsets) for one in within):
            rows = _read_physical_rows(base, fragment, first, count)
            for part, one in zip(parts, within, strict=True):
                part.append(one.select_equal(base, rows.take(pa.array(one.offsets - first))))
    return [one.to_same_rows(part) for one, part in zip(pairs, parts, strict=True)]


@dataclass(frozen=True, eq=False, slots=True)
class _Pairs:
    """Pairs of rows that may be equal.

    Attributes:
        layer: generation.
        offsets: rows of a fragment, ascending.
        rows: their counterparts in the generation, by place among its keys.
    """

    layer: Layer
    offsets: np.ndarray
    rows: np.ndarray

    @staticmethod
    def of(layer: Layer, keys: pa.Array) -> _Pairs:
        """Pair the rows with the same key."""
        shown = find_newest(layer.keys)
        places = pc.index_in(keys, value_set=layer.keys.keys.filter(pa.array(shown)))
        offsets = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        return _Pairs(layer, offsets, np.flatnonzero(shown)[places.drop_null().to_numpy()])

    def select_range(self, first: int, last: int) -> _Pairs:
        """Return the pairs of a range of the fragment."""
        start, stop = np.searchsorted(self.offsets, (first, last))
        return _Pairs(self.layer, self.offsets[start:stop], self.rows[start:stop])

    def select_equal(self, base: BaseTable, of_base: pa.Table) -> _Pairs:
        """Return the pairs with equal values in all columns that are no keys.

        Args:
            base: table.
            of_base: its rows, in the order of the pairs.
        """
        if not len(self.offsets):
            return self
        generation = self.layer.generation
        stored = generation.source(base).stored
        try:
            columns = [stored[name].name for name in of_base.column_names if name in stored]
            found = generation.dataset.take(self.rows, columns=columns) if columns else None
        except (OSError, ValueError) as error:
            raise build_generation_error(base, generation.path, error) from error
        same = np.ones(len(self.offsets), dtype=np.bool_)
        for field, column in zip(of_base.schema, of_base.columns, strict=True):
            same &= compare_values(
                combine_chunks(column), _read_column(found, field, generation.source(base), len(same))
            )
        return _Pairs(self.layer, self.offsets[same], self.rows[same])

    def to_same_rows(self, parts: Sequence[_Pairs]) -> SameRows:
        """Concatenate the pairs of all ranges."""
        if not parts:
            return NO_ROWS
        rows = np.concatenate([part.rows for part in parts])
        offsets = np.concatenate([part.offsets for part in parts])
        return SameRows(offsets.astype(np.uint32), self.layer.keys.addresses[rows])


def _list_compared_columns(base: BaseTable) -> list[str]:
    return [name for name in base.schema.names if name not in base.primary_key]


def _choose_batch_rows(base: BaseTable, fragment: StoredFragment) -> int:
    files = base.dataset.get_fragment(fragment.fragment_id).metadata.files
    size = sum(file.file_size_bytes or 0 for file in files)
    return max(1, min(MAX_COMPARED_ROWS, COMPARED_BYTES * fragment.physical_rows // max(size, 1)))


def _read_physical_rows(base: BaseTable, fragment: StoredFragment, first: int, count: int) -> pa.Table:
    """Read a range of a fragment, deleted rows included, without the key columns."""
    stored = base.dataset.get_fragment(fragment.fragment_id)
    deleted = {"with_row_id": True, "include_deleted_rows": True} if stored.num_deletions else {}
    scope = {"offset": first, "limit": min(count, fragment.physical_rows - first)}
    names = _list_compared_columns(base)
    rows = base.dataset.scanner(columns=names, fragments=[stored], **scope, **deleted).to_table()
    return rows.select(names)


def _read_column(rows: pa.Table | None, field: pa.Field, source: LanceSource, count: int) -> pa.Array:
    stored = source.stored.get(field.name)
    if rows is None or stored is None:
        return source.stored.build_absent(field, count)
    column = pa.RecordBatch.from_arrays([combine_chunks(rows.column(stored.name))], [stored.name])
    (values,) = convert_columns(column, (field,), source.stored)
    return values
