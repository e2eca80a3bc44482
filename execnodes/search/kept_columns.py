"""Narrow columns in memory, from which rows are taken.

To take ten rows costs Lance as much as to take a thousand, and a search takes a few rows from each of many
datasets. So columns are kept in pieces of 65,536 rows: those of small fragments of generations from the first
row on, those of other fragments once rows of a piece were taken several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.rows.row_mask import OFFSET_BITS
from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.execnodes.search.vector_blocks import VectorCache
from lance_gateway.execnodes.storage.data_files import StoredFragment, StoredValues
from lance_gateway.execnodes.storage.source import LanceSource, combine_chunks, convert_columns
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE
from lance_gateway.memwal.errors import CorruptDataError

PIECE_BITS = 16
PIECE_ROWS = 1 << PIECE_BITS
MAX_BYTES = 1 << 20
"""Of a piece of texts. What turns out to be larger is not read for its own sake again."""
READ_AFTER = 8
"""So often rows are taken from a piece of a large fragment before it is read, which takes about as long."""
_ENTRY_BYTES = 256
_WORDS = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
"""Numbers of so many bytes, as which values are moved."""


@dataclass(frozen=True, slots=True)
class _ColumnName:
    """The cache key of a piece of a column; equal for the same stored rows, read as the same type.

    Attributes:
        column: whose values they are.
        type: of the table's column.
        number: of the piece in its fragment.
    """

    column: StoredValues
    type: pa.DataType
    number: int


@dataclass(frozen=True, slots=True)
class _TakenName:
    """The cache key of how often rows were taken from a piece of a column that was not kept."""

    column: _ColumnName


@dataclass(frozen=True, eq=False, slots=True)
class _KeptColumn:
    """A piece of a column.

    Attributes:
        values: of all physical rows, in the table's type; None where they are too large to keep.
        plain: the same as numbers of their width, which are taken quicker; None if some are NULL.
    """

    values: pa.Array | None
    plain: np.ndarray | None

    @staticmethod
    def of(values: pa.Array) -> _KeptColumn:
        """Return values that are kept."""
        return _KeptColumn(values, _view_plain(values))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return _ENTRY_BYTES + (0 if self.values is None else int(self.values.nbytes))


def _view_plain(values: pa.Array) -> np.ndarray | None:
    """Return values of whole bytes as such; None if they have another layout, or NULLs."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind) or values.null_count:
        return None
    width = kind.bit_width // 8
    dtype = _WORDS.get(width, f"V{width}")
    return np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * width)


def take_kept_columns(
    source: SearchSource,
    addresses: np.ndarray,
    fields: Sequence[pa.Field],
    keep: VectorCache,
    *,
    reads: bool = True,
) -> list[pa.Array] | None:
    """Return columns of rows of a dataset, in the order of the addresses.

    Args:
        source: where the rows lie.
        addresses: uint64; repeats allowed.
        fields: columns of the table, or `_tombstone`.
        keep: holds columns.
        reads: whether columns may be read that are not kept yet.

    Returns:
        None where they are not kept.
    """
    rows = source.rows
    if not isinstance(rows, LanceSource) or not all(_is_narrow(field.type) for field in fields):
        return None
    names = {**rows.stored_names, TOMBSTONE: TOMBSTONE}
    stored = [(names[one.name], one) for one in fields if one.name in names]
    numbers, owners = _divide(addresses >> PIECE_BITS)
    pieces = [_Piece.of(source, rows, number, stored) for number in numbers]
    kept = [piece.find(keep) for piece in pieces]
    missing = [at for at, found in enumerate(kept) if None in found]
    if missing and reads:
        for at in _choose_pieces(missing, pieces, keep):
            kept[at] = pieces[at].read(keep)
    if any(one is None or one.values is None for found in kept for one in found):
        return None
    offsets = (addresses & (PIECE_ROWS - 1)).astype(np.int64)
    columns = zip(*kept, strict=True)
    taken = {
        field.name: _take(field.type, column, owners, offsets)
        for (_, field), column in zip(stored, columns, strict=True)
    }
    return [
        taken[one.name] if one.name in taken else rows.stored.build_absent(one, len(addresses))
        for one in fields
    ]


def _divide(pieces: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Return the distinct numbers of pieces, ascending, and for each row the index of its own."""
    first = pieces[0]
    if (pieces == first).all():
        return [int(first)], np.zeros(len(pieces), dtype=np.int64)
    numbers, owners = np.unique(pieces, return_inverse=True)
    return numbers.tolist(), owners


def _take(
    kind: pa.DataType, pieces: Sequence[_KeptColumn], owners: np.ndarray, offsets: np.ndarray
) -> pa.Array:
    """Return a column's values at offsets, each within the piece that owns the row."""
    plain = [one.plain for one in pieces if one.plain is not None]
    if len(plain) < len(pieces):
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(1, len(pieces)))
        parts = [
            one.values.take(pa.array(part))
            for one, part in zip(pieces, np.split(offsets[order], bounds), strict=True)
            if one.values is not None
        ]
        return pa.concat_arrays(parts).take(pa.array(np.argsort(order)))
    if len(plain) == 1:
        found = plain[0][offsets]
    else:
        found = np.empty(len(offsets), dtype=plain[0].dtype)
        for number, values in enumerate(plain):
            here = owners == number
            found[here] = values[offsets[here]]
    return pa.Array.from_buffers(kind, len(found), [None, pa.py_buffer(found)])


@dataclass(frozen=True, slots=True)
class _Piece:
    """Columns of 65,536 rows of a fragment, or of its last rows.

    Attributes:
        rows: the dataset.
        fragment: of it.
        number: of the piece.
        columns: of the table, each with its stored name.
        names: of the columns of this piece.
        is_small: whether it is all of a small fragment of a generation.
    """

    rows: LanceSource
    fragment: StoredFragment
    number: int
    columns: Sequence[tuple[str, pa.Field]]
    names: Sequence[_ColumnName]
    is_small: bool

    @staticmethod
    def of(
        source: SearchSource, rows: LanceSource, number: int, columns: Sequence[tuple[str, pa.Field]]
    ) -> _Piece:
        """Return a piece of a source, by the upper bits of its rows' addresses."""
        fragment = rows.fragments.get(number >> (OFFSET_BITS - PIECE_BITS))
        place = number & ((1 << (OFFSET_BITS - PIECE_BITS)) - 1)
        values = fragment.columns([name for name, _ in columns], rows.stored_types)
        names = [_ColumnName(one, field.type, place) for one, (_, field) in zip(values, columns, strict=True)]
        is_small = source.region_id is not None and fragment.physical_rows <= PIECE_ROWS
        return _Piece(rows, fragment, place, columns, names, is_small)

    def find(self, keep: VectorCache) -> list[_KeptColumn | None]:
        """Return its columns; None for those that are not kept."""
        return [keep.get(name) for name in self.names]

    def read(self, keep: VectorCache) -> list[_KeptColumn | None]:
        """Return its columns, and keep them."""
        if not self.is_small:
            keep.put(_TakenName(self.names[0]), 0, _ENTRY_BYTES)
        return [
            keep.compute(name, partial(self._read_column, stored, field))
            for name, (stored, field) in zip(self.names, self.columns, strict=True)
        ]

    def count_taking(self, keep: VectorCache) -> int:
        """Return how often rows were taken from it since it was last read; 0 if it has texts."""
        if any(pa.types.is_string(field.type) for _, field in self.columns):
            return 0
        name = _TakenName(self.names[0])
        count: int = 1 + (keep.get(name) or 0)
        keep.put(name, count, _ENTRY_BYTES)
        return count

    def _read_column(self, stored: str, field: pa.Field) -> _KeptColumn:
        dataset: Any = self.rows.dataset
        has_deletions = self.fragment.deletions is not None
        first = self.number << PIECE_BITS
        read = dataset.scanner(
            columns=[stored],
            fragments=[self.fragment.handle],
            batch_size=PIECE_ROWS,
            offset=first,
            limit=PIECE_ROWS,
            # Offsets are physical only where deleted rows count.
            include_deleted_rows=has_deletions,
            with_row_id=has_deletions,
        ).to_table()
        count = min(self.fragment.physical_rows - first, PIECE_ROWS)
        if read.num_rows != count:
            msg = f"{self.rows.label} has {read.num_rows} of {count} rows of a fragment in column {stored!r}"
            raise CorruptDataError(msg)
        if pa.types.is_string(field.type) and read.column(stored).nbytes > MAX_BYTES + 8 * count:
            return _KeptColumn(None, None)
        parts = [convert_columns(batch, (field,), self.rows.stored)[0] for batch in read.to_batches()]
        return _KeptColumn.of(combine_chunks(pa.chunked_array(parts, field.type)))


def _choose_pieces(missing: Sequence[int], pieces: Sequence[_Piece], keep: VectorCache) -> list[int]:
    """Return which of the missing pieces to read: small ones at once, of others one for each search."""
    chosen = [at for at in missing if pieces[at].is_small]
    counts = {at: pieces[at].count_taking(keep) for at in missing if at not in chosen}
    most = max(counts, key=counts.__getitem__, default=None)
    if most is not None and counts[most] >= READ_AFTER:
        chosen.append(most)
    return chosen


def _is_narrow(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_decimal(kind))
