"""Read rows that are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from execnodes.node import TaskContext, rows_without_columns
from execnodes.row_filter import RowFilter
from execnodes.row_mask import RowMask, shown
from execnodes.scan import ScanExec
from execnodes.source import MemTableSource
from memwal.stored_fields import TOMBSTONE


@dataclass(frozen=True, eq=False)
class MemTableScanExec(ScanExec):
    """Columns of the unflushed rows of one region that pass a filter; one partition has them all.

    Args:
        source: the rows.
        columns: table columns to produce.
        row_filter: applied exactly.
        with_tombstone: append `_tombstone`.
        by_key: read only the keys that the task context still wants.
        partition: which one has the rows.
    """

    source: MemTableSource
    columns: tuple[str, ...]
    row_filter: RowFilter | None = None
    with_tombstone: bool = False
    by_key: bool = False
    partition: int = 0

    @cached_property
    def schema(self) -> pa.Schema:
        """The projected table columns, then `_tombstone` where asked for."""
        fields = [self.source.rows.schema.field(name) for name in self.columns]
        return pa.schema([*fields, pa.field(TOMBSTONE, pa.bool_())] if self.with_tombstone else fields)

    def describe(self) -> str:
        """Source, projection, filter and size."""
        return self.description(self.source.label, f"rows={self.source.rows.num_rows}")

    def rows(self, mask: RowMask, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Select from memory."""
        if partition != self.partition:
            return
        fragment = mask.fragments.get(0)
        if fragment is None and self.by_key and context.keys is not None and self.source.find is not None:
            found = self.source.find(context.keys)
            if found is not None:
                yield from self._taken(found)
                return
        start = 0
        for chunk in self.source.rows.to_batches():
            rows = chunk
            if fragment is not None:
                rows = shown(rows, fragment.visible.slice(start, chunk.num_rows))
            start += chunk.num_rows
            if self.by_key and context.keys is not None:
                rows = context.keys.select(rows)
            if self.row_filter is not None and rows.num_rows:
                rows = rows.filter(self.row_filter.matches(rows))
            if rows.num_rows:
                yield self._projected(rows)

    def _taken(self, found: np.ndarray) -> Iterator[pa.RecordBatch]:
        if not len(found):
            return
        for rows in self.source.rows.take(pa.array(found)).to_batches():
            matching = rows if self.row_filter is None else rows.filter(self.row_filter.matches(rows))
            if matching.num_rows:
                yield self._projected(matching)

    def _projected(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self.schema.names:
            return rows_without_columns(rows.num_rows)
        arrays = [rows.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
