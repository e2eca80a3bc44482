"""INSERT of values or of a query's rows.

[WITH ..] INSERT [OR REPLACE] INTO t [AS a] [(columns)] | REPLACE INTO ..
  VALUES .. | DEFAULT VALUES | TABLE x | a query
  [ON CONFLICT [(key)] DO NOTHING | DO UPDATE SET ..] [RETURNING ..]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from memwal.errors import InvalidInputError
from memwal.writing import Changes, WriteReceipt
from planner.access.rights import Access
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.statement_reader import NO_PART, Part
from planner.writes.dml.ingest import in_parts, write_parts
from planner.writes.dml.on_conflict import Conflict, ConflictText, OnConflict, conflict, read_conflict
from planner.writes.dml.prepared_write import (
    Outcome,
    PreparedRows,
    WriteResult,
    again_if_fenced,
    check_count,
    parameter_schema,
)
from planner.writes.dml.reading.rows_query import read_returning, returning
from planner.writes.dml.statement.target import Target, find_target
from planner.writes.dml.statement.text import (
    Read,
    ReadSession,
    Splice,
    SplicedQuery,
    WriteText,
    read_statement,
)
from planner.writes.dml.values.assignment import check_assignable, check_given, filled, filled_batch
from planner.writes.dml.values.values_rows import ValuesRows, read_rows, values_rows

__all__ = ["PreparedInsert", "prepare_insert"]

_ENDS = (("ON", "CONFLICT"), ("ON", "DUPLICATE"), ("RETURNING",))
_QUERY = frozenset({"SELECT", "WITH", "FROM", "(", "TABLE"})


@dataclass(frozen=True, slots=True)
class InsertText:
    """The clauses.

    Attributes:
        target: parts of the table's name.
        alias: of the table.
        columns: that are given, each with its token; None for all.
        by_name: whether the query's columns find the table's by their names.
        rows: of VALUES; None for a query. An empty row is DEFAULT VALUES.
        common_tables: WITH before INSERT.
        query: the query.
    """

    target: tuple[str, ...]
    alias: str | None
    columns: tuple[tuple[str, int], ...] | None
    by_name: bool
    rows: list[list[Part]] | None
    common_tables: Part
    query: Part
    conflict: ConflictText
    returning: Part


def read_insert(statement: WriteText) -> InsertText:
    """Read an INSERT.

    Raises:
        InvalidInputError: a syntax error, with its place.
        UnsupportedError: a clause that is not offered.
    """
    reader = statement.reader()
    common_tables = reader.common_tables()
    replaces = reader.take("REPLACE")
    ignores = False
    if not replaces:
        reader.expect("INSERT")
        if reader.take("OR"):
            replaces = reader.take("REPLACE")
            ignores = not replaces and reader.take("IGNORE")
            if not replaces and not ignores:
                raise reader.unexpected_error("REPLACE or IGNORE is expected")
        else:
            ignores = reader.take("IGNORE")
    if reader.word == "OVERWRITE":
        raise reader.unsupported_error(
            "INSERT OVERWRITE is not offered (DELETE the rows first); OVERWRITE stands"
        )
    reader.expect("INTO")
    reader.take("TABLE")
    target = reader.read_qualified_name("The name of a table")
    alias = reader.name("An alias") if reader.take("AS") else None
    columns = None
    if reader.word == "(" and reader.words[reader.at + 1] not in _QUERY:
        columns = reader.read_name_list("The name of a column")
    by_name = reader.take("BY", "NAME")
    if not by_name:
        reader.take("BY", "POSITION")
    rows: list[list[Part]] | None = None
    query = NO_PART
    if reader.take("DEFAULT", "VALUES"):
        rows = [[]]
    elif reader.word == "VALUES" and not by_name:
        rows = read_rows(reader)
    else:
        query = reader.until(*_ENDS)
        if not query or statement.text.words[query.start] not in _QUERY | {"VALUES"}:
            reader.at = query.start
            raise reader.unexpected_error("VALUES, DEFAULT VALUES or a query is expected")
    clause = read_conflict(reader)
    if ignores:
        clause = ConflictText(OnConflict.NOTHING)
    returned = read_returning(reader)
    reader.expect_end()
    return InsertText(target, alias, columns, by_name, rows, common_tables, query, clause, returned)


@dataclass(frozen=True, eq=False)
class PreparedInsert(PreparedRows):
    """An INSERT that was checked.

    Attributes:
        columns: that the rows of `source` give, in their order.
        source: the values or query.
        conflict: what becomes of rows whose key is there.
    """

    columns: tuple[str, ...]
    source: ValuesRows | Read
    conflict: Conflict

    @property
    def reads(self) -> tuple[Read, ...]:
        """Queries that it reads with."""
        return (self.source,) if isinstance(self.source, Read) else self.source.computed.reads

    @property
    def shown(self) -> Read | None:
        """The query whose rows are inserted."""
        return self.source if isinstance(self.source, Read) else None

    @property
    def summary(self) -> str:
        """What would be written."""
        given = (
            "rows of a query" if isinstance(self.source, Read) else f"{self.source.count} row(s) of values"
        )
        looks = {
            OnConflict.REPLACE: "replacing rows of the same key" if self.into.key else "appending",
            OnConflict.NOTHING: "leaving rows of the same key",
            OnConflict.UPDATE: "updating rows of the same key",
        }[self.conflict.action]
        return f"InsertExec: table={self.target}, columns=[{', '.join(self.columns)}], {given}, {looks}"

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Write the rows."""
        check_count(parameters, self.parameter_schema)
        columns = [pa.chunked_array([pa.repeat(one, 1)]) for one in parameters]
        return self._execute(columns, 1, control or RunControl())

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Write the rows of all sets of parameters, in order, as few writes."""
        check_count(parameters.columns, self.parameter_schema)
        if self.conflict.parameter_types or self.returning.parameter_types:
            # Each set decides for itself what becomes of its rows.
            return super().execute_many(parameters, control)
        return self._execute(parameters.columns, parameters.num_rows, control or RunControl())

    def _execute(self, columns: Sequence[pa.ChunkedArray], sets: int, control: RunControl) -> WriteResult:
        self.into.check_unaltered(self.sql)
        scalars = [column[0] for column in columns] if sets else []
        affected, shown = 0, [self.into.schema.empty_table()]

        def write_once(rows: pa.Table) -> WriteReceipt:
            nonlocal affected
            outcome, receipt = self._written(rows, scalars, control)
            affected += outcome.affected
            if self.returning.query is not None:
                shown.append(outcome.shown)
            return receipt

        def write(rows: pa.Table) -> WriteReceipt:
            return again_if_fenced(lambda: write_once(rows), control, self.target)

        receipt = write_parts(write, in_parts(self._rows(columns, sets, control)), control)
        answer = self.returning.rows(pa.concat_tables(shown), scalars, control)
        return WriteResult(affected, answer, receipt.is_durable and self.settings.durable_writes)

    def _written(
        self, rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl
    ) -> tuple[Outcome, WriteReceipt]:
        """One part."""
        if self.conflict.looks_first:
            return self.conflict.written(rows, parameters, control)
        receipt = self.into.table.writer().write(Changes(rows), durable=self.settings.durable_writes)
        return Outcome(rows.num_rows, None, rows), receipt

    def _rows(self, columns: Sequence[pa.ChunkedArray], sets: int, control: RunControl) -> Iterator[pa.Table]:
        """Whole rows, checked."""
        source, row = self.source, 1
        if isinstance(source, ValuesRows):
            if sets:
                given = source.table(columns, sets, control)
                yield filled(self.into, given)
            return
        for one in range(sets):
            batches = source.batches([column[one] for column in columns], control)
            with source.query.telling():
                for batch in batches:
                    yield filled_batch(self.into, self.columns, batch, row)
                    row += batch.num_rows


def prepare_insert(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedInsert:
    """Check an INSERT.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    session, statement = ReadSession(engine, settings, access), read_statement(sql)
    text = read_insert(statement)
    target = find_target(session, text.target)
    source: ValuesRows | Read
    if text.rows is not None:
        columns = _named_columns(statement, text, target)
        if text.rows == [[]]:
            columns = ()
        fields = [target.schema.field(name) for name in columns]
        source = values_rows(session, statement, text.rows, fields, text.common_tables)
    else:
        source = session.prepare(_query(statement, text))
        columns = _query_columns(statement, text, target, source.schema)
    check_given(target, columns, "the INSERT")
    answered = returning(statement, text.returning, target, text.alias, settings)
    resolved = conflict(session, statement, text.conflict, target, text.alias)
    types = (source.parameter_types, resolved.parameter_types, answered.parameter_types)
    schema = parameter_schema(statement.parameter_count, *types)
    return PreparedInsert(sql, target, answered, schema, settings, columns, source, resolved)


def _query(statement: WriteText, text: InsertText) -> SplicedQuery:
    """The query whose rows are inserted; TABLE x is all of x."""
    splice = Splice(statement).copy(text.common_tables).add(" ")
    part = text.query
    if statement.text.words[part.start] == "TABLE":
        return splice.add("SELECT * FROM ").copy(part[1:]).query()
    return splice.copy(part).query()


def _named_columns(statement: WriteText, text: InsertText, target: Target) -> tuple[str, ...]:
    """The columns that are given values: those that are listed, or all.

    Raises:
        InvalidInputError: one is unknown, or listed twice.
    """
    if text.columns is None:
        return tuple(target.schema.names)
    seen: set[str] = set()
    for name, token in text.columns:
        try:
            target.check_column(name)
        except InvalidInputError as error:
            raise statement.text.error(token, f"{error}; it stands") from error
        if name in seen:
            raise statement.text.error(token, f"Column {name!r} is given twice; again")
        seen.add(name)
    return tuple(name for name, _ in text.columns)


def _query_columns(
    statement: WriteText, text: InsertText, target: Target, schema: pa.Schema
) -> tuple[str, ...]:
    """The columns that a query's columns are for.

    Raises:
        InvalidInputError: their number or their types don't fit.
    """
    columns = tuple(schema.names) if text.by_name else _named_columns(statement, text, target)
    if text.by_name:
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
