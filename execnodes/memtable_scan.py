"""Read rows that are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, TOMBSTONE, ExecNode, TaskContext, rows_without_columns
from execnodes.row_filter import RowFilter
from execnodes.source import MemTableSource


@dataclass(frozen=True, eq=False)
class MemTableScanExec(ExecNode):
    """Columns of the unflushed rows of one region that pass a filter; partition 0 has them all.

    Args:
        source: the rows.
        columns: table columns to produce.
        row_filter: applied exactly.
        with_row_address: append `_rowaddr`, the row's position.
        with_tombstone: append `_tombstone`.
        by_key: read only the keys that the task context still wants.
    """

    source: MemTableSource
    columns: tuple[str, ...]
    row_filter: RowFilter | None = None
    with_row_address: bool = False
    with_tombstone: bool = False
    by_key: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """The projected table columns, then the internal columns asked for."""
        fields = [self.source.rows.schema.field(name) for name in self.columns]
        if self.with_tombstone:
            fields.append(pa.field(TOMBSTONE, pa.bool_()))
        if self.with_row_address:
            fields.append(pa.field(ROW_ADDRESS, pa.uint64()))
        return pa.schema(fields)

    def children(self) -> tuple[ExecNode, ...]:
        """None: a leaf."""
        return ()

    def describe(self) -> str:
        """Source, projection, filter and size."""
        parts = [self.source.label, f"columns=[{', '.join(self.columns)}]"]
        if self.row_filter is not None:
            parts.append(f"filter={self.row_filter}")
        if self.by_key:
            parts.append("by key")
        parts.append(f"rows={self.source.rows.num_rows}")
        return f"MemTableScanExec: {', '.join(parts)}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Select from memory."""
        if partition != 0:
            return
        start = 0
        for chunk in self.source.rows.to_batches():
            rows = chunk.append_column(
                pa.field(ROW_ADDRESS, pa.uint64()),
                pa.array(np.arange(start, start + chunk.num_rows, dtype=np.uint64)),
            )
            start += chunk.num_rows
            if self.by_key and context.keys is not None:
                rows = context.keys.select(rows)
            if self.row_filter is not None and rows.num_rows:
                rows = rows.filter(self.row_filter.matches(rows))
            if rows.num_rows:
                yield self._projected(rows)

    def _projected(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self.schema.names:
            return rows_without_columns(rows.num_rows)
        arrays = [rows.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
