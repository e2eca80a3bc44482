"""The columns of rows that were found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, ExecNode, TaskContext, UnaryExec, rows_without_columns
from execnodes.rows.lance_filter import RowFilter
from execnodes.search.candidates import helpers_for, side_by_side
from execnodes.search.source import SOURCE, SearchSource
from execnodes.search.taken_rows import taken_rows
from execnodes.search.vector_blocks import Keep
from execnodes.storage.source import LanceSource

TAKEN_ROWS = 16_384
"""Rows that are taken together."""


@dataclass(frozen=True, eq=False)
class TakeRowsExec(UnaryExec):
    """The candidates' rows, in the order of the candidates: nobody else's columns are ever read.

    Args:
        input: candidates.
        sources: where they were found, by their numbers.
        output: columns to produce: the table's, and those of the candidates.
        row_filter: which of them are kept.
        keep: holds row ids.
    """

    input: ExecNode
    sources: tuple[SearchSource, ...]
    output: pa.Schema
    row_filter: RowFilter | None
    keep: Keep

    def __post_init__(self) -> None:
        numbers = [source.number for source in self.sources]
        if numbers != list(range(len(numbers))):
            raise ValueError(f"sources are numbered from 0 on, not {numbers}")

    @property
    def schema(self) -> pa.Schema:
        """What it produces."""
        return self.output

    def describe(self) -> str:
        """Columns, and the filter."""
        filtered = "" if self.row_filter is None else f", filter={self.row_filter}"
        return f"TakeRowsExec: columns=[{', '.join(self.output.names)}]{filtered}"

    @cached_property
    def _table(self) -> pa.Schema:
        """All columns of the table."""
        if not self.sources:
            return pa.schema([])
        rows = self.sources[0].rows
        return rows.schema if isinstance(rows, LanceSource) else rows.rows.schema

    @cached_property
    def _needed(self) -> pa.Schema:
        """The output, and what the filter reads besides."""
        read = self.row_filter.columns if self.row_filter is not None else frozenset()
        further = sorted(read - set(self.output.names))
        known = [self._table if name in self._table.names else self.input.schema for name in further]
        return pa.schema([*self.output, *(one.field(name) for one, name in zip(known, further, strict=True))])

    @cached_property
    def _fields(self) -> list[pa.Field]:
        """What is read from the sources."""
        return [field for field in self._needed if field.name in self._table.names]

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """The rows, some at a time."""
        for found in self.input.execute(partition, context):
            for start in range(0, found.num_rows, TAKEN_ROWS):
                context.check()
                rows = self._rows(found.slice(start, TAKEN_ROWS))
                if rows.num_rows:
                    yield rows

    def _rows(self, found: pa.RecordBatch) -> pa.RecordBatch:
        if not self._needed.names:
            return rows_without_columns(found.num_rows)
        taken = self._taken(found) if self._fields else {}
        arrays = [
            taken[field.name] if field.name in taken else found.column(field.name) for field in self._needed
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._needed)
        if self.row_filter is not None:
            rows = rows.filter(self.row_filter.matches(rows))
        if not self.output.names:
            return rows_without_columns(rows.num_rows)
        return rows if len(self.output) == len(self._needed) else rows.select(self.output.names)

    def _taken(self, found: pa.RecordBatch) -> dict[str, pa.Array]:
        """Table columns of the candidates, by name."""
        numbers = found.column(SOURCE).to_numpy()
        addresses = found.column(ROW_ADDRESS).to_numpy()
        places = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
        tasks = [
            partial(taken_rows, self.sources[numbers[at[0]]], addresses[at], self._fields, self.keep)
            for at in places
        ]
        parts = side_by_side(tasks, helpers_for(self.sources))
        if len(parts) == 1:
            columns: Sequence[pa.Array] = parts[0]
        else:
            order = np.empty(len(numbers), dtype=np.int64)
            order[np.concatenate(places)] = np.arange(len(numbers))
            columns = [pa.concat_arrays(each).take(pa.array(order)) for each in zip(*parts, strict=True)]
        return dict(zip((field.name for field in self._fields), columns, strict=True))
