"""Values of all engines in one form, so that equal values are equal and may be keys."""

import datetime as dt
import json
import math
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = dt.datetime(1970, 1, 1)


def values_of(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column: instants as nanoseconds, structs and lists as tuples."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in values_of(chunk)]
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return values_of(array.storage)
    if pa.types.is_dictionary(arrow):
        return values_of(array.dictionary_decode())
    if pa.types.is_timestamp(arrow):
        factor = 10**9 // _PER_SECOND[arrow.unit]
        return [None if one is None else one * factor for one in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(arrow):
        return array.cast(pa.date32()).cast(pa.int32()).to_pylist()
    if pa.types.is_duration(arrow):
        return array.cast(pa.int64()).to_pylist()
    if pa.types.is_time(arrow):
        arrow_int = pa.int32() if arrow.bit_width == 32 else pa.int64()
        factor = 10**9 // _PER_SECOND[arrow.unit]
        return [None if one is None else one * factor for one in array.cast(arrow_int).to_pylist()]
    if pa.types.is_struct(arrow):
        fields = [values_of(array.field(index)) for index in range(arrow.num_fields)]
        valid = array.is_valid().to_pylist()
        return [
            tuple(row) if there else None for row, there in zip(zip(*fields, strict=True), valid, strict=True)
        ]
    if (
        pa.types.is_map(arrow)
        or pa.types.is_list(arrow)
        or pa.types.is_large_list(arrow)
        or pa.types.is_fixed_size_list(arrow)
    ):
        made = [_nested(one.values) if one.is_valid else None for one in array]
        return (
            [None if one is None else tuple(sorted(one)) for one in made] if pa.types.is_map(arrow) else made
        )
    return [_plain(one) for one in array.to_pylist()]


def _nested(values: pa.Array) -> tuple[Any, ...]:
    return () if values is None else tuple(values_of(values))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return str(value) if type(value).__name__ == "MonthDayNano" else value


def read_json(text: str) -> Any:
    """Return a row of another engine; numbers keep their digits."""
    return json.loads(text, parse_float=Decimal)


class UnreadableError(Exception):
    """A value of another engine that has no counterpart here."""


def read_as(value: Any, arrow: pa.DataType) -> Any:
    """Return a value from another engine's JSON as `values_of` does for our type.

    Raises:
        UnreadableError: it can't be one of that type.
    """
    try:
        return _read_as(value, arrow)
    except (ValueError, TypeError, KeyError, OverflowError, ArithmeticError) as error:
        raise UnreadableError(f"{value!r} as {arrow}") from error


def _read_as(value: Any, arrow: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_dictionary(arrow):
        return _read_as(value, arrow.value_type)
    if pa.types.is_timestamp(arrow):
        return _nanoseconds(value)
    if pa.types.is_duration(arrow) or pa.types.is_interval(arrow):
        raise ValueError(value)
    if pa.types.is_time(arrow):
        return _nanoseconds(f"1970-01-01T{value}")
    if pa.types.is_date(arrow):
        if value[10:] not in ("", "T00:00:00", "T00:00:00+00:00"):
            raise ValueError(value)
        return (dt.date.fromisoformat(value[:10]) - _EPOCH.date()).days
    if pa.types.is_floating(arrow) or pa.types.is_decimal(arrow) or pa.types.is_integer(arrow):
        if isinstance(value, bool):
            return value
        number = Decimal(value)
        if number.is_nan():
            return "NaN"
        return float(number) if pa.types.is_floating(arrow) else number
    if pa.types.is_struct(arrow):
        return tuple(_read_as(value.get(one.name), one.type) for one in arrow)
    if pa.types.is_map(arrow):
        return tuple(sorted((key, _read_as(one, arrow.item_type)) for key, one in value.items()))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return tuple(_read_as(one, arrow.value_type) for one in value)
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return value if isinstance(value, str) else json.dumps(value, default=str)
    return value


def _nanoseconds(text: str) -> int:
    moment = dt.datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return round((moment - _EPOCH) / dt.timedelta(microseconds=1)) * 1000


def are_equal(ours: Any, theirs: Any, arrow: pa.DataType, *, digits: float = 1e-13) -> bool:
    """Return whether two values mean the same.

    Args:
        arrow: The type of ours.
        digits: The relative difference that floats may have, and fractions of decimals that were divided.
    """
    if ours == theirs:
        return True
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        inner = (
            [one.type for one in arrow]
            if pa.types.is_struct(arrow)
            else [getattr(arrow, "value_type", arrow)] * len(ours)
        )
        return len(ours) == len(theirs) and all(
            are_equal(*pair, digits=digits) for pair in zip(ours, theirs, inner, strict=True)
        )
    if isinstance(ours, float) and isinstance(theirs, float | int | Decimal):
        digits = max(digits, {"halffloat": 1e-3, "float": 1e-6}.get(str(arrow), 0))
        # Quotients and powers of decimals have 16 digits behind the point.
        least = 1e-15 if digits >= 1e-3 else 1e-300
        return math.isclose(ours, float(theirs), rel_tol=digits, abs_tol=least)
    if isinstance(ours, Decimal) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=digits)  # another engine has a double
    if isinstance(ours, Decimal | int) and isinstance(theirs, Decimal | int) and digits > 1e-13:
        return math.isclose(ours, theirs, rel_tol=1e-3, abs_tol=1e-3)
    return False


def as_column(values: list[Any], column: pa.ChunkedArray) -> list[Any]:
    """Return decimals as doubles beside a column of doubles: a set operation unites the types."""
    is_floating = pa.types.is_floating(column.type)
    return [float(one) if is_floating and isinstance(one, Decimal) else one for one in values]


def row_key(row: tuple[Any, ...], digits: int) -> tuple[Any, ...]:
    """A row as a key that is the same for floats that are nearly so."""
    return tuple([float(f"{one:.{digits}g}") if isinstance(one, float) else one for one in row])


def are_rows_close(some: list[tuple[Any, ...]], others: list[tuple[Any, ...]], digits: int) -> bool:
    """Return whether rows differ only in the last digits of floats, which were rounded apart."""
    others = list(others)
    for row in some:
        found = next((one for one in others if all(map(partial(_is_close, digits=digits), row, one))), None)
        if found is None:
            return False
        others.remove(found)
    return not others


def _is_close(one: Any, other: Any, *, digits: int) -> bool:
    is_float = isinstance(one, float) and isinstance(other, float)
    return one == other or (is_float and math.isclose(one, other, rel_tol=1.1 * 10.0 ** (1 - digits)))
