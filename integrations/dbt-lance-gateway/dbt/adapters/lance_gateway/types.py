"""SQL types of Arrow's, as the gateway's CREATE TABLE takes them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

_DIGITS: Final[Mapping[str, int]] = MappingProxyType({"s": 0, "ms": 3, "us": 6, "ns": 9})
_PLAIN: Final[Mapping[pa.DataType, str]] = MappingProxyType(
    {
        pa.bool_(): "boolean",
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.uint8(): "tinyint unsigned",
        pa.uint16(): "smallint unsigned",
        pa.uint32(): "int unsigned",
        pa.uint64(): "bigint unsigned",
        pa.float16(): "half",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.string(): "text",
        pa.large_string(): "text",
        pa.string_view(): "text",
        pa.binary(): "bytea",
        pa.large_binary(): "bytea",
        pa.binary_view(): "bytea",
        pa.date32(): "date",
        pa.date64(): "date",
    }
)


def write_kind(arrow: pa.DataType) -> str:
    """Return the SQL type of an Arrow type without digits, as contracts compare types."""
    if pa.types.is_decimal(arrow):
        return "numeric"
    if pa.types.is_timestamp(arrow):
        return "timestamp with time zone" if arrow.tz else "timestamp"
    return write_type(arrow)


def write_type(arrow: pa.DataType) -> str:
    """Return the SQL type of an Arrow type; Arrow's own name for one that CREATE TABLE does not have."""
    if arrow in _PLAIN:
        return _PLAIN[arrow]
    if pa.types.is_decimal(arrow):
        return f"numeric({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow):
        digits = "" if arrow.unit == "us" else f"({_DIGITS[arrow.unit]})"
        return f"timestamp{digits} with time zone" if arrow.tz else f"timestamp{digits}"
    if pa.types.is_time(arrow):
        return "time"
    if pa.types.is_fixed_size_binary(arrow):
        return f"binary({arrow.byte_width})"
    if pa.types.is_fixed_size_list(arrow):
        return f"{write_type(arrow.value_type)}[{arrow.list_size}]"
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return f"{write_type(arrow.value_type)}[]"
    if pa.types.is_struct(arrow):
        return f"struct<{', '.join(f'{field.name} {write_type(field.type)}' for field in arrow)}>"
    if pa.types.is_dictionary(arrow):
        return write_type(arrow.value_type)
    return str(arrow)
