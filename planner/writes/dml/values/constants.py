"""Literals in VALUES and SET: read without DataFusion, typed by the column that they are for."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from planner.writes.dml.statement.reader import Part, Reader, WriteText
from planner.writes.dml.values.assignment import assigned
from planner.writes.dml.values.casting import MISFITS, converted

__all__ = ["Constant", "constant_column", "read_constant"]

Kind: TypeAlias = Literal[
    "null", "integer", "number", "text", "boolean", "bytes", "list", "date", "timestamp", "time"
]
_INT64 = 1 << 63
_TYPED: dict[str, Kind] = {"DATE": "date", "TIMESTAMP": "timestamp", "TIME": "time"}


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; `value` is an int, str, bool, bytes, list or None, numbers with a point are text."""

    kind: Kind
    value: object


NULL = Constant("null", None)


def read_constant(statement: WriteText, part: Part, *, directly: bool = True) -> Constant | None:
    """The literal that a part is; None where it is something else.

    Args:
        statement: that the part belongs to.
        part: an expression.
        directly: whether literals that DataFusion reads in the same way are read here; numbers with a point,
            for example, it would round.
    """
    found = _literal(statement, part)
    return found if directly or found is None or not _is_read_alike(found) else None


def _is_read_alike(constant: Constant) -> bool:
    if constant.kind == "integer":
        assert isinstance(constant.value, int)  # noqa: S101 - by its kind
        return abs(constant.value) < _INT64
    return constant.kind in ("text", "boolean", "bytes")


def _literal(statement: WriteText, part: Part) -> Constant | None:
    text = statement.text
    size = part.end - part.first
    token, word = text.tokens[part.first], text.words[part.first]
    if size == 1:
        return _single(token.token_type, token.text, word)
    if word in ("-", "+") and size == 2:
        found = _literal(statement, Part(part.first + 1, part.end))
        if found is None or found.kind not in ("integer", "number"):
            return None
        return _negative(found) if word == "-" else found
    if size == 2 and text.tokens[part.first + 1].token_type is TokenType.STRING:
        value = text.tokens[part.first + 1].text
        if word in _TYPED:
            return Constant(_TYPED[word], value)
        return None
    first = part.first + (word == "ARRAY")
    if text.words[first] == "[" and text.words[part.end - 1] == "]":
        return _list(statement, Part(first, part.end))
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
    inner = Part(part.first + 1, part.end - 1)
    values = []
    for piece in Reader(statement, inner.first).separated(inner) if inner else ():
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
    try:
        if kind == "date":
            return converted(found, pa.date32())
        if kind == "timestamp":
            return found
        if kind == "time":
            return converted(found, pa.time64("us"))
    except MISFITS:
        return found
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
