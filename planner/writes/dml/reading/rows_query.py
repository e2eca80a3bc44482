"""Expressions over rows in memory: SET over looked-up rows, RETURNING over changed rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, UnsupportedError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.binding.bind import bind
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.binding.names import TableColumns
from lance_gateway.planner.bridge.distance_functions import register_distances
from lance_gateway.planner.bridge.json.functions import WRITERS, register_json, register_writer
from lance_gateway.planner.bridge.row_expressions import policy_context
from lance_gateway.planner.bridge.run_control import RunControl, run_isolated
from lance_gateway.planner.bridge.types.parameter_types import infer_parameter_types
from lance_gateway.planner.bridge.types.plain_types import (
    TypeSet,
    bind_values,
    cast_values,
    is_assigned_alike,
    normalize_schema,
    refuse_untyped,
)
from lance_gateway.planner.plans.checks.coarse_instants import (
    instants_of,
    may_lose_fractions,
    refuse_lost_fractions,
)
from lance_gateway.planner.plans.errors import translate_error
from lance_gateway.planner.plans.forms.corrected_texts import plan_text
from lance_gateway.planner.plans.forms.json_types import mark_json, type_json
from lance_gateway.planner.plans.forms.multisets import MULTISETS, number_equal_rows
from lance_gateway.planner.plans.forms.planned_frame import PlannedFrame, plan_unique
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.sql.rules import KeptTexts, Rewritten, apply_rules
from lance_gateway.planner.sql.tree.types import Operations
from lance_gateway.planner.writes.dml.statement.target import Target, name_relation
from lance_gateway.planner.writes.dml.statement.text import Splice, SplicedQuery, Statement

NO_COLUMNS = pa.schema([])


class _Tables:
    """A catalog of tables in memory."""

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self._schemas = schemas

    def find(self, name: TableName) -> TableColumns | None:
        return TableColumns(self._schemas[name]) if name in self._schemas else None

    def view_sql(self, name: TableName) -> str | None:  # noqa: ARG002 - there are none
        return None

    def view_path(self, name: TableName) -> str:
        return name.schema

    def names(self, schema: str | None = None) -> tuple[TableName, ...]:
        names = map(TableName.parse, self._schemas)
        return tuple(name for name in names if schema in {None, name.schema})

    def has_schema(self, schema: str) -> bool:  # noqa: ARG002 - a table is missed, rather than its schema
        return True

    def system_tables(self) -> tuple[str, ...]:
        return ()


_REWRITTEN: Final[KeptTexts[Rewritten]] = KeptTexts()
"""The queries of all statements of this process: values of one statement are computed again and again."""
_OPERATIONS: Final[Operations] = {}


class _QueryRun:
    """Keeps the error of a function of ours, which DataFusion would replace by its own."""

    failure: LanceGatewayError | None = None


@dataclass(frozen=True, slots=True)
class _RowsPlan:
    """A resolved query over tables in memory; it may be checked and run in another process.

    Attributes:
        bound: the query.
        schemas: table name -> schema.
    """

    bound: BoundStatement
    schemas: Mapping[str, pa.Schema]

    def check(self, types: TypeSet) -> tuple[pa.Schema, pa.Schema]:
        """Return the schemas of the parameters and of the result, which has types of a set.

        Raises:
            LanceGatewayError: the query is invalid.
        """
        empty_tables = {name: schema.empty_table() for name, schema in self.schemas.items()}
        frame = self._plan_frame(empty_tables, None, _QueryRun())
        count = self.bound.parameter_count
        told = infer_parameter_types(frame.logical_plan(), count) if count else ()
        kinds = [self.bound.operand_types.get(ordinal, kind) for ordinal, kind in enumerate(told)]
        if count:
            nulls = [pa.scalar(None, kind) for kind in kinds]
            frame = self._plan_frame(empty_tables, nulls, _QueryRun())
        parameters = [pa.field(f"${number}", kind) for number, kind in enumerate(kinds, start=1)]
        return pa.schema(parameters), normalize_schema(self._infer_schema(frame), types)

    def run(self, tables: Mapping[str, pa.Table], values: Sequence[pa.Array]) -> pa.Table | None:
        """Run the query.

        Args:
            tables: table name -> rows.
            values: one array of one value per parameter.

        Returns:
            The result as DataFusion gives it; None if it has no rows.

        Raises:
            LanceGatewayError: the query failed.
        """
        run = _QueryRun()
        frame = self._plan_frame(tables, [value[0] for value in values], run)
        try:
            batches = frame.collect()
        except Exception as error:
            raise translate_error(error, self.bound, run.failure) from error
        return pa.Table.from_batches(batches, batches[0].schema) if batches else None

    def _infer_schema(self, frame: PlannedFrame) -> pa.Schema:
        """Return the schema of the optimized plan; unoptimized, a CASE has the type of its first THEN."""
        try:
            plan = frame.optimized_logical_plan()
            return frame.show_names(policy_context().create_dataframe_from_logical_plan(plan).schema())
        except Exception as error:
            raise translate_error(error, self.bound, None) from error

    def _plan_frame(
        self, tables: Mapping[str, pa.Table], values: Sequence[pa.Scalar] | None, run: _QueryRun
    ) -> PlannedFrame:
        bound = self.bound
        context = policy_context()
        self._register(context, tables, run)
        written, param_values = (bound.text, {}) if values is None else bound.with_values(values)

        def plan(text: str, written: str) -> DataFrame:
            return plan_text(context, bound.kind, text, written, param_values)

        def find_schema(part: str) -> pa.Schema:
            return plan(part, part).schema()

        try:
            types = {name: value.type for name, value in param_values.items()}
            schemas = {one.private_name: self.schemas[one.table] for one in bound.references}
            rewrite = partial(apply_rules, written, schemas, types, find_schema, _OPERATIONS, read=bound.read)
            rewritten = _REWRITTEN.make(written, schemas, types, rewrite)
            text, written = rewritten.text, rewritten.text if rewritten.keeps_names else written
            if not WRITERS.isdisjoint(bound.json_functions):
                register = partial(register_writer, context, run)
                text, written = (
                    (mark_json(text), mark_json(written))
                    if values is None
                    else type_json(text, written, find_schema, register)
                )
            if MULTISETS.search(text):
                text, _ = number_equal_rows(text, find_schema)
                written, _ = number_equal_rows(written, find_schema)
            frame = plan_unique(bound.kind, plan, text, written)
            is_typed = values is not None or not bound.parameter_count
            if is_typed and may_lose_fractions(text, instants_of(self.schemas.values())):
                refuse_lost_fractions(frame)
        except Exception as error:
            raise translate_error(error, bound, run.failure) from error
        return frame

    def _register(self, context: SessionContext, tables: Mapping[str, pa.Table], run: _QueryRun) -> None:
        for reference in self.bound.references:
            schema = self.schemas[reference.table]
            rows = conform(tables[reference.table], schema)
            batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema)]
            context.register_record_batches(f'"{reference.private_name}"', [batches])
        register_distances(context, self.bound.distances, run)
        register_json(context, self.bound.json_functions, run)


class RowsQuery:
    """A query over tables in memory; safe to share between threads.

    Attributes:
        schema: schema of the result.
        parameter_types: ordinal in the statement -> type that the query expects.

    Args:
        query: query over the tables of `schemas`.
        schemas: table name -> schema.
        types: set of types that the result may have, if it is shown; None if it is assigned to columns.

    Raises:
        LanceGatewayError: the query is invalid; positions are those in the statement.
    """

    def __init__(
        self, query: SplicedQuery, schemas: Mapping[str, pa.Schema], types: TypeSet | None = None
    ) -> None:
        self._query = query
        self._is_shown = types is not None
        plain = {
            name: pa.schema([pa.field(field.name, field.type) for field in schema])
            for name, schema in schemas.items()
        }
        with query.relocate_errors():
            try:
                bound = bind(query.sql, _Tables(plain))
            except NotFoundError as error:
                msg = f"{error}; only rows of the statement itself can be used here"
                raise NotFoundError(msg) from error
            if len(bound.references) > len(plain):
                # A subquery would need all rows of the table, and only some are in memory.
                msg = "a subquery can't read tables here: only rows of the statement itself can be used"
                raise UnsupportedError(msg)
            self._plan = _RowsPlan(bound, plain)
            self._parameters, self.schema = run_isolated(None, self._plan.check, types or "arrow")
        self.parameter_types = dict(zip(query.ordinals, self._parameters.types, strict=True))

    def execute(
        self, tables: Mapping[str, pa.Table], parameters: Sequence[pa.Scalar], control: RunControl
    ) -> pa.Table:
        """Run the query.

        Args:
            tables: table name -> rows.
            parameters: all parameters of the statement.
            control: cancels the execution.

        Raises:
            LanceGatewayError: the query failed.
        """
        with self._query.relocate_errors():
            values = bind_values(self._query.values(parameters), self._parameters)
            arrays = [pa.repeat(value, 1) for value in values]
            rows = run_isolated(control, self._plan.run, tables, arrays)
            if rows is None:
                return self.schema.empty_table()
            if not self._is_shown and is_assigned_alike(rows.schema, self.schema):
                return rows
            try:
                return conform(rows, self.schema)
            except pa.ArrowInvalid as error:
                refuse_untyped(values, self._parameters)
                raise InvalidInputError(str(error)) from error


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast rows to the names and types of a schema, column by column."""
    columns = [
        column if column.type.equals(field.type) else cast_values(column, field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True, eq=False)
class Returning:
    """A checked RETURNING.

    Attributes:
        query: query over the changed rows; None without RETURNING.
        table: name of the rows in the query.
        schema: schema of the result; without columns if there is no RETURNING.
    """

    query: RowsQuery | None = None
    table: str = ""
    schema: pa.Schema = NO_COLUMNS

    @property
    def parameter_types(self) -> Mapping[int, pa.DataType]:
        """Ordinal in the statement -> type that the expressions expect."""
        return {} if self.query is None else self.query.parameter_types

    def execute(
        self, rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl
    ) -> pa.Table | None:
        """Evaluate the expressions over changed rows; returns None without RETURNING."""
        return None if self.query is None else self.query.execute({self.table: rows}, parameters, control)


def prepare_returning(statement: Statement[Any], target: Target, settings: SessionSettings) -> Returning:
    """Prepare RETURNING.

    Args:
        statement: any statement, with RETURNING or without.
        target: table whose rows are returned.
        settings: session settings.

    Raises:
        LanceGatewayError: an expression is invalid.
    """
    if statement.returning is None:
        return Returning()
    relation = name_relation(target.name, statement.name)
    splice = Splice(statement).add("SELECT ").copy(statement.returning).add(f" FROM {relation}")
    query = RowsQuery(splice.build(), {target.name: target.schema}, settings.type_set)
    return Returning(query, target.name, query.schema)
