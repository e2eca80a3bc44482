"""Literals, and columns of any type, become columns of a table; an error names column, row and value."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from memwal.errors import InvalidInputError
from planner.sql.statement_reader import Part
from planner.writes.dml.statement.target import Target
from planner.writes.dml.statement.text import WriteText
from planner.writes.dml.values.casting import MISFITS, converted

__all__ = [
    "NULL",
    "Constant",
    "assigned",
    "check_assignable",
    "check_given",
    "check_required",
    "constant_column",
    "filled",
    "filled_batch",
    "read_constant",
]

_SHOWN = 80
Kind: TypeAlias = Literal[
    "null", "integer", "number", "text", "boolean", "bytes", "list", "date", "timestamp", "time"
]
_INT64 = 1 << 63
_TYPED: dict[str, Kind] = {"DATE": "date", "TIMESTAMP": "timestamp", "TIME": "time"}


def assigned(
    values: pa.Array | pa.ChunkedArray,
    field: pa.Field,
    first_row: int = 1,
    *,
    rows: Sequence[int] | None = None,
) -> pa.ChunkedArray:
    """Values as ones of a column.

    Args:
        values: of any type; handed through without a copy where it is the column's own.
        field: the column.
        first_row: number of the first value, for messages.
        rows: number of each value, where they do not follow one another.

    Raises:
        InvalidInputError: one of them does not fit; names the column, the row and the value.
    """
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    if column.type.equals(field.type):
        return column
    chunks, row = [], first_row
    for chunk in column.chunks:
        try:
            chunks.append(converted(chunk, field.type))
        except MISFITS as error:
            numbers = range(row, row + len(chunk)) if rows is None else rows[row - first_row :]
            raise _misfit(chunk, field, numbers, error) from error
        row += len(chunk)
    return pa.chunked_array(chunks, field.type)


def check_assignable(kind: pa.DataType, field: pa.Field) -> None:
    """Refuse a type whose values never fit a column.

    Raises:
        InvalidInputError: names the column and both types.
    """
    if kind.equals(field.type) or pa.types.is_null(kind):
        return
    try:
        converted(pa.array([], kind), field.type)
    except MISFITS as error:
        msg = f"column {field.name!r} is {_type_text(field.type)}, and is given {_type_text(kind)}"
        raise InvalidInputError(f"{msg}: {_reason(error)}") from error


def check_required(rows: pa.Table, required: Sequence[str] | frozenset[str], first_row: int = 1) -> None:
    """Refuse NULL where it must not be.

    Raises:
        InvalidInputError: names the column and the row.
    """
    for name in rows.column_names:
        if name not in required or not rows.column(name).null_count:
            continue
        row = first_row + rows.column(name).is_null().index(True).as_py()
        msg = f"column {name!r} of row {row} is NULL, which it must not be: give it a value"
        raise InvalidInputError(msg)


def _misfit(values: pa.Array, field: pa.Field, rows: Sequence[int], error: Exception) -> InvalidInputError:
    """Which value it was: the end of the shortest beginning that does not fit."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            converted(values.slice(low, middle - low), field.type)
        except MISFITS as found:
            high, error = middle, found
        else:
            low = middle
    try:
        converted(values.slice(low, 1), field.type)
    except MISFITS as found:
        error = found
    shown = "nothing" if not len(values) else _shown(values[low])
    return InvalidInputError(
        f"column {field.name!r} ({_type_text(field.type)}), row {rows[low]}: {shown} does not fit: "
        f"{_reason(error)}"
    )


def _shown(value: pa.Scalar) -> str:
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError, pa.ArrowException):
        text = str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _type_text(kind: pa.DataType) -> str:
    text = str(kind)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _reason(error: Exception) -> str:
    return str(error).strip().rstrip(".").split("\n")[0]


def filled(target: Target, given: pa.Table, first_row: int = 1) -> pa.Table:
    """Whole rows of a table: columns that are not given are NULL.

    Args:
        target: the table.
        given: some of its columns, in its types.
        first_row: number of the first row, for messages.

    Raises:
        InvalidInputError: NULL where it must not be.
    """
    places = {name: at for at, name in enumerate(given.column_names)}
    columns = [
        given.column(places[field.name])
        if field.name in places
        else pa.chunked_array([pa.nulls(given.num_rows, field.type)])
        for field in target.schema
    ]
    # Before the schema, which promises that there are no NULLs in some columns.
    check_required(pa.Table.from_arrays(columns, names=target.schema.names), target.required, first_row)
    return pa.Table.from_arrays(columns, schema=target.schema)


def filled_batch(target: Target, columns: Sequence[str], batch: pa.RecordBatch, first_row: int) -> pa.Table:
    """Whole rows of a table from values of any type that can be assigned to its columns.

    Args:
        target: the table.
        columns: what each column of the batch is in the table.
        batch: the values.
        first_row: number of the first row, for messages.

    Raises:
        InvalidInputError: a value that doesn't fit, or NULL where it must not be.
    """
    arrays = [
        assigned(values, target.schema.field(name), first_row)
        for name, values in zip(columns, batch.columns, strict=True)
    ]
    return filled(target, pa.table(arrays, list(columns)), first_row)


def check_given(target: Target, columns: Sequence[str], giver: str) -> None:
    """Refuse rows without a column that must not be NULL.

    Args:
        target: the table.
        columns: that are given.
        giver: who gives them, for the message.

    Raises:
        InvalidInputError: one is missing.
    """
    missing = [name for name in target.schema.names if name in target.required and name not in columns]
    if missing:
        msg = (
            f"column {missing[0]!r} of table {target.name!r} must not be NULL, and {giver} gives it no value"
        )
        raise InvalidInputError(msg)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; `value` is an int, str, bool, bytes, list or None, numbers with a point are text."""

    kind: Kind
    value: object

    @property
    def scalar(self) -> pa.Scalar | None:
        """What it equals; None where that depends on what it is compared with."""
        is_exact = self.kind in ("null", "text", "boolean") or (self.kind == "integer" and self.is_read_alike)
        return pa.scalar(self.value) if is_exact else None

    @property
    def is_read_alike(self) -> bool:
        """Whether DataFusion reads it in the same way; numbers with a point, for example, it would round."""
        if self.kind == "integer":
            return isinstance(self.value, int) and abs(self.value) < _INT64
        return self.kind in ("text", "boolean", "bytes")


NULL = Constant("null", None)


def read_constant(statement: WriteText, part: Part, *, directly: bool = True) -> Constant | None:
    """The literal that a part is; None where it is something else.

    Args:
        statement: that the part belongs to.
        part: an expression.
        directly: whether literals that DataFusion reads in the same way are read here.
    """
    found = _literal(statement, part)
    return found if directly or found is None or not found.is_read_alike else None


def _literal(statement: WriteText, part: Part) -> Constant | None:
    text = statement.text
    size, start = len(part), part.start
    token, word = text.tokens[start], text.words[start]
    if size == 1:
        return _single(token.token_type, token.text, word)
    if word in ("-", "+") and size == 2:
        found = _literal(statement, part[1:])
        if found is None or found.kind not in ("integer", "number"):
            return None
        return _negative(found) if word == "-" else found
    if size == 2 and text.tokens[start + 1].token_type is TokenType.STRING:
        return Constant(_TYPED[word], text.tokens[start + 1].text) if word in _TYPED else None
    first = start + (word == "ARRAY")
    if text.words[first] == "[" and text.words[part.stop - 1] == "]":
        return _list(statement, range(first, part.stop))
    return None


def _single(kind: TokenType, text: str, word: str) -> Constant | None:
    if kind is TokenType.NUMBER:
        if text.isdecimal():
            return Constant("integer", int(text))
        return Constant("number", text) if _is_number(text) else None
    if kind is TokenType.STRING:
        return Constant("text", text)
    if kind is TokenType.HEX_STRING:
        try:
            return Constant("bytes", bytes.fromhex(text))
        except ValueError:
            return None
    if kind is TokenType.VAR:
        if word in ("TRUE", "FALSE"):
            return Constant("boolean", word == "TRUE")
        if word == "NULL":
            return NULL
    return None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and not text.startswith(("0x", "0X")) and "_" not in text
    except ValueError:
        return False


def _negative(constant: Constant) -> Constant:
    if constant.kind == "integer":
        assert isinstance(constant.value, int)  # noqa: S101 - by its kind
        return Constant("integer", -constant.value)
    return Constant("number", f"-{constant.value}")


def _list(statement: WriteText, part: Part) -> Constant | None:
    """A list of literals of one kind; where an element is anything else, DataFusion must read it."""
    inner = part[1:-1]
    values = []
    for piece in statement.reader(inner.start).split_at_commas(inner) if inner else ():
        found = _literal(statement, piece)
        if found is None or found.kind in ("date", "timestamp", "time", "bytes"):
            return None
        values.append(float(str(found.value)) if found.kind == "number" else found.value)
    return Constant("list", values)


def constant_column(
    constants: Sequence[Constant], field: pa.Field, rows: Sequence[int] | None = None
) -> pa.Array:
    """Literals as values of a column.

    Args:
        constants: the literals.
        field: the column.
        rows: number of the row of each, for messages; by default they are counted from 1.

    Raises:
        InvalidInputError: one does not fit.
    """
    numbers = range(1, len(constants) + 1) if rows is None else rows
    groups: dict[Kind, list[int]] = {}
    for at, constant in enumerate(constants):
        groups.setdefault(constant.kind, []).append(at)
    arrays, order = [], []
    for kind, places in groups.items():
        values = _natural(kind, [constants[at].value for at in places], field.type)
        arrays += assigned(values, field, rows=[numbers[at] for at in places]).chunks
        order += places
    if len(groups) == 1:
        return arrays[0] if len(arrays) == 1 else pa.chunked_array(arrays, field.type).combine_chunks()
    places = [0] * len(order)
    for place, at in enumerate(order):
        places[at] = place
    return pa.concat_arrays(arrays).take(pa.array(places, pa.int64()))


def _natural(kind: Kind, values: list[object], target: pa.DataType) -> pa.Array:
    """Literals of one kind as the array that they are by themselves."""
    if kind == "null":
        return pa.nulls(len(values))
    if kind == "integer":
        return _integers(values)
    if kind == "number":
        # Decimals and text keep every digit.
        if pa.types.is_floating(target) or pa.types.is_integer(target):
            return pa.array([float(str(one)) for one in values], pa.float64())
        if pa.types.is_decimal(target):
            return pa.array([decimal.Decimal(str(one)) for one in values])
        return pa.array([str(one) for one in values])
    if kind == "list":
        return _lists(values)
    found = pa.array(values)
    exact = {"date": pa.date32(), "time": pa.time64("us")}.get(kind)
    try:
        return found if exact is None else converted(found, exact)
    except MISFITS:
        return found


def _integers(values: list[object]) -> pa.Array:
    if all(isinstance(one, int) and -_INT64 <= one < _INT64 for one in values):
        return pa.array(values, pa.int64())
    return pa.array([decimal.Decimal(str(one)) for one in values])


def _lists(values: list[object]) -> pa.Array:
    try:
        return pa.array(values)
    except pa.ArrowInvalid:
        # 1 and 2.5 in one list.
        return pa.array([_with_points(one) for one in values])


def _with_points(value: object) -> object:
    if isinstance(value, list):
        return [_with_points(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
