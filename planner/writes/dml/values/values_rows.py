"""VALUES as columns: literals are typed once, parameters are cast as columns, other expressions evaluated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.rules import DefaultValues
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.scans.settings import Shortcut
from lance_gateway.planner.writes.dml.statement.text import (
    ComputedValues,
    ReadSession,
    Statement,
    prepare_computed_values,
)
from lance_gateway.planner.writes.dml.values.assignment import (
    NULL,
    Constant,
    assign,
    build_constant_column,
    check_assignable,
    is_default,
    read_constant,
)


@dataclass(frozen=True, eq=False)
class ValuesColumn:
    """One column of VALUES.

    Attributes:
        field: column of the table.
        constants: literals, in the table's type.
        places: per row, the index of its literal in `constants`, or -1.
        parameters: row -> ordinal of its parameter.
        computed: row -> number of its expression.
        defaulted: rows with the column's default.
    """

    field: pa.Field
    constants: pa.Array
    places: Sequence[int]
    parameters: Mapping[int, int]
    computed: Mapping[int, int]
    defaulted: Sequence[int] = ()

    @property
    def is_constant(self) -> bool:
        """Whether all values are literals."""
        return not self.parameters and not self.computed and not self.defaulted

    def build_array(
        self,
        sets: int,
        parameters: Sequence[pa.ChunkedArray],
        computed_values: Sequence[pa.Array],
        defaults: DefaultValues,
    ) -> pa.ChunkedArray:
        """Build the column: all rows of the first set of parameters, then those of the second, and so on.

        Args:
            sets: number of sets of parameters.
            parameters: a column for each parameter.
            computed_values: values of the expressions, for one set of parameters.
            defaults: defaults of the statement.
        """
        field, rows = self.field, len(self.places)
        if self.is_constant and sets == 1:
            return pa.chunked_array([self.constants])
        if rows == 1 and self.parameters:
            return assign(parameters[self.parameters[0]], field)
        arrays, first = [self.constants], {}
        at = len(self.constants)
        for row in (*self.parameters, *self.computed):
            ordinal = self.parameters.get(row)
            values = computed_values[self.computed[row]] if ordinal is None else parameters[ordinal]
            numbers = range(row + 1, row + 1 + sets * rows, rows)
            chunks = assign(values, field, rows=numbers).chunks
            arrays += chunks
            first[row] = at
            at += sum(map(len, chunks))
        for row in self.defaulted:
            arrays.append(defaults.build(field, sets))
            first[row] = at
            at += sets
        order = np.empty((sets, rows), np.int64)
        for row, place in enumerate(self.places):
            order[:, row] = place if place >= 0 else first[row] + np.arange(sets)
        return pa.chunked_array([pa.concat_arrays(arrays).take(pa.array(order.ravel()))])


@dataclass(frozen=True, eq=False)
class ValuesRows:
    """Checked VALUES.

    Attributes:
        count: number of rows.
        columns: one column for each value of a row.
        computed: expressions that are neither literals nor parameters.
    """

    count: int
    columns: tuple[ValuesColumn, ...]
    computed: ComputedValues

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal -> type; for a parameter that is a value by itself, the type of its column."""
        types: dict[int, pa.DataType] = {}
        for read in self.computed.source_queries:
            types |= read.parameter_types
        direct: dict[int, pa.DataType] = {}
        for column in self.columns:
            for ordinal in column.parameters.values():
                direct.setdefault(ordinal, column.field.type)
        return types | direct

    @property
    def is_constant(self) -> bool:
        """Whether all values are literals."""
        return all(column.is_constant for column in self.columns)

    def build_table(
        self,
        parameters: Sequence[pa.ChunkedArray],
        sets: int,
        control: RunControl,
        defaults: DefaultValues,
    ) -> pa.Table:
        """Build the rows for sets of parameters, in order.

        Raises:
            InvalidInputError: a value does not fit its column.
        """
        if self.computed.source_queries and sets > 1:
            tables = [
                self.build_table([column.slice(at, 1) for column in parameters], 1, control, defaults)
                for at in range(sets)
            ]
            return pa.concat_tables(tables)
        if not self.columns:
            return pa.table({"row": pa.nulls(sets * self.count)}).select([])
        scalars = [column[0] for column in parameters] if self.computed.source_queries else []
        computed_values = self.computed.values(scalars, control)
        arrays = [column.build_array(sets, parameters, computed_values, defaults) for column in self.columns]
        return pa.Table.from_arrays(arrays, schema=pa.schema([column.field for column in self.columns]))


def prepare_values_rows(
    session: ReadSession,
    statement: Statement[Any],
    rows: Sequence[exp.Expr],
    fields: Sequence[pa.Field],
    defaulted: Collection[str],
) -> ValuesRows:
    """Prepare the rows of VALUES.

    Args:
        session: evaluates expressions that are neither literals nor parameters.
        statement: statement that the rows are part of.
        rows: of VALUES.
        fields: columns of the table that the values are for.
        defaulted: columns that have a default.

    Raises:
        LanceGatewayError: a row has the wrong number of values, or a value does not fit its column.
    """
    for number, row in enumerate(rows, start=1):
        if len(row.expressions) != len(fields):
            names = ", ".join(field.name for field in fields[:20])
            msg = f"Row {number} has {len(row.expressions)} value(s), and {len(fields)} are needed ({names})"
            raise statement.error(row, f"{msg}")
    directly = Shortcut.LITERAL_VALUES in session.settings.shortcuts
    expressions: list[exp.Expr] = []
    columns = []
    for at, field in enumerate(fields):
        constants: list[Constant] = []
        numbers: list[int] = []
        places: list[int] = []
        parameters: dict[int, int] = {}
        found: dict[int, int] = {}
        given_default: list[int] = []
        for number, row in enumerate(rows):
            value = row.expressions[at]
            is_defaulted = is_default(value)
            if field.name in defaulted and is_defaulted:
                places.append(-1)
                given_default.append(number)
                continue
            ordinal = statement.parameter(value)
            constant = NULL if is_defaulted else read_constant(value, directly=directly)
            places.append(len(constants) if constant is not None else -1)
            if constant is not None:
                constants.append(constant)
                numbers.append(number + 1)
            elif ordinal is not None:
                parameters[number] = ordinal
            else:
                found[number] = len(expressions)
                expressions.append(value)
        typed = build_constant_column(constants, field, numbers) if constants else pa.array([], field.type)
        columns.append(ValuesColumn(field, typed, places, parameters, found, given_default))
    made = ComputedValues()
    if expressions:
        made = prepare_computed_values(session, statement, expressions)
        types = made.types()
        for column in columns:
            for place in column.computed.values():
                check_assignable(types[place], column.field)
    return ValuesRows(len(rows), tuple(columns), made)
