"""Columns of flushed generations, decoded once: opening a scanner costs more than their few rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.source import LanceSource
from planner.byte_cache import ByteCache

MAX_COLUMN_BYTES = 16 << 20
"""Columns that would be larger (wide vectors, long texts) are read from Lance every time."""


class GenerationColumns:
    """A `ColumnCache` within a byte budget.

    Args:
        cache: keeps the columns.
    """

    def __init__(self, cache: ByteCache) -> None:
        self._cache = cache

    def read(self, source: LanceSource, columns: Sequence[str]) -> pa.RecordBatch | None:
        """See `ColumnCache.read`; columns that are not kept yet are read together."""
        dataset: Any = source.dataset
        names = [*columns, ROW_ADDRESS]
        kept = {name: self._cache.get((dataset.uri, name)) for name in names}
        missing = [name for name, column in kept.items() if column is None]
        if missing:
            stored = [name for name in missing if name != ROW_ADDRESS]
            rows = sum(fragment.physical_rows for fragment in dataset.get_fragments())
            if any(
                _expected_bytes(dataset.schema.field(name).type, rows) > MAX_COLUMN_BYTES for name in stored
            ):
                return None
            table = dataset.scanner(columns=stored, with_row_address=True).to_table()
            for name in missing:
                column = _whole(table.column(name))
                self._cache.put((dataset.uri, name), column, int(column.nbytes))
                kept[name] = column
        return pa.RecordBatch.from_arrays([kept[name] for name in names], names=names)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _expected_bytes(kind: pa.DataType, rows: int) -> int:
    """A guess before anything is read; what turns out larger is simply not kept."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _expected_bytes(kind.value_type, rows)
    try:
        return rows * max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return rows * 64
