"""Chunks of decoded columns: their names in caches and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_gateway.execnodes.rows.row_mask import CHUNK_ROWS
from lance_gateway.execnodes.storage.data_files import StoredFragment, StoredValues
from lance_gateway.execnodes.storage.source import LanceSource
from lance_gateway.planner.tables.shared.cache import SHARED_BYTES, FileName, SharedCache
from lance_gateway.planner.tables.shared.names import digest
from lance_gateway.planner.tables.sources.caches import ByteCache

TEXT_BYTES = 64
"""Estimated bytes of a value of variable length."""

_SHARED_FROM = 2
"""Masked rows that were requested so often before, and have left the cache, are written to a file."""
EVERY_ROW = b""
"""In place of the digest of the visible rows of a chunk, where all rows are meant."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Cache key of the visible rows of a chunk of a column.

    Attributes:
        column: whose values they are.
        number: of the chunk in the fragment.
        visible: digest of the rows that are shown of it.
    """

    column: StoredValues
    number: int
    visible: bytes


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """Name of a column of a fragment, for files.

    Attributes:
        rows: name of the stored rows.
        field_id: of the column.
        nested_ids: of the fields in the column; () where there are none.
        type: as which it is read.
    """

    rows: bytes
    field_id: int
    nested_ids: tuple[int, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class _ChunkFile:
    """Name of the file of the visible rows of a chunk of a column.

    Attributes:
        column: digest of the `ColumnFile`.
        number: of the chunk in the fragment.
        visible: digest of the rows that are shown of it.
    """

    column: bytes
    number: int
    visible: bytes


def name_column(
    shared: SharedCache, source: LanceSource, fragment: StoredFragment, name: StoredValues
) -> ColumnFile | None:
    """Return the name of a column of a fragment; None if it is not shared."""
    rows = shared.name_rows(source, fragment)
    if rows is None:
        return None
    nested = source.stored_schema.nested_ids.get(name.field_id, ()) if pa.types.is_nested(name.type) else ()
    return ColumnFile(rows, name.field_id, nested, name.type)


class FragmentChunks:
    """Chunks of columns of a fragment, in the cache of this process or in files.

    Args:
        kept: the cache.
        shared: the files.
        source: the dataset.
        fragment: of it.
    """

    def __init__(
        self, kept: ByteCache, shared: SharedCache, source: LanceSource, fragment: StoredFragment
    ) -> None:
        self._kept = kept
        self._shared = shared
        self._source = source
        self._fragment = fragment
        self._columns: dict[StoredValues, bytes] = {}

    def get_many(self, keys: Sequence[Chunk]) -> list[pa.Array | None]:
        """Return the rows of each chunk, or None."""
        found = self._kept.get_many(keys)
        for at, value in enumerate(found):
            if value is None and (name := self._name(keys[at])) is not None:
                read = partial(read_column, keys[at].column.type)
                found[at] = self._shared.load(self._kept, keys[at], name, read)
        return found

    def put_many(self, columns: Iterable[tuple[Chunk, pa.Array]]) -> None:
        """Keep the rows of chunks in the cache, and in files if they are large."""
        sized = [(key, column, int(column.nbytes)) for key, column in columns]
        self._kept.put_many(sized)
        for key, column, nbytes in sized:
            name = self._name(key) if nbytes >= SHARED_BYTES else None
            if name is not None:
                batch = pa.RecordBatch.from_arrays([column], names=[""])
                self._shared.store_later(self._kept, key, name, batch, partial(read_column, key.column.type))

    def put_masked(self, key: Chunk, column: pa.Array, requests: int) -> None:
        """Keep the rows of a chunk that a mask shows, if they are requested again.

        The next write may change the mask, so they are not in a file at first.

        Args:
            key: of the chunk.
            column: its rows.
            requests: how often they were requested before.
        """
        if requests >= _SHARED_FROM:
            self.put_many([(key, column)])
        elif requests:
            self._kept.put(key, column, int(column.nbytes))

    def _name(self, key: Chunk) -> FileName | None:
        rows = min(CHUNK_ROWS, self._fragment.physical_rows - key.number * CHUNK_ROWS)
        if self._shared.files is None or estimate_bytes(key.column.type, rows) < SHARED_BYTES:
            return None
        column = self._columns.get(key.column)
        if column is None:
            named = name_column(self._shared, self._source, self._fragment, key.column)
            if named is None:
                return None
            column = self._columns[key.column] = digest(named)
        return self._shared.build_name(
            _ChunkFile(column, key.number, key.visible), [(self._source, (self._fragment,))]
        )


def read_column(kind: pa.DataType, batch: pa.RecordBatch) -> pa.Array | None:
    """Return the only column of a batch; None if it lost its type in the file."""
    column = batch.column(0)
    return column if column.type == kind else None


def is_variable(kind: pa.DataType) -> bool:
    """Return whether values of a type have different numbers of bytes."""
    try:
        return int(kind.bit_width) < 0
    except ValueError:
        return not (pa.types.is_fixed_size_list(kind) and not is_variable(kind.value_type))


def estimate_bytes(kind: pa.DataType, rows: int) -> int:
    """Return about how many bytes so many values take."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * estimate_bytes(kind.value_type, rows)
    try:
        return rows * max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return rows * TEXT_BYTES
