"""The assignments of SET."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.rules import DefaultValues
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.writes.dml.statement.target import Target
from lance_gateway.planner.writes.dml.statement.text import Splice, Statement
from lance_gateway.planner.writes.dml.statement.tree import fold_name
from lance_gateway.planner.writes.dml.values.assignment import (
    NULL,
    assign,
    build_constant_column,
    check_assignable,
    check_not_null,
    is_default,
    read_constant,
)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A column, and the expression that it is set to."""

    column: str
    value: exp.Expr


@dataclass(frozen=True, eq=False)
class SetColumns:
    """Checked assignments.

    Attributes:
        target: table.
        constants: column -> array of one value of its type.
        parameters: column -> ordinal of the parameter.
        expressions: column -> expression.
        defaulted: columns that are set to their defaults.
        source_columns: columns that are set to the source's columns of the same names.
    """

    target: Target
    constants: dict[str, pa.Array] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    expressions: dict[str, exp.Expr] = field(default_factory=dict)
    defaulted: list[str] = field(default_factory=list)
    source_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are set."""
        return (
            *self.constants,
            *self.parameters,
            *self.expressions,
            *self.defaulted,
            *self.source_columns,
        )

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal -> type of the column that a parameter is written to."""
        return {ordinal: self.target.schema.field(name).type for name, ordinal in self.parameters.items()}

    def add_to(self, splice: Splice, prefix: str) -> None:
        """Append the expressions to a SELECT list that is not empty.

        Args:
            splice: the SELECT so far.
            prefix: prefix of the names of the columns.
        """
        for name, value in self.expressions.items():
            splice.add(", (").copy(value).add(f") AS {quote(prefix + name)}")

    def check_types(self, schema: pa.Schema, prefix: str) -> None:
        """Refuse expressions whose values never fit their column."""
        for name in (*self.expressions, *self.source_columns):
            check_assignable(schema.field(prefix + name).type, self.target.schema.field(name))

    def build_column(
        self,
        name: str,
        rows: pa.Table,
        prefix: str,
        parameters: Sequence[pa.Scalar],
        defaults: DefaultValues,
    ) -> pa.ChunkedArray:
        """Build the new values of a column for all rows."""
        column = self.target.schema.field(name)
        if name in self.defaulted:
            return pa.chunked_array([defaults.build(column, rows.num_rows)])
        if name in self.expressions or name in self.source_columns:
            return assign(rows.column(prefix + name), column)
        if name in self.constants:
            value = self.constants[name]
        else:
            value = assign(pa.repeat(parameters[self.parameters[name]], 1), column).combine_chunks()
        return pa.chunked_array([value.take(pa.nulls(rows.num_rows, pa.int64()).fill_null(0))])

    def apply(
        self,
        rows: pa.Table,
        prefix: str,
        parameters: Sequence[pa.Scalar],
        defaults: DefaultValues,
        columns: str = "",
    ) -> pa.Table:
        """Build complete rows with the new values.

        Args:
            rows: the table's columns, and those of the expressions.
            prefix: prefix of the names of the expressions.
            parameters: parameters of the statement.
            defaults: defaults of the statement.
            columns: prefix of the names of the table's columns.

        Raises:
            InvalidInputError: a value does not fit its column, or is NULL in a NOT NULL column.
        """
        names, arrays = self.columns, []
        for target_field in self.target.schema:
            if target_field.name in names:
                arrays.append(self.build_column(target_field.name, rows, prefix, parameters, defaults))
                continue
            column = rows.column(columns + target_field.name)
            arrays.append(column if column.type.equals(target_field.type) else assign(column, target_field))
        check_not_null(pa.Table.from_arrays(arrays, names=self.target.schema.names), self.target.required)
        return pa.Table.from_arrays(arrays, schema=self.target.schema)


def read_assignments(statement: Statement[Any], assignments: Sequence[exp.Expr]) -> list[Assignment]:
    """Return the columns that SET assigns, with their values.

    Args:
        statement: statement that they belong to.
        assignments: of SET.

    Raises:
        InvalidInputError: a column of another table is set, or the number of values differs.
        UnsupportedError: several columns are set to one subquery.
    """
    found: list[Assignment] = []
    for assignment in assignments:
        columns, values = [assignment.this], [assignment.expression]
        if isinstance(assignment.this, exp.Tuple):
            columns, values = assignment.this.expressions, _list_row(assignment.expression)
            if not values:
                what = "Several columns at once are set to as many values in brackets"
                raise statement.error(assignment.expression, what, UnsupportedError)
            if len(values) != len(columns):
                message = f"{len(columns)} value(s) in brackets are expected, not {len(values)}"
                raise statement.error(assignment.expression, message)
        for column, value in zip(columns, values, strict=True):
            found.append(Assignment(_read_column(statement, column), value))
    return found


def _list_row(row: exp.Expr) -> list[exp.Expr]:
    """Return the values of (1, 2), (1) or ROW(1, 2); none for others."""
    if isinstance(row, exp.Tuple) or (isinstance(row, exp.Anonymous) and row.name.upper() == "ROW"):
        return list(row.expressions)
    return [row.this] if isinstance(row, exp.Paren) else []


def _read_column(statement: Statement[Any], column: exp.Column) -> str:
    *qualifiers, name = map(fold_name, column.parts)
    if qualifiers and qualifiers[-1] != statement.name:
        message = f"Only columns of the table that is written can be set, not of {'.'.join(qualifiers)!r}"
        raise statement.error(column, message)
    return name


def prepare_set_columns(
    statement: Statement[Any],
    target: Target,
    assignments: Sequence[Assignment],
    *,
    allow_key: bool = False,
    directly: bool = True,
) -> SetColumns:
    """Check assignments.

    Args:
        statement: statement that they belong to.
        target: table.
        assignments: the assignments.
        allow_key: whether key and region columns may be set, as in an INSERT.
        directly: see `read_constant`.

    Raises:
        InvalidInputError: a column is unknown or set twice, or a literal does not fit.
        UnsupportedError: a column belongs to the key, or decides about the region.
    """
    columns = SetColumns(target)
    for assignment in assignments:
        try:
            target.check_column(assignment.column)
        except InvalidInputError as error:
            raise statement.error(assignment.value, f"{error}") from error
        if assignment.column in columns.columns:
            msg = f"column {assignment.column!r} is set twice"
            raise statement.error(assignment.value, msg)
        if not allow_key:
            check_settable(target, assignment.column)
        is_defaulted = is_default(assignment.value)
        if is_defaulted and assignment.column in target.defaults:
            columns.defaulted.append(assignment.column)
            continue
        target.check_numbers([assignment.column], "leave it out, or write DEFAULT")
        ordinal = statement.parameter(assignment.value)
        constant = NULL if is_defaulted else None
        if constant is None and ordinal is None:
            constant = read_constant(assignment.value, directly=directly)
        if constant is not None:
            columns.constants[assignment.column] = build_constant_column(
                [constant], target.schema.field(assignment.column)
            )
            if constant is NULL and assignment.column in target.required:
                msg = f"column {assignment.column!r} must not be NULL"
                raise statement.error(assignment.value, msg)
        elif ordinal is not None:
            columns.parameters[assignment.column] = ordinal
        else:
            columns.expressions[assignment.column] = assignment.value
    return columns


def check_settable(target: Target, column: str) -> None:
    """Check that a column belongs neither to the key nor to the region spec.

    Raises:
        UnsupportedError: it does.
    """
    if column in target.key:
        msg = (
            f"column {column!r} belongs to the primary key of table {target.name!r}, which UPDATE can't "
            "change: DELETE the row and INSERT it under its new key"
        )
        raise UnsupportedError(msg)
    if column in target.region_columns:
        msg = (
            f"column {column!r} decides in which region of table {target.name!r} a row lies, so UPDATE can't "
            "change it: DELETE the row and INSERT it again"
        )
        raise UnsupportedError(msg)
