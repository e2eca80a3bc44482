"""Metadata commands about keys.

Primary keys are those of the tables, and foreign keys the constraints that tables note and nobody enforces.
"""

import logging
from collections.abc import Callable, Iterator

from google.protobuf.message import Message

from lance_gateway.gateway.execution.streams import Streams
from lance_gateway.gateway.metadata.listings import Listing, Listings, Row, is_named, parse_schema
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.rules import Constraint, ConstraintKind
from lance_gateway.memwal.storage.table_names import CATALOG, TableName
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.protos import flight_sql_pb2 as sql

logger = logging.getLogger(__name__)

_PRIMARY_KEYS = parse_schema(
    "catalog_name string, db_schema_name string, table_name string!, column_name string!, key_name string, "
    "key_sequence int32!"
)
_FOREIGN_KEYS = parse_schema(
    "pk_catalog_name string, pk_db_schema_name string, pk_table_name string!, pk_column_name string!, "
    "fk_catalog_name string, fk_db_schema_name string, fk_table_name string!, fk_column_name string!, "
    "key_sequence int32!, fk_key_name string, pk_key_name string, update_rule uint8!, delete_rule uint8!"
)
_NO_ACTION = 3
"""Of UpdateDeleteRules."""


class Keys(Listings):
    """The key commands over the engine's catalog."""

    def __init__(self, engine: QueryEngine, streams: Streams) -> None:
        self._engine = engine
        super().__init__(
            streams,
            [
                Listing(sql.CommandGetPrimaryKeys, lambda _: _PRIMARY_KEYS, self._list_primary_keys),
                Listing(sql.CommandGetExportedKeys, lambda _: _FOREIGN_KEYS, self._list_exported_keys),
                Listing(sql.CommandGetImportedKeys, lambda _: _FOREIGN_KEYS, self._list_imported_keys),
                Listing(sql.CommandGetCrossReference, lambda _: _FOREIGN_KEYS, self._list_cross_reference),
            ],
        )

    def _list_primary_keys(self, command: sql.CommandGetPrimaryKeys, call: Call) -> list[Row]:
        if not is_named(command, "catalog", CATALOG):
            return []
        catalog = self._engine.visible_catalog(call.access)
        return [
            (CATALOG, name.schema, name.table, column, None, place)
            for name in _list_named(command, catalog)
            for place, column in enumerate(_read_primary_key(catalog, name), start=1)
        ]

    def _list_exported_keys(self, command: sql.CommandGetExportedKeys, call: Call) -> list[Row]:
        return self._list_foreign_keys(call, lambda _, referenced: _is_meant(command, "", referenced))

    def _list_imported_keys(self, command: sql.CommandGetImportedKeys, call: Call) -> list[Row]:
        return self._list_foreign_keys(call, lambda table, _: _is_meant(command, "", table))

    def _list_cross_reference(self, command: sql.CommandGetCrossReference, call: Call) -> list[Row]:
        return self._list_foreign_keys(
            call,
            lambda table, referenced: (
                _is_meant(command, "fk_", table) and _is_meant(command, "pk_", referenced)
            ),
        )

    def _list_foreign_keys(self, call: Call, wanted: Callable[[TableName, TableName], bool]) -> list[Row]:
        """Return the columns of foreign keys, in the order of their tables, names and places."""
        catalog = self._engine.visible_catalog(call.access)
        rows: list[Row] = []
        for name in catalog.table_names():
            try:
                table = catalog.table(name)
                constraints = table.base.constraints if table.access.is_unrestricted else ()
            except LanceGatewayError as error:
                logger.warning("the foreign keys of table %r are not listed: %s", name, error)
                continue
            for one in constraints:
                if one.kind is not ConstraintKind.FOREIGN_KEY:
                    continue
                referenced = TableName.parse(one.referenced_table)
                if wanted(name, referenced):
                    rows.extend(_describe(catalog, name, one, referenced))
        return rows


def _is_meant(command: Message, prefix: str, name: TableName) -> bool:
    """Return whether a command names a table; a command without a schema means that of any schema."""
    return (
        is_named(command, f"{prefix}catalog", CATALOG)
        and is_named(command, f"{prefix}db_schema", name.schema)
        and getattr(command, f"{prefix}table") == name.table
    )


def _list_named(command: sql.CommandGetPrimaryKeys, catalog: VisibleCatalog) -> Iterator[TableName]:
    """Yield the tables that a command names: one, or, without a schema, that of each schema."""
    schemas = [command.db_schema] if command.HasField("db_schema") else catalog.schema_names()
    return (TableName(command.table, schema) for schema in schemas)


def _read_primary_key(catalog: VisibleCatalog, name: TableName) -> tuple[str, ...]:
    """Return the key columns of a table, in key order; () if there is no such table."""
    table = catalog.find(name)
    return () if table is None else table.primary_key


def _describe(
    catalog: VisibleCatalog, table: TableName, key: Constraint, referenced: TableName
) -> Iterator[Row]:
    """Yield a row for each column of a foreign key, if the caller sees the table that it refers to."""
    found = catalog.find(referenced)
    if found is None:
        return
    columns = key.referenced_columns or found.primary_key
    for place, (own, other) in enumerate(zip(key.columns, columns, strict=False), start=1):
        yield (
            *(CATALOG, referenced.schema, referenced.table, other),
            *(CATALOG, table.schema, table.table, own),
            *(place, key.name, None, _NO_ACTION, _NO_ACTION),
        )
