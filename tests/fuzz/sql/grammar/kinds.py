"""The types of columns, their values and literals, and the families in which expressions are typed."""

import datetime as dt
import decimal
import math
import random
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa


class Family(Enum):
    """Types that operators and functions treat alike; `OPAQUE` ones can only be selected."""

    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    TEXT = "text"
    TRUTH = "truth"
    DATE = "date"
    MOMENT = "moment"
    INSTANT = "instant"
    CLOCK = "clock"
    BYTES = "bytes"
    JSON = "json"
    OPAQUE = "opaque"


NUMBERS = (Family.INTEGER, Family.FLOAT, Family.DECIMAL)
SCALARS = tuple(one for one in Family if one is not Family.OPAQUE)
COMMON = (Family.INTEGER, Family.FLOAT, Family.DECIMAL, Family.TEXT, Family.TRUTH, Family.DATE, Family.MOMENT)
"""Families that every expression may be of; the others come from columns alone."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a column.

    Attributes:
        sql: The type's name where both dialects have one, for CAST.
        values: That cells and literals are drawn from: few, so that they meet.
        extremes: Values at the ends of the type; arithmetic on them would overflow, so few columns have them.
        duck: The type in which DuckDB holds it; None where it does not.
    """

    name: str
    family: Family
    arrow: pa.DataType
    values: tuple[Any, ...]
    extremes: tuple[Any, ...] = ()
    sql: str = ""
    duck: pa.DataType | None = None


def _integer(name: str, arrow: pa.DataType, bits: int, *, signed: bool, sql: str) -> Kind:
    values: tuple[int, ...] = (0, 1, 2, 3, 5, 7, 20, 42, 100)
    low, high = (-(2 ** (bits - 1)) + 1, 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return Kind(
        name, Family.INTEGER, arrow, (*values, -1, -2, -7) if signed else values, (low, high), sql, arrow
    )


def _moments(unit: str) -> tuple[dt.datetime, ...]:
    parts = {"s": 0, "ms": 123_000, "us": 123_456, "ns": 123_456}
    return (
        dt.datetime(1969, 12, 31, 23, 59, 59),
        dt.datetime(1970, 1, 1),
        dt.datetime(2024, 2, 29),
        dt.datetime(2024, 2, 29, 23, 59, 59, parts[unit]),
        dt.datetime(2025, 1, 1, 12),
        dt.datetime(2025, 1, 1, 12, 0, 1),
    )


_DAYS = (
    dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 3, 1),
    dt.date(2025, 1, 1), dt.date(2025, 12, 31),
)  # fmt: skip
# Multiples of 1/4: their sums are exact in whatever order they are added.
_FLOATS = (0.0, 0.25, 1.0, 1.5, 2.5, 3.0, -1.0, -2.25, 42.0)
_TEXTS = (
    "",
    "a",
    "A",
    "ab",
    "abc",
    "b",
    "B c",
    "é",
    "it's",
    "a%b",
    "x_y",
    "12",
    " pad ",
    "TableScan: t",
    "Aggregate:",
)
_JSON = (
    '{"a": 1, "b": "ab"}',
    '{"b": [1, 2, {"a": "é"}], "a": null}',
    '{"a": {"a": [true, 2.5]}, "b": "it\'s", "a b": 7}',
    '{"a":-7,"b":false}',
    '["a", {"a": 20}, []]',
    "{}",
    "[]",
    "null",
    "42",
    '"ab"',
)
_DECIMALS = tuple(
    map(decimal.Decimal, ("0.00", "0.25", "1.00", "1.50", "7.50", "-1.25", "-7.00", "42.00", "99.99"))
)
_TIMESTAMP = pa.timestamp("us")

INT8 = _integer("int8", pa.int8(), 8, signed=True, sql="TINYINT")
INT16 = _integer("int16", pa.int16(), 16, signed=True, sql="SMALLINT")
INT32 = _integer("int32", pa.int32(), 32, signed=True, sql="INT")
INT64 = _integer("int64", pa.int64(), 64, signed=True, sql="BIGINT")
UINT8 = _integer("uint8", pa.uint8(), 8, signed=False, sql="")
UINT16 = _integer("uint16", pa.uint16(), 16, signed=False, sql="")
UINT32 = _integer("uint32", pa.uint32(), 32, signed=False, sql="")
UINT64 = _integer("uint64", pa.uint64(), 64, signed=False, sql="")
FLOAT32 = Kind(
    "float32", Family.FLOAT, pa.float32(), _FLOATS, (math.nan, math.inf, -math.inf), "REAL", pa.float32()
)
FLOAT64 = Kind(
    "float64", Family.FLOAT, pa.float64(), _FLOATS, (math.nan, math.inf, -math.inf), "DOUBLE", pa.float64()
)
DECIMAL = Kind(
    "decimal", Family.DECIMAL, pa.decimal128(10, 2), _DECIMALS, (), "DECIMAL(10, 2)", pa.decimal128(10, 2)
)
MONEY = Kind(
    "money", Family.DECIMAL, pa.decimal128(15, 4), _DECIMALS, (), "DECIMAL(15, 4)", pa.decimal128(15, 4)
)
TRUTH = Kind("bool", Family.TRUTH, pa.bool_(), (True, False), (), "BOOLEAN", pa.bool_())
TEXT = Kind("text", Family.TEXT, pa.string(), _TEXTS, ("x" * 300, "\U0001f600"), "VARCHAR", pa.string())
LARGE_TEXT = Kind("large_text", Family.TEXT, pa.large_string(), _TEXTS, (), "VARCHAR", pa.string())
JSON = Kind("json", Family.JSON, pa.string(), _JSON, (), "VARCHAR", pa.string())
BYTES = Kind(
    "binary", Family.BYTES, pa.binary(), (b"", b"\x00", b"a", b"\xff\x00", b"abc"), (), "", pa.binary()
)
LARGE_BYTES = Kind("large_binary", Family.BYTES, pa.large_binary(), (b"", b"a", b"\xff"), (), "", pa.binary())
DATE = Kind(
    "date32", Family.DATE, pa.date32(), _DAYS, (dt.date(1900, 1, 1), dt.date(2200, 1, 1)), "DATE", pa.date32()
)
DATE64 = Kind("date64", Family.DATE, pa.date64(), _DAYS, (), "DATE", pa.date32())
MOMENT = Kind("timestamp_us", Family.MOMENT, _TIMESTAMP, _moments("us"), (), "TIMESTAMP(6)", _TIMESTAMP)
MOMENT_S = Kind(
    "timestamp_s", Family.MOMENT, pa.timestamp("s"), _moments("s"), (), "TIMESTAMP(0)", _TIMESTAMP
)
MOMENT_MS = Kind(
    "timestamp_ms", Family.MOMENT, pa.timestamp("ms"), _moments("ms"), (), "TIMESTAMP(3)", _TIMESTAMP
)
MOMENT_NS = Kind(
    "timestamp_ns", Family.MOMENT, pa.timestamp("ns"), _moments("ns"), (), "TIMESTAMP(9)", _TIMESTAMP
)
INSTANT = Kind(
    "instant", Family.INSTANT, pa.timestamp("us", "UTC"),
    tuple(one.replace(tzinfo=dt.UTC) for one in _moments("us")), (), "", _TIMESTAMP,
)  # fmt: skip
# Not compared: DataFusion 55 takes TIMESTAMPTZ for a time of the day in Berlin.
INSTANT_BERLIN = Kind(
    "instant_berlin", Family.OPAQUE, pa.timestamp("us", "Europe/Berlin"), INSTANT.values,
)  # fmt: skip
CLOCK = Kind(
    "time64", Family.CLOCK, pa.time64("us"),
    (dt.time(0), dt.time(12, 30), dt.time(23, 59, 59, 999_999)), (), "", pa.time64("us"),
)  # fmt: skip
DURATION = Kind(
    "duration", Family.OPAQUE, pa.duration("us"), (dt.timedelta(0), dt.timedelta(days=1, seconds=1)),
)  # fmt: skip
LIST = Kind("list", Family.OPAQUE, pa.list_(pa.int64()), ([], [1], [1, None, 3]))
WORDS = Kind("words", Family.OPAQUE, pa.list_(pa.string()), ([], ["a"], ["a", "b c"]))
STRUCT = Kind(
    "struct", Family.OPAQUE, pa.struct([("x", pa.int32()), ("y", pa.string())]),
    ({"x": 1, "y": "a"}, {"x": None, "y": "b"}),
)  # fmt: skip
VECTOR = Kind("vector", Family.OPAQUE, pa.list_(pa.float32(), 2), ([0.0, 1.0], [0.5, -1.0]))

KINDS = (
    INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32, FLOAT64, DECIMAL, MONEY, TRUTH, TEXT,
    LARGE_TEXT, JSON, JSON, BYTES, LARGE_BYTES, DATE, DATE64, MOMENT, MOMENT_S, MOMENT_MS, MOMENT_NS, INSTANT,
    INSTANT_BERLIN, CLOCK, DURATION, LIST, WORDS, STRUCT, VECTOR,
)  # fmt: skip
CANONICAL = {
    Family.INTEGER: INT64, Family.FLOAT: FLOAT64, Family.DECIMAL: DECIMAL, Family.TEXT: TEXT,
    Family.TRUTH: TRUTH, Family.DATE: DATE, Family.MOMENT: MOMENT, Family.INSTANT: INSTANT,
    Family.CLOCK: CLOCK, Family.BYTES: BYTES, Family.JSON: JSON,
}  # fmt: skip
"""The kind that stands for a family where a literal or a CAST needs one."""


def kind_of(arrow: pa.DataType) -> Kind:
    """The kind of a column by its Arrow type: plain text, where that could be JSON."""
    return next(one for one in KINDS if one.arrow == arrow)


def draw_value(rng: random.Random, kind: Kind, *, extremes: bool = False) -> Any:
    """A value of a kind that is not NULL."""
    return rng.choice(kind.extremes if extremes and kind.extremes and rng.random() < 0.3 else kind.values)


def literal(value: Any, family: Family) -> str:
    """A value as text that means it in both dialects; binaries and instants are DataFusion's only."""
    if value is None:
        return "NULL"
    match family:
        case Family.INTEGER:
            return str(value)
        case Family.FLOAT:
            return f"CAST('{value}' AS DOUBLE)" if math.isnan(value) or math.isinf(value) else f"{value!r}e0"
        case Family.DECIMAL:
            return f"CAST('{value}' AS DECIMAL(10, 2))"
        case Family.TEXT | Family.JSON:
            return "'" + value.replace("'", "''") + "'"
        case Family.TRUTH:
            return "TRUE" if value else "FALSE"
        case Family.DATE:
            return f"DATE '{value.isoformat()}'"
        case Family.MOMENT:
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case Family.CLOCK:
            # A TIME has nanoseconds in DataFusion, which compares times of one unit only.
            return f"arrow_cast('{value.isoformat()}', 'Time64(Microsecond)')"
        case Family.INSTANT:
            return f"TIMESTAMPTZ '{value.isoformat(sep=' ')}'"
        case Family.BYTES:
            return f"X'{value.hex()}'"
        case Family.OPAQUE:
            raise ValueError(f"{value!r} has no literal")


def duck_literal(value: Any, family: Family) -> str:
    """A value as DuckDB writes it, where it differs: instants are moments of UTC there."""
    if value is not None and family is Family.BYTES:
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if value is not None and family is Family.CLOCK:
        return f"TIME '{value.isoformat()}'"
    if value is not None and family is Family.INSTANT:
        return literal(value.replace(tzinfo=None), Family.MOMENT)
    return literal(value, family)


_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_ARROW_NAMES = {
    "string": "Utf8", "large_string": "LargeUtf8", "bool": "Boolean", "float": "Float32", "double": "Float64",
    "date32[day]": "Date32", "date64[ms]": "Date64", "binary": "Binary", "large_binary": "LargeBinary",
    "time64[us]": "Time64(Microsecond)",
}  # fmt: skip


def arrow_name(kind: Kind) -> str:
    """The type of a column as DataFusion's arrow_cast takes it."""
    arrow = kind.arrow
    if pa.types.is_decimal(arrow):
        return f"Decimal128({arrow.precision}, {arrow.scale})"
    if pa.types.is_timestamp(arrow):
        zone = "None" if arrow.tz is None else f'Some("{arrow.tz}")'
        return f"Timestamp({_UNITS[arrow.unit]}, {zone})"
    return _ARROW_NAMES.get(str(arrow)) or str(arrow).capitalize().replace("Uint", "UInt")
