"""Expressions over rows in memory: SET over the rows of a key, RETURNING over what was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from datafusion import DataFrame

from memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError
from planner.binding.bind import bind
from planner.binding.names import TableColumns
from planner.bridge.distance_functions import register_distances
from planner.bridge.parameter_types import parameter_types
from planner.bridge.plain_types import TypeSet, typed_values
from planner.bridge.row_expressions import policy_context
from planner.bridge.run_control import RunControl
from planner.plans.results import normalised, translated
from planner.writes.dml.statement.splice import SplicedQuery

__all__ = ["RowsQuery"]


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
        parameter_types: of the query's own parameters.

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
            nothing = {name: schema.empty_table() for name, schema in self._schemas.items()}
            frame = self._frame(nothing, None, _Run())
            count = self._bound.parameter_count
            self.parameter_types = parameter_types(frame.logical_plan(), count) if count else ()
            self._parameters = pa.schema(
                [pa.field(f"${number}", kind) for number, kind in enumerate(self.parameter_types, start=1)]
            )
            if count:
                nulls = [pa.scalar(None, kind) for kind in self.parameter_types]
                frame = self._frame(nothing, nulls, _Run())
            self.schema = normalised(frame.schema(), types)

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
            values = typed_values([parameters[one] for one in self._query.ordinals], self._parameters)
            run = _Run()
            frame = self._frame(tables, values, run)
            try:
                # Not torn: what is read lies in memory.
                batches = control.undisturbed(frame.collect)
            except LanceGatewayError:
                raise
            except Exception as error:
                raise translated(error, self._bound, run.failure) from error
            if not batches:
                return self.schema.empty_table()
            try:
                return conformed(pa.Table.from_batches(batches, batches[0].schema), self.schema)
            except pa.ArrowInvalid as error:
                # A parameter was bound that is no value of the type that it was prepared for.
                msg = f"a value is out of the range of the type that the statement was prepared for: {error}"
                raise InvalidInputError(msg) from error

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
            return context.sql(text, param_values=given or None)
        except Exception as error:
            raise translated(error, bound, run.failure) from error


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows under the names and types of a schema, column by column."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
