"""Spark's filters as conditions of the gateway's SQL.

What is pushed is true for exactly the rows for which the filter is, or, of floating point, for these and
maybe a few others, which Spark then leaves out by itself: there the two see signs of zero and NaN
differently. Only forms that leave a scan a scan are used, so that it can still be read in parts.
"""

import datetime as dt
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as of

from lance_gateway.pipeline.source.options import quote_name

MAX_VALUES = 1000
MAX_TEXT_BYTES = 1 << 14
_COMPARISONS: dict[type[of.Filter], str] = {
    of.EqualTo: "=",
    of.GreaterThan: ">",
    of.GreaterThanOrEqual: ">=",
    of.LessThan: "<",
    of.LessThanOrEqual: "<=",
}
_OPPOSITES = {"=": "<>", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}
_UNITS = {
    "s": ("Second", 1_000_000),
    "ms": ("Millisecond", 1000),
    "us": ("Microsecond", 1),
    "ns": ("Nanosecond", 0),
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter in SQL.

    Attributes:
        sql: in brackets where it needs them.
        is_exact: whether Spark need not look again.
    """

    sql: str
    is_exact: bool = True


def translate_filter(one: of.Filter, schema: pa.Schema) -> Condition | None:
    """A filter in SQL; None where the two don't agree, or the gateway could no longer read in parts.

    Args:
        one: the filter.
        schema: of the result, as the gateway tells it.
    """
    negated = isinstance(one, of.Not)
    inner = one.child if isinstance(one, of.Not) else one
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    index = schema.get_field_index(path[0]) if len(path) == 1 else -1
    if index < 0:
        return None
    field = schema.field(index)
    column = quote_name(field.name)
    if isinstance(inner, of.IsNull | of.IsNotNull):
        if pa.types.is_null(field.type):
            return None
        is_null = isinstance(inner, of.IsNull) is not negated
        return Condition(f"{column} IS {'' if is_null else 'NOT '}NULL")
    if pa.types.is_floating(field.type):
        return None if negated else _of_floats(inner, column, field.type)
    sql = _exact(inner, column, field.type, negated=negated)
    return None if sql is None else Condition(sql)


def _exact(inner: of.Filter, column: str, kind: pa.DataType, *, negated: bool) -> str | None:
    if isinstance(inner, of.EqualNullSafe):
        if inner.value is None:
            return f"{column} IS {'NOT ' if negated else ''}NULL"
        value = literal(inner.value, kind)
        if value is None:
            return None
        return f"({column} <> {value} OR {column} IS NULL)" if negated else f"{column} = {value}"
    if isinstance(inner, of.In):
        return _among(inner.value, column, kind, negated=negated)
    if isinstance(inner, of.StringStartsWith):
        return _beginning(inner.value, column, kind, negated=negated)
    operator = _COMPARISONS.get(type(inner))
    value = None if operator is None else literal(getattr(inner, "value", None), kind)
    if operator is None or value is None or (pa.types.is_boolean(kind) and operator != "="):
        return None
    return f"{column} {_OPPOSITES[operator] if negated else operator} {value}"


def _among(values: Sequence[Any], column: str, kind: pa.DataType, *, negated: bool) -> str | None:
    if negated and None in values:
        return None  # never true
    present = [literal(value, kind) for value in values if value is not None]
    if not present or len(present) > MAX_VALUES or None in present:
        return None
    return f"{column} {'NOT ' if negated else ''}IN ({', '.join(filter(None, present))})"


def _beginning(prefix: str, column: str, kind: pa.DataType, *, negated: bool) -> str | None:
    """Translate a prefix to a range, since LIKE would add a node to the plan of a scan."""
    low = literal(prefix, kind)
    if low is None or not prefix:
        return None
    end = _after(prefix)
    if end is None:
        return f"{column} {'<' if negated else '>='} {low}"
    high = literal(end, kind)
    if negated:
        return f"({column} < {low} OR {column} >= {high})"
    return f"({column} >= {low} AND {column} < {high})"


def _after(prefix: str) -> str | None:
    """The least text that is greater than everything that begins with `prefix`; both go by code points."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no characters.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)


def _of_floats(inner: of.Filter, column: str, kind: pa.DataType) -> Condition | None:
    if isinstance(inner, of.In):
        values = [value for value in inner.value if value is not None]
        made = [_float(value, kind) for value in values]
        if not made or len(made) > MAX_VALUES or None in made:
            return None
        return Condition(f"{column} IN ({', '.join(dict.fromkeys(_with_zeros(made)))})", is_exact=False)
    if isinstance(inner, of.EqualNullSafe | of.EqualTo):
        value = _float(inner.value, kind)
        return (
            None
            if value is None
            else Condition(f"{column} IN ({', '.join(_with_zeros([value]))})", is_exact=False)
        )
    operator = _COMPARISONS.get(type(inner))
    value = None if operator is None else _float(getattr(inner, "value", None), kind)
    if operator is None or value is None:
        return None
    negative, positive = _zeros(kind)
    if value in (negative, positive):
        value = negative if operator == ">=" else positive
    if operator in ("<", "<="):
        return Condition(f"{column} {operator} {value}", is_exact=False)
    return Condition(
        f"({column} {operator} {value} OR {column} < {_format_typed('-Infinity', kind)})", is_exact=False
    )


def _float(value: object, kind: pa.DataType) -> str | None:
    if not isinstance(value, float) or math.isnan(value) or kind.equals(pa.float16()):
        return None
    if kind.equals(pa.float32()):
        try:
            (narrow,) = struct.unpack("<f", struct.pack("<f", value))
        except OverflowError:
            return None
        if narrow != value:
            return None
    return _format_typed(repr(value).replace("inf", "Infinity"), kind)


def _format_typed(text: str, kind: pa.DataType) -> str:
    return f"CAST('{text}' AS {'FLOAT' if kind.equals(pa.float32()) else 'DOUBLE'})"


def _zeros(kind: pa.DataType) -> tuple[str, str]:
    return _format_typed("-0.0", kind), _format_typed("0.0", kind)


def _with_zeros(values: Sequence[str | None]) -> list[str]:
    found = [value for value in values if value is not None]
    both = {
        zero
        for value in found
        for kind in (pa.float32(), pa.float64())
        if value in (zeros := _zeros(kind))
        for zero in zeros
    }
    return [*found, *sorted(both - set(found))]


def literal(value: object, kind: pa.DataType) -> str | None:
    """A value in SQL, in the type of its column; None where there is no exact one."""
    if pa.types.is_boolean(kind):
        return str(value).lower() if isinstance(value, bool) else None
    if pa.types.is_integer(kind):
        return _integer(value, kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text(value)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        short = isinstance(value, bytes | bytearray) and len(value) <= MAX_TEXT_BYTES
        return f"X'{bytes(value).hex()}'" if short and isinstance(value, bytes | bytearray) else None
    if pa.types.is_date32(kind):
        plain = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        return f"DATE '{value.isoformat()}'" if plain and isinstance(value, dt.date) else None
    if pa.types.is_timestamp(kind):
        return _timestamp(value, kind)
    if pa.types.is_decimal128(kind):
        return _decimal(value, kind)
    return None


def _integer(value: object, kind: pa.DataType) -> str | None:
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    bits = kind.bit_width
    low, high = (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if pa.types.is_signed_integer(kind) else (0, (1 << bits) - 1)
    )
    return str(value) if low <= value <= high else None


def _text(value: object) -> str | None:
    if not isinstance(value, str) or "\0" in value or len(value) > MAX_TEXT_BYTES:
        return None
    return "'" + value.replace("'", "''") + "'"


def _timestamp(value: object, kind: pa.DataType) -> str | None:
    if not isinstance(value, dt.datetime) or (value.tzinfo is None) != (kind.tz is None):
        return None
    moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    micros = (moment - _EPOCH) // _MICROSECOND
    name, divisor = _UNITS[kind.unit]
    if divisor and micros % divisor:
        return None
    number = micros // divisor if divisor else micros * 1000
    if not -(1 << 63) <= number < 1 << 63:
        return None
    zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
    return f"arrow_cast({number}, 'Timestamp({name}, {zone})')"


def _decimal(value: object, kind: pa.DataType) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    sign, digits, exponent = value.as_tuple()
    scaled = int("".join(map(str, digits)))
    shift = int(exponent) + kind.scale
    if shift < 0 and scaled % 10**-shift:
        return None
    scaled = scaled * 10**shift if shift >= 0 else scaled // 10**-shift
    if scaled >= 10**kind.precision:
        return None
    text = str(scaled).rjust(kind.scale + 1, "0")
    whole, part = (text[: -kind.scale], "." + text[-kind.scale :]) if kind.scale else (text, "")
    return f"CAST('{'-' if sign else ''}{whole}{part}' AS DECIMAL({kind.precision}, {kind.scale}))"
