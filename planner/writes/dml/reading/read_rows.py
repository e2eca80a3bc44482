"""Rows that a statement reads before it writes: by queries, or by keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.errors import InvalidInputError, ResourcesExhaustedError
from lance_gateway.memwal.writing import TableWriter
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.writes.dml.statement.target import Target
from lance_gateway.planner.writes.dml.statement.text import SourceQuery

MAX_COLLECTED_BYTES = 512 << 20
"""Limit on the rows that one statement changes at once."""
PLACE = "place#"
_PART_ROWS = 65_536
_PART_BYTES = 32 << 20
_SHOWN_COLUMNS = 4


def combine_batches(batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Combine the batches of a stream into tables of some size."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _PART_ROWS or size >= _PART_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def collect_rows(batches: pa.RecordBatchReader, table: str) -> pa.Table:
    """Read all rows of a stream.

    Raises:
        ResourcesExhaustedError: the rows are too large to be changed at once.
    """
    collected, size = [], 0
    for batch in batches:
        collected.append(batch)
        size += batch.nbytes
        if size > MAX_COLLECTED_BYTES:
            msg = (
                f"the statement changes more than {MAX_COLLECTED_BYTES >> 20} MiB of rows of table {table!r} "
                "at once, and nothing was written: run it in several pieces, such as ranges of the key"
            )
            raise ResourcesExhaustedError(msg)
    return pa.Table.from_batches(collected, batches.schema)


@dataclass(frozen=True, eq=False)
class ReadStep:
    """The reading part of one execution of a statement.

    Attributes:
        regions: finds the regions that may contain the rows, without reading them.
        rows: reads the current rows; fails if they can't be read, or are too many.
        is_whole: whether the regions contain all rows of the same keys.
    """

    regions: Callable[[TableWriter], Collection[str]]
    rows: Callable[[], pa.Table]
    is_whole: bool = False


@dataclass(frozen=True, eq=False)
class PlannedRows:
    """Rows that a query reads: columns of the target, followed by expressions.

    Attributes:
        target: table that is written.
        read: the query.
    """

    target: Target
    read: SourceQuery

    @property
    def source_queries(self) -> tuple[SourceQuery, ...]:
        """The query, as the only one."""
        return (self.read,)

    @property
    def explained_query(self) -> SourceQuery:
        """The query."""
        return self.read

    @property
    def schema(self) -> pa.Schema:
        """Schema of the query."""
        return self.read.schema

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal in the statement -> type that the query expects."""
        return self.read.parameter_types

    @property
    def summary(self) -> str:
        """Description for EXPLAIN."""
        if not self.target.key:
            return "one commit of the base table"
        return "regions that the conditions admit are claimed"

    def begin(self, parameters: Sequence[pa.Scalar], control: RunControl) -> ReadStep:
        """Return the step that prunes regions by the query's conditions and runs the query."""
        read, table = self.read, self.target.name

        def regions(_writer: TableWriter) -> Collection[str]:
            return read.find_matching_regions(table, parameters, control)

        return ReadStep(regions, lambda: collect_rows(read.execute(parameters, control), table))


def find_repeated_key(rows: pa.Table, key: Sequence[str]) -> pa.Table | None:
    """Return one key that several rows have, as a table of one row; None if all keys differ."""
    counts = rows.select(list(key)).group_by(list(key)).aggregate([([], "count_all")])
    if counts.num_rows == rows.num_rows:
        return None
    return counts.filter(pc.greater(counts.column("count_all"), 1)).slice(0, 1).select(list(key))


def find_repeated_row(rows: pa.Table, target: Target, prefix: str = "") -> str | None:
    """Describe one row of the target that is there several times; return None if all differ.

    Args:
        rows: with the columns of the identity of the target.
        target: table that is written.
        prefix: prefix of the names of the target's columns.
    """
    named = [prefix + name for name in target.identity]
    twice = find_repeated_key(rows, named)
    if twice is None:
        return None
    shown = twice
    if not target.key:
        # The number of a row says nothing to people.
        names = [
            prefix + name
            for name in target.schema.names[:_SHOWN_COLUMNS]
            if prefix + name in rows.column_names
        ]
        shown = rows.filter(pc.equal(rows.column(named[0]), twice.column(0)[0])).select(names)
    return format_key(shown.rename_columns([name.removeprefix(prefix) for name in shown.column_names]))


def format_key(keys: pa.Table) -> str:
    """Format the first key for messages: id = 7."""
    (row,) = keys.slice(0, 1).to_pylist()
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())


def exclude_keys(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows whose key is not among `others`, in order; of several rows with one key the first."""
    columns = list(key)
    firsts = number_keys(rows, key).group_by(columns).aggregate([(PLACE, "min")])
    if others.num_rows:
        other_keys = others.select(columns).cast(pa.schema([rows.schema.field(name) for name in columns]))
        firsts = firsts.join(other_keys, columns, join_type="left anti")
    return rows.take(firsts.column(f"{PLACE}_min").sort())


def keep_last_of_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last row of each key, in order."""
    lasts = number_keys(rows, key).group_by(list(key)).aggregate([(PLACE, "max")])
    if lasts.num_rows == rows.num_rows:
        return rows
    return rows.take(lasts.column(f"{PLACE}_max").sort())


def number_keys(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the keys of rows with the position of each row."""
    return rows.select(list(key)).append_column(PLACE, pa.array(range(rows.num_rows), pa.int64()))


def select_distinct_keys(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the distinct keys of rows.

    Raises:
        InvalidInputError: a key column is NULL.
    """
    for name in key:
        if rows.column(name).null_count:
            msg = f"key column {name!r} is NULL in a row"
            raise InvalidInputError(msg)
    return rows.select(list(key)).group_by(list(key)).aggregate([]).select(list(key))
