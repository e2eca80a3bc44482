"""INSERT of values or of a query's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from memwal.errors import InvalidInputError
from memwal.writing import Changes, WriteReceipt
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.writes.dml.insert.on_conflict import Conflict, conflict
from planner.writes.dml.insert.read_insert import InsertText, OnConflict, read_insert
from planner.writes.dml.insert.values import ValuesRows, values_rows
from planner.writes.dml.reading.parameter_types import Read, prepared_read
from planner.writes.dml.reading.read_rows import Collected
from planner.writes.dml.statement.prepared_write import Described, WriteResult, check_count, parameter_schema
from planner.writes.dml.statement.reader import Part, WriteText, read_statement
from planner.writes.dml.statement.splice import Splice, SplicedQuery
from planner.writes.dml.statement.target import Target, find_target
from planner.writes.dml.values.assignment import check_assignable, check_given, filled, filled_batch
from planner.writes.dml.writing.retry_fenced import again_if_fenced
from planner.writes.dml.writing.returning import Returning, returning
from planner.writes.dml.writing.stream import in_parts, write_parts

if TYPE_CHECKING:
    from planner.access.rights import Access

__all__ = ["PreparedInsert", "prepare_insert"]


@dataclass(frozen=True, eq=False)
class PreparedInsert(Described):
    """An INSERT that was checked.

    Attributes:
        sql: as given.
        into: table that it writes to.
        columns: that the rows of `source` give, in their order.
        source: the values or query.
        conflict: what becomes of rows whose key is there.
        returning: what is answered.
        parameter_schema: name and type of each parameter.
        settings: of the session.
    """

    sql: str
    into: Target
    columns: tuple[str, ...]
    source: ValuesRows | Read
    conflict: Conflict
    returning: Returning
    parameter_schema: pa.Schema
    settings: SessionSettings

    @property
    def target(self) -> str:
        """Name of the table."""
        return self.into.name

    @property
    def schema(self) -> pa.Schema:
        """Of what RETURNING gives."""
        return self.returning.schema

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
        """Write the rows.

        Raises:
            LanceGatewayError: what went wrong, and what of it was written.
        """
        check_count(parameters, self.parameter_schema)
        columns = [pa.chunked_array([pa.repeat(one, 1)]) for one in parameters]
        return self._execute(columns, 1, control or RunControl())

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Write the rows of all sets of parameters, in order, as few writes.

        Raises:
            LanceGatewayError: what went wrong, and what of it was written.
        """
        check_count(parameters.columns, self.parameter_schema)
        return self._execute(parameters.columns, parameters.num_rows, control or RunControl())

    def _execute(self, columns: Sequence[pa.ChunkedArray], sets: int, control: RunControl) -> WriteResult:
        self.into.check_unaltered(self.sql)
        scalars = [column[0] for column in columns] if sets else []
        shown = Collected(self.into, wanted=self.returning.query is not None)

        def write(rows: pa.Table) -> WriteReceipt:
            return again_if_fenced(lambda: self._written(rows, scalars, shown, control), control, self.target)

        receipt = write_parts(write, in_parts(self._rows(columns, sets, control)), control)
        answer = None if self.returning.query is None else self.returning.rows(shown.rows, scalars, control)
        return WriteResult(shown.affected, answer, receipt.is_durable and self.settings.durable_writes)

    def _written(
        self, rows: pa.Table, parameters: Sequence[pa.Scalar], shown: Collected, control: RunControl
    ) -> WriteReceipt:
        """One part."""
        if not self.conflict.looks_first:
            receipt = self.into.table.writer().write(Changes(rows), durable=self.settings.durable_writes)
            shown.add(rows, rows.num_rows)
            return receipt
        outcome, receipt = self.conflict.written(rows, parameters, control)
        shown.add(outcome.shown, outcome.affected)
        return receipt

    def _rows(self, columns: Sequence[pa.ChunkedArray], sets: int, control: RunControl) -> Iterator[pa.Table]:
        """Whole rows, checked."""
        source, row = self.source, 1
        if isinstance(source, ValuesRows):
            if sets:
                given = source.table(columns, sets, self.settings, control)
                yield filled(self.into, given)
            return
        for one in range(sets):
            batches = source.batches([column[one] for column in columns], self.settings, control)
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
    statement = read_statement(sql)
    text = read_insert(statement)
    target = find_target(engine, text.target, access)
    source: ValuesRows | Read
    if text.rows is not None:
        columns = _named_columns(statement, text, target)
        if text.rows == [[]]:
            columns = ()
        source = values_rows(
            engine,
            statement,
            text.rows,
            [target.schema.field(name) for name in columns],
            text.common_tables,
            settings,
            access,
        )
        types = source.parameter_types
    else:
        query = _query(statement, text)
        source = prepared_read(engine, query, settings, access)
        columns = _query_columns(statement, text, target, source.schema)
        types = source.parameter_types
    check_given(target, columns, "the INSERT")
    answered = returning(statement, text.returning, target, text.alias, settings)
    resolved = conflict(engine, statement, text.conflict, target, text.alias, settings, access)
    return PreparedInsert(
        sql,
        target,
        columns,
        source,
        resolved,
        answered,
        parameter_schema(
            statement.parameter_count, types, resolved.parameter_types, answered.parameter_types
        ),
        settings,
    )


def _query(statement: WriteText, text: InsertText) -> SplicedQuery:
    """The query whose rows are inserted; TABLE x is all of x."""
    splice = Splice(statement).copy(text.common_tables).add(" ")
    part = text.query
    if statement.text.words[part.first] == "TABLE":
        return splice.add("SELECT * FROM ").copy(Part(part.first + 1, part.end)).query()
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
