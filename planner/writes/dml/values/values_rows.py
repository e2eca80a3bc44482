"""VALUES as columns: literals are typed once, parameters cast as whole columns, the rest is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from memwal.errors import InvalidInputError
from planner.bridge.run_control import RunControl
from planner.scans.settings import Shortcut
from planner.sql.statement_reader import Part, StatementReader
from planner.writes.dml.statement.text import Computed, ReadSession, WriteText, computed
from planner.writes.dml.values.assignment import (
    NULL,
    Constant,
    assigned,
    check_assignable,
    constant_column,
    read_constant,
)

__all__ = ["ValuesColumn", "ValuesRows", "read_rows", "values_rows"]


@dataclass(frozen=True, eq=False)
class ValuesColumn:
    """One column of VALUES.

    Attributes:
        field: of the table, that it is for.
        constants: its literals, in the table's type.
        places: per row: number of its literal, or -1.
        parameters: row -> ordinal of the parameter that stands there.
        computed: row -> number of the expression that stands there.
    """

    field: pa.Field
    constants: pa.Array
    places: Sequence[int]
    parameters: Mapping[int, int]
    computed: Mapping[int, int]

    @property
    def is_constant(self) -> bool:
        """Whether it has nothing but literals."""
        return not self.parameters and not self.computed

    def values(
        self, sets: int, parameters: Sequence[pa.ChunkedArray], found: Sequence[pa.Array]
    ) -> pa.ChunkedArray:
        """The column for some sets of parameters: all rows of the first set, then those of the second.

        Args:
            sets: how many sets of parameters there are.
            parameters: a column for each parameter.
            found: what was computed, for one set of parameters.
        """
        field, rows = self.field, len(self.places)
        if self.is_constant and sets == 1:
            return pa.chunked_array([self.constants])
        if rows == 1 and self.parameters:
            return assigned(parameters[self.parameters[0]], field)
        arrays, first = [self.constants], {}
        at = len(self.constants)
        for row in (*self.parameters, *self.computed):
            ordinal = self.parameters.get(row)
            given = found[self.computed[row]] if ordinal is None else parameters[ordinal]
            numbers = range(row + 1, row + 1 + sets * rows, rows)
            chunks = assigned(given, field, rows=numbers).chunks
            arrays += chunks
            first[row] = at
            at += sum(map(len, chunks))
        order = np.empty((sets, rows), np.int64)
        for row, place in enumerate(self.places):
            order[:, row] = place if place >= 0 else first[row] + np.arange(sets)
        return pa.chunked_array([pa.concat_arrays(arrays).take(pa.array(order.ravel()))])


@dataclass(frozen=True, eq=False)
class ValuesRows:
    """VALUES, checked.

    Attributes:
        count: rows.
        columns: as many as each row has values.
        computed: expressions that are neither literals nor parameters.
    """

    count: int
    columns: tuple[ValuesColumn, ...]
    computed: Computed

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal -> type that suits it best: of the column that it is written to."""
        types: dict[int, pa.DataType] = {}
        for read in self.computed.reads:
            types |= read.parameter_types
        direct: dict[int, pa.DataType] = {}
        for column in self.columns:
            for ordinal in column.parameters.values():
                direct.setdefault(ordinal, column.field.type)
        return types | direct

    def table(self, parameters: Sequence[pa.ChunkedArray], sets: int, control: RunControl) -> pa.Table:
        """The rows for some sets of parameters, in order.

        Raises:
            InvalidInputError: a value does not fit its column.
        """
        if self.computed.reads and sets > 1:
            each = [
                self.table([column.slice(one, 1) for column in parameters], 1, control) for one in range(sets)
            ]
            return pa.concat_tables(each)
        scalars = [column[0] for column in parameters] if self.computed.reads else []
        found = self.computed.values(scalars, control)
        columns = [one.values(sets, parameters, found) for one in self.columns]
        return pa.Table.from_arrays(columns, schema=pa.schema([one.field for one in self.columns]))


def read_rows(reader: StatementReader) -> list[list[Part]]:
    """VALUES with its rows, as far as they reach.

    Raises:
        InvalidInputError: a row that is none.
    """
    reader.expect("VALUES")
    rows = []
    while True:
        reader.take("ROW")
        if reader.word != "(":
            raise reader.unexpected_error("A row of values in brackets is expected")
        rows.append(reader.read_bracketed_list())
        if not reader.take(","):
            return rows


def values_rows(
    session: ReadSession,
    statement: WriteText,
    rows: Sequence[Sequence[Part]],
    fields: Sequence[pa.Field],
    common_tables: Part,
) -> ValuesRows:
    """Check rows of values.

    Args:
        session: computes what is neither literal nor parameter.
        statement: that the rows are part of.
        rows: one part per value.
        fields: columns that they are for.
        common_tables: WITH of the statement.

    Raises:
        LanceGatewayError: what is wrong with them.
    """
    for number, row in enumerate(rows, start=1):
        if len(row) != len(fields):
            at = row[0].start if row else 0
            names = ", ".join(field.name for field in fields[:20])
            msg = f"Row {number} has {len(row)} value(s), and {len(fields)} are needed ({names})"
            raise statement.text.error(at, f"{msg}; it begins")
    directly = Shortcut.LITERAL_VALUES in session.settings.shortcuts
    expressions: list[Part] = []
    columns = []
    for at, field in enumerate(fields):
        constants: list[Constant] = []
        numbers: list[int] = []
        places: list[int] = []
        parameters: dict[int, int] = {}
        found: dict[int, int] = {}
        for number, parts in enumerate(rows):
            part = parts[at]
            ordinal = statement.parameter(part)
            constant = None if ordinal is not None else _constant(statement, part, directly=directly)
            places.append(len(constants) if constant is not None else -1)
            if constant is not None:
                constants.append(constant)
                numbers.append(number + 1)
            elif ordinal is not None:
                parameters[number] = ordinal
            else:
                found[number] = len(expressions)
                expressions.append(part)
        typed = constant_column(constants, field, numbers) if constants else pa.array([], field.type)
        columns.append(ValuesColumn(field, typed, places, parameters, found))
    made = Computed()
    if expressions:
        made = computed(session, statement, expressions, common_tables)
        types = made.types()
        for column in columns:
            for place in column.computed.values():
                check_assignable(types[place], column.field)
    return ValuesRows(len(rows), tuple(columns), made)


def _constant(statement: WriteText, part: Part, *, directly: bool) -> Constant | None:
    """DEFAULT is NULL: columns have no other."""
    if not part:
        msg = "a value is missing between two commas of VALUES"
        raise InvalidInputError(msg)
    if len(part) == 1 and statement.text.words[part.start] == "DEFAULT":
        return NULL
    return read_constant(statement, part, directly=directly)
