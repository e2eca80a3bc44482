"""Capabilities of the server: CommandGetSqlInfo.

The value of a code is one of six kinds, the children of a dense union whose order and types the protocol
fixes. Ordinals and limits are 64-bit numbers, bit masks are 32-bit numbers. Only the protocol's own codes
have a value: drivers stumble over codes they do not know. A code without a value has no row in the answer,
since newer drivers ask for newer codes along with the ones that they need.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
from pyarrow import flight

from lance_gateway.gateway.execution.streams import Streams
from lance_gateway.gateway.protocol.commands import Call, Command, Handler, PlannedStream, Ticket
from lance_gateway.gateway.statements.prepared_statements import IDLE_SECONDS
from lance_gateway.memwal.storage.schemas import MAX_NAME_BYTES
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import pack

Value: TypeAlias = str | bool | int | tuple[str, ...] | Mapping[int, tuple[int, ...]]

_VALUE_TYPE = pa.dense_union(
    [
        pa.field("string_value", pa.string(), nullable=False),
        pa.field("bool_value", pa.bool_(), nullable=False),
        pa.field("bigint_value", pa.int64(), nullable=False),
        pa.field("int32_bitmask", pa.int32(), nullable=False),
        pa.field("string_list", pa.list_(pa.string()), nullable=False),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32())), nullable=False),
    ]
)
SCHEMA = pa.schema(
    [pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _VALUE_TYPE, nullable=False)]
)

NUMERIC_FUNCTIONS = (
    "abs", "acos", "asin", "atan", "atan2", "cbrt", "ceil", "cos", "cot", "degrees", "exp", "floor",
    "gcd", "lcm", "ln", "log", "log10", "log2", "pi", "power", "radians", "random", "round", "signum",
    "sin", "sqrt", "tan", "trunc",
)  # fmt: skip
STRING_FUNCTIONS = (
    "ascii", "bit_length", "btrim", "character_length", "chr", "concat", "concat_ws", "ends_with",
    "initcap", "left", "length", "lower", "lpad", "ltrim", "md5", "octet_length", "overlay", "position",
    "regexp_like", "regexp_replace", "repeat", "replace", "reverse", "right", "rpad", "rtrim",
    "split_part", "starts_with", "strpos", "substr", "translate", "trim", "upper",
)  # fmt: skip
SYSTEM_FUNCTIONS = ("arrow_cast", "arrow_typeof", "coalesce", "greatest", "least", "nullif", "nvl", "version")
DATETIME_FUNCTIONS = (
    "current_date", "current_time", "date_bin", "date_part", "date_trunc", "extract", "from_unixtime",
    "make_date", "now", "to_char", "to_date", "to_timestamp", "to_unixtime",
)  # fmt: skip
# Words of the grammar that SQL-92 does not know.
_KEYWORDS = (
    "ANALYZE", "ANTI", "CONFLICT", "CUBE", "EXPLAIN", "FILTER", "FLUSH", "GROUPING SETS", "ILIKE", "LATERAL",
    "LIMIT", "MERGE", "OFFSET", "OPTIMIZE", "OVER", "PARTITION", "QUALIFY", "RECURSIVE", "RESTORE",
    "RETURNING", "ROLLUP", "SEMI", "UNNEST", "WINDOW", "WITH",
)  # fmt: skip

# Places in SqlSupportsConvert.
_BIGINT, _BIT, _CHAR, _DATE, _DECIMAL, _FLOAT, _INTEGER, _NUMERIC = 0, 2, 3, 4, 5, 6, 7, 12
_REAL, _SMALLINT, _TIME, _TIMESTAMP, _TINYINT, _VARBINARY, _VARCHAR = 13, 14, 15, 16, 17, 18, 19
_BINARY_NUMBERS = (_BIGINT, _FLOAT, _INTEGER, _REAL, _SMALLINT, _TINYINT)
_NUMBERS = (*_BINARY_NUMBERS, _DECIMAL, _NUMERIC)
_TEXTS = (_CHAR, _VARCHAR)
_CONVERSIONS: Mapping[int, tuple[int, ...]] = MappingProxyType(
    {
        code: tuple(sorted(targets))
        for code, targets in sorted(
            {
                **dict.fromkeys(_BINARY_NUMBERS, (*_NUMBERS, _BIT, *_TEXTS)),
                **dict.fromkeys((_DECIMAL, _NUMERIC), (*_NUMBERS, *_TEXTS)),
                _BIT: (*_BINARY_NUMBERS, _BIT, *_TEXTS),
                _DATE: (_DATE, _TIMESTAMP, *_TEXTS),
                _TIME: (_TIME, *_TEXTS),
                _TIMESTAMP: (_DATE, _TIME, _TIMESTAMP, *_TEXTS),
                _VARBINARY: (_VARBINARY, *_TEXTS),
                **dict.fromkeys(_TEXTS, (*_NUMBERS, _BIT, _DATE, _TIME, _TIMESTAMP, _VARBINARY, *_TEXTS)),
            }.items()
        )
    }
)


def _combine_bits(*places: int) -> int:
    return sum(1 << place for place in places)


_LIMITLESS = (
    sql.SQL_MAX_BINARY_LITERAL_LENGTH, sql.SQL_MAX_CHAR_LITERAL_LENGTH, sql.SQL_MAX_COLUMN_NAME_LENGTH,
    sql.SQL_MAX_COLUMNS_IN_GROUP_BY, sql.SQL_MAX_COLUMNS_IN_INDEX, sql.SQL_MAX_COLUMNS_IN_ORDER_BY,
    sql.SQL_MAX_COLUMNS_IN_SELECT, sql.SQL_MAX_COLUMNS_IN_TABLE, sql.SQL_MAX_CONNECTIONS,
    sql.SQL_MAX_CURSOR_NAME_LENGTH, sql.SQL_MAX_INDEX_LENGTH, sql.SQL_DB_SCHEMA_NAME_LENGTH,
    sql.SQL_MAX_PROCEDURE_NAME_LENGTH, sql.SQL_MAX_CATALOG_NAME_LENGTH, sql.SQL_MAX_ROW_SIZE,
    sql.SQL_MAX_STATEMENT_LENGTH, sql.SQL_MAX_STATEMENTS,
    sql.SQL_MAX_TABLES_IN_SELECT, sql.SQL_MAX_USERNAME_LENGTH,
)  # fmt: skip

_STRING_VALUES: Mapping[int, str] = {
    sql.FLIGHT_SQL_SERVER_NAME: "Lance Gateway",
    sql.FLIGHT_SQL_SERVER_VERSION: version("lance-gateway"),
    sql.FLIGHT_SQL_SERVER_ARROW_VERSION: pa.__version__,
    sql.SQL_IDENTIFIER_QUOTE_CHAR: '"',
    sql.SQL_SEARCH_STRING_ESCAPE: "\\",
    sql.SQL_EXTRA_NAME_CHARACTERS: "",
    sql.SQL_SCHEMA_TERM: "schema",
    sql.SQL_PROCEDURE_TERM: "",
    sql.SQL_CATALOG_TERM: "catalog",
}
_BOOL_VALUES: Mapping[int, bool] = {
    sql.FLIGHT_SQL_SERVER_SQL: True,
    sql.FLIGHT_SQL_SERVER_SUBSTRAIT: False,
    sql.FLIGHT_SQL_SERVER_CANCEL: True,
    sql.FLIGHT_SQL_SERVER_INGEST_TRANSACTIONS_SUPPORTED: True,
    sql.SQL_DDL_CATALOG: False,
    sql.SQL_DDL_SCHEMA: False,
    sql.SQL_ALL_TABLES_ARE_SELECTABLE: True,
    sql.SQL_SUPPORTS_COLUMN_ALIASING: True,
    sql.SQL_NULL_PLUS_NULL_IS_NULL: True,
    sql.SQL_SUPPORTS_TABLE_CORRELATION_NAMES: True,
    sql.SQL_SUPPORTS_DIFFERENT_TABLE_CORRELATION_NAMES: False,
    sql.SQL_SUPPORTS_EXPRESSIONS_IN_ORDER_BY: True,
    sql.SQL_SUPPORTS_ORDER_BY_UNRELATED: True,
    sql.SQL_SUPPORTS_LIKE_ESCAPE_CLAUSE: True,
    sql.SQL_SUPPORTS_NON_NULLABLE_COLUMNS: True,
    sql.SQL_SUPPORTS_INTEGRITY_ENHANCEMENT_FACILITY: False,
    sql.SQL_CATALOG_AT_START: True,
    sql.SQL_SELECT_FOR_UPDATE_SUPPORTED: False,
    sql.SQL_STORED_PROCEDURES_SUPPORTED: False,
    sql.SQL_CORRELATED_SUBQUERIES_SUPPORTED: True,
    sql.SQL_MAX_ROW_SIZE_INCLUDES_BLOBS: True,
    sql.SQL_TRANSACTIONS_SUPPORTED: True,
    sql.SQL_DATA_DEFINITION_CAUSES_TRANSACTION_COMMIT: True,
    sql.SQL_DATA_DEFINITIONS_IN_TRANSACTIONS_IGNORED: False,
    sql.SQL_SAVEPOINTS_SUPPORTED: False,
    sql.SQL_NAMED_PARAMETERS_SUPPORTED: False,
    sql.SQL_LOCATORS_UPDATE_COPY: False,
    sql.SQL_STORED_FUNCTIONS_USING_CALL_SYNTAX_SUPPORTED: False,
}
_BIGINT_VALUES: Mapping[int, int] = {
    **dict.fromkeys(_LIMITLESS, 0),
    sql.SQL_MAX_TABLE_NAME_LENGTH: MAX_NAME_BYTES,
    sql.SQL_IDENTIFIER_CASE: 3,  # folded to lower case
    sql.SQL_QUOTED_IDENTIFIER_CASE: 0,  # kept as written, for which the protocol has no better word
    sql.SQL_NULL_ORDERING: 0,  # NULL sorts above every value
    sql.SQL_DEFAULT_TRANSACTION_ISOLATION: 3,  # repeatable read
}
_BITMASK_VALUES: Mapping[int, int] = {
    sql.FLIGHT_SQL_SERVER_TRANSACTION: 1,  # transactions without savepoints
    sql.FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT: int(IDLE_SECONDS * 1000),
    sql.SQL_SUPPORTED_GROUP_BY: _combine_bits(0, 1),  # columns unrelated to and beyond the select list
    sql.SQL_SUPPORTED_GRAMMAR: _combine_bits(0, 1),  # minimum and core
    sql.SQL_ANSI92_SUPPORTED_LEVEL: _combine_bits(0),  # entry
    sql.SQL_OUTER_JOINS_SUPPORT_LEVEL: _combine_bits(1, 2),  # limited and full
    sql.SQL_SCHEMAS_SUPPORTED_ACTIONS: 0,
    sql.SQL_CATALOGS_SUPPORTED_ACTIONS: 0,
    sql.SQL_SUPPORTED_POSITIONED_COMMANDS: 0,
    sql.SQL_SUPPORTED_SUBQUERIES: _combine_bits(0, 1, 2, 3),  # in comparisons, EXISTS, IN, quantified
    sql.SQL_SUPPORTED_UNIONS: _combine_bits(0, 1),  # UNION and UNION ALL
    sql.SQL_SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS: _combine_bits(0, 1, 2, 3),  # none to repeatable read
    sql.SQL_SUPPORTED_RESULT_SET_TYPES: _combine_bits(0, 1),  # unspecified and forward only
    sql.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_UNSPECIFIED: _combine_bits(1),  # read only
    sql.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_FORWARD_ONLY: _combine_bits(1),
    sql.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_SENSITIVE: 0,
    sql.SQL_SUPPORTED_CONCURRENCIES_FOR_RESULT_SET_SCROLL_INSENSITIVE: 0,
}
_STRINGS_VALUES: Mapping[int, tuple[str, ...]] = {
    sql.SQL_KEYWORDS: _KEYWORDS,
    sql.SQL_NUMERIC_FUNCTIONS: NUMERIC_FUNCTIONS,
    sql.SQL_STRING_FUNCTIONS: STRING_FUNCTIONS,
    sql.SQL_SYSTEM_FUNCTIONS: SYSTEM_FUNCTIONS,
    sql.SQL_DATETIME_FUNCTIONS: DATETIME_FUNCTIONS,
}
_MAP_VALUES: Mapping[int, Mapping[int, tuple[int, ...]]] = {sql.SQL_SUPPORTS_CONVERT: _CONVERSIONS}


_NO_COMMIT_FLAGS: Mapping[int, bool] = {
    sql.SQL_TRANSACTIONS_SUPPORTED: False,
    sql.SQL_DATA_DEFINITION_CAUSES_TRANSACTION_COMMIT: False,
}
_NO_COMMIT_LEVEL: Mapping[int, int] = {sql.SQL_DEFAULT_TRANSACTION_ISOLATION: 0}
_NO_COMMIT_LEVELS: Mapping[int, int] = {sql.SQL_SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS: _combine_bits(0)}
_MAX_INT32 = 2**31 - 1


def _describe_writing(*, writes: bool) -> Mapping[int, bool]:
    return {
        sql.FLIGHT_SQL_SERVER_READ_ONLY: not writes,
        sql.FLIGHT_SQL_SERVER_BULK_INGESTION: writes,
        sql.SQL_DDL_TABLE: writes,
        sql.SQL_BATCH_UPDATES_SUPPORTED: writes,
    }


def collect_values(
    *, writes: bool, transaction_seconds: float = 0.0, sends_commit: bool = True
) -> Mapping[int, tuple[int, Value]]:
    """Return code -> (position of the union's child, value), ordered by code.

    Args:
        writes: whether the gateway takes statements that change something.
        transaction_seconds: how long a transaction may be idle.
        sends_commit: whether the client's driver sends COMMIT where its user commits. Tools rely on that
            where transactions are said to be supported; BEGIN and COMMIT work all the same.
    """
    milliseconds = min(int(transaction_seconds * 1000), _MAX_INT32)
    by_kind: tuple[Mapping[int, Value], ...] = (
        _STRING_VALUES,
        {**_BOOL_VALUES, **_describe_writing(writes=writes), **({} if sends_commit else _NO_COMMIT_FLAGS)},
        {**_BIGINT_VALUES, **({} if sends_commit else _NO_COMMIT_LEVEL)},
        {
            **_BITMASK_VALUES,
            sql.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT: milliseconds,
            **({} if sends_commit else _NO_COMMIT_LEVELS),
        },
        _STRINGS_VALUES,
        _MAP_VALUES,
    )
    values = {code: (kind, value) for kind, some in enumerate(by_kind) for code, value in some.items()}
    return MappingProxyType(dict(sorted(values.items())))


def build_sql_info(codes: tuple[int, ...], values: Mapping[int, tuple[int, Value]]) -> pa.RecordBatch:
    """Return the rows (`info_name`, `value`) of the given codes, or of all where none is given."""
    wanted = tuple(code for code in codes if code in values) if codes else tuple(values)
    kinds = [values[code][0] for code in wanted]
    children: list[list[object]] = [[] for _ in _VALUE_TYPE]
    offsets = []
    for code, kind in zip(wanted, kinds, strict=True):
        offsets.append(len(children[kind]))
        value = values[code][1]
        children[kind].append(list(value.items()) if isinstance(value, Mapping) else value)
    # Built from its buffers: the other constructors make the children nullable, and the schema would differ.
    union = pa.Array.from_buffers(
        _VALUE_TYPE,
        len(wanted),
        [None, pa.array(kinds, pa.int8()).buffers()[1], pa.array(offsets, pa.int32()).buffers()[1]],
        children=[pa.array(child, field.type) for child, field in zip(children, _VALUE_TYPE, strict=True)],
    )
    return pa.RecordBatch.from_arrays([pa.array(wanted, pa.uint32()), union], schema=SCHEMA)


class SqlInfo:
    """The command family with one command.

    Args:
        streams: sends results.
        writes: whether the gateway takes statements that change something.
        transaction_seconds: how long a transaction may be idle.
        on_asked: is told of each call that asks.
    """

    def __init__(
        self, streams: Streams, *, writes: bool, transaction_seconds: float, on_asked: Callable[[Call], None]
    ) -> None:
        self._streams = streams
        self._on_asked = on_asked
        # Whether the session only reads, whether the driver is JDBC's -> the values.
        self._values = {
            (reads, is_jdbc): collect_values(
                writes=writes and not reads,
                transaction_seconds=transaction_seconds,
                # JDBC's driver does nothing where its user commits or rolls back.
                sends_commit=not is_jdbc,
            )
            for reads, is_jdbc in itertools.product((False, True), repeat=2)
        }

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (
            Command(sql.CommandGetSqlInfo, lambda _message, _call: SCHEMA, self._plan),
            Ticket(sql.CommandGetSqlInfo, self._stream),
        )

    def _plan(self, command: sql.CommandGetSqlInfo, call: Call) -> PlannedStream:
        self._on_asked(call)
        return PlannedStream(SCHEMA, pack(command))

    def _stream(self, command: sql.CommandGetSqlInfo, call: Call) -> flight.FlightDataStream:
        values = self._values[call.settings.read_only, call.settings.type_set == "jdbc"]
        return self._streams.send_listing(build_sql_info(tuple(command.info), values))
