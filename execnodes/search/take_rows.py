"""Read the columns of candidates by their row addresses.

Lance identifies rows by their addresses, except in datasets with stable row ids: there, `row_addr_allowlist`,
`row_addr_blocklist` and `_take_rows` take row ids.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, ExecNode, TaskContext, UnaryExec, rows_without_columns
from lance_gateway.execnodes.rows.lance_filter import RowFilter
from lance_gateway.execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK
from lance_gateway.execnodes.search.candidates import choose_helper_count, run_concurrently
from lance_gateway.execnodes.search.kept_columns import take_kept_columns
from lance_gateway.execnodes.search.source import SOURCE, SearchSource
from lance_gateway.execnodes.search.vector_blocks import VectorCache
from lance_gateway.execnodes.storage.blob_rows import take_blob_rows
from lance_gateway.execnodes.storage.source import (
    LanceSource,
    MemTableSource,
    combine_chunks,
    convert_columns,
)
from lance_gateway.memwal.columns.blobs import FEW_ROWS
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE
from lance_gateway.memwal.errors import CorruptDataError

_ROW_ID = "_rowid"
DELETED = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""Stands in for the id of a row that is no more."""


@dataclass(frozen=True, slots=True)
class _RowIds:
    """The cache key of a fragment's row ids; equal for the same rows with the same ids.

    Attributes:
        rows: see `SearchSource.fragment_identity`.
        ids: the sequence of ids, as Lance serializes it: one file may be committed twice, under other ids.
    """

    rows: Hashable
    ids: str | None


def has_stable_ids(source: SearchSource) -> bool:
    """Return whether row ids differ from row addresses."""
    return bool(getattr(source.rows.dataset, "has_stable_row_ids", False))  # type: ignore[union-attr]


def find_row_ids(source: SearchSource, addresses: np.ndarray, keep: VectorCache) -> np.ndarray:
    """Return the ids of rows; those of deleted rows are left out.

    Args:
        source: a Lance dataset.
        addresses: uint64, any order.
        keep: holds ids of fragments.
    """
    if not has_stable_ids(source):
        return addresses
    fragments = addresses >> OFFSET_BITS
    ids = np.empty(len(addresses), dtype=np.uint64)
    for fragment_id in np.unique(fragments).tolist():
        here = fragments == fragment_id
        ids[here] = read_fragment_row_ids(source, fragment_id, keep)[addresses[here] & OFFSET_MASK]
    present: np.ndarray = ids[ids != DELETED]
    return present


def read_fragment_row_ids(source: SearchSource, fragment_id: int, keep: VectorCache) -> np.ndarray:
    """Return the row ids of a fragment by physical offset (uint64); `DELETED` for deleted rows."""
    dataset: Any = source.rows.dataset  # type: ignore[union-attr]

    def make() -> np.ndarray:
        fragment = dataset.get_fragment(fragment_id)
        found = dataset.scanner(
            columns=[], fragments=[fragment], with_row_id=True, with_row_address=True
        ).to_table()
        ids: np.ndarray = np.full(fragment.physical_rows, DELETED, dtype=np.uint64)
        ids[found.column(ROW_ADDRESS).to_numpy() & OFFSET_MASK] = found.column(_ROW_ID).to_numpy()
        return ids

    metadata = dataset.get_fragment(fragment_id).metadata.row_id_meta
    name = _RowIds(source.fragment_identity(fragment_id), None if metadata is None else metadata.json())
    return keep.compute(name, make, lambda ids: int(ids.nbytes))


def take_columns(
    source: SearchSource, addresses: np.ndarray, fields: Sequence[pa.Field], keep: VectorCache
) -> list[pa.Array]:
    """Return columns of rows of one source, in the order of the addresses.

    Args:
        source: where the rows lie.
        addresses: uint64; repeats allowed.
        fields: columns of the table, or `_tombstone`.
        keep: holds row ids.

    Raises:
        CorruptDataError: the source has no such row.
    """
    rows = source.rows
    if not isinstance(rows, LanceSource):
        return _take_in_memory(rows, addresses, fields)
    kept = take_kept_columns(source, addresses, fields, keep)
    if kept is not None:
        return kept
    names = {**rows.stored_names, TOMBSTONE: TOMBSTONE}
    stored = [names[field.name] for field in fields if field.name in names]
    if not stored:
        return [rows.stored.build_absent(field, len(addresses)) for field in fields]
    # The same row may be found by several queries, and Lance wants each once.
    unique, repeated = np.unique(addresses, return_inverse=True)
    has_blobs = not rows.blobs.isdisjoint(stored)
    taken = take_blob_rows(rows, unique, stored) if has_blobs else _take_of_fragment(rows, unique, stored)
    if taken is None:
        dataset: Any = rows.dataset
        taken = dataset._take_rows(find_row_ids(source, unique, keep).tolist(), columns=stored)  # noqa: SLF001
    if taken.num_rows != len(unique):
        msg = f"{rows.label} has {taken.num_rows} of {len(unique)} rows that a search of it found"
        raise CorruptDataError(msg)
    (batch,) = taken.combine_chunks().to_batches()
    columns = convert_columns(batch, fields, rows.stored)
    if np.array_equal(unique, addresses):
        return columns
    places = pa.array(repeated)
    return [column.take(places) for column in columns]


def _take_in_memory(
    rows: MemTableSource, addresses: np.ndarray, fields: Sequence[pa.Field]
) -> list[pa.Array]:
    table = rows.rows.select([field.name for field in fields]).take(pa.array(addresses))
    return [combine_chunks(column) for column in table.columns]


def _take_of_fragment(rows: LanceSource, addresses: np.ndarray, stored: Sequence[str]) -> pa.Table | None:
    """Return rows at ascending addresses of one fragment, which stays open; None if it can't be read so."""
    fragment_id = int(addresses[0] >> OFFSET_BITS)
    if int(addresses[-1] >> OFFSET_BITS) != fragment_id:
        return None
    return rows.fragments.take(fragment_id, addresses & OFFSET_MASK, stored)


TAKEN_ROWS = 16_384
"""Rows that are taken together."""


@dataclass(frozen=True, eq=False)
class TakeRowsExec(UnaryExec):
    """Reads the columns of the candidates, in the order of the candidates, and of no other rows.

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
    keep: VectorCache

    def __post_init__(self) -> None:
        numbers = [source.number for source in self.sources]
        if numbers != list(range(len(numbers))):
            raise ValueError(f"sources are numbered from 0 on, not {numbers}")

    @property
    def schema(self) -> pa.Schema:
        """The output columns."""
        return self.output

    def describe(self) -> str:
        """Return the columns and the filter."""
        filtered = "" if self.row_filter is None else f", filter={self.row_filter}"
        return f"TakeRowsExec: columns=[{', '.join(self.output.names)}]{filtered}"

    @cached_property
    def _table(self) -> pa.Schema:
        if not self.sources:
            return pa.schema([])
        rows = self.sources[0].rows
        return rows.schema if isinstance(rows, LanceSource) else rows.rows.schema

    @cached_property
    def _needed(self) -> pa.Schema:
        """Names of the output columns and of those that the filter reads."""
        read = self.row_filter.columns if self.row_filter is not None else frozenset()
        further = sorted(read - set(self.output.names))
        known = [self._table if name in self._table.names else self.input.schema for name in further]
        return pa.schema([*self.output, *(one.field(name) for one, name in zip(known, further, strict=True))])

    @cached_property
    def _fields(self) -> list[pa.Field]:
        return [field for field in self._needed if field.name in self._table.names]

    @cached_property
    def _most_rows(self) -> int:
        """Rows of a batch."""
        read = {field.name for field in self._fields}
        sources = [one.rows for one in self.sources if isinstance(one.rows, LanceSource)]
        has_blobs = any(
            not one.blobs.isdisjoint(one.stored_names.get(name, "") for name in read) for one in sources
        )
        return FEW_ROWS if has_blobs else TAKEN_ROWS

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the rows in several batches."""
        for found in self.input.execute(partition, context):
            for start in range(0, found.num_rows, self._most_rows):
                context.check()
                rows = self._take_batch(found.slice(start, self._most_rows))
                if rows.num_rows:
                    yield rows

    def _take_batch(self, candidates: pa.RecordBatch) -> pa.RecordBatch:
        if not self._needed.names:
            return rows_without_columns(candidates.num_rows)
        taken = self._take_table_columns(candidates) if self._fields else {}
        arrays = [
            taken[field.name] if field.name in taken else candidates.column(field.name)
            for field in self._needed
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._needed)
        if self.row_filter is not None:
            rows = rows.filter(self.row_filter.matches(rows))
        if not self.output.names:
            return rows_without_columns(rows.num_rows)
        return rows if len(self.output) == len(self._needed) else rows.select(self.output.names)

    def _take_table_columns(self, candidates: pa.RecordBatch) -> dict[str, pa.Array]:
        numbers = candidates.column(SOURCE).to_numpy()
        addresses = candidates.column(ROW_ADDRESS).to_numpy()
        places = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
        parts = self._take_parts([(self.sources[numbers[at[0]]], addresses[at]) for at in places])
        if len(parts) == 1:
            columns: Sequence[pa.Array] = parts[0]
        else:
            order = np.empty(len(numbers), dtype=np.int64)
            order[np.concatenate(places)] = np.arange(len(numbers))
            columns = [pa.concat_arrays(each).take(pa.array(order)) for each in zip(*parts, strict=True)]
        return dict(zip([field.name for field in self._fields], columns, strict=True))

    def _take_parts(self, rows: Sequence[tuple[SearchSource, np.ndarray]]) -> list[list[pa.Array]]:
        """Return columns of rows of each source; only what must be read is given to other threads."""
        kept = [self._find_kept(source, addresses) for source, addresses in rows]
        tasks = [
            partial(take_columns, source, addresses, self._fields, self.keep)
            for (source, addresses), columns in zip(rows, kept, strict=True)
            if columns is None
        ]
        helpers = choose_helper_count(self.sources) if len(tasks) > 1 else 0
        taken = iter(run_concurrently(tasks, helpers))
        return [next(taken) if columns is None else columns for columns in kept]

    def _find_kept(self, source: SearchSource, addresses: np.ndarray) -> list[pa.Array] | None:
        if isinstance(source.rows, MemTableSource):
            return _take_in_memory(source.rows, addresses, self._fields)
        return take_kept_columns(source, addresses, self._fields, self.keep, reads=False)
