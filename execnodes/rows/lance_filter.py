"""Filters of scans, and their text in Lance's filter language."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa


class RowFilter(Protocol):
    """A predicate over the table's columns with DataFusion's semantics.

    A row passes only if the predicate is true. NaN equals NaN and is greater than every other number.
    """

    @property
    def columns(self) -> frozenset[str]:
        """Names of the table columns that the predicate reads."""

    def sql(self, names: Mapping[str, str]) -> str | None:
        """Return the predicate as a Lance filter over stored columns; None if Lance can't express it.

        Args:
            names: table column -> stored column.
        """

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return one boolean per row of a batch that has at least `columns`."""


_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond"}


def quote_column(name: str) -> str | None:
    """Return a quoted column name; None if Lance can't quote it."""
    return None if "`" in name else f"`{name}`"


def format_literal(value: pa.Scalar) -> str | None:
    """Return a literal that Lance reads with the same type and value; None if it has none."""
    try:
        return _format_literal(value) if value.is_valid else None
    except (OverflowError, ValueError):
        # A date or a time before the year 1 or after 9999, which calendars of Python do not have.
        return None


def _format_literal(value: pa.Scalar) -> str | None:
    kind = value.type
    if pa.types.is_boolean(kind):
        return "true" if value.as_py() else "false"
    if pa.types.is_integer(kind):
        return _format_integer(value.as_py())
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _format_float(value.as_py(), "float" if pa.types.is_float32(kind) else "double")
    if pa.types.is_decimal128(kind):
        return f"cast('{value.as_py():f}' as decimal({kind.precision},{kind.scale}))"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = value.as_py().replace("'", "''")
        return f"'{text}'"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"X'{value.as_py().hex()}'"
    if pa.types.is_date32(kind):
        return f"date '{value.as_py().isoformat()}'"
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return _format_timestamp(value)
    return None


def format_in_list(name: str, values: Sequence[pa.Scalar] | pa.Array) -> str | None:
    """Return ``name = value`` or ``name IN (...)``; None if Lance can't express it."""
    quoted = quote_column(name)
    texts = [format_literal(value) for value in values]
    if quoted is None or not texts or any(text is None for text in texts):
        return None
    if len(texts) == 1:
        return f"{quoted} = {texts[0]}"
    return f"{quoted} IN ({', '.join(text for text in texts if text is not None)})"


def _format_timestamp(value: pa.TimestampScalar) -> str | None:
    zone = value.type.tz
    if zone in (None, "UTC"):
        instant = value.cast(pa.timestamp("us")).as_py()
        return f"timestamp '{instant.isoformat(sep=' ')}'"
    # Beside a column of another zone, Lance would read a text without zone as local time there.
    if "'" in zone or '"' in zone:
        return None
    return f"arrow_cast({value.value}, 'Timestamp({_UNITS[value.type.unit]}, Some(\"{zone}\"))')"


def _format_integer(value: int) -> str:
    # Lance reads digits as int64 and negates them afterwards: -2^63 would overflow on the way.
    return f"cast('{value}' as bigint)" if value == -(2**63) else str(value)


def _format_float(value: float, type_name: str) -> str | None:
    if math.isnan(value):
        # A NaN with a sign is another number, for which Lance has no literal.
        return None if math.copysign(1, value) < 0 else f"cast('NaN' as {type_name})"
    if math.isinf(value):
        return f"cast('{'-' if value < 0 else ''}inf' as {type_name})"
    return f"cast('{value!r}' as {type_name})"
