"""Types of columns, by their names in DataFusion, Postgres and their clients.

BIGINT, DECIMAL(10, 2), TIMESTAMP WITH TIME ZONE, TEXT[]
VARCHAR(20), VARBINARY(16), UUID, JSON: types with a rule for the column's values
FLOAT[128], VECTOR(128), HALFVEC(128), FIXED_SIZE_LIST(FLOAT, 128)
STRUCT<street TEXT, zip INT>, LIST<INT>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from lance_gateway.memwal.rules import IDENTITY, IS_JSON, IS_UUID, MAX_LENGTH, Identity
from lance_gateway.planner.writes.ddl.statement import Reader

_UNITS: Final = ("s", "ms", "us", "ns")
_LARGEST_PRECISION: Final = 38
_MOST_DIGITS: Final = 9
_LARGEST_VECTOR: Final = 65_536
_PLAIN: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    dict.fromkeys(("BOOLEAN", "BOOL"), pa.bool_())
    | dict.fromkeys(("TINYINT", "INT1"), pa.int8())
    | dict.fromkeys(("SMALLINT", "INT2", "INT16"), pa.int16())
    | dict.fromkeys(("INT", "INTEGER", "INT4", "INT32"), pa.int32())
    | dict.fromkeys(("BIGINT", "INT8", "INT64", "LONG"), pa.int64())
    | dict.fromkeys(("UTINYINT", "UINT8"), pa.uint8())
    | dict.fromkeys(("USMALLINT", "UINT16"), pa.uint16())
    | dict.fromkeys(("UINTEGER", "UINT", "UINT32"), pa.uint32())
    | dict.fromkeys(("UBIGINT", "UINT64"), pa.uint64())
    | dict.fromkeys(("HALF", "FLOAT16"), pa.float16())
    | dict.fromkeys(("FLOAT", "REAL", "FLOAT4", "FLOAT32"), pa.float32())
    | dict.fromkeys(("DOUBLE", "FLOAT8", "FLOAT64"), pa.float64())
    | dict.fromkeys(("TEXT", "STRING", "VARCHAR", "CHAR", "CHARACTER", "NVARCHAR", "NCHAR"), pa.string())
    | dict.fromkeys(("UTF8", "UUID", "JSON", "JSONB", "CLOB"), pa.string())
    | dict.fromkeys(("LARGE_STRING", "LARGEUTF8"), pa.large_string())
    | dict.fromkeys(("BYTEA", "BLOB", "VARBINARY", "BYTES"), pa.binary())
    | dict.fromkeys(("LARGE_BINARY", "LARGEBINARY"), pa.large_binary())
    | dict.fromkeys(("DATE", "DATE32"), pa.date32())
)
_SERIAL: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    dict.fromkeys(("SMALLSERIAL", "SERIAL2"), pa.int16())
    | dict.fromkeys(("SERIAL", "SERIAL4"), pa.int32())
    | dict.fromkeys(("BIGSERIAL", "SERIAL8"), pa.int64())
)
_UNSIGNED: Final = MappingProxyType(
    {pa.int8(): pa.uint8(), pa.int16(): pa.uint16(), pa.int32(): pa.uint32(), pa.int64(): pa.uint64()}
)
_WITH_LENGTH: Final = frozenset({"VARCHAR", "CHAR", "CHARACTER", "NVARCHAR", "NCHAR", "TEXT", "STRING"}) | {
    "CLOB",
    "VARBINARY",
    "BLOB",
    "BYTES",
}
_RULES: Final[Mapping[str, bytes]] = MappingProxyType({"UUID": IS_UUID, "JSON": IS_JSON, "JSONB": IS_JSON})
_LONGEST: Final = 2**31 - 1
_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MAP": "maps can't be stored: use a LIST of STRUCT<key .., value ..>",
        "INTERVAL": "intervals can't be stored: use a number, or DURATION",
        "ENUM": "there are no enumerations: use TEXT",
        "VARIANT": "values of changing types can't be stored: use TEXT or a STRUCT",
        "GEOMETRY": "there are no geometries: use BYTEA (WKB) or TEXT (WKT)",
    }
)


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column.

    Attributes:
        kind: type of its values.
        rules: metadata of the column with the rules that belong to its type.
    """

    kind: pa.DataType
    rules: Mapping[bytes, bytes] = field(default_factory=dict)


def read_column_type(reader: Reader) -> ColumnType:
    """Read the type of a column.

    Raises:
        InvalidInputError: the type is unknown or incomplete.
        UnsupportedError: tables can't store the type; the message names an alternative.
    """
    element = _read_element(reader)
    kind = element.kind
    while reader.take("["):
        _check_no_rules(reader, element)
        if reader.take("]"):
            kind = pa.list_(kind)
        else:
            kind = _make_vector_type(reader, kind, _read_dimension(reader))
            reader.expect("]")
    return ColumnType(kind, element.rules)


def read_type(reader: Reader) -> pa.DataType:
    """Read the type of values inside of others, which has no length.

    Raises:
        LanceGatewayError: as `read_column_type`.
    """
    column_type = read_column_type(reader)
    _check_no_rules(reader, column_type)
    return column_type.kind


def _check_no_rules(reader: Reader, element: ColumnType) -> None:
    if element.rules:
        raise reader.unsupported_error(
            "Lengths, UUIDs and JSON are not checked inside of lists and structs: use TEXT or BYTEA"
        )


def _read_element(reader: Reader) -> ColumnType:
    word = reader.word
    special = _SPECIAL.get(word)
    if special is not None:
        reader.at += 1
        found = special(reader)
        return found if isinstance(found, ColumnType) else ColumnType(found)
    if word in _REFUSED:
        raise reader.unsupported_error(f"Type {word} is not supported ({_REFUSED[word]})")
    kind = _PLAIN.get(word)
    if kind is None:
        close = get_close_matches(word, [*_PLAIN, *_SPECIAL], n=1)
        hint = f"did you mean {close[0]}?" if close else "the documentation of SQL lists all types"
        raise reader.error(f"There is no type {reader.shown} ({hint})")
    reader.at += 1
    if word == "DOUBLE":
        reader.take("PRECISION")
    if word in ("CHAR", "CHARACTER", "NCHAR"):
        reader.take("VARYING")
    if word in _WITH_LENGTH and reader.take("("):
        return ColumnType(kind, _read_length(reader))
    if word in _RULES:
        return ColumnType(kind, {_RULES[word]: b"true"})
    if word == "FLOAT" and reader.take("("):
        kind = pa.float32() if reader.number("a precision") <= 24 else pa.float64()
        reader.expect(")")
    if reader.take("UNSIGNED"):
        unsigned = _UNSIGNED.get(kind)
        if unsigned is None:
            raise reader.error(f"{word} can't be UNSIGNED")
        return ColumnType(unsigned)
    return ColumnType(kind)


def _read_length(reader: Reader) -> Mapping[bytes, bytes]:
    """Read the most characters or bytes, and the bracket behind them."""
    rules: dict[bytes, bytes] = {}
    if not reader.take("MAX"):
        length = reader.number("a length")
        if not 1 <= length <= _LONGEST:
            raise reader.error(f"A length is 1 to {_LONGEST}, not {length}")
        rules[MAX_LENGTH] = str(length).encode()
    reader.expect(")")
    return rules


def _count_up(kind: pa.DataType, _: Reader) -> ColumnType:
    return ColumnType(kind, {IDENTITY: Identity(always=False).encode()})


def _read_decimal(reader: Reader) -> pa.DataType:
    precision, scale = _LARGEST_PRECISION, 10
    if reader.take("("):
        precision = reader.number("a precision")
        scale = reader.number("a scale") if reader.take(",") else 0
        reader.expect(")")
    if not 1 <= precision <= _LARGEST_PRECISION or scale > precision:
        raise reader.error(
            f"DECIMAL({precision}, {scale}): precision is 1 to {_LARGEST_PRECISION}, scale not more"
        )
    return pa.decimal128(precision, scale)


def _read_binary(reader: Reader) -> pa.DataType | ColumnType:
    varies = reader.take("VARYING")
    if varies and reader.take("("):
        return ColumnType(pa.binary(), _read_length(reader))
    if not reader.take("("):
        return pa.binary()
    width = reader.number("a width")
    reader.expect(")")
    return pa.binary(width) if width else pa.binary()


def _timestamp_reader(zone: str | None) -> Callable[[Reader], pa.DataType]:
    def read(reader: Reader) -> pa.DataType:
        unit = _read_precision(reader, "us")
        named = zone
        if reader.take("WITH", "TIME", "ZONE"):
            named = "UTC"
        else:
            reader.take("WITHOUT", "TIME", "ZONE")
        return pa.timestamp(unit, named)

    return read


def _read_time(reader: Reader) -> pa.DataType:
    unit = _read_precision(reader, "us")
    if reader.take("WITH", "TIME", "ZONE"):
        raise reader.unsupported_error("Times of day with a zone are not supported: use TIME or TIMESTAMPTZ")
    reader.take("WITHOUT", "TIME", "ZONE")
    return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)


def _read_precision(reader: Reader, default: str) -> str:
    """Read the number of digits after the second, such as ``(3)``, and return the unit that has them."""
    if not reader.take("("):
        return default
    digits = reader.number("a number of digits")
    if digits > _MOST_DIGITS:
        raise reader.error(f"Moments have 0 to {_MOST_DIGITS} digits after the second, not {digits}")
    reader.expect(")")
    return _UNITS[-(-digits // 3)]


def _vector_reader(element: pa.DataType) -> Callable[[Reader], pa.DataType]:
    def read(reader: Reader) -> pa.DataType:
        reader.expect("(")
        size = _read_dimension(reader)
        kind = read_type(reader) if reader.take(",") else element
        reader.expect(")")
        return _make_vector_type(reader, kind, size)

    return read


def _read_fixed_size_list(reader: Reader) -> pa.DataType:
    reader.expect("(")
    kind = read_type(reader)
    reader.expect(",")
    size = _read_dimension(reader)
    reader.expect(")")
    return _make_vector_type(reader, kind, size)


def _read_opening(reader: Reader) -> str:
    """Read the bracket before types, and return the closing one."""
    if reader.take("("):
        return ")"
    reader.expect("<")
    return ">"


def _read_list(reader: Reader) -> pa.DataType:
    close = _read_opening(reader)
    kind = read_type(reader)
    reader.expect(close)
    return pa.list_(kind)


def _read_map(reader: Reader) -> pa.DataType:
    close = _read_opening(reader)
    key = read_type(reader)
    reader.expect(",")
    item = read_type(reader)
    reader.expect(close)
    return pa.map_(key, item)


def _read_struct(reader: Reader) -> pa.DataType:
    close = _read_opening(reader)
    fields: list[pa.Field] = []
    while not fields or reader.take(","):
        name = reader.name("The name of a field")
        reader.take(":")
        fields.append(pa.field(name, read_type(reader)))
    reader.expect(close)
    return pa.struct(fields)


def _read_dimension(reader: Reader) -> int:
    size = reader.number("a dimension")
    if not 1 <= size <= _LARGEST_VECTOR:
        raise reader.error(f"Vectors have 1 to {_LARGEST_VECTOR} dimensions, not {size}")
    return size


def _make_vector_type(reader: Reader, kind: pa.DataType, size: int) -> pa.DataType:
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise reader.error(f"A vector holds numbers, not {kind}; leave the size of other lists out")
    return pa.list_(kind, size)


_SPECIAL: Final[Mapping[str, Callable[[Reader], pa.DataType | ColumnType]]] = MappingProxyType(
    {
        **{name: partial(_count_up, kind) for name, kind in _SERIAL.items()},
        "DECIMAL": _read_decimal,
        "NUMERIC": _read_decimal,
        "DEC": _read_decimal,
        "NUMBER": _read_decimal,
        "BINARY": _read_binary,
        "TIMESTAMP": _timestamp_reader(None),
        "DATETIME": _timestamp_reader(None),
        "TIMESTAMPTZ": _timestamp_reader("UTC"),
        "TIME": _read_time,
        "DURATION": lambda _reader: pa.duration("us"),
        "VECTOR": _vector_reader(pa.float32()),
        "HALFVEC": _vector_reader(pa.float16()),
        "FIXED_SIZE_LIST": _read_fixed_size_list,
        "ARRAY": _read_list,
        "LIST": _read_list,
        "STRUCT": _read_struct,
        "MAP": _read_map,
    }
)
