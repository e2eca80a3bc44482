"""Rows that a statement reads before it writes: by queries, or by keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from execnodes import KeySet
from memwal.errors import InvalidInputError
from memwal.writing import TableWriter
from planner.bridge.run_control import RunControl
from planner.plans.results import ResourcesExhaustedError
from planner.scans.settings import Shortcut
from planner.sql.tokens import quote
from planner.writes.dml.statement.target import Target
from planner.writes.dml.statement.text import Read, ReadSession

__all__ = [
    "MAX_COLLECTED_BYTES",
    "PlannedRows",
    "ReadStep",
    "collected",
    "distinct_keys",
    "key_text",
    "last_of_key",
    "not_among",
    "repeated_key",
    "rows_of_keys",
]

MAX_COLLECTED_BYTES = 512 << 20
"""Of rows and keys that one statement changes at once."""
MANY_KEYS = 4096
"""More keys than this are found by one scan."""
_PLACE = "place#"


def collected(batches: pa.RecordBatchReader, table: str) -> pa.Table:
    """All rows of a stream.

    Raises:
        ResourcesExhaustedError: they are too large to be changed at once.
    """
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > MAX_COLLECTED_BYTES:
            msg = (
                f"the statement changes more than {MAX_COLLECTED_BYTES >> 20} MiB of rows of table {table!r} "
                "at once, and nothing was written: run it in several pieces, such as ranges of the key"
            )
            raise ResourcesExhaustedError(msg)
    return pa.Table.from_batches(held, batches.schema)


@dataclass(frozen=True, eq=False)
class ReadStep:
    """Reading for one execution of a statement.

    Attributes:
        regions: where the rows may lie, as far as is known without reading them.
        rows: reads them as they are now; fails where they can't be read, or are too many.
        is_whole: whether rows of the same keys lie in no other regions.
    """

    regions: Callable[[TableWriter], Collection[str]]
    rows: Callable[[], pa.Table]
    is_whole: bool = False


@dataclass(frozen=True, eq=False)
class PlannedRows:
    """Rows that a query finds: columns of the target, and expressions behind them.

    Attributes:
        target: table that is written.
        read: the query.
    """

    target: Target
    read: Read

    @property
    def reads(self) -> tuple[Read, ...]:
        """The query."""
        return (self.read,)

    @property
    def shown(self) -> Read:
        """The query."""
        return self.read

    @property
    def schema(self) -> pa.Schema:
        """Of the query."""
        return self.read.schema

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Of the query."""
        return self.read.parameter_types

    @property
    def summary(self) -> str:
        """How they are found."""
        return "regions that the conditions admit are claimed"

    def begin(self, parameters: Sequence[pa.Scalar], control: RunControl) -> ReadStep:
        """Plan the query for the regions, and run it for the rows."""
        read, table = self.read, self.target.name

        def regions(_writer: TableWriter) -> Collection[str]:
            with read.query.telling():
                values = read.query.values(parameters)
                return read.prepared.find_matching_regions(table, values, read.settings, control)

        return ReadStep(regions, lambda: collected(read.batches(parameters, control), table))


def rows_of_keys(
    session: ReadSession, target: Target, keys: pa.Table, columns: Sequence[str], control: RunControl
) -> pa.Table:
    """The rows that have some keys, in any order.

    Args:
        session: reads at consistency "strong".
        target: table.
        keys: distinct and complete; key columns in key order.
        columns: that are wanted.
        control: of the execution.

    Raises:
        LanceGatewayError: something can't be read.
    """
    base = target.base.schema
    schema = pa.schema([base.field(name) for name in columns])
    if not keys.num_rows:
        return schema.empty_table()
    looks_up = session.settings.shortcuts.issuperset((Shortcut.WRITE_LOOKUPS, Shortcut.KEY_LOOKUPS))
    if keys.num_rows > MANY_KEYS or not looks_up:
        return _scanned(session, target, keys, columns, control).cast(schema)
    wanted = KeySet(keys.cast(pa.schema([base.field(name) for name in target.key])))
    found = session.engine.look_up_rows(target.secured, wanted, columns, session.settings, control)
    return pa.Table.from_batches(found, schema)


def _scanned(
    session: ReadSession, target: Target, keys: pa.Table, columns: Sequence[str], control: RunControl
) -> pa.Table:
    """The same by reading the whole table: each key that is looked up costs, and a scan costs once."""
    names = list(dict.fromkeys((*target.key, *columns)))
    sql = f"SELECT {', '.join(map(quote, names))} FROM {quote(target.name)}"  # noqa: S608 - quoted names
    reader = session.engine.prepare(sql, session.settings, session.access).execute((), None, control)
    wanted = keys.cast(pa.schema([reader.schema.field(name) for name in target.key]))
    found = [reader.schema.empty_table()]
    first = target.key[0]
    values = wanted.column(first).combine_chunks()
    for batch in reader:
        some = pa.table(batch.filter(pc.is_in(batch.column(first), value_set=values)))
        if len(target.key) > 1 and some.num_rows:
            held = _numbered(some, target.key)
            some = some.take(held.join(wanted, list(target.key), join_type="left semi").column(_PLACE))
        found.append(some)
    return pa.concat_tables(found).select(list(columns))


def repeated_key(rows: pa.Table, key: Sequence[str]) -> pa.Table | None:
    """One key that several rows have, as a table of one row; None where all differ."""
    counted = rows.select(list(key)).group_by(list(key)).aggregate([([], "count_all")])
    if counted.num_rows == rows.num_rows:
        return None
    return counted.filter(pc.greater(counted.column("count_all"), 1)).slice(0, 1).select(list(key))


def key_text(keys: pa.Table) -> str:
    """The first key, for messages: id = 7."""
    (row,) = keys.slice(0, 1).to_pylist()
    return ", ".join(f"{name} = {value!r}" for name, value in row.items())


def not_among(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose key no row of `others` has, in their order; of several with one key the first."""
    columns = list(key)
    firsts = _numbered(rows, key).group_by(columns).aggregate([(_PLACE, "min")])
    if others.num_rows:
        known = others.select(columns).cast(pa.schema([rows.schema.field(name) for name in columns]))
        firsts = firsts.join(known, columns, join_type="left anti")
    return rows.take(firsts.column(f"{_PLACE}_min").sort())


def last_of_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Of several rows with one key the last, in their order."""
    lasts = _numbered(rows, key).group_by(list(key)).aggregate([(_PLACE, "max")])
    if lasts.num_rows == rows.num_rows:
        return rows
    return rows.take(lasts.column(f"{_PLACE}_max").sort())


def _numbered(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys of rows, with the number of each row."""
    return rows.select(list(key)).append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))


def distinct_keys(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys of rows, each once.

    Raises:
        InvalidInputError: one is NULL.
    """
    for name in key:
        if rows.column(name).null_count:
            msg = f"key column {name!r} is NULL in a row"
            raise InvalidInputError(msg)
    return rows.select(list(key)).group_by(list(key)).aggregate([]).select(list(key))
