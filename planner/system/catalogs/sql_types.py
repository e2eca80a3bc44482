"""Types of columns as SQL and PostgreSQL name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from lance_gateway.memwal.rules import IS_JSON, IS_UUID, list_lengths


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL.

    Attributes:
        oid: its number there.
        name: short name, such as "int8".
        sql_name: name in SQL, such as "bigint".
        size: bytes of a value; -1 if they differ.
        category: letter, such as "N" for numbers.
        array: oid of the type of its arrays.
    """

    oid: int
    name: str
    sql_name: str
    size: int
    category: str
    array: int


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column.

    Attributes:
        kind: the type, or that of the elements of an array.
        is_array: whether it is an array.
        length: of texts, at most, in characters; of bytes, in bytes.
        precision: of decimal numbers, in digits.
        scale: likewise, behind the point.
    """

    kind: PgType
    is_array: bool = False
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    @property
    def oid(self) -> int:
        """Number of the type in pg_type."""
        return self.kind.array if self.is_array else self.kind.oid

    @property
    def modifier(self) -> int:
        """PostgreSQL's number for length, precision and scale; -1 without."""
        if self.is_array:
            return -1
        if self.kind is VARCHAR and self.length is not None:
            return self.length + 4
        if self.precision is not None and self.scale is not None:
            return (self.precision << 16 | self.scale & 0x7FF) + 4
        return -1

    @property
    def udt_name(self) -> str:
        """Name of the type in pg_type."""
        return f"_{self.kind.name}" if self.is_array else self.kind.name


def _types(*rows: tuple[int, str, str, int, str, int]) -> Mapping[str, PgType]:
    return MappingProxyType({row[1]: PgType(*row) for row in rows})


TYPES: Final = _types(
    (16, "bool", "boolean", 1, "B", 1000),
    (17, "bytea", "bytea", -1, "U", 1001),
    (18, "char", '"char"', 1, "Z", 1002),
    (19, "name", "name", 64, "S", 1003),
    (20, "int8", "bigint", 8, "N", 1016),
    (21, "int2", "smallint", 2, "N", 1005),
    (23, "int4", "integer", 4, "N", 1007),
    (25, "text", "text", -1, "S", 1009),
    (26, "oid", "oid", 4, "N", 1028),
    (114, "json", "json", -1, "U", 199),
    (700, "float4", "real", 4, "N", 1021),
    (701, "float8", "double precision", 8, "N", 1022),
    (1042, "bpchar", "character", -1, "S", 1014),
    (1043, "varchar", "character varying", -1, "S", 1015),
    (1082, "date", "date", 4, "D", 1182),
    (1083, "time", "time without time zone", 8, "D", 1183),
    (1114, "timestamp", "timestamp without time zone", 8, "D", 1115),
    (1184, "timestamptz", "timestamp with time zone", 8, "D", 1185),
    (1186, "interval", "interval", 16, "T", 1187),
    (1700, "numeric", "numeric", -1, "N", 1231),
    (2205, "regclass", "regclass", 4, "N", 2210),
    (2950, "uuid", "uuid", 16, "U", 2951),
)
"""Name -> type that columns have, or that tools ask for."""
VARCHAR: Final = TYPES["varchar"]
_BY_OID: Final[Mapping[int, PgType]] = MappingProxyType({one.oid: one for one in TYPES.values()})
_BY_ARRAY: Final[Mapping[int, PgType]] = MappingProxyType({one.array: one for one in TYPES.values()})
_PLAIN: Final[Mapping[pa.DataType, str]] = MappingProxyType(
    {
        pa.bool_(): "bool",
        pa.int8(): "int2",
        pa.int16(): "int2",
        pa.int32(): "int4",
        pa.int64(): "int8",
        pa.uint8(): "int2",
        pa.uint16(): "int4",
        pa.uint32(): "int8",
        pa.float16(): "float4",
        pa.float32(): "float4",
        pa.float64(): "float8",
        pa.string(): "text",
        pa.large_string(): "text",
        pa.string_view(): "text",
        pa.null(): "text",
        pa.binary(): "bytea",
        pa.large_binary(): "bytea",
        pa.binary_view(): "bytea",
        pa.date32(): "date",
        pa.date64(): "date",
    }
)

_EXTENSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"arrow.uuid": "uuid", "arrow.bool8": "bool", "arrow.json": "json"}
)
"""Other extension types are called as what they store: a tensor is an array."""


def list_column_types(schema: pa.Schema) -> dict[str, ColumnType]:
    """Return column -> type, with the lengths that its table declares."""
    lengths = list_lengths(schema)
    types: dict[str, ColumnType] = {}
    for field in schema:
        found = _find_type(field.type)
        if (field.metadata or {}).get(IS_UUID) == b"true":
            found = ColumnType(TYPES["uuid"])
        elif (field.metadata or {}).get(IS_JSON) == b"true":
            found = ColumnType(TYPES["json"])
        elif field.name in lengths:
            kind = VARCHAR if found.kind is TYPES["text"] else found.kind
            found = replace(found, kind=kind, length=lengths[field.name])
        types[field.name] = found
    return types


def _find_type(kind: pa.DataType) -> ColumnType:
    if isinstance(kind, pa.BaseExtensionType):
        known = _EXTENSIONS.get(kind.extension_name)
        return _find_type(kind.storage_type) if known is None else ColumnType(TYPES[known])
    name = _PLAIN.get(kind)
    if name is not None:
        return ColumnType(TYPES[name])
    if pa.types.is_dictionary(kind):
        return _find_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return ColumnType(TYPES["numeric"], precision=kind.precision, scale=kind.scale)
    if pa.types.is_uint64(kind):
        return ColumnType(TYPES["numeric"], precision=20, scale=0)
    if pa.types.is_timestamp(kind):
        return ColumnType(TYPES["timestamp" if kind.tz is None else "timestamptz"])
    if pa.types.is_time(kind):
        return ColumnType(TYPES["time"])
    if pa.types.is_duration(kind) or pa.types.is_interval(kind):
        return ColumnType(TYPES["interval"])
    if pa.types.is_fixed_size_binary(kind):
        return ColumnType(TYPES["bytea"], length=kind.byte_width)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = _find_type(kind.value_type)
        return replace(element, is_array=True)
    return ColumnType(TYPES["json"])


def format_type(oid: int | None, modifier: int | None) -> str | None:
    """Return the name of a type in SQL, as PostgreSQL's function of this name does.

    >>> format_type(1043, 9)
    'character varying(5)'
    >>> format_type(1700, (12 << 16 | 2) + 4)
    'numeric(12,2)'
    >>> format_type(1021, -1)
    'real[]'
    """
    if oid is None:
        return None
    if oid in _BY_ARRAY:
        return f"{_BY_ARRAY[oid].sql_name}[]"
    kind = _BY_OID.get(oid)
    if kind is None:
        return "-" if oid == 0 else "???"
    if modifier is None or modifier < 4:
        return kind.sql_name
    if kind.name in {"varchar", "bpchar"}:
        return f"{kind.sql_name}({modifier - 4})"
    if kind.name == "numeric":
        return f"numeric({modifier - 4 >> 16},{modifier - 4 & 0x7FF})"
    return kind.sql_name


def find_type_oid(name: str) -> int | None:
    """Return the number of a type by its name in SQL or in pg_type; None if there is none."""
    wanted = name.strip().lower().removeprefix("pg_catalog.")
    for one in TYPES.values():
        if wanted in {one.name, one.sql_name}:
            return one.oid
        if wanted in {f"_{one.name}", f"{one.name}[]", f"{one.sql_name}[]"}:
            return one.array
    return None
