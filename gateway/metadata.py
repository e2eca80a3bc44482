"""What there is to query: catalogs, schemas, tables and views, table types, primary keys.

Every result has exactly the schema that the protocol prescribes, in its order.
"""

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from google.protobuf.message import Message

from gateway.commands import Command, Planned, Ticket
from gateway.sessions import DEFAULTS
from gateway.streams import Streams
from gateway.wire import pack
from memwal.errors import LanceGatewayError, NotFoundError
from planner.engine import QueryEngine
from planner.plain_types import plain_schema
from protos import flight_sql_pb2 as sql

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

TABLE = "TABLE"
VIEW = "VIEW"

_CATALOGS = pa.schema([pa.field("catalog_name", pa.string(), nullable=False)])
_DB_SCHEMAS = pa.schema(
    [pa.field("catalog_name", pa.string()), pa.field("db_schema_name", pa.string(), nullable=False)]
)
_TABLES = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("table_type", pa.string(), nullable=False),
    ]
)
_TABLES_WITH_SCHEMA = _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
_TABLE_TYPES = pa.schema([pa.field("table_type", pa.string(), nullable=False)])
_PRIMARY_KEYS = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("column_name", pa.string(), nullable=False),
        pa.field("key_name", pa.string()),
        pa.field("key_sequence", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class _Listing:
    """A metadata command: its schema and its rows. The command itself serves as the ticket."""

    message: type[Message]
    schema: Callable[[Any], pa.Schema]
    rows: Callable[[Any], list[tuple[object, ...]]]

    def command(self) -> Command[Any]:
        return Command(
            self.message,
            lambda message, _call: self.schema(message),
            lambda message, _call: Planned(self.schema(message), pack(message)),
        )

    def ticket(self, streams: Streams) -> Ticket[Any]:
        return Ticket(self.message, lambda message: streams.send(self.schema(message), self._reader(message)))

    def _reader(self, message: Message) -> Iterator[pa.RecordBatchReader]:
        schema = self.schema(message)
        rows = self.rows(message)
        columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
        yield pa.RecordBatchReader.from_batches(schema, [pa.RecordBatch.from_arrays(columns, schema=schema)])


class Metadata:
    """The metadata commands over the engine's catalog: one catalog with one schema."""

    def __init__(self, engine: QueryEngine, streams: Streams) -> None:
        self._engine = engine
        self._streams = streams
        self._listings = (
            _Listing(sql.CommandGetCatalogs, lambda _: _CATALOGS, lambda _: [(DEFAULTS.catalog,)]),
            _Listing(sql.CommandGetDbSchemas, lambda _: _DB_SCHEMAS, self._db_schemas),
            _Listing(
                sql.CommandGetTables,
                lambda command: _TABLES_WITH_SCHEMA if command.include_schema else _TABLES,
                self._tables,
            ),
            _Listing(sql.CommandGetTableTypes, lambda _: _TABLE_TYPES, lambda _: [(TABLE,), (VIEW,)]),
            _Listing(sql.CommandGetPrimaryKeys, lambda _: _PRIMARY_KEYS, self._primary_keys),
        )

    def commands(self) -> tuple[Command[Any], ...]:
        """Returns the descriptor commands of this family."""
        return tuple(listing.command() for listing in self._listings)

    def tickets(self) -> tuple[Ticket[Any], ...]:
        """Returns the tickets of this family."""
        return tuple(listing.ticket(self._streams) for listing in self._listings)

    def _db_schemas(self, command: sql.CommandGetDbSchemas) -> list[tuple[object, ...]]:
        return [(DEFAULTS.catalog, DEFAULTS.schema)] if _in_scope(command) else []

    def _tables(self, command: sql.CommandGetTables) -> list[tuple[object, ...]]:
        if not _in_scope(command):
            return []
        catalog = self._engine.catalog
        found = [(name, TABLE) for name in catalog.table_names()] + [
            (name, VIEW) for name in catalog.view_names()
        ]
        rows: list[tuple[object, ...]] = []
        for name, kind in sorted(found):
            if command.HasField("table_name_filter_pattern") and not matches(
                name, command.table_name_filter_pattern
            ):
                continue
            if command.table_types and kind not in command.table_types:
                continue
            row: tuple[object, ...] = (DEFAULTS.catalog, DEFAULTS.schema, name, kind)
            rows.append((*row, self._encapsulated(name, kind)) if command.include_schema else row)
        return rows

    def _encapsulated(self, name: str, kind: str) -> bytes:
        try:
            schema = self._view_schema(name) if kind == VIEW else self._engine.catalog.table(name).schema
        except LanceGatewayError as error:
            # One unreadable table must not hide the others; it is listed without columns.
            logger.warning("%s %r is listed without its columns: %s", kind, name, error)
            schema = pa.schema([])
        return bytes(plain_schema(schema).serialize())

    def _view_schema(self, name: str) -> pa.Schema:
        quoted = name.replace('"', '""')
        return self._engine.prepare(f'SELECT * FROM "{quoted}"').schema  # noqa: S608 - quoted just above

    def _primary_keys(self, command: sql.CommandGetPrimaryKeys) -> list[tuple[object, ...]]:
        if not _names(command, "catalog", DEFAULTS.catalog) or not _names(
            command, "db_schema", DEFAULTS.schema
        ):
            return []
        try:
            key = self._engine.catalog.table(command.table).primary_key
        except NotFoundError:
            return []
        return [
            (DEFAULTS.catalog, DEFAULTS.schema, command.table, column, None, place)
            for place, column in enumerate(key, start=1)
        ]


def matches(name: str, pattern: str) -> bool:
    r"""Whether `name` matches a search pattern: "%" any characters, "_" one, "\" takes the next literally.

    >>> matches("orders", "ord%"), matches("orders", "o_ders"), matches("orders", "ord")
    (True, True, False)
    >>> matches("a_b", r"a\_b"), matches("axb", r"a\_b")
    (True, False)
    """
    wildcards = {"%": ".*", "_": "."}
    expression = "".join(
        re.escape(mark[1:])
        if mark.startswith("\\") and len(mark) > 1
        else wildcards.get(mark, re.escape(mark))
        for mark in re.findall(r"\\.|.", pattern, re.DOTALL)
    )
    return re.fullmatch(expression, name, re.DOTALL) is not None


def _names(command: Message, field: str, name: str) -> bool:
    return not command.HasField(field) or getattr(command, field) == name


def _in_scope(command: sql.CommandGetDbSchemas | sql.CommandGetTables) -> bool:
    if not _names(command, "catalog", DEFAULTS.catalog):
        return False
    return not command.HasField("db_schema_filter_pattern") or matches(
        DEFAULTS.schema, command.db_schema_filter_pattern
    )
