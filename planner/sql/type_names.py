"""Names of Arrow types as `arrow_cast` takes them, and as plans show them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pyarrow as pa

from lance_gateway.memwal.errors import UnsupportedError

PLAIN_TYPES: Final = {
    "Boolean": pa.bool_(),
    "Int8": pa.int8(),
    "Int16": pa.int16(),
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "UInt8": pa.uint8(),
    "UInt16": pa.uint16(),
    "UInt32": pa.uint32(),
    "UInt64": pa.uint64(),
    "Float16": pa.float16(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Utf8View": pa.string(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "BinaryView": pa.binary(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
}
UNITS: Final = {"Second": "s", "Millisecond": "ms", "Microsecond": "us", "Nanosecond": "ns"}
_UNIT_NAMES: Final = {unit: name for name, unit in UNITS.items()}
_TYPE_NAMES: Final = {dtype: name for name, dtype in PLAIN_TYPES.items() if not name.endswith("View")} | {
    pa.string_view(): "Utf8View",
    pa.binary_view(): "BinaryView",
    pa.null(): "Null",
    pa.month_day_nano_interval(): "Interval(MonthDayNano)",
}


@lru_cache(maxsize=1024)
def name_type(dtype: pa.DataType) -> str:
    """Return a type in the notation of arrow_cast, with doubled quotes for use in a string literal.

    Raises:
        UnsupportedError: the type has no such notation.
    """
    types = pa.types
    plain = _TYPE_NAMES.get(dtype)
    if plain is not None:
        return plain
    if types.is_timestamp(dtype):
        zone = "None" if dtype.tz is None else f'Some("{dtype.tz}")'
        return f"Timestamp({_UNIT_NAMES[dtype.unit]}, {zone})".replace("'", "''")
    if types.is_time(dtype):
        return f"Time{dtype.bit_width}({_UNIT_NAMES[dtype.unit]})"
    if types.is_duration(dtype):
        return f"Duration({_UNIT_NAMES[dtype.unit]})"
    if types.is_decimal(dtype):
        return f"Decimal{dtype.bit_width}({dtype.precision}, {dtype.scale})"
    if types.is_fixed_size_binary(dtype):
        return f"FixedSizeBinary({dtype.byte_width})"
    if types.is_fixed_size_list(dtype):
        return f"FixedSizeList({dtype.list_size} x nullable {name_type(dtype.value_type)})"
    if types.is_list(dtype):
        return f"List(nullable {name_type(dtype.value_type)})"
    if types.is_large_list(dtype):
        return f"LargeList(nullable {name_type(dtype.value_type)})"
    if types.is_dictionary(dtype):
        return name_type(dtype.value_type)
    if types.is_struct(dtype):
        fields = (f'"{_escape_field_name(field.name)}": nullable {name_type(field.type)}' for field in dtype)
        return f"Struct({', '.join(fields)})"
    if types.is_map(dtype):
        key, item = name_type(dtype.key_type), name_type(dtype.item_type)
        return f'Map("entries": non-null Struct("key": non-null {key}, "value": nullable {item}), unsorted)'
    raise UnsupportedError(f"A parameter of type {dtype} has no literal; bind it as another type")


def _escape_field_name(name: str) -> str:
    if '"' in name or "\\" in name:
        raise UnsupportedError(
            f"A parameter with a struct field named {name!r} has no literal; rename the field"
        )
    return name.replace("'", "''")
