"""Scans of Lance datasets and of unflushed rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, ScanExec, TaskContext, rows_without_columns
from lance_gateway.execnodes.rows.lance_filter import RowFilter
from lance_gateway.execnodes.rows.row_mask import RowMask, filter_visible
from lance_gateway.execnodes.storage.blob_rows import choose_batch_rows, take_blob_rows, take_offsets
from lance_gateway.execnodes.storage.source import (
    ColumnCache,
    KeyLocator,
    LanceSource,
    MemTableSource,
    convert_columns,
)
from lance_gateway.execnodes.storage.stored_dataset import StoredSchema
from lance_gateway.memwal.columns.blobs import FEW_ROWS
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE

RUN_ROWS = 1 << 23
"""Rows of one step of a scan that may find nothing: it can be stopped between steps."""
_TOMBSTONE_FIELD = pa.field(TOMBSTONE, pa.bool_())


@dataclass(frozen=True, slots=True)
class RowRange:
    """A range of rows of one fragment, deleted ones included.

    Attributes:
        fragment_id: as Lance numbers it.
        first: offset of the first row.
        count: how many.
    """

    fragment_id: int
    first: int
    count: int


@dataclass(frozen=True, eq=False)
class SelectedRows:
    """Some rows of one fragment.

    Attributes:
        fragment_id: as Lance numbers it.
        places: ascending, counted among the rows that are not deleted.
    """

    fragment_id: int
    places: np.ndarray


@dataclass(frozen=True, eq=False)
class LanceScanExec(ScanExec):
    """Reads columns of the rows of a Lance dataset that pass a filter.

    Args:
        source: the dataset and how its columns read as the table's.
        columns: table columns to produce.
        fragment_groups: fragment ids to read, one group per partition.
        cache: knows deleted rows, and keeps decoded columns.
        row_filter: applied exactly, by Lance where it can be said in Lance's filter language.
        keep_columns: whether to read through the cache instead of scanning.
        with_tombstone: append `_tombstone` (flushed generations have it).
        by_key: read only the keys that the task context still wants.
        locator: may know where these keys are; if not, Lance finds them.
        row_ranges: parts of further fragments to read, one group per partition; () for none.
        sought: key columns by which Lance finds these keys; () for all of the key.
        selected: rows of further fragments, whatever the mask shows, one group per partition; () for none.
    """

    source: LanceSource
    columns: tuple[str, ...]
    fragment_groups: tuple[tuple[int, ...], ...]
    cache: ColumnCache
    row_filter: RowFilter | None = None
    keep_columns: bool = False
    with_tombstone: bool = False
    by_key: bool = False
    locator: KeyLocator | None = None
    row_ranges: tuple[tuple[RowRange, ...], ...] = ()
    sought: tuple[str, ...] = ()
    selected: tuple[tuple[SelectedRows, ...], ...] = ()

    def __post_init__(self) -> None:
        names = dict.fromkeys(self.source.schema.names)
        unknown = [name for name in self.columns if name not in names]
        if unknown:
            known = ", ".join(names)
            msg = f"{self.source.label} has no column {unknown[0]!r}; it has {known}"
            raise ValueError(msg)

    @cached_property
    def schema(self) -> pa.Schema:
        """The projected table columns, then `_tombstone` if requested."""
        fields = [self.source.schema.field(name) for name in self.columns]
        return pa.schema([*fields, _TOMBSTONE_FIELD] if self.with_tombstone else fields)

    def describe(self) -> str:
        """Return source, projection, filter and fragments."""
        fragments = {part.fragment_id for group in self.row_ranges for part in group}
        fragments.update(fragment_id for group in self.fragment_groups for fragment_id in group)
        fragments.update(part.fragment_id for group in self.selected for part in group)
        return self.format_description(self.source.label, f"fragments={len(fragments)}")

    def rows(self, mask: RowMask, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Read the partition's fragments, from the cache or by one scan, then parts of others."""
        if group := self.fragment_groups[partition]:
            yield from self._read_fragments(mask, group, context)
        for part in self.row_ranges[partition] if self.row_ranges else ():
            if self._keeps_columns:
                within = range(part.first, part.first + part.count)
                if not (yield from self._read_cached(mask, (part.fragment_id,), context, within)):
                    continue
            yield from self._read_range(mask, part, context)
        for rows in self.selected[partition] if self.selected else ():
            yield from self._take_selected(rows, context)

    def rows_of_each(
        self, scans: Sequence[tuple[ScanExec, RowMask]], partition: int, context: TaskContext
    ) -> Iterator[pa.RecordBatch]:
        """Read small datasets together if their columns are kept, and all others one by one."""
        groups: defaultdict[StoredSchema | None, list[tuple[LanceScanExec, RowMask]]] = defaultdict(list)
        for scan, mask in scans:
            assert isinstance(scan, LanceScanExec)  # noqa: S101 - they are of this kind
            if scan.fragment_groups[partition] or scan.row_ranges or scan.selected:
                groups[scan.source.stored_schema if scan._is_plain else None].append((scan, mask))  # noqa: SLF001 - of this class
        for schema, group in groups.items():
            left = group
            if schema is not None and len(group) > 1:
                left = yield from _read_together(group, partition, context)
            for scan, mask in left:
                yield from scan.rows(mask, partition, context)

    @property
    def _is_plain(self) -> bool:
        """Whether columns of whole fragments are read through the cache."""
        return (
            self._keeps_columns
            and bool(self.columns)
            and not (self.with_tombstone or self.by_key or self.row_ranges or self.selected)
        )

    @property
    def _keeps_columns(self) -> bool:
        """Whether columns are read through the cache, which has no room for blobs."""
        if not self.source.blobs:
            return self.keep_columns
        needed = self._add_filter_columns(self.row_filter)
        return self.keep_columns and self.source.blobs.isdisjoint(self._list_stored_names(needed))

    def _take_selected(self, rows: SelectedRows, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Take rows by their places; the filter is applied afterwards."""
        context.check()
        needed = self._add_filter_columns(self.row_filter)
        stored, schema = self._list_stored_names(needed), self._build_schema(needed)
        for scanned in self._take_places(rows, stored):
            batch = self._finish_batch(scanned, schema, self.row_filter, context)
            if batch.num_rows:
                yield batch

    def _take_places(self, rows: SelectedRows, stored: list[str]) -> Iterator[pa.RecordBatch]:
        if not stored:
            yield rows_without_columns(len(rows.places))
            return
        fragment = self.source.fragments.get(rows.fragment_id)
        if self.source.blobs.isdisjoint(stored):
            yield from fragment.handle.take(rows.places.tolist(), columns=stored).to_batches()
            return
        dataset: Any = self.source.dataset
        live = dataset.scanner(columns=[], fragments=[fragment.handle], with_row_address=True).to_table()
        addresses = live.column(ROW_ADDRESS).to_numpy()[rows.places]
        for start in range(0, len(addresses), FEW_ROWS):
            yield from take_blob_rows(self.source, addresses[start : start + FEW_ROWS], stored).to_batches()

    def _read_fragments(
        self, mask: RowMask, group: tuple[int, ...], context: TaskContext
    ) -> Iterator[pa.RecordBatch]:
        if not self.schema.names and self.row_filter is None and not self.by_key:
            yield rows_without_columns(self._count_rows(mask, group))
            return
        if self.locator is not None and context.keys is not None:
            located = self.locator.find(context.keys)
            if located is not None:
                yield from self._take_located(located, mask, context)
                return
        if self._keeps_columns:
            group = yield from self._read_cached(mask, group, context)
        if group:
            yield from self._scan(mask, group, context)

    def _count_rows(self, mask: RowMask, group: tuple[int, ...]) -> int:
        stored = self.source.fragments.get_each(group)
        visible = self.cache.visible(self.source, group, mask)
        return sum(
            one.physical_rows if shows is None else shows.visible_rows
            for one, shows in zip(stored, visible, strict=True)
        )

    def _read_range(self, mask: RowMask, part: RowRange, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Read a row range by offsets; the filter is applied here, after the offsets."""
        needed = self._add_filter_columns(self.row_filter)
        stored, schema = self._list_stored_names(needed), self._build_schema(needed)
        (visible,) = self.cache.visible(self.source, (part.fragment_id,), mask)
        dataset: Any = self.source.dataset
        fragment = self.source.fragments.get(part.fragment_id)
        has_deletions = fragment.deletions is not None
        scanner = dataset.scanner(
            columns=stored,
            fragments=[fragment.handle],
            batch_size=choose_batch_rows(self.source, (part.fragment_id,), stored),
            offset=part.first,
            limit=part.count,
            # Offsets are physical only where deleted rows count; a row without any stored column counts too.
            include_deleted_rows=has_deletions,
            with_row_id=has_deletions or not stored,
        )
        position = part.first
        for scanned in scanner.to_batches():
            context.check()
            rows = scanned.select(stored)
            if visible is not None:
                rows = filter_visible(rows, visible.visible.slice(position, scanned.num_rows))
            position += scanned.num_rows
            if rows.num_rows:
                batch = self._finish_batch(rows, schema, self.row_filter, context)
                if batch.num_rows:
                    yield batch

    def _read_cached(
        self, mask: RowMask, group: tuple[int, ...], context: TaskContext, within: range | None = None
    ) -> Generator[pa.RecordBatch, None, tuple[int, ...]]:
        """Produce the cached rows; return the fragments that must be scanned."""
        needed = self._add_filter_columns(self.row_filter)
        stored, schema = self._list_stored_names(needed), self._build_schema(needed)
        kept, remaining = self.cache.read(self.source, group, stored, mask, within)
        for rows in kept:
            context.check()
            batch = self._finish_batch(rows, schema, self.row_filter, context)
            if batch.num_rows:
                yield batch
        return remaining

    def _take_located(
        self, located: Mapping[int, np.ndarray], mask: RowMask, context: TaskContext
    ) -> Iterator[pa.RecordBatch]:
        """Take rows by their offsets; scan fragments with deletions, which shift the offsets."""
        needed = self._add_filter_columns(self.row_filter)
        stored, schema = self._list_stored_names(needed), self._build_schema(needed)
        for fragment_id, offsets in located.items():
            taken = None
            is_few = self.source.blobs.isdisjoint(stored) or len(offsets) <= FEW_ROWS
            if is_few and fragment_id not in mask.fragments and self.source.computed.isdisjoint(stored):
                taken = take_offsets(self.source, fragment_id, offsets, stored)
            if taken is None:
                yield from self._scan(mask, (fragment_id,), context)
                continue
            for rows in taken.to_batches():
                yield self._finish_batch(rows, schema, self.row_filter, context, exact=True)

    def _scan(self, mask: RowMask, group: tuple[int, ...], context: TaskContext) -> Iterator[pa.RecordBatch]:
        pushed, residual = self._split_filter(context)
        needed = self._add_filter_columns(residual)
        stored, schema = self._list_stored_names(needed), self._build_schema(needed)
        masked = any(fragment_id in mask.fragments for fragment_id in group)
        dataset: Any = self.source.dataset
        if context.keys is not None and not self.source.blobs.isdisjoint(stored):
            rows = FEW_ROWS  # To learn the sizes of all blobs would take longer than to read a few.
        else:
            rows = choose_batch_rows(self.source, group, stored)
        for fragments in self._list_runs(group, split=pushed is not None and context.keys is None):
            context.check()
            scanner = dataset.scanner(
                columns=self.source.list_scanned(stored),
                filter=pushed,
                fragments=fragments,
                batch_size=rows,
                use_scalar_index=self.source.trusts_scalar_indexes,
                # A row that has none of the wanted columns stored still counts: its address carries it.
                with_row_address=masked or not stored,
            )
            for scanned in scanner.to_batches():
                if not scanned.num_rows:
                    continue
                visible = scanned.select(stored)
                if masked:
                    visible = mask.keep(visible, scanned.column(ROW_ADDRESS))
                batch = self._finish_batch(visible, schema, residual, context, exact=pushed is not None)
                if batch.num_rows:
                    yield batch

    def _list_runs(self, group: tuple[int, ...], *, split: bool) -> Iterator[list[Any] | None]:
        """Return the fragments of each scan; None for all fragments of the source.

        Args:
            group: all that are to be read.
            split: whether a scan may go on for long without a batch, and nobody could stop it meanwhile.
        """
        if not split and len(group) == len(self.source.fragments.all):
            yield None  # Listing fragments takes Lance as long as looking a key up, if there are many.
            return
        dataset: Any = self.source.dataset
        wanted = set(group)
        every = dataset.get_fragments()
        fragments = [fragment for fragment in every if fragment.fragment_id in wanted]
        if not split or len(fragments) == 1:
            yield None if len(fragments) == len(every) else fragments
            return
        run: list[Any] = []
        rows = 0
        for fragment in fragments:
            run.append(fragment)
            rows += fragment.physical_rows
            if rows >= RUN_ROWS:
                yield run
                run, rows = [], 0
        if run:
            yield None if len(run) == len(every) else run

    def _add_filter_columns(self, row_filter: RowFilter | None) -> tuple[str, ...]:
        if row_filter is None:
            return self.columns
        return (*self.columns, *sorted(row_filter.columns - set(self.columns)))

    def _list_stored_names(self, columns: tuple[str, ...]) -> list[str]:
        stored = [self.source.stored_names[name] for name in columns if name in self.source.stored_names]
        return [*stored, TOMBSTONE] if self.with_tombstone else stored

    def _split_filter(self, context: TaskContext) -> tuple[str | None, RowFilter | None]:
        """Return the part of the filter for Lance, and the part that remains."""
        names = self.source.stored_names
        if self.by_key and context.keys is not None:
            return context.keys.filter(names, self.sought), self.row_filter
        if self.row_filter is None:
            return None, None
        if self.source.has_plain_columns(sorted(self.row_filter.columns)):
            sql = self.row_filter.sql(names)
            if sql is not None:
                return sql, None
        return None, self.row_filter

    def _finish_batch(
        self,
        batch: pa.RecordBatch,
        schema: pa.Schema,
        residual: RowFilter | None,
        context: TaskContext,
        *,
        exact: bool = False,
    ) -> pa.RecordBatch:
        """Return the table's columns of the rows that have a wanted key and pass the remaining filter."""
        if not schema.names:
            rows = rows_without_columns(batch.num_rows)
            # A filter that reads no columns holds for all rows or for none.
            return rows if residual is None else rows_without_columns(residual.matches(rows).true_count)
        result = batch
        if not batch.schema.equals(schema):
            is_plain = batch.schema.names == schema.names and self.source.has_plain_columns(self.columns)
            columns = batch.columns if is_plain else convert_columns(batch, schema, self.source.stored)
            result = pa.RecordBatch.from_arrays(columns, schema=schema)
        if self.by_key and context.keys is not None and not (exact and len(context.keys.columns) == 1):
            result = context.keys.select(result)
        if residual is not None:
            result = result.filter(residual.matches(result))
        return result if schema is self.schema else result.select(self.schema.names)

    def _build_schema(self, columns: tuple[str, ...]) -> pa.Schema:
        if columns == self.columns:
            return self.schema
        fields = [self.source.schema.field(name) for name in columns]
        return pa.schema([*fields, _TOMBSTONE_FIELD] if self.with_tombstone else fields)


def _read_together(
    scans: Sequence[tuple[LanceScanExec, RowMask]], partition: int, context: TaskContext
) -> Generator[pa.RecordBatch, None, list[tuple[LanceScanExec, RowMask]]]:
    """Produce the rows of those scans of datasets with one schema that are kept; return the others."""
    first = scans[0][0]
    alike = [
        (scan, mask)
        for scan, mask in scans
        if scan.cache is first.cache
        and scan.columns == first.columns
        and scan.row_filter is first.row_filter
        and scan.source.stored is first.source.stored
    ]
    needed = first._add_filter_columns(first.row_filter)  # noqa: SLF001 - of this module
    stored, schema = first._list_stored_names(needed), first._build_schema(needed)  # noqa: SLF001
    if not stored:
        return list(scans)
    parts = [(scan.source, scan.fragment_groups[partition], mask) for scan, mask in alike]
    read, kept = first.cache.read_kept(parts, stored)
    for rows in kept:
        batch = first._finish_batch(rows, schema, first.row_filter, context)  # noqa: SLF001
        if batch.num_rows:
            yield batch
    done = {alike[number][0] for number in read}
    return [one for one in scans if one[0] not in done]


@dataclass(frozen=True, eq=False)
class MemTableScanExec(ScanExec):
    """Reads columns of a region's unflushed rows that pass a filter; all are in one partition.

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
        """The projected table columns, then `_tombstone` if requested."""
        stored = self.source.rows.schema  # which a table builds on each access
        fields = [stored.field(name) for name in self.columns]
        return pa.schema([*fields, pa.field(TOMBSTONE, pa.bool_())] if self.with_tombstone else fields)

    def describe(self) -> str:
        """Return source, projection, filter and size."""
        return self.format_description(self.source.label, f"rows={self.source.rows.num_rows}")

    def rows(self, mask: RowMask, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the rows from memory."""
        if partition != self.partition:
            return
        fragment = mask.fragments.get(0)
        if fragment is None and self.by_key and context.keys is not None and self.source.find is not None:
            found = self.source.find(context.keys)
            if found is not None:
                yield from self._take_rows(found)
                return
        start = 0
        for chunk in self.source.rows.to_batches():
            rows = chunk
            if fragment is not None:
                rows = filter_visible(rows, fragment.visible.slice(start, chunk.num_rows))
            start += chunk.num_rows
            if self.by_key and context.keys is not None:
                rows = context.keys.select(rows)
            if self.row_filter is not None and rows.num_rows:
                rows = rows.filter(self.row_filter.matches(rows))
            if rows.num_rows:
                yield self._project(rows)

    def _take_rows(self, numbers: np.ndarray) -> Iterator[pa.RecordBatch]:
        if not len(numbers):
            return
        for rows in self.source.rows.take(pa.array(numbers)).to_batches():
            matching = rows if self.row_filter is None else rows.filter(self.row_filter.matches(rows))
            if matching.num_rows:
                yield self._project(matching)

    def _project(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self.schema.names:
            return rows_without_columns(rows.num_rows)
        arrays = [rows.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
