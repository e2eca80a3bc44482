"""Keys of tables: the primary key, which Lance does not enforce, and foreign keys, of which it has none."""

import pyarrow as pa

from gateway.execution.streams import Streams
from gateway.metadata.listings import Listing, Listings, Row, is_named
from gateway.protocol.commands import Call
from memwal.errors import NotFoundError
from planner.engine import QueryEngine
from planner.tables.state.catalog import CATALOG, SCHEMA
from protos import flight_sql_pb2 as sql

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
_FOREIGN_KEYS = pa.schema(
    [
        pa.field("pk_catalog_name", pa.string()),
        pa.field("pk_db_schema_name", pa.string()),
        pa.field("pk_table_name", pa.string(), nullable=False),
        pa.field("pk_column_name", pa.string(), nullable=False),
        pa.field("fk_catalog_name", pa.string()),
        pa.field("fk_db_schema_name", pa.string()),
        pa.field("fk_table_name", pa.string(), nullable=False),
        pa.field("fk_column_name", pa.string(), nullable=False),
        pa.field("key_sequence", pa.int32(), nullable=False),
        pa.field("fk_key_name", pa.string()),
        pa.field("pk_key_name", pa.string()),
        pa.field("update_rule", pa.uint8(), nullable=False),
        pa.field("delete_rule", pa.uint8(), nullable=False),
    ]
)
_ABOUT_FOREIGN_KEYS = (
    sql.CommandGetExportedKeys,
    sql.CommandGetImportedKeys,
    sql.CommandGetCrossReference,
)


class Keys(Listings):
    """The key commands over the engine's catalog."""

    def __init__(self, engine: QueryEngine, streams: Streams) -> None:
        self._engine = engine
        foreign = [
            Listing(message, lambda _: _FOREIGN_KEYS, lambda _command, _call: ())
            for message in _ABOUT_FOREIGN_KEYS
        ]
        primary = Listing(sql.CommandGetPrimaryKeys, lambda _: _PRIMARY_KEYS, self._primary_keys)
        super().__init__(streams, [primary, *foreign])

    def _primary_keys(self, command: sql.CommandGetPrimaryKeys, call: Call) -> list[Row]:
        if not is_named(command, "catalog", CATALOG) or not is_named(command, "db_schema", SCHEMA):
            return []
        try:
            key = self._engine.visible(call.access).table(command.table).primary_key
        except NotFoundError:
            return []
        return [
            (CATALOG, SCHEMA, command.table, column, None, place) for place, column in enumerate(key, start=1)
        ]
