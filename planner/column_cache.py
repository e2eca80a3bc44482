"""Decoded columns, kept within a byte budget.

Opening a scanner costs more than the few rows of a flushed generation, and decoding a column costs more
than masking it. Data files never change, so a column of a fragment is kept under its files' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.row_mask import OFFSET_BITS
from execnodes.source import LanceSource
from planner.byte_cache import ByteCache

MAX_COLUMN_BYTES = 16 << 20
"""A larger column of one fragment (wide vectors, long texts) is read from Lance every time."""

TEXT_BYTES = 64
"""What a value of variable length is taken for before anything is read."""


class DecodedColumns:
    """A `ColumnCache`.

    Args:
        max_bytes: budget.
    """

    def __init__(self, max_bytes: int) -> None:
        self._cache = ByteCache(max_bytes)
        self._max_scan_bytes = max_bytes // 2

    def fits(self, types: Iterable[pa.DataType], rows: int) -> bool:
        """Whether a scan of so many rows may use the cache: a larger one would only flush it."""
        return sum(_expected_bytes(kind, rows) for kind in types) <= self._max_scan_bytes

    def read(self, source: LanceSource, fragment_id: int, columns: Sequence[str]) -> pa.RecordBatch | None:
        """See `ColumnCache.read`; columns that are not kept yet are read together."""
        dataset: Any = source.dataset
        fragment = dataset.get_fragment(fragment_id)
        metadata = fragment.metadata
        identity = (dataset.uri, *(file.path for file in metadata.files), str(metadata.deletion_file))
        has_addresses = metadata.deletion_file is not None
        names = [*columns, ROW_ADDRESS] if has_addresses else list(columns)
        kept = {name: self._cache.get((*identity, name)) for name in names}
        missing = [name for name, column in kept.items() if column is None]
        if missing:
            stored = [name for name in missing if name != ROW_ADDRESS]
            types = (dataset.schema.field(name).type for name in stored)
            if any(_expected_bytes(kind, metadata.physical_rows) > MAX_COLUMN_BYTES for kind in types):
                return None
            table = dataset.scanner(
                columns=stored, fragments=[fragment], with_row_address=has_addresses or not stored
            ).to_table()
            for name in missing:
                column = _whole(table.column(name))
                self._cache.put((*identity, name), column, int(column.nbytes))
                kept[name] = column
        if not has_addresses:
            first = fragment_id << OFFSET_BITS
            addresses = np.arange(first, first + metadata.physical_rows, dtype=np.uint64)
            kept[ROW_ADDRESS] = pa.array(addresses)
        return pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _expected_bytes(kind: pa.DataType, rows: int) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _expected_bytes(kind.value_type, rows)
    try:
        return rows * max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return rows * TEXT_BYTES
