"""SET: which columns get which values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from memwal.errors import InvalidInputError, UnsupportedError
from planner.sql.statement_reader import Part, StatementReader
from planner.sql.tokens import quote
from planner.writes.dml.statement.target import Target
from planner.writes.dml.statement.text import Splice, WriteText
from planner.writes.dml.values.assignment import (
    NULL,
    assigned,
    check_assignable,
    check_required,
    constant_column,
    read_constant,
)

__all__ = ["Assignment", "SetColumns", "read_assignments", "set_columns"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """One column, and the expression that it is set to."""

    column: str
    part: Part


@dataclass(frozen=True, eq=False)
class SetColumns:
    """Columns that are set, checked.

    Attributes:
        target: table.
        constants: column -> one value of its type.
        parameters: column -> ordinal.
        expressions: column -> expression.
        taken: columns that a source gives under the same names.
    """

    target: Target
    constants: dict[str, pa.Array] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    expressions: dict[str, Part] = field(default_factory=dict)
    taken: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All that are set."""
        return (*self.constants, *self.parameters, *self.expressions, *self.taken)

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal -> type of the column that a parameter is written to."""
        return {ordinal: self.target.schema.field(name).type for name, ordinal in self.parameters.items()}

    def add_to(self, splice: Splice, prefix: str) -> None:
        """Append the expressions to a SELECT list, in which something stands already.

        Args:
            splice: the SELECT so far.
            prefix: of the names of the columns.
        """
        for name, part in self.expressions.items():
            splice.add(", (").copy(part).add(f") AS {quote(prefix + name)}")

    def check_types(self, schema: pa.Schema, prefix: str) -> None:
        """Refuse expressions whose values never fit their column."""
        for name in (*self.expressions, *self.taken):
            check_assignable(schema.field(prefix + name).type, self.target.schema.field(name))

    def value(
        self, name: str, rows: pa.Table, prefix: str, parameters: Sequence[pa.Scalar]
    ) -> pa.ChunkedArray:
        """What a column is set to, in each of some rows."""
        column = self.target.schema.field(name)
        if name in self.expressions or name in self.taken:
            return assigned(rows.column(prefix + name), column)
        if name in self.constants:
            one = self.constants[name]
        else:
            one = assigned(pa.repeat(parameters[self.parameters[name]], 1), column).combine_chunks()
        return pa.chunked_array([one.take(pa.nulls(rows.num_rows, pa.int64()).fill_null(0))])

    def applied(
        self, rows: pa.Table, prefix: str, parameters: Sequence[pa.Scalar], columns: str = ""
    ) -> pa.Table:
        """Whole rows with their new values.

        Args:
            rows: the table's columns, and those of the expressions.
            prefix: of the names of the latter.
            parameters: of the statement.
            columns: prefix of the names of the former.

        Raises:
            InvalidInputError: a value does not fit, or is NULL where it must not be.
        """
        set_here, made = self.columns, []
        for one in self.target.schema:
            if one.name in set_here:
                made.append(self.value(one.name, rows, prefix, parameters))
                continue
            column = rows.column(columns + one.name)
            made.append(column if column.type.equals(one.type) else assigned(column, one))
        whole = pa.Table.from_arrays(made, names=self.target.schema.names)
        check_required(whole, self.target.required)
        return pa.Table.from_arrays(made, schema=self.target.schema)


def read_assignments(statement: WriteText, part: Part, names: frozenset[str]) -> list[Assignment]:
    """Read what stands behind SET.

    Args:
        statement: that the part belongs to.
        part: the assignments.
        names: of the table, that a column may carry.

    Raises:
        InvalidInputError: a syntax error.
        UnsupportedError: several columns that are set to one subquery.
    """
    found: list[Assignment] = []
    if not part:
        raise statement.text.error(part.start, "An assignment is expected: column = value; here")
    for piece in statement.reader(part.start).split_at_commas(part):
        reader = statement.reader(piece.start)
        if reader.word == "(":
            found += _several(statement, reader, piece, names)
            continue
        column = _column(reader, names)
        reader.expect("=")
        value = range(reader.at, piece.stop)
        if not value:
            raise reader.unexpected_error(f"A value for column {column!r} is expected")
        found.append(Assignment(column, value))
    return found


def _column(reader: StatementReader, names: frozenset[str]) -> str:
    first = reader.at
    *qualifiers, column = reader.read_qualified_name("The name of a column")
    if qualifiers and qualifiers[-1] not in names:
        shown = ".".join(qualifiers)
        raise reader.text.error(
            first, f"Only columns of the table that is written can be set, not of {shown!r};"
        )
    return column


def _several(
    statement: WriteText, reader: StatementReader, piece: Part, names: frozenset[str]
) -> list[Assignment]:
    """Read (a, b) = (1, 2)."""
    columns = [_column(statement.reader(one.start), names) for one in reader.read_bracketed_list()]
    reader.expect("=")
    reader.take("ROW")
    if reader.word != "(" or reader.words[reader.at + 1] in {"SELECT", "WITH", "VALUES"}:
        raise reader.unsupported_error(
            "Several columns at once are set to as many values in brackets; here stands"
        )
    first, values = reader.at, reader.read_bracketed_list()
    if reader.at != piece.stop or len(values) != len(columns):
        reader.at = first
        raise reader.unexpected_error(f"{len(columns)} value(s) in brackets are expected")
    return [Assignment(column, value) for column, value in zip(columns, values, strict=True)]


def set_columns(
    statement: WriteText,
    target: Target,
    assignments: Sequence[Assignment],
    *,
    key_too: bool = False,
    directly: bool = True,
) -> SetColumns:
    """Check assignments.

    Args:
        statement: that they belong to.
        target: table.
        assignments: column and expression of each.
        key_too: whether key and region columns may be set, as in an INSERT.
        directly: see `read_constant`.

    Raises:
        InvalidInputError: an unknown column, one that is set twice, or a literal that does not fit.
        UnsupportedError: a column of the key, or one that decides about the region.
    """
    made = SetColumns(target)
    for one in assignments:
        try:
            target.check_column(one.column)
        except InvalidInputError as error:
            raise statement.text.error(one.part.start, f"{error}; its value stands") from error
        if one.column in made.columns:
            msg = f"column {one.column!r} is set twice; its value stands"
            raise statement.text.error(one.part.start, msg)
        if not key_too:
            check_movable(target, one.column)
        ordinal = statement.parameter(one.part)
        is_default = len(one.part) == 1 and statement.text.words[one.part.start] == "DEFAULT"
        constant = NULL if is_default else None
        if constant is None and ordinal is None:
            constant = read_constant(statement, one.part, directly=directly)
        if constant is not None:
            made.constants[one.column] = constant_column([constant], target.schema.field(one.column))
            if constant is NULL and one.column in target.required:
                msg = f"column {one.column!r} must not be NULL; its value stands"
                raise statement.text.error(one.part.start, msg)
        elif ordinal is not None:
            made.parameters[one.column] = ordinal
        else:
            made.expressions[one.column] = one.part
    return made


def check_movable(target: Target, column: str) -> None:
    """Refuse to set a column that says which row it is, or where it lies.

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
            "change it: DELETE the row and INSERT it anew"
        )
        raise UnsupportedError(msg)
