"""INSERT of values or of a query's rows.

[WITH ..] INSERT [OR REPLACE] INTO t [AS a] [(columns)] | REPLACE INTO ..
  VALUES .. | DEFAULT VALUES | TABLE x | a query
  [ON CONFLICT [(key)] DO NOTHING | DO UPDATE SET ..] [RETURNING ..]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import DefaultValues
from lance_gateway.memwal.writing import Changes, WriteReceipt
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.writes.base_writes import BaseWrite
from lance_gateway.planner.writes.dml.ingest import split_into_parts, write_parts
from lance_gateway.planner.writes.dml.merging.on_conflict import Conflict, OnConflict, prepare_conflict
from lance_gateway.planner.writes.dml.prepared_write import (
    PreparedRows,
    WriteResult,
    build_parameter_schema,
    check_parameter_count,
)
from lance_gateway.planner.writes.dml.reading.rows_query import prepare_returning
from lance_gateway.planner.writes.dml.statement.target import Target, find_target
from lance_gateway.planner.writes.dml.statement.text import (
    ReadSession,
    SourceQuery,
    Splice,
    SplicedQuery,
    Statement,
    parse_write,
)
from lance_gateway.planner.writes.dml.statement.tree import fold_name, locate
from lance_gateway.planner.writes.dml.values.assignment import (
    check_assignable,
    check_required_columns,
    fill_batch,
    fill_columns,
)
from lance_gateway.planner.writes.dml.values.long_values import LongInsert, shorten_values
from lance_gateway.planner.writes.dml.values.values_rows import ValuesRows, prepare_values_rows
from lance_gateway.planner.writes.dml.writing_step import Outcome, retry_if_fenced, write_rows


@dataclass(frozen=True, eq=False)
class PreparedInsert(PreparedRows):
    """A checked INSERT.

    Attributes:
        columns: target columns of `source`, in its order.
        source: the values or query.
        conflict: handles rows whose key exists.
    """

    columns: tuple[str, ...]
    source: ValuesRows | SourceQuery
    conflict: Conflict

    @property
    def source_queries(self) -> tuple[SourceQuery, ...]:
        """Queries that the statement reads with."""
        return (self.source,) if isinstance(self.source, SourceQuery) else self.source.computed.source_queries

    @property
    def explained_query(self) -> SourceQuery | None:
        """The query whose rows are inserted; None for VALUES."""
        return self.source if isinstance(self.source, SourceQuery) else None

    @property
    def summary(self) -> str:
        """One line for EXPLAIN that describes the write."""
        given = (
            "rows of a query"
            if isinstance(self.source, SourceQuery)
            else f"{self.source.count} row(s) of values"
        )
        looks = {
            OnConflict.REPLACE: "replacing rows of the same key" if self.write_target.key else "appending",
            OnConflict.NOTHING: "leaving rows of the same key",
            OnConflict.UPDATE: "updating rows of the same key",
        }[self.conflict.action]
        return f"InsertExec: table={self.target}, columns=[{', '.join(self.columns)}], {given}, {looks}"

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Insert the rows."""
        check_parameter_count(parameters, self.parameter_schema)
        columns = [pa.chunked_array([pa.repeat(value, 1)]) for value in parameters]
        return self._execute_sets(columns, 1, control or RunControl())

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Insert the rows of all sets of parameters, in order, in few writes."""
        check_parameter_count(parameters.columns, self.parameter_schema)
        if self.conflict.parameter_types or self.returning.parameter_types:
            # ON CONFLICT and RETURNING have parameters of their own in each set.
            return super().execute_many(parameters, control)
        return self._execute_sets(parameters.columns, parameters.num_rows, control or RunControl())

    def _execute_sets(
        self, columns: Sequence[pa.ChunkedArray], sets: int, control: RunControl
    ) -> WriteResult:
        self.write_target.check_schema_unchanged(self.sql)
        scalars = [column[0] for column in columns] if sets else []
        affected, shown = 0, [pa.Table.from_batches([], self.write_target.schema)]
        if self.write_target.is_plain:
            return self._append(columns, sets, control)

        def write_once(rows: pa.Table) -> WriteReceipt:
            nonlocal affected
            outcome, receipt = self._write_part(rows, scalars, control)
            affected += outcome.affected
            if self.returning.query is not None:
                shown.append(outcome.returned_rows)
            return receipt

        def write(rows: pa.Table) -> WriteReceipt:
            return retry_if_fenced(lambda: write_once(rows), self.target)

        receipt = write_parts(write, split_into_parts(self._read_rows(columns, sets, control)), control)
        answer = self.returning.execute(pa.concat_tables(shown), scalars, control)
        return WriteResult(affected, answer, receipt.is_durable and self.settings.durable_writes)

    def _append(self, columns: Sequence[pa.ChunkedArray], sets: int, control: RunControl) -> WriteResult:
        """Append all rows in one commit of the base table."""
        affected, shown = 0, [pa.Table.from_batches([], self.write_target.schema)]

        def count_rows() -> Iterator[pa.Table]:
            nonlocal affected
            for rows in split_into_parts(self._read_rows(columns, sets, control)):
                control.check()
                affected += rows.num_rows
                if self.returning.query is not None:
                    shown.append(rows)
                yield rows

        write = BaseWrite.begin(self.write_target.table, control)
        self.write_target.check_version(write.base, self.sql)
        write.write(count_rows())
        scalars = [column[0] for column in columns] if sets else []
        answer = self.returning.execute(pa.concat_tables(shown), scalars, control)
        return WriteResult(affected, answer)

    def _write_part(
        self, rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl
    ) -> tuple[Outcome, WriteReceipt]:
        """Write one part of the rows."""
        if self.conflict.is_lookup_required:
            return self.conflict.write_rows(rows, parameters, control)
        durable = self.settings.durable_writes
        receipt = write_rows(self.write_target, Changes(rows), control, durable=durable)
        return Outcome(rows.num_rows, None, rows), receipt

    def _read_rows(
        self, columns: Sequence[pa.ChunkedArray], sets: int, control: RunControl
    ) -> Iterator[pa.Table]:
        """Yield checked rows with all columns of the target."""
        source, row, defaults = self.source, 1, DefaultValues(self.write_target.defaults)
        if isinstance(source, ValuesRows):
            if sets:
                rows = source.build_table(columns, sets, control, defaults)
                yield fill_columns(self.write_target, rows, defaults)
            return
        for parameter_set in range(sets):
            batches = source.execute([column[parameter_set] for column in columns], control)
            with source.query.relocate_errors():
                for batch in batches:
                    yield fill_batch(self.write_target, self.columns, batch, defaults, row)
                    row += batch.num_rows


def prepare_insert(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedInsert:
    """Prepare an INSERT.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    session, statement = ReadSession(engine, settings, access), parse_write(sql, exp.Insert)
    target, rows = find_target(session, statement.table), _list_rows(statement.tree)
    source: ValuesRows | SourceQuery
    if rows:
        columns = _resolve_columns(statement, target)
        if len(rows) == 1 and not rows[0].expressions:
            columns = ()
        fields = [target.schema.field(name) for name in columns]
        source = prepare_values_rows(session, statement, rows, fields, target.defaults.keys())
    else:
        source = session.prepare(build_query(statement))
        columns = _match_query_columns(statement, target, source.schema)
    if not statement.tree.args["overriding"]:
        given = columns
        if isinstance(source, ValuesRows):
            given = tuple([one.field.name for one in source.columns if len(one.defaulted) < source.count])
        target.check_numbers(given, "leave it out, write DEFAULT, or OVERRIDING SYSTEM VALUE before VALUES")
    check_required_columns(target, columns, "the INSERT")
    answered = prepare_returning(statement, target, settings)
    resolved = prepare_conflict(session, statement, target)
    types = (source.parameter_types, resolved.parameter_types, answered.parameter_types)
    schema = build_parameter_schema(statement.parameter_count, *types)
    return PreparedInsert(sql, target, answered, schema, settings, columns, source, resolved)


def read_long_insert(insert: PreparedInsert) -> LongInsert | None:
    """Return a long INSERT for another process; None unless it inserts constants."""
    if not isinstance(insert.source, ValuesRows):
        return None
    statement = parse_write(insert.sql, exp.Insert)
    return shorten_values(statement, _list_rows(statement.tree), insert.source)


def prepare_long_insert(
    engine: QueryPlanner, long: LongInsert, settings: SessionSettings, access: Access
) -> PreparedInsert | None:
    """Prepare an INSERT whose rows another process has read; return None if its table has changed since.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    insert = prepare_insert(engine, long.short, settings, access)
    rows = insert.source
    if not isinstance(rows, ValuesRows):
        return None
    pairs = zip(rows.columns, long.rows.columns, strict=False)
    if len(rows.columns) != len(long.rows.columns) or any(a.field != b.field for a, b in pairs):
        return None
    return replace(insert, sql=long.sql, source=long.rows)


def _list_rows(tree: exp.Insert) -> list[exp.Expr]:
    """Return the rows of VALUES; none for a query. One without values is DEFAULT VALUES."""
    source = tree.expression
    return source.expressions if isinstance(source, exp.Values) and not tree.args["by_name"] else []


def build_query(statement: Statement[exp.Insert]) -> SplicedQuery:
    """Build the query whose rows are inserted; TABLE x becomes SELECT * FROM x."""
    query = statement.tree.expression
    splice = Splice(statement).copy(statement.common_tables).add(" ")
    if statement.tree.args["is_table"]:
        rest = range(locate(query.args["from_"]).start, locate(query).stop)
        return splice.add("SELECT * FROM ").copy_place(rest).build()
    return splice.copy(query).build()


def _resolve_columns(statement: Statement[exp.Insert], target: Target) -> tuple[str, ...]:
    """Return the columns of the column list, or all columns without one.

    Raises:
        InvalidInputError: a column is unknown, or listed twice.
    """
    if not statement.tree.args["columns"]:
        return tuple(target.schema.names)
    seen: set[str] = set()
    for column in statement.tree.args["columns"]:
        name = fold_name(column)
        try:
            target.check_column(name)
        except InvalidInputError as error:
            raise statement.error(column, f"{error}") from error
        if name in seen:
            raise statement.error(column, f"Column {name!r} is given twice")
        seen.add(name)
    return tuple(map(fold_name, statement.tree.args["columns"]))


def _match_query_columns(
    statement: Statement[exp.Insert], target: Target, schema: pa.Schema
) -> tuple[str, ...]:
    """Return the target column of each column of a query.

    Raises:
        InvalidInputError: the number or the types of the columns don't fit.
    """
    by_name = statement.tree.args["by_name"]
    columns = tuple(schema.names) if by_name else _resolve_columns(statement, target)
    if by_name:
        for name in columns:
            target.check_column(name)
            if columns.count(name) > 1:
                msg = f"the query gives column {name!r} twice"
                raise InvalidInputError(msg)
    if len(columns) != len(schema):
        msg = (
            f"the query gives {len(schema)} column(s), and {len(columns)} are needed: "
            f"{', '.join(columns[:40])}"
        )
        raise InvalidInputError(msg)
    for name, kind in zip(columns, schema.types, strict=True):
        check_assignable(kind, target.schema.field(name))
    return columns
