"""The types of columns, with the values that they hold and the literals that people write beside them."""

# ruff: noqa: E501 - rows of tables

import datetime as dt
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC = dt.UTC
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


@dataclass(frozen=True)
class Spelling:
    """A text in the SQL of each engine; None where an engine has none that means the same."""

    ours: str
    postgres: str | None
    duckdb: str | None


def spell(ours: str, postgres: str | None = "", duckdb: str | None = "") -> Spelling:
    """Return a spelling; other engines write what we write unless they are given."""
    return Spelling(ours, ours if postgres == "" else postgres, ours if duckdb == "" else duckdb)


@dataclass(frozen=True)
class Part:
    """A field of a struct, an element of a list or a value of a map: an operand like a column."""

    spelling: Spelling
    type_name: str


@dataclass(frozen=True)
class Type:
    """The type of a column.

    Attributes:
        group: Types that are compared with each other.
        values: What most cells hold: few values, so that they meet.
        wild: What some columns hold besides: the ends of the type.
        postgres: The type in PostgreSQL; None where it has none that holds all values.
        duckdb: Whether DuckDB reads the column and means the same by it.
        literals: How people write constants beside such a column.
        parts: What a value consists of.
        is_uuid, is_json: Whether a rule of the gateway applies to the text.
    """

    name: str
    group: str
    arrow: pa.DataType
    values: tuple[Any, ...]
    postgres: str | None
    literals: tuple[Spelling, ...]
    duckdb: bool = True
    parts: tuple[Part, ...] = ()
    rule: bytes | None = None
    wild: tuple[Any, ...] = ()

    @property
    def all_values(self) -> tuple[Any, ...]:
        """Values of both sorts."""
        return (*self.values, *self.wild)


def _spelled(*texts: str) -> tuple[Spelling, ...]:
    return tuple(map(spell, texts))


_FEW = (0, 1, 2, 4, 5, 7, 42, 100)
_SIGNED = (*_FEW, -1, -7)
_PRICES = ("0.00", "1.10", "4.40", "4.44", "9.95", "-0.05", "2.50", "1.50", "0.10", "-7.25")
_NUMBERS = (spell("0x2A", "42", "42"), *_spelled(
    "4.44", "4.4", ".5", "1e3", "'4.44'", "4", "-1", "0", "1.10", "0.1", "1.5", "2.5", "-0.05", "0.001",
    "9.95", "1e300", "3000000000", "4.440", "12345678901234567890.12", "'1'", "42", "100", "-7.25", "1.0",
    "'1.104'", "CAST(4.44 AS DECIMAL(10, 2))", "CAST(1.5 AS REAL)", "CAST(4.44 AS DOUBLE PRECISION)", "2.675", "9007199254740993",
    "'1.1'", "7", "5", "300", "-129", "65536", "18446744073709551615",
))  # fmt: skip
_TEXTS = ("", "a", "A", "ab", "abc", "b", "é", "it's", "a%b", "x_y", "12", "4.44", " pad ", "2024-07-01", "ß")
_TEXT_LITERALS = _spelled(
    "''", "'a'", "'ab'", "'A'", "'é'", "'it''s'", "'4.44'", "'12'", "'a%'", "' pad '", "'zz'", "'2024-07-01'",
)  # fmt: skip
_DAYS = (
    dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 3, 10), dt.date(2024, 7, 1),
)  # fmt: skip
_FAR_DAYS = (dt.date(1, 1, 1), dt.date(1582, 10, 15), dt.date(9999, 12, 31))
_DAY_LITERALS = _spelled(
    "DATE '2024-03-10'", "'2024-07-01'", "DATE '9999-12-31'", "'0001-01-01'", "DATE '1969-12-31'",
    "CAST('2024-02-29' AS DATE)", "DATE '1970-01-01'",
)  # fmt: skip
_LATE = (dt.datetime(9999, 12, 31, 23, 59, 59), dt.datetime(1, 1, 1), dt.datetime(1600, 2, 29, 12))
_MOMENT_LITERALS = _spelled(
    "TIMESTAMP '2024-03-10 02:30:00'", "'2024-03-10 02:30'", "'2024-07-01T12:00:00'", "TIMESTAMP '2024-07-01 12:00:00'",
    "'2024-07-01 12:00:00.5'", "TIMESTAMP '2024-07-01 12:00:00.001'", "DATE '2024-07-01'", "'2024-07-01'",
    "TIMESTAMP '9999-12-31 23:59:59'", "TIMESTAMP '1969-12-31 23:59:59'", "CAST('2024-11-03 01:30:00' AS TIMESTAMP)",
    "TIMESTAMP '2024-07-01 12:00:00.001234'",
)  # fmt: skip
_INSTANT_LITERALS = (*_MOMENT_LITERALS, *_spelled(
    "'2024-03-10 08:00:00Z'", "TIMESTAMPTZ '2024-03-10 02:30:00'", "TIMESTAMPTZ '2024-07-01 12:00:00+02'",
    "'2024-07-01 12:00:00+02:00'", "TIMESTAMP WITH TIME ZONE '2024-07-01 10:00:00Z'", "'2024-10-27 02:30:00+01:00'",
))  # fmt: skip


def _scaled(moments: Iterable[dt.datetime], unit: str) -> tuple[int, ...]:
    return tuple(int(one.replace(tzinfo=UTC).timestamp()) * 10 ** _DIGITS[unit] for one in moments)


def _moments(unit: str) -> tuple[int, ...]:
    """Cells as integers of the unit: whole seconds, and the finest fraction."""
    seconds = [
        dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29),
        dt.datetime(2024, 3, 10, 2, 30), dt.datetime(2024, 3, 10, 8), dt.datetime(2024, 7, 1, 12),
        dt.datetime(2024, 7, 1, 10), dt.datetime(2024, 11, 3, 1, 30), dt.datetime(2024, 10, 27, 1, 30),
        dt.datetime(2024, 7, 1),
    ]  # fmt: skip
    whole = _scaled(seconds, unit)
    noon = whole[5]
    fractions = {
        "s": [],
        "ms": [1, 500],
        "us": [1000, 500_000, 1234],
        "ns": [1_000_000, 1_234_567, 500_000_000],
    }
    return (*whole, *(noon + one for one in fractions[unit]))


def _moment(unit: str, zone: str | None = None) -> Type:
    # Nanoseconds end in 1677 and 2262, and PostgreSQL has none.
    name = f"timestamp_{unit}" + ("" if zone is None else f"_{zone.rsplit('/')[-1].lower()}")
    kind = "timestamp" if zone is None else "timestamptz"
    return Type(
        name, "moment" if zone is None else "instant", pa.timestamp(unit, zone), _moments(unit),
        None if unit == "ns" else kind, _MOMENT_LITERALS if zone is None else _INSTANT_LITERALS,
        duckdb=False, wild=() if unit == "ns" else _scaled(_LATE, unit),
    )  # fmt: skip


def _integer(arrow: pa.DataType, postgres: str, *, signed: bool = True) -> Type:
    bits = arrow.bit_width
    extremes = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (2**bits - 1,)
    return Type(str(arrow), "number", arrow, _SIGNED if signed else _FEW, postgres, _NUMBERS, wild=extremes)


def _decimal(precision: int, scale: int, *more: str) -> Type:
    step = Decimal(1).scaleb(-scale)
    least = 10 ** (precision - scale)
    values = {Decimal(one).quantize(step) for one in _PRICES if abs(Decimal(one)) < least}
    kind = pa.decimal128 if precision <= 38 else pa.decimal256
    return Type(
        f"decimal_{precision}_{scale}", "number", kind(precision, scale),
        tuple(sorted(values)), f"numeric({precision}, {scale})", _NUMBERS, duckdb=precision <= 38,
        wild=tuple(map(Decimal, more)),
    )  # fmt: skip


def _float(arrow: pa.DataType, postgres: str) -> Type:
    values = (0.0, 1.5, 2.5, 4.44, 0.1, -1.0, 42.0, 1e3)
    wild = (-0.0, math.nan, math.inf, -math.inf)
    return Type(str(arrow), "number", arrow, values, postgres, _NUMBERS, wild=wild)


_IDS = (
    "12345678-9abc-4def-8123-456789abcdef", "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
)  # fmt: skip
_ID_LITERALS = _spelled(f"'{_IDS[0]}'", f"'{_IDS[0].upper()}'", f"UUID '{_IDS[1]}'", f"'{_IDS[2]}'")
_OBJECTS = ('{"a":1,"b":"ab"}', '{"a":null}', '{"a":{"c":[1,2.5]}}', "[]", "null", "42", '"ab"')
_BYTES = (b"", b"\x00", b"a", b"\xff\x00", b"abcd")


def _bytes(value: bytes) -> Spelling:
    duck = "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    return spell(f"X'{value.hex()}'", f"'\\x{value.hex()}'::bytea", duck)


_STRUCT = pa.struct(
    [("a", pa.int64()), ("b", pa.string()), ("d", pa.decimal128(10, 2)), ("at", pa.timestamp("us"))]
)
_STRUCTS = (
    {"a": 5, "b": "x", "d": Decimal("4.44"), "at": _moments("us")[5]},
    {"a": None, "b": None, "d": None, "at": None},
    {"a": 1, "b": "ab", "d": Decimal("1.10"), "at": None},
    {"a": 0, "b": "", "d": Decimal("0.00"), "at": _moments("us")[3]},
)
_ITEM = pa.struct([("sku", pa.string()), ("price", pa.decimal128(10, 2))])
_ITEMS = (
    [], [{"sku": "a", "price": Decimal("4.44")}], [{"sku": "ab", "price": None}, None],
    [None, {"sku": None, "price": Decimal("1.10")}],
)  # fmt: skip


def _part(ours: str, type_name: str, postgres: str | None = "", duckdb: str | None = "") -> Part:
    return Part(spell(ours, postgres, duckdb), type_name)


def _field(name: str, type_name: str) -> tuple[Part, ...]:
    return (
        _part(f"{{0}}['{name}']", type_name, f"({{0}}).{name}"),
        _part(f"{{0}}.{name}", type_name, f"({{0}}).{name}"),
        _part(f"({{0}}).{name}", type_name),
    )


TYPES = (
    _integer(pa.int8(), "smallint"), _integer(pa.int16(), "smallint"), _integer(pa.int32(), "integer"),
    _integer(pa.int64(), "bigint"), _integer(pa.uint8(), "smallint", signed=False),
    _integer(pa.uint16(), "integer", signed=False), _integer(pa.uint32(), "bigint", signed=False),
    _integer(pa.uint64(), "numeric(20)", signed=False),
    _float(pa.float32(), "real"), _float(pa.float64(), "double precision"),
    _decimal(10, 2, "99999999.99"), _decimal(5, 4), _decimal(10, 0), _decimal(18, 3, "1.234"),
    _decimal(38, 2, "12345678901234567890.12"), _decimal(38, 10, "0.1234567891"),
    Type("text", "text", pa.string(), _TEXTS, "text", _TEXT_LITERALS),
    Type("large_text", "text", pa.large_string(), _TEXTS, "text", _TEXT_LITERALS),
    Type("dictionary", "text", pa.dictionary(pa.int32(), pa.string()), _TEXTS[:8], "text", _TEXT_LITERALS),
    Type("boolean", "truth", pa.bool_(), (True, False), "boolean", _spelled("TRUE", "FALSE")),
    Type("date32", "date", pa.date32(), _DAYS, "date", _DAY_LITERALS, wild=_FAR_DAYS),
    Type("date64", "date", pa.date64(), _DAYS, "date", _DAY_LITERALS, duckdb=False, wild=_FAR_DAYS),
    *(_moment(unit) for unit in ("s", "ms", "us", "ns")),
    _moment("us", "UTC"), _moment("us", "America/New_York"), _moment("ms", "Europe/Berlin"),
    _moment("s", "Asia/Kolkata"), _moment("ns", "America/New_York"),
    Type("time", "clock", pa.time64("us"), (dt.time(0), dt.time(12, 30), dt.time(23, 59, 59, 999_999)), "time",
         _spelled("TIME '12:30:00'", "'12:30:00'", "TIME '00:00'"), duckdb=False),
    Type("binary", "bytes", pa.binary(), _BYTES, "bytea", tuple(map(_bytes, _BYTES))),
    Type("large_binary", "bytes", pa.large_binary(), _BYTES, "bytea", tuple(map(_bytes, _BYTES))),
    Type("binary_4", "bytes", pa.binary(4), (b"abcd", b"\0\0\0\0", b"\xff\0a\0"), "bytea", tuple(map(_bytes, _BYTES))),
    Type("uuid", "uuid", pa.string(), _IDS, "uuid", _ID_LITERALS, duckdb=False, rule=b"uuid"),
    Type("json", "json", pa.string(), _OBJECTS, "json", (), duckdb=False, rule=b"json", parts=(
        _part("({0} ->> 'a')", "text"), _part("json_extract({0}, '$.a.c[1]')", "", None),
        _part("({0} -> 'a' ->> 'c')", "text"))),
    Type("struct", "struct", _STRUCT, _STRUCTS, "struct_t", (), parts=(
        *_field("a", "int64"), *_field("b", "text"), *_field("d", "decimal_10_2"), *_field("at", "timestamp_us"))),
    Type("list_int64", "list", pa.list_(pa.int64()), ([], [1], [1, None, 5], [None], [4, 4]), "bigint[]",
         (spell("[1, 5]", "ARRAY[1, 5]::bigint[]"), spell("[1]", "ARRAY[1]::bigint[]")),
         parts=(_part("{0}[1]", "int64"), _part("{0}[2]", "int64"))),
    Type("list_decimal", "list", pa.list_(pa.decimal128(10, 2)), ([], [Decimal("4.44")], [None, Decimal("1.10")]),
         "numeric(10, 2)[]", (), parts=(_part("{0}[1]", "decimal_10_2"),)),
    Type("list_text", "list", pa.list_(pa.string()), ([], ["a"], ["ab", None, ""]), "text[]",
         (spell("['a']", "ARRAY['a']"), spell("['ab', '']", "ARRAY['ab', '']")), parts=(_part("{0}[1]", "text"),)),
    Type("list_struct", "list", pa.list_(_ITEM), _ITEMS, "item_t[]", (), parts=(
        _part("{0}[1]['sku']", "text", "({0}[1]).sku"), _part("{0}[1]['price']", "decimal_10_2", "({0}[1]).price"),
        _part("{0}[2]['price']", "decimal_10_2", "({0}[2]).price"))),
    Type("vector", "list", pa.list_(pa.float32(), 2), ([0.0, 1.5], [2.5, -1.0]), "real[]", (),
         parts=(_part("{0}[1]", "float"),)),
    Type("map", "map", pa.map_(pa.string(), pa.int64()), ([], [("a", 1)], [("a", None), ("b", 5)]), None, (),
         parts=(_part("{0}['a']", "int64", None), _part("{0}['b']", "int64", None))),
)  # fmt: skip
BY_NAME = {one.name: one for one in TYPES}
NEAR = {
    "number": ("number",), "text": ("text", "uuid", "json"), "date": ("moment", "instant"),
    "moment": ("date", "instant"), "instant": ("date", "moment"),
}  # fmt: skip
"""Groups whose types people compare with those of a group."""


def iterate_parts(one: Type) -> Iterator[tuple[Part, Type]]:
    """Yield the parts of a type that have a type of their own."""
    for part in one.parts:
        if part.type_name in BY_NAME:
            yield part, BY_NAME[part.type_name]


def exact(one: Type, value: Any) -> Spelling | None:
    """Return a constant of exactly this type and value, or None where it has no text."""
    if pa.types.is_nested(one.arrow) or pa.types.is_fixed_size_binary(one.arrow):
        return None
    if value is None and one.group == "uuid":
        return spell("CAST(NULL AS UUID)")
    if value is None:
        return spell(f"arrow_cast(NULL, '{arrow_name(one)}')", one.postgres and f"NULL::{one.postgres}", None)
    match one.group:
        case "number" | "text" | "json":
            text = f"{value:f}" if isinstance(value, Decimal) else str(value).replace("'", "''")
        case "truth":
            return spell(str(value).upper())
        case "date" | "clock":
            text = value.isoformat()
        case "bytes":
            return _bytes(value)
        case "uuid":
            return spell(f"UUID '{value}'", f"'{value}'::uuid", None)
        case _:
            text = format_moment(value, one.arrow)
    return spell(
        f"arrow_cast('{text}', '{arrow_name(one)}')", one.postgres and f"'{text}'::{one.postgres}", None
    )


def format_moment(value: int, arrow: pa.DataType) -> str:
    """Return an integer of a timestamp's unit as text, in UTC."""
    scale = 10 ** _DIGITS[arrow.unit]
    seconds, fraction = divmod(value, scale)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
    text = moment.isoformat(sep=" ")
    if fraction:
        text += f".{fraction:0{len(str(scale)) - 1}}".rstrip("0")
    return text + ("Z" if arrow.tz else "")


_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}


def arrow_name(one: Type) -> str:
    """Return the type as arrow_cast takes it."""
    arrow = one.arrow
    if pa.types.is_decimal(arrow):
        return f"Decimal{arrow.bit_width}({arrow.precision}, {arrow.scale})"
    if pa.types.is_timestamp(arrow):
        zone = "None" if arrow.tz is None else f'Some("{arrow.tz}")'
        return f"Timestamp({_UNITS[arrow.unit]}, {zone})"
    names = {
        "float": "Float32", "double": "Float64", "bool": "Boolean", "string": "Utf8", "large_string": "LargeUtf8", "large_binary": "LargeBinary",
        "date32[day]": "Date32", "date64[ms]": "Date64", "time64[us]": "Time64(Microsecond)",
        "dictionary<values=string, indices=int32, ordered=0>": "Dictionary(Int32, Utf8)",
    }  # fmt: skip
    return names.get(str(arrow)) or str(arrow).capitalize().replace("Uint", "UInt")
