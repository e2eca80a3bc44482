"""Names and numbers of Arrow types in SQL, JDBC and ODBC, and the metadata that carries them.

One table serves `CommandGetXdbcTypeInfo` and the metadata of columns, so that a type has the same name in
both. A name is one that the gateway's own SQL accepts, where SQL has one for the type.

Column metadata, `ARROW:FLIGHT:SQL:*` in the metadata of Arrow fields, goes on the columns of GetTables, and
on every result: drivers fill a result's own description from it (JDBC's ResultSetMetaData, with the precision
and scale of decimals). A result's columns have no table, since an expression has none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from lance_gateway.memwal.base.comments import read_column_comment
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import IDENTITY

# Numbers of XdbcDataType; the last four are JDBC's, for types that the protocol's list does not know.
UNKNOWN, DECIMAL, INTEGER, SMALLINT, REAL, DOUBLE = 0, 3, 4, 5, 7, 8
DATETIME, INTERVAL, VARCHAR, DATE, TIME, TIMESTAMP = 9, 10, 12, 91, 92, 93
VARBINARY, BIGINT, TINYINT, BIT = -3, -5, -6, -7
MAP, STRUCT, ARRAY, TIMESTAMP_WITH_TIMEZONE = 2000, 2002, 2003, 2014

# Numbers of XdbcDatetimeSubcode.
_SUBCODE_UNKNOWN, _SUBCODE_DATE, _SUBCODE_TIME, _SUBCODE_TIMESTAMP = 0, 1, 2, 3
_SUBCODE_TIMESTAMP_WITH_TIMEZONE, _SUBCODE_DAY_TO_SECOND = 5, 110

# Values of Searchable.
_ALL_BUT_LIKE, _EVERY_OPERATOR = 2, 3

_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_LONGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type as `CommandGetXdbcTypeInfo` describes it; None where a property does not apply.

    Attributes:
        name: in SQL.
        number: of JDBC and ODBC.
        column_size: most digits of exact numbers, bits of approximate ones, characters of all else.
        prefix: what stands before a literal.
        suffix: what stands after it.
        parameters: what may follow the name in brackets.
        scales: the smallest and the largest number of digits after the point.
        radix: 10 where `column_size` counts digits, 2 where it counts bits.
        unsigned: of numbers, whether they are never negative.
        is_text: whether values are compared letter by letter and with LIKE.
        family: number of the SQL data type, where several types share one.
        subcode: which of its family a type is.
        interval_precision: digits of the leading field of an interval.
    """

    name: str
    number: int
    column_size: int | None = None
    prefix: str | None = None
    suffix: str | None = None
    parameters: tuple[str, ...] | None = None
    scales: tuple[int, int] | None = None
    radix: int | None = None
    unsigned: bool | None = None
    is_text: bool = False
    family: int | None = None
    subcode: int | None = None
    interval_precision: int | None = None

    def __post_init__(self) -> None:
        if (self.prefix is None) != (self.suffix is None):
            raise InvalidInputError(f"type {self.name}: a literal has a prefix and a suffix, or neither")

    @property
    def searchable(self) -> int:
        """Which operators of a WHERE clause take the type."""
        return _EVERY_OPERATOR if self.is_text else _ALL_BUT_LIKE

    @property
    def is_fixed(self) -> bool:
        """Whether precision and scale are always the same."""
        return self.radix is not None and self.parameters is None

    @property
    def sql_data_type(self) -> int:
        """The number of the type, or of its family."""
        return self.number if self.family is None else self.family


def _integer(name: str, number: int, digits: int, *, unsigned: bool = False) -> SqlType:
    return SqlType(name, number, digits, scales=(0, 0), radix=10, unsigned=unsigned)


def _number(name: str, number: int, bits: int) -> SqlType:
    return SqlType(name, number, bits, radix=2, unsigned=False)


def _time(name: str, number: int, size: int, subcode: int, digits: int) -> SqlType:
    word = name.split(maxsplit=1)[0]
    return SqlType(name, number, size, f"{word} '", "'", scales=(0, digits), family=DATETIME, subcode=subcode)


_NULL = SqlType("NULL", UNKNOWN)
_BOOLEAN = SqlType("BOOLEAN", BIT, 1)
_INT8 = _integer("TINYINT", TINYINT, 3)
_INT16 = _integer("SMALLINT", SMALLINT, 5)
_INT32 = _integer("INTEGER", INTEGER, 10)
_INT64 = _integer("BIGINT", BIGINT, 19)
_UINT8 = _integer("TINYINT UNSIGNED", TINYINT, 3, unsigned=True)
_UINT16 = _integer("SMALLINT UNSIGNED", SMALLINT, 5, unsigned=True)
_UINT32 = _integer("INTEGER UNSIGNED", INTEGER, 10, unsigned=True)
_UINT64 = _integer("BIGINT UNSIGNED", BIGINT, 20, unsigned=True)
_FLOAT16 = _number("HALF FLOAT", REAL, 11)
_FLOAT32 = _number("REAL", REAL, 24)
_FLOAT64 = _number("DOUBLE", DOUBLE, 53)
_DECIMAL = SqlType(
    "DECIMAL", DECIMAL, 76, parameters=("precision", "scale"), scales=(0, 76), radix=10, unsigned=False
)
_TEXT = SqlType("VARCHAR", VARCHAR, _LONGEST, "'", "'", parameters=("length",), is_text=True)
_BINARY = SqlType("BYTEA", VARBINARY, _LONGEST, "X'", "'")
_DATE = _time("DATE", DATE, 10, _SUBCODE_DATE, 0)
_TIME = _time("TIME", TIME, 18, _SUBCODE_TIME, 9)
_TIMESTAMP = _time("TIMESTAMP", TIMESTAMP, 29, _SUBCODE_TIMESTAMP, 9)
_INSTANT = _time("TIMESTAMP WITH TIME ZONE", TIMESTAMP_WITH_TIMEZONE, 35, _SUBCODE_TIMESTAMP_WITH_TIMEZONE, 9)
_DURATION = SqlType(
    "DURATION", INTERVAL, family=INTERVAL, subcode=_SUBCODE_DAY_TO_SECOND, interval_precision=6
)
_INTERVAL = SqlType(
    "INTERVAL", INTERVAL, prefix="INTERVAL '", suffix="'", family=INTERVAL, subcode=_SUBCODE_UNKNOWN,
    interval_precision=10,
)  # fmt: skip
_ARRAY = SqlType("ARRAY", ARRAY, family=UNKNOWN)
_STRUCT = SqlType("STRUCT", STRUCT, family=UNKNOWN)
_MAP = SqlType("MAP", MAP, family=UNKNOWN)

_BY_TYPE: dict[pa.DataType, SqlType] = {
    pa.null(): _NULL,
    pa.bool_(): _BOOLEAN,
    pa.int8(): _INT8,
    pa.int16(): _INT16,
    pa.int32(): _INT32,
    pa.int64(): _INT64,
    pa.uint8(): _UINT8,
    pa.uint16(): _UINT16,
    pa.uint32(): _UINT32,
    pa.uint64(): _UINT64,
    pa.float16(): _FLOAT16,
    pa.float32(): _FLOAT32,
    pa.float64(): _FLOAT64,
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.binary(): _BINARY,
    pa.large_binary(): _BINARY,
}
_BY_FAMILY: tuple[tuple[Callable[[pa.DataType], bool], SqlType], ...] = (
    (pa.types.is_decimal, _DECIMAL),
    (pa.types.is_fixed_size_binary, _BINARY),
    (pa.types.is_date, _DATE),
    (pa.types.is_time, _TIME),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, _TIMESTAMP),
    (pa.types.is_timestamp, _INSTANT),
    (pa.types.is_duration, _DURATION),
    (pa.types.is_interval, _INTERVAL),
    (pa.types.is_struct, _STRUCT),
    (pa.types.is_map, _MAP),
    (pa.types.is_list, _ARRAY),
    (pa.types.is_large_list, _ARRAY),
    (pa.types.is_fixed_size_list, _ARRAY),
)
ALL_TYPES: tuple[SqlType, ...] = tuple(
    sorted(
        {kind.name: kind for kind in (*_BY_TYPE.values(), *(kind for _, kind in _BY_FAMILY))}.values(),
        key=lambda kind: (kind.number, kind.name),
    )
)
"""Every type that a result can have, by number and then by name, as the protocol orders them."""


def find_sql_type(data_type: pa.DataType) -> SqlType | None:
    """Return the SQL type of an Arrow type, or of what an extension type stores; None where it has none."""
    if isinstance(data_type, pa.BaseExtensionType):
        return find_sql_type(data_type.storage_type)
    found = _BY_TYPE.get(data_type)
    if found is not None:
        return found
    return next((kind for belongs, kind in _BY_FAMILY if belongs(data_type)), None)


def find_type_name(data_type: pa.DataType) -> str:
    """Return the name of an Arrow type in SQL, or Arrow's own where SQL has none.

    >>> type_name(pa.decimal128(12, 2)), type_name(pa.list_(pa.int64()))
    ('DECIMAL', 'ARRAY<BIGINT>')
    >>> type_name(pa.struct({"a": pa.string(), "b": pa.map_(pa.string(), pa.bool_())}))
    'STRUCT<a VARCHAR, b MAP<VARCHAR, BOOLEAN>>'
    """
    sql_type = find_sql_type(data_type)
    if sql_type is _ARRAY:
        return f"ARRAY<{find_type_name(data_type.value_type)}>"
    if sql_type is _STRUCT:
        return (
            "STRUCT<" + ", ".join(f"{field.name} {find_type_name(field.type)}" for field in data_type) + ">"
        )
    if sql_type is _MAP:
        return f"MAP<{find_type_name(data_type.key_type)}, {find_type_name(data_type.item_type)}>"
    return str(data_type) if sql_type is None else sql_type.name


def precision_and_scale(data_type: pa.DataType) -> tuple[int | None, int | None]:
    """Return how many digits or characters a column has, and how many of them follow the point.

    None where there is no such number: texts and binaries are as long as they are, or as their table allows.

    >>> precision_and_scale(pa.decimal128(12, 2)), precision_and_scale(pa.timestamp("ms"))
    ((12, 2), (23, 3))
    >>> precision_and_scale(pa.float64()), precision_and_scale(pa.string())
    ((15, None), (None, None))
    """
    sql_type = find_sql_type(data_type)
    if sql_type is None or sql_type in (_TEXT, _BINARY):
        return None, None
    if sql_type is _DECIMAL:
        return data_type.precision, data_type.scale
    if sql_type.radix == 2:
        # Bits, as digits that every value keeps.
        return {11: 3, 24: 7, 53: 15}[sql_type.column_size or 0], None
    if sql_type.family == DATETIME and sql_type is not _DATE:
        digits = _FRACTION_DIGITS[data_type.unit]
        whole = {_TIME: 8, _TIMESTAMP: 19, _INSTANT: 25}[sql_type]
        return whole + (digits + 1 if digits else 0), digits
    return sql_type.column_size, None if sql_type.scales is None else sql_type.scales[0]


_MAX_DESCRIBED = 1024
_PREFIX = "ARROW:FLIGHT:SQL:"
_NO_LENGTHS: Mapping[str, int] = MappingProxyType({})
# In the order of preference.

# By digest: a plan itself may hold the rows of an INSERT, and most plans have the schemas of others.
_described: dict[bytes, tuple[pa.Schema, pa.Schema, bytes]] = {}


class Statement(Protocol):
    """A checked statement."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""

    @property
    def digest(self) -> bytes:
        """Differs where `schema` does."""


def describe_result_schema(plan: Statement) -> pa.Schema:
    """Return the schema of a statement's result with the metadata that follows from its types."""
    return _describe_result(plan)[0]


def encode_result_schema(plan: Statement) -> bytes:
    """Return the same as an encapsulated IPC message."""
    return _describe_result(plan)[1]


def _describe_result(plan: Statement) -> tuple[pa.Schema, bytes]:
    description = _described.get(plan.digest)
    # A digest is short: another schema may have the same one.
    if description is None or not description[0].equals(plan.schema, check_metadata=True):
        described = {kind: _describe_type(kind) for kind in set(plan.schema.types)}
        schema = pa.schema([field.with_metadata(described[field.type]) for field in plan.schema])
        description = plan.schema, schema, bytes(schema.serialize())
        if len(_described) >= _MAX_DESCRIBED:
            _described.clear()
        _described[plan.digest] = description
    return description[1], description[2]


def describe_table_schema(
    schema: pa.Schema,
    catalog: str,
    db_schema: str,
    table: str,
    remarks: Mapping[str, str],
    lengths: Mapping[str, int] = _NO_LENGTHS,
    *,
    is_read_only: bool = True,
) -> pa.Schema:
    """Return the schema of a table with all metadata that its columns have.

    Args:
        schema: columns of the table.
        catalog: that the table is in.
        db_schema: that the table is in.
        table: its name.
        remarks: column -> its remark.
        lengths: column -> the most characters or bytes of its values.
        is_read_only: whether the caller can't change its rows.
    """
    where = {
        f"{_PREFIX}CATALOG_NAME": catalog,
        # The protocol's text says DB_SCHEMA_NAME, all drivers read SCHEMA_NAME.
        f"{_PREFIX}SCHEMA_NAME": db_schema,
        f"{_PREFIX}DB_SCHEMA_NAME": db_schema,
        f"{_PREFIX}TABLE_NAME": table,
        f"{_PREFIX}IS_READ_ONLY": "1" if is_read_only else "0",
    }
    fields = []
    for field in schema:
        metadata = {**_describe_type(field.type), **where}
        if field.name in lengths:
            metadata[f"{_PREFIX}PRECISION"] = str(lengths[field.name])
        if IDENTITY in (field.metadata or {}):
            metadata[f"{_PREFIX}IS_AUTO_INCREMENT"] = "1"
        if field.name in remarks:
            metadata[f"{_PREFIX}REMARKS"] = remarks[field.name]
        fields.append(field.with_metadata(metadata))
    return pa.schema(fields)


def read_remarks(schema: pa.Schema) -> dict[str, str]:
    """Return column -> remark, for the columns that have a comment."""
    comments = {field.name: read_column_comment(field) for field in schema}
    return {name: comment for name, comment in comments.items() if comment is not None}


def _describe_type(data_type: pa.DataType) -> dict[str, str]:
    kind = find_sql_type(data_type)
    precision, scale = precision_and_scale(data_type)
    metadata = {
        f"{_PREFIX}TYPE_NAME": find_type_name(data_type),
        f"{_PREFIX}IS_AUTO_INCREMENT": "0",
        f"{_PREFIX}IS_CASE_SENSITIVE": "1" if kind is not None and kind.is_text else "0",
        f"{_PREFIX}IS_READ_ONLY": "1",
        f"{_PREFIX}IS_SEARCHABLE": "1",
    }
    if precision is not None:
        metadata[f"{_PREFIX}PRECISION"] = str(precision)
    if scale is not None:
        metadata[f"{_PREFIX}SCALE"] = str(scale)
    return metadata
