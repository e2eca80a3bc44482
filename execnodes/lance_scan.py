"""Read one Lance dataset."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from execnodes.node import ROW_ADDRESS, TOMBSTONE, ExecNode, TaskContext, rows_without_columns
from execnodes.row_filter import RowFilter
from execnodes.source import ColumnCache, LanceSource, read_as

BATCH_ROWS = 65_536
"""Every batch crosses Python once: at Lance's default of 8,192 rows that costs half as much again."""


@dataclass(frozen=True, eq=False)
class LanceScanExec(ExecNode):
    """Columns of the rows of a Lance dataset that pass a filter.

    Args:
        source: the dataset and how its columns read as the table's.
        columns: table columns to produce.
        row_filter: applied exactly, by Lance where it can be said in Lance's filter language.
        fragment_groups: fragment ids to read, one group per partition.
        with_row_address: append `_rowaddr`.
        with_tombstone: append `_tombstone` (flushed generations have it).
        by_key: read only the keys that the task context still wants.
        cache: where decoded columns may be kept.
    """

    source: LanceSource
    columns: tuple[str, ...]
    fragment_groups: tuple[tuple[int, ...], ...]
    row_filter: RowFilter | None = None
    with_row_address: bool = False
    with_tombstone: bool = False
    by_key: bool = False
    cache: ColumnCache | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.columns if name not in self.source.schema.names]
        if unknown:
            known = ", ".join(self.source.schema.names)
            msg = f"{self.source.label} has no column {unknown[0]!r}; it has {known}"
            raise ValueError(msg)

    @cached_property
    def schema(self) -> pa.Schema:
        """The projected table columns, then the internal columns asked for."""
        fields = [self.source.schema.field(name) for name in self.columns]
        if self.with_tombstone:
            fields.append(pa.field(TOMBSTONE, pa.bool_()))
        if self.with_row_address:
            fields.append(pa.field(ROW_ADDRESS, pa.uint64()))
        return pa.schema(fields)

    def children(self) -> tuple[ExecNode, ...]:
        """None: a leaf."""
        return ()

    def describe(self) -> str:
        """Source, projection, filter and fragments."""
        parts = [self.source.label, f"columns=[{', '.join(self.columns)}]"]
        if self.row_filter is not None:
            parts.append(f"filter={self.row_filter}")
        if self.by_key:
            parts.append("by key")
        parts.append(f"fragments={sum(map(len, self.fragment_groups))}")
        return f"LanceScanExec: {', '.join(parts)}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Read the partition's fragments."""
        group = self.fragment_groups[partition]
        if not group:
            return
        if not self.schema.names and self.row_filter is None and not self.by_key:
            yield rows_without_columns(self.count(partition))
            return
        if self.cache is not None:
            group = yield from self._from_cache(group, self.cache, context)
            if not group:
                return
        pushed, residual = self._split_filter(context)
        needed = self._with_columns_of(residual)
        for batch in self._scanner(group, needed, pushed).to_batches():
            if batch.num_rows:
                yield self._finish(batch, needed, residual, context, exact=pushed is not None)

    def count(self, partition: int) -> int:
        """Rows of the partition, tombstones and superseded versions included; reads metadata only."""
        dataset: Any = self.source.dataset
        fragments = (dataset.get_fragment(fragment_id) for fragment_id in self.fragment_groups[partition])
        return sum(fragment.physical_rows - fragment.num_deletions for fragment in fragments)

    def _from_cache(
        self, group: tuple[int, ...], cache: ColumnCache, context: TaskContext
    ) -> Generator[pa.RecordBatch, None, tuple[int, ...]]:
        """Produce what the cache has or may keep; returns the fragments that must be scanned."""
        needed = self._with_columns_of(self.row_filter)
        stored = self._stored(needed)
        remaining = []
        for fragment_id in group:
            rows = cache.read(self.source, fragment_id, stored)
            if rows is None:
                remaining.append(fragment_id)
                continue
            for start in range(0, rows.num_rows, BATCH_ROWS):
                batch = self._finish(rows.slice(start, BATCH_ROWS), needed, self.row_filter, context)
                if batch.num_rows:
                    yield batch
        return tuple(remaining)

    def _with_columns_of(self, row_filter: RowFilter | None) -> tuple[str, ...]:
        if row_filter is None:
            return self.columns
        return (*self.columns, *sorted(row_filter.columns - set(self.columns)))

    def _stored(self, columns: tuple[str, ...]) -> list[str]:
        stored = [self.source.stored_names[name] for name in columns if name in self.source.stored_names]
        return [*stored, TOMBSTONE] if self.with_tombstone else stored

    def _split_filter(self, context: TaskContext) -> tuple[Any, RowFilter | None]:
        names = self.source.stored_names
        if self.by_key and context.keys is not None:
            return context.keys.filter(names), self.row_filter
        if self.row_filter is None:
            return None, None
        if self.source.reads_plainly(sorted(self.row_filter.columns)):
            sql = self.row_filter.sql(names)
            if sql is not None:
                return sql, None
        return None, self.row_filter

    def _scanner(self, group: tuple[int, ...], columns: tuple[str, ...], pushed: Any) -> Any:  # noqa: ANN401 (lance types)
        dataset: Any = self.source.dataset
        stored = self._stored(columns)
        fragments = dataset.get_fragments()
        chosen = None
        if len(group) != len(fragments):
            wanted = set(group)
            chosen = [fragment for fragment in fragments if fragment.fragment_id in wanted]
        # A row that has none of the wanted columns stored still counts: its address carries it.
        address = self.with_row_address or not stored
        return dataset.scanner(
            columns=stored, filter=pushed, fragments=chosen, batch_size=BATCH_ROWS, with_row_address=address
        )

    def _finish(
        self,
        batch: pa.RecordBatch,
        columns: tuple[str, ...],
        residual: RowFilter | None,
        context: TaskContext,
        *,
        exact: bool = False,
    ) -> pa.RecordBatch:
        fields = [self.source.schema.field(name) for name in columns]
        arrays = read_as(batch, fields, self.source.stored_names)
        internal = self.schema.names[len(self.columns) :]
        arrays.extend(batch.column(name) for name in internal)
        if not arrays:
            return rows_without_columns(batch.num_rows)
        table_fields = [*fields, *(self.schema.field(name) for name in internal)]
        result = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(table_fields))
        if self.by_key and context.keys is not None and not (exact and len(context.keys.columns) == 1):
            result = context.keys.select(result)
        if residual is not None:
            result = result.filter(residual.matches(result)).select(self.schema.names)
        return result
