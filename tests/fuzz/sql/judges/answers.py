"""Comparing answers as lists or multisets of rows."""

import math
from collections import Counter
from typing import Any

import pyarrow as pa

Rows = list[tuple[Any, ...]]


def rows_of(table: pa.Table, *, digits: int | None = None) -> Rows:
    """The rows as tuples that are equal when the values are: NaN is itself, numbers are equal across types.

    Args:
        digits: that floating-point numbers are compared to; all by default.
    """
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(_values(column, digits) for column in table.columns), strict=True))


def difference(left: Rows, right: Rows, *, ordered: bool) -> str | None:
    """What is in one list of rows and not in the other; None where they are the same."""
    if left == right:
        return None
    first, second = Counter(left), Counter(right)
    if first != second:
        missing, extra = list((second - first).elements()), list((first - second).elements())
        counts = f"{len(left)} and {len(right)} rows"
        return f"{counts}; only the first has {extra[:4]}, only the second {missing[:4]}"
    if not ordered:
        return None
    number = next(i for i, (one, two) in enumerate(zip(left, right, strict=True)) if one != two)
    return f"the same rows in another order: row {number} is {left[number]} and {right[number]}"


def type_difference(left: pa.Schema, right: pa.Schema) -> str | None:
    """Columns that have other names or types of another sort.

    Views of text are text, and what may be NULL may differ. So may widths: DataFusion's plans and batches
    differ in them, and the gateway gives what it advertised. So may units of times: the gateway casts dates
    to times of microseconds.
    """
    if left.names != right.names:
        return f"columns {left.names} and {right.names}"
    for one, two in zip(left, right, strict=True):
        if _sort(one.type) != _sort(two.type):
            return f"column {one.name!r} is {one.type} and {two.type}"
    return None


def _sort(data_type: pa.DataType) -> object:
    if pa.types.is_integer(data_type):
        return "integer"
    if pa.types.is_decimal(data_type):
        return "decimal"
    if pa.types.is_floating(data_type):
        return "float"
    if pa.types.is_large_string(data_type):
        return pa.string()
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    return _plain(data_type)


def _plain(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_binary_view(data_type):
        return pa.binary()
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_type)
    if pa.types.is_struct(data_type):
        return pa.struct([(one.name, _plain(one.type)) for one in data_type])
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(data_type.value_type, data_type.list_size)
    return data_type


def _values(column: pa.ChunkedArray, digits: int | None) -> list[Any]:
    data_type = column.type
    if pa.types.is_floating(data_type):
        return [_number(one, digits) for one in column.to_pylist()]
    if pa.types.is_timestamp(data_type):
        factor = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}[data_type.unit]
        return [None if one is None else one * factor for one in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(data_type):
        return [None if one is None else one.isoformat() for one in column.to_pylist()]
    values = column.to_pylist()
    if pa.types.is_nested(data_type):
        return [repr(one) for one in values]
    return values


def _number(value: float | None, digits: int | None) -> Any:
    if value is None:
        return None
    if math.isnan(value):
        return "NaN"
    if digits is None or math.isinf(value) or not value:
        return value
    return float(f"{value:.{digits}g}")
