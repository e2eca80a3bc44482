"""Metadata commands: catalogs, schemas, tables and views, and table types.

A caller sees the tables that a grant shows, and of each the columns that are not hidden. `information_schema`
lists the same.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType

import pyarrow as pa

from lance_gateway.gateway.execution.streams import Streams
from lance_gateway.gateway.metadata.listings import Listing, Listings, Row, is_matched, is_named, parse_schema
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.sql_types import describe_table_schema, read_remarks
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.rules import list_lengths
from lance_gateway.memwal.storage.table_names import CATALOG, TableName
from lance_gateway.planner.access.visible_catalog import SYSTEM_SCHEMA, VisibleCatalog
from lance_gateway.planner.bridge.types.plain_types import TypeSet, plain_schema
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.system.catalogs.relations import INFORMATION_SCHEMA
from lance_gateway.planner.system.catalogs.tables import list_information_tables
from lance_gateway.protos import flight_sql_pb2 as sql

logger = logging.getLogger(__name__)

SYSTEM_TABLE = "SYSTEM TABLE"
TABLE = "TABLE"
VIEW = "VIEW"
_STANDARD_TABLE = "BASE TABLE"
"""What SQL's standard calls a table; clients that know no other name ask for it, as Grafana's does."""

_CATALOGS = parse_schema("catalog_name string!")
_DB_SCHEMAS = parse_schema("catalog_name string, db_schema_name string!")
_TABLES = parse_schema("catalog_name string, db_schema_name string, table_name string!, table_type string!")
_TABLES_WITH_SCHEMA = _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
_TABLE_TYPES = parse_schema("table_type string!")


@dataclass(frozen=True, slots=True)
class _Relation:
    """A table or view of a listing; its columns are read only for requests that include them."""

    name: str
    kind: str
    read_schema: Callable[[], pa.Schema]
    is_writable: Callable[[], bool] = lambda: False


class Metadata(Listings):
    """The metadata commands over the engine's catalog."""

    def __init__(self, engine: QueryEngine, streams: Streams) -> None:
        self._engine = engine
        super().__init__(
            streams,
            [
                Listing(sql.CommandGetCatalogs, lambda _: _CATALOGS, lambda _command, _call: [(CATALOG,)]),
                Listing(sql.CommandGetDbSchemas, lambda _: _DB_SCHEMAS, self._list_db_schemas),
                Listing(
                    sql.CommandGetTables,
                    lambda command: _TABLES_WITH_SCHEMA if command.include_schema else _TABLES,
                    self._list_tables,
                ),
                Listing(
                    sql.CommandGetTableTypes,
                    lambda _: _TABLE_TYPES,
                    lambda _command, _call: [(kind,) for kind in (SYSTEM_TABLE, TABLE, VIEW)],
                ),
            ],
        )

    def _list_db_schemas(self, command: sql.CommandGetDbSchemas, call: Call) -> list[Row]:
        return [(CATALOG, name) for name in self._list_schema_names(command, call)]

    def _list_tables(self, command: sql.CommandGetTables, call: Call) -> list[Row]:
        kinds = _read_kinds(command)
        rows: list[Row] = []
        for db_schema in self._list_schema_names(command, call):
            for relation in sorted(
                self._list_relations(db_schema, call), key=lambda one: (one.name, one.kind)
            ):
                if not is_matched(command, "table_name_filter_pattern", relation.name):
                    continue
                if kinds and relation.kind not in kinds:
                    continue
                row: Row = (CATALOG, db_schema, relation.name, relation.kind)
                if command.include_schema:
                    row = (*row, _encode_schema(db_schema, relation, call.settings.type_set))
                rows.append(row)
        return rows

    def _list_schema_names(
        self, command: sql.CommandGetDbSchemas | sql.CommandGetTables, call: Call
    ) -> list[str]:
        if not is_named(command, "catalog", CATALOG):
            return []
        catalog = self._engine.visible_catalog(call.access)
        names = [INFORMATION_SCHEMA, *catalog.schema_names()]
        if catalog.system_tables():
            names.append(SYSTEM_SCHEMA)
        return [name for name in sorted(names) if is_matched(command, "db_schema_filter_pattern", name)]

    def _list_relations(self, db_schema: str, call: Call) -> Iterator[_Relation]:
        if db_schema == INFORMATION_SCHEMA:
            for name, schema in _list_information_schema().items():
                yield _Relation(name, SYSTEM_TABLE, partial(_return_schema, schema))
            return
        catalog = self._engine.visible_catalog(call.access)
        if db_schema == SYSTEM_SCHEMA:
            for name in catalog.system_tables():
                yield _Relation(
                    name, SYSTEM_TABLE, partial(_return_schema, catalog.system_table(name).schema)
                )
            return
        for name in catalog.table_names(db_schema):
            yield _Relation(
                name.table,
                TABLE,
                partial(self._read_table_schema, catalog, name),
                partial(self._is_writable, catalog, name, call),
            )
        for name in catalog.view_names(db_schema):
            yield _Relation(name.table, VIEW, partial(self._read_view_schema, name, call))

    def _read_table_schema(self, catalog: VisibleCatalog, name: TableName) -> pa.Schema:
        """Return the declared columns: NOT NULL even where Lance's own schema allows NULL."""
        table = catalog.table(name)
        required = table.required_columns
        return pa.schema(
            [
                field.with_nullable(field.nullable and field.name not in required)
                for field in table.declared_schema
            ]
        )

    def _is_writable(self, catalog: VisibleCatalog, name: TableName, call: Call) -> bool:
        """Return whether the caller may change rows of a table."""
        if self._engine.catalog.writing is None or call.settings.read_only:
            return False
        if not catalog.access.can_write(name):
            return False
        table = catalog.table(name)
        return table.access.is_unrestricted and table.base.details is not None

    def _read_view_schema(self, name: TableName, call: Call) -> pa.Schema:
        return self._engine.prepare(f"SELECT * FROM {name.sql}", access=call.access).schema  # noqa: S608 - quoted


def _read_kinds(command: sql.CommandGetTables) -> frozenset[str]:
    """Return the kinds that are asked for, in any case; none are all."""
    asked = {kind.upper() for kind in command.table_types}
    return frozenset(TABLE if kind == _STANDARD_TABLE else kind for kind in asked)


def _encode_schema(db_schema: str, relation: _Relation, types: TypeSet) -> bytes:
    try:
        schema, is_writable = relation.read_schema(), relation.is_writable()
    except LanceGatewayError as error:
        # One unreadable table must not hide the others; it is listed without columns.
        logger.warning("%s %r is listed without its columns: %s", relation.kind, relation.name, error)
        schema, is_writable = pa.schema([]), False
    described = describe_table_schema(
        plain_schema(schema, types),
        CATALOG,
        db_schema,
        relation.name,
        read_remarks(schema),
        list_lengths(schema),
        is_read_only=not is_writable,
    )
    return bytes(described.serialize())


def _return_schema(schema: pa.Schema) -> pa.Schema:
    return schema


@cache
def _list_information_schema() -> Mapping[str, pa.Schema]:
    """Return table name -> schema of information_schema."""
    own = list_information_tables()
    return MappingProxyType({name: plain_schema(schema) for name, schema in own.items()})
