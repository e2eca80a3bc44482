"""DEFAULT of a column: constants, and functions without arguments from the row."""

from __future__ import annotations

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import DEFAULT, ColumnDefault, build_row_rules, drop_default
from lance_gateway.memwal.rules.defaults import Change
from lance_gateway.memwal.rules.expressions import evaluate_expressions
from lance_gateway.planner.bridge.row_expressions import rewrite_expression
from lance_gateway.planner.writes.ddl.statement import Reader
from lance_gateway.planner.writes.dml.values.assignment import assign

_ENDS = (
    (",",),
    ("NOT", "NULL"),
    ("NULL",),
    ("PRIMARY", "KEY"),
    ("COMMENT",),
    ("CONSTRAINT",),
    ("CHECK",),
    ("UNIQUE",),
    ("REFERENCES",),
    ("COLLATE",),
    ("GENERATED",),
)


def read_default(reader: Reader) -> str:
    """Read the expression behind DEFAULT.

    Raises:
        InvalidInputError: there is none.
    """
    first = reader.at
    if reader.word == "NULL":
        reader.at += 1
    rest = reader.until(*_ENDS)
    if reader.at == first:
        raise reader.unexpected_error("A value is expected behind DEFAULT")
    return reader.text.sql[reader.text.start(first) : reader.text.end(rest.stop - 1)]


def set_default(column: pa.Field, expression: str) -> pa.Field:
    """Return a column with a default; without one if that is NULL.

    Args:
        column: with the rules of its type in its metadata.
        expression: the default in SQL.

    Raises:
        InvalidInputError: the expression is not a default, or its value doesn't fit the column.
    """
    bare = drop_default(column)
    try:
        mended = rewrite_expression(expression, pa.schema([]))
        values = _evaluate(column, ColumnDefault(mended, column.type))
        build_row_rules("", pa.schema([column.with_nullable(nullable=True)]), ()).check(
            pa.table([values], names=[column.name])
        )
    except InvalidInputError as error:
        msg = f"DEFAULT {expression} of column {column.name!r} can't be used: {error}"
        raise InvalidInputError(msg) from error
    if values.null_count:
        return bare
    return bare.with_metadata({**(bare.metadata or {}), DEFAULT: mended.encode()})


def _evaluate(column: pa.Field, default: ColumnDefault) -> pa.Array:
    if default.change is Change.NEVER:
        row = pa.table({"row": pa.nulls(1, pa.bool_())})
        (values,) = evaluate_expressions([default.expression], row)
        # Times of day and dates of functions are cut to fit, constants are not.
        assign(values, column)
    return default.evaluate(1)
