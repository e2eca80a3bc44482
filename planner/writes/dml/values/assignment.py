"""Converts literals and arrays to columns of a table; errors name column, row and value."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import DefaultValues
from lance_gateway.memwal.rules.expressions import shorten_reason
from lance_gateway.planner.writes.dml.statement.target import Target
from lance_gateway.planner.writes.dml.statement.tree import locate
from lance_gateway.planner.writes.dml.values.casting import MISFITS, convert

_SHOWN = 80
Kind: TypeAlias = Literal[
    "null", "integer", "number", "text", "boolean", "bytes", "list", "date", "timestamp", "time"
]
_INT64 = 1 << 63
_TYPED: dict[exp.DType, Kind] = {
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIME: "time",
}


def assign(
    values: pa.Array | pa.ChunkedArray,
    field: pa.Field,
    first_row: int = 1,
    *,
    rows: Sequence[int] | None = None,
) -> pa.ChunkedArray:
    """Convert values to the type of a column.

    Args:
        values: values of any type; not copied if they have the column's type.
        field: the column.
        first_row: row number of the first value, for messages.
        rows: row number of each value, if the numbers are not consecutive.

    Raises:
        InvalidInputError: a value does not fit; names the column, the row and the value.
    """
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    if column.type.equals(field.type):
        return column
    chunks, row = [], first_row
    for chunk in column.chunks:
        try:
            chunks.append(convert(chunk, field.type))
        except MISFITS as error:
            numbers = range(row, row + len(chunk)) if rows is None else rows[row - first_row :]
            raise _misfit_error(chunk, field, numbers, error) from error
        row += len(chunk)
    return pa.chunked_array(chunks, field.type)


def check_assignable(kind: pa.DataType, field: pa.Field) -> None:
    """Check that values of a type may fit a column.

    Raises:
        InvalidInputError: they never fit; names the column and both types.
    """
    if kind.equals(field.type) or pa.types.is_null(kind):
        return
    try:
        convert(pa.array([], kind), field.type)
    except MISFITS as error:
        msg = f"column {field.name!r} is {_format_type(field.type)}, and is given {_format_type(kind)}"
        raise InvalidInputError(f"{msg}: {_format_error(error)}") from error


def check_not_null(rows: pa.Table, required: Sequence[str] | frozenset[str], first_row: int = 1) -> None:
    """Check that NOT NULL columns have no NULL.

    Raises:
        InvalidInputError: a column has one; names the column and the row.
    """
    for name in rows.column_names:
        if name not in required or not rows.column(name).null_count:
            continue
        row = first_row + rows.column(name).is_null().index(True).as_py()
        msg = f"column {name!r} of row {row} is NULL, which it must not be: give it a value"
        raise InvalidInputError(msg)


def _misfit_error(
    values: pa.Array, field: pa.Field, rows: Sequence[int], error: Exception
) -> InvalidInputError:
    """Build the error for the first value that does not fit, which a binary search finds."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(values.slice(low, middle - low), field.type)
        except MISFITS as misfit:
            high, error = middle, misfit
        else:
            low = middle
    try:
        convert(values.slice(low, 1), field.type)
    except MISFITS as misfit:
        error = misfit
    text = "nothing" if not len(values) else _format_value(values[low])
    return InvalidInputError(
        f"column {field.name!r} ({_format_type(field.type)}), row {rows[low]}: {text} does not fit: "
        f"{_format_error(error)}"
    )


def _format_value(value: pa.Scalar) -> str:
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError, pa.ArrowException):
        text = str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _format_type(kind: pa.DataType) -> str:
    text = str(kind)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _format_error(error: Exception) -> str:
    return shorten_reason(error).rstrip(".")


def fill_columns(target: Target, rows: pa.Table, defaults: DefaultValues, first_row: int = 1) -> pa.Table:
    """Add the missing columns of a table to rows, with their defaults, or NULL.

    Args:
        target: the table.
        rows: some of its columns, in its types.
        defaults: defaults of the statement.
        first_row: number of the first row, for messages.

    Raises:
        InvalidInputError: a NOT NULL column has a NULL, or a default can't be evaluated.
    """
    places = {name: at for at, name in enumerate(rows.column_names)}
    columns = [
        rows.column(places[field.name])
        if field.name in places
        else pa.chunked_array([defaults.build(field, rows.num_rows)])
        for field in target.schema
    ]
    for name, numbers in target.identities.items():
        if name in places:
            numbers.note_given(rows.column(places[name]))
    # Checked before the schema is applied, which declares that some columns have no NULLs.
    check_not_null(pa.Table.from_arrays(columns, names=target.schema.names), target.required, first_row)
    return pa.Table.from_arrays(columns, schema=target.schema)


def fill_batch(
    target: Target, columns: Sequence[str], batch: pa.RecordBatch, defaults: DefaultValues, first_row: int
) -> pa.Table:
    """Convert a batch to the table's types, and add the missing columns as `fill_columns` does.

    Args:
        target: the table.
        columns: target column of each column of the batch.
        batch: the values.
        defaults: defaults of the statement.
        first_row: number of the first row, for messages.

    Raises:
        InvalidInputError: a value does not fit, or a NOT NULL column has a NULL.
    """
    arrays = [
        assign(values, target.schema.field(name), first_row)
        for name, values in zip(columns, batch.columns, strict=True)
    ]
    return fill_columns(target, pa.table(arrays, list(columns)), defaults, first_row)


def check_required_columns(target: Target, columns: Sequence[str], giver: str) -> None:
    """Check that all NOT NULL columns without a default get values.

    Args:
        target: the table.
        columns: columns that get values.
        giver: source of the values, for the message.

    Raises:
        InvalidInputError: a column is missing.
    """
    given = {*columns, *target.defaults}
    missing = [name for name in target.schema.names if name in target.required and name not in given]
    if missing:
        msg = (
            f"column {missing[0]!r} of table {target.name!r} must not be NULL, and {giver} gives it no value"
        )
        raise InvalidInputError(msg)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; `value` is an int, str, bool, bytes, list or None; numbers with a point are text."""

    kind: Kind
    value: object

    @property
    def scalar(self) -> pa.Scalar | None:
        """The value; None if it depends on what the literal is compared with."""
        is_exact = self.kind in ("null", "text", "boolean") or (self.kind == "integer" and self.is_native)
        return pa.scalar(self.value) if is_exact else None

    @property
    def is_native(self) -> bool:
        """Whether DataFusion reads the literal as the same value; it would round numbers with a point."""
        if self.kind == "integer":
            return isinstance(self.value, int) and abs(self.value) < _INT64
        return self.kind in ("text", "boolean", "bytes")


NULL = Constant("null", None)


def is_default(value: exp.Expr) -> bool:
    """Whether a value is the keyword DEFAULT."""
    name = value.this if isinstance(value, exp.Column) and len(value.parts) == 1 else None
    return isinstance(name, exp.Identifier) and not name.quoted and name.name.upper() == "DEFAULT"


def read_constant(value: exp.Expr, *, directly: bool = True) -> Constant | None:
    """Read an expression as a literal; returns None for other expressions.

    Args:
        value: the expression.
        directly: whether to read literals that DataFusion reads as the same value.
    """
    constant = _read_literal(value)
    return constant if directly or constant is None or not constant.is_native else None


def _read_literal(value: exp.Expr) -> Constant | None:
    match value:
        case exp.Literal(is_string=True):
            return Constant("text", value.name)
        case exp.Literal():
            return _read_number(value.name)
        case exp.Neg():
            constant = _read_literal(value.this)
            return _negate(constant) if constant and constant.kind in ("integer", "number") else None
        case exp.Null():
            return NULL
        case exp.Boolean():
            return Constant("boolean", value.this)
        case exp.HexString():
            with suppress(ValueError):
                return Constant("bytes", bytes.fromhex(value.name))
        case exp.Cast(this=exp.Literal(is_string=True)) if _is_typed_literal(value):
            return Constant(_TYPED[value.to.this], value.name)
        case exp.Array():
            return _read_list(value)
    return None


def _is_typed_literal(cast: exp.Cast) -> bool:
    """Return whether a cast is written as DATE '2020-01-01', with the text at its end."""
    is_last = locate(cast).stop == locate(cast.this).stop
    return is_last and cast.to.this in _TYPED and not cast.to.expressions


def _read_number(text: str) -> Constant | None:
    if text.isdecimal():
        return Constant("integer", int(text))
    return Constant("number", text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and not text.startswith(("0x", "0X")) and "_" not in text
    except ValueError:
        return False


def _negate(constant: Constant) -> Constant:
    if constant.kind == "integer":
        assert isinstance(constant.value, int)  # noqa: S101 - by its kind
        return Constant("integer", -constant.value)
    return Constant("number", f"-{constant.value}")


def _read_list(array: exp.Array) -> Constant | None:
    """Read a list of literals; returns None if an element must be read by DataFusion."""
    values = []
    for item in array.expressions:
        element = _read_literal(item)
        if element is None or element.kind in ("date", "timestamp", "time", "bytes"):
            return None
        values.append(float(str(element.value)) if element.kind == "number" else element.value)
    return Constant("list", values)


def build_constant_column(
    constants: Sequence[Constant], field: pa.Field, rows: Sequence[int] | None = None
) -> pa.Array:
    """Convert literals to an array of a column's type.

    Args:
        constants: the literals.
        field: the column.
        rows: row number of each literal, for messages; by default counted from 1.

    Raises:
        InvalidInputError: a literal does not fit.
    """
    numbers = range(1, len(constants) + 1) if rows is None else rows
    groups: dict[Kind, list[int]] = {}
    for at, constant in enumerate(constants):
        groups.setdefault(constant.kind, []).append(at)
    arrays, order = [], []
    for kind, places in groups.items():
        values = _build_array(kind, [constants[at].value for at in places], field.type)
        arrays += assign(values, field, rows=[numbers[at] for at in places]).chunks
        order += places
    if len(groups) == 1:
        return arrays[0] if len(arrays) == 1 else pa.chunked_array(arrays, field.type).combine_chunks()
    places = [0] * len(order)
    for place, at in enumerate(order):
        places[at] = place
    return pa.concat_arrays(arrays).take(pa.array(places, pa.int64()))


def _build_array(kind: Kind, values: list[object], target: pa.DataType) -> pa.Array:
    """Build an array of literals of one kind, in the type that keeps their digits."""
    if kind == "null":
        return pa.nulls(len(values))
    if kind == "integer":
        return _build_integers(values)
    if kind == "number":
        # Decimals and text keep all digits.
        if pa.types.is_floating(target) or pa.types.is_integer(target):
            return pa.array([float(str(value)) for value in values], pa.float64())
        if pa.types.is_decimal(target):
            return pa.array([decimal.Decimal(str(value)) for value in values])
        return pa.array([str(value) for value in values])
    if kind == "list":
        return _build_lists(values)
    array = pa.array(values)
    exact = {"date": pa.date32(), "time": pa.time64("us")}.get(kind)
    try:
        return array if exact is None else convert(array, exact)
    except MISFITS:
        return array


def _build_integers(values: list[object]) -> pa.Array:
    if all(isinstance(value, int) and -_INT64 <= value < _INT64 for value in values):
        return pa.array(values, pa.int64())
    return pa.array([decimal.Decimal(str(value)) for value in values])


def _build_lists(values: list[object]) -> pa.Array:
    try:
        return pa.array(values)
    except pa.ArrowInvalid:
        # 1 and 2.5 in one list.
        return pa.array([_convert_to_floats(value) for value in values])


def _convert_to_floats(value: object) -> object:
    if isinstance(value, list):
        return [_convert_to_floats(element) for element in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
