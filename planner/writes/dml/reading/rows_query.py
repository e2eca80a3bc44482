"""Expressions over rows in memory: SET over the rows of a key, RETURNING over what was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from datafusion import DataFrame

from memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, UnsupportedError
from planner.binding.bind import bind
from planner.binding.names import TableColumns
from planner.bridge.distance_functions import register_distances
from planner.bridge.parameter_types import infer_parameter_types
from planner.bridge.plain_types import TypeSet, bind_values, refuse_untyped
from planner.bridge.row_expressions import policy_context
from planner.bridge.run_control import RunControl
from planner.plans.checks.coarse_instants import instants_of, may_lose_fractions, refuse_lost_fractions
from planner.plans.results import normalize_schema, translate_error
from planner.scans.settings import SessionSettings
from planner.sql.statement_reader import NO_PART, Part, StatementReader
from planner.sql.tokens import quote
from planner.writes.dml.statement.target import Target
from planner.writes.dml.statement.text import Splice, SplicedQuery, WriteText

__all__ = ["NO_COLUMNS", "Returning", "RowsQuery", "read_returning", "returning"]

NO_COLUMNS = pa.schema([])


class _Tables:
    """Resolves the names of tables in memory, and nothing else."""

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self._schemas = schemas

    def find(self, name: str) -> TableColumns | None:
        return TableColumns(self._schemas[name]) if name in self._schemas else None

    def view_sql(self, name: str) -> str | None:  # noqa: ARG002 - there are none
        return None

    def names(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def system_tables(self) -> tuple[str, ...]:
        return ()


class _Run:
    """Keeps why a distance could not be computed."""

    failure: LanceGatewayError | None = None


class RowsQuery:
    """A query over tables in memory; safe to share between threads.

    Attributes:
        schema: of the result.
        parameter_types: ordinal in the statement -> type that the query expects.

    Args:
        query: spliced from the statement; names the tables as they are called in `schemas`.
        schemas: of the tables.
        types: for whom the result's types are plain.

    Raises:
        LanceGatewayError: what is wrong with the query, shown in the statement.
    """

    def __init__(
        self, query: SplicedQuery, schemas: Mapping[str, pa.Schema], types: TypeSet = "arrow"
    ) -> None:
        self._query = query
        self._schemas = {
            name: pa.schema([pa.field(one.name, one.type) for one in schema])
            for name, schema in schemas.items()
        }
        with query.telling():
            try:
                self._bound = bind(query.sql, _Tables(self._schemas))
            except NotFoundError as error:
                msg = f"{error}; only rows of the statement itself can be used here"
                raise NotFoundError(msg) from error
            if len(self._bound.references) > len(self._schemas):
                # A subquery is about all rows of the table, and those in memory are but some.
                msg = "a subquery can't read tables here: only rows of the statement itself can be used"
                raise UnsupportedError(msg)
            nothing = {name: schema.empty_table() for name, schema in self._schemas.items()}
            frame = self._frame(nothing, None, _Run())
            count = self._bound.parameter_count
            found = infer_parameter_types(frame.logical_plan(), count) if count else ()
            self._parameters = pa.schema(
                [pa.field(f"${number}", kind) for number, kind in enumerate(found, start=1)]
            )
            self.parameter_types = dict(zip(query.ordinals, found, strict=True))
            if count:
                frame = self._frame(nothing, [pa.scalar(None, kind) for kind in found], _Run())
            self.schema = normalize_schema(self._typed(frame), types)

    def _typed(self, frame: DataFrame) -> pa.Schema:
        """The schema of the result; as it is written, a CASE would have the type of its first THEN."""
        try:
            plan = frame.optimized_logical_plan()
            return policy_context().create_dataframe_from_logical_plan(plan).schema()
        except Exception as error:
            raise translate_error(error, self._bound, None) from error

    def rows(
        self, tables: Mapping[str, pa.Table], parameters: Sequence[pa.Scalar], control: RunControl
    ) -> pa.Table:
        """Run the query.

        Args:
            tables: by name.
            parameters: all of the statement.
            control: stops it.

        Raises:
            LanceGatewayError: what went wrong.
        """
        with self._query.telling():
            values = bind_values(self._query.values(parameters), self._parameters)
            run = _Run()
            frame = self._frame(tables, values, run)
            try:
                # Not torn: what is read lies in memory.
                batches = control.run_uninterrupted(frame.collect)
            except LanceGatewayError:
                raise
            except Exception as error:
                raise translate_error(error, self._bound, run.failure) from error
            if not batches:
                return self.schema.empty_table()
            try:
                return conformed(pa.Table.from_batches(batches, batches[0].schema), self.schema)
            except pa.ArrowInvalid as error:
                refuse_untyped(values, self._parameters)
                raise InvalidInputError(str(error)) from error

    def _frame(
        self, tables: Mapping[str, pa.Table], values: Sequence[pa.Scalar] | None, run: _Run
    ) -> DataFrame:
        bound = self._bound
        context = policy_context()
        for reference in bound.references:
            schema = self._schemas[reference.table]
            rows = conformed(tables[reference.table], schema)
            batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema)]
            context.register_record_batches(f'"{reference.private_name}"', [batches])
        register_distances(context, bound.distances, run)
        text, given = (bound.render(), {}) if values is None else bound.with_values(values)
        try:
            frame = context.sql(text, param_values=given or None)
            is_typed = values is not None or not bound.parameter_count
            if is_typed and may_lose_fractions(text, instants_of(self._schemas.values())):
                refuse_lost_fractions(frame)
        except Exception as error:
            raise translate_error(error, bound, run.failure) from error
        return frame


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows under the names and types of a schema, column by column."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True, eq=False)
class Returning:
    """What a statement answers, besides how many rows it changed.

    Attributes:
        query: over the rows; None where nothing is returned.
        table: what the rows are called in it.
        schema: of the answer; without columns where there is none.
    """

    query: RowsQuery | None = None
    table: str = ""
    schema: pa.Schema = NO_COLUMNS

    @property
    def parameter_types(self) -> Mapping[int, pa.DataType]:
        """Ordinal in the statement -> type that the expressions expect."""
        return {} if self.query is None else self.query.parameter_types

    def rows(self, rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl) -> pa.Table | None:
        """The answer; None where nothing is returned."""
        return None if self.query is None else self.query.rows({self.table: rows}, parameters, control)


def read_returning(reader: StatementReader) -> Part:
    """The expressions behind RETURNING; an empty part without it."""
    if not reader.take("RETURNING"):
        return NO_PART
    part = reader.until()
    if not part:
        raise reader.unexpected_error("RETURNING needs something to return, such as *")
    return part


def returning(
    statement: WriteText, part: Part, target: Target, alias: str | None, settings: SessionSettings
) -> Returning:
    """Check what is returned.

    Args:
        statement: that the part belongs to.
        part: expressions; may be empty.
        target: table whose rows they are of.
        alias: what the statement calls it.
        settings: of the session.

    Raises:
        LanceGatewayError: what is wrong with an expression.
    """
    if not part:
        return Returning()
    shown = quote(target.name) + ("" if alias is None else f" AS {quote(alias)}")
    query = Splice(statement).add("SELECT ").copy(part).add(f" FROM {shown}").query()
    made = RowsQuery(query, {target.name: target.schema}, settings.type_set)
    return Returning(made, target.name, made.schema)
