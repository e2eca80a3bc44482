"""Scan of a table that DataFusion reads from memory by itself."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Final, TypeAlias

import pyarrow as pa

from lance_gateway.planner.predicates.pruning import Pruning
from lance_gateway.planner.scans.query_run import TableScan
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns

Partitions: TypeAlias = list[list[pa.RecordBatch]]
"""The batches of each partition of a table."""

_UNREAD_BYTES: Final = 1 << 34
"""Address space for columns that are not read."""
_MOST_ROWS: Final = 1 << 18
"""Of a batch: more are divided."""


class ResidentScan(TableScan):
    """Scan of all visible rows of the regions that other scans of one table reference need.

    Args:
        scans: the others, at least one, none of them restricted by a policy.
        columns: to read.
    """

    def __init__(self, scans: Sequence[TableScan], columns: tuple[str, ...]) -> None:
        first = scans[0]
        super().__init__(first.run, first.table, first.base, None, columns, None, None, first.partitions)
        self.table = first.table
        self.reference = first.reference
        self._scans = scans
        self.partition_sizes: tuple[int, ...] = ()
        """Number of batches in each partition, once they are divided."""
        self.rows = self.divided_rows = 0
        """Number of rows that were read, and that were divided."""

    @property
    def replaced(self) -> Sequence[TableScan]:
        """The other scans."""
        return self._scans

    @property
    def column_cache(self) -> DecodedColumns:
        """Keeps all columns that are read."""
        return self.table.columns.keep_all()

    def read_rows(self) -> list[pa.RecordBatch]:
        """Read all rows, in the columns that are read; there is a batch in any case.

        Raises:
            LanceGatewayError: something can't be read.
        """
        with self._note_failure():
            # The threads that read compute masks, too: they must not wait for one another.
            self.run.control.run_uninterrupted(lambda: self.tree)
        read = self.run.visibility.executor.map(lambda one: list(self.batches(one)), range(self.partitions))
        batches = list(itertools.chain.from_iterable(read))
        self.rows = sum(batch.num_rows for batch in batches)
        return batches or [pa.RecordBatch.from_pylist([], self.output_schema).select(self.columns)]

    def divide(self, rows: Iterable[pa.RecordBatch], count: int) -> Partitions:
        """Divide rows evenly.

        Args:
            rows: in the columns that are read; at least one batch.
            count: of partitions.

        Returns:
            Batches with all columns of the table, those that are not read without values.
        """
        loads = [0] * count
        placed: Partitions = [[] for _ in loads]
        for batch in rows:
            for first in range(0, batch.num_rows or 1, _MOST_ROWS):
                part = batch.slice(first, _MOST_ROWS)
                number = loads.index(min(loads))
                placed[number].append(self._widen(part))
                loads[number] += part.num_rows
        self.partition_sizes = tuple(map(len, placed))
        self.divided_rows = sum(loads)
        return placed

    def _widen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        read = dict(zip(batch.schema.names, batch.columns, strict=True))
        return pa.RecordBatch.from_arrays(
            [
                read[field.name] if field.name in read else _make_again(field, batch.num_rows)
                for field in self.schema
            ],
            schema=self.schema,
        )

    def _prune(self) -> Pruning:
        first, *others = [scan.pruning for scan in self._scans]
        if not others:
            return first
        kept = frozenset(region_id for one in (first, *others) for region_id in one.kept)
        ids = tuple(region_id for region_id in first.regions.region_ids if region_id in kept)
        return Pruning(first.regions, ids, first.explain)


def can_be_unread(fields: pa.Schema) -> bool:
    """Return whether `make_unread` can make columns of all these fields, for the largest batch."""
    try:
        for field in fields:
            make_unread(field, _MOST_ROWS)
    except (pa.ArrowException, OSError):  # of address space
        return False
    return True


@lru_cache(maxsize=4096)
def _make_again(field: pa.Field, rows: int) -> pa.Array:
    return make_unread(field, rows)


def make_unread(field: pa.Field, rows: int) -> pa.Array:
    """Make a column that nobody reads: NULLs, or zeros where the field has no NULL. It takes no memory.

    Raises:
        pa.ArrowNotImplementedError: of types that have no such column, or too wide for so many rows.
    """
    kind = field.type
    validity, nulls = (_take_zeros(-(-rows // 8)), rows) if field.nullable else (None, 0)
    children: list[pa.Array] = []
    if pa.types.is_null(kind):
        return pa.nulls(rows)
    if pa.types.is_fixed_size_list(kind):
        buffers = [validity]
        children = [make_unread(kind.value_field, rows * kind.list_size)]
    elif pa.types.is_struct(kind):
        buffers = [validity]
        children = [make_unread(one, rows) for one in kind]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        buffers = [validity, _take_zeros((rows + 1) * 8)]
        children = [make_unread(kind.value_field, 0)]
    elif any(test(kind) for test in (pa.types.is_string, pa.types.is_binary)):
        buffers = [validity, _take_zeros((rows + 1) * 4), _take_zeros(0)]
    elif any(test(kind) for test in (pa.types.is_large_string, pa.types.is_large_binary)):
        buffers = [validity, _take_zeros((rows + 1) * 8), _take_zeros(0)]
    elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        buffers = [validity, _take_zeros(-(-rows * kind.bit_width // 8))]
    else:
        msg = f"no column of type {kind}"
        raise pa.ArrowNotImplementedError(msg)
    return pa.Array.from_buffers(kind, rows, buffers, nulls, children=children)


def _take_zeros(size: int) -> pa.Buffer:
    if size > _UNREAD_BYTES:
        msg = f"a column of {size} bytes"
        raise pa.ArrowNotImplementedError(msg)
    return _zeros().slice(0, size)


@cache
def _zeros() -> pa.Buffer:
    """Return zeros that lie in no memory: pages that nobody has touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return pa.py_buffer(mmap.mmap(-1, _UNREAD_BYTES, flags=flags, prot=mmap.PROT_READ))
