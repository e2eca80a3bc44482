"""A resolver over plain dictionaries, and DataFusion contexts with the same tables in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TableName
from lance_gateway.planner.binding.bind import bind
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.binding.names import TableColumns
from lance_gateway.planner.sql.text.tokens import quote

ORDERS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5], pa.int64()),
        "item": pa.array(["nut", "bolt", "nut", None, "it's"]),
        "qty": pa.array([10, 20, None, 40, 50], pa.int32()),
        "day": pa.array([date(2024, 1, 1), date(2024, 6, 1), date(2025, 1, 1), None, date(2025, 2, 1)]),
        "parts": pa.array([[1, 2], [3], [], None, [4, 5, 6]], pa.list_(pa.int64())),
    }
)
ITEMS = pa.table({"shop": ["a", "a", "b"], "item": ["nut", "bolt", "nut"], "price": [1.5, 2.5, 3.5]})
ORDERS_UPPER = pa.table({"id": [100], "item": ["upper"]})
LINKS = pa.table({"parent": [1, 1, 2], "child": [2, 3, 4]})

TABLES: Mapping[str, pa.Table] = {"orders": ORDERS, "items": ITEMS, "Orders": ORDERS_UPPER, "links": LINKS}
KEYS = {"orders": ("id",), "items": ("shop", "item")}
VIEWS = {
    "recent": "SELECT * FROM orders WHERE id > 2 -- the newest\n",
    "pricey": "WITH orders AS (SELECT item, price FROM items) SELECT * FROM orders WHERE price > 2;",
    "both": "SELECT r.id, p.price FROM recent r JOIN main.pricey p ON r.item = p.item",
    "loop": "SELECT * FROM loop_back",
    "loop_back": "SELECT * FROM loop",
    "asks": "SELECT * FROM orders WHERE id = ?",
    "writes": "DELETE FROM orders",
    "dangling": "SELECT * FROM gone",
}


@dataclass(frozen=True)
class Names:
    """Satisfies planner.binding.names.NameResolver."""

    tables: Mapping[str, pa.Table] = field(default_factory=lambda: TABLES)
    views: Mapping[str, str] = field(default_factory=lambda: VIEWS)

    def find(self, name: TableName) -> TableColumns | None:
        return TableColumns(self.tables[name].schema, KEYS.get(name, ())) if name in self.tables else None

    def view_path(self, name: TableName) -> str:
        return name.schema

    def view_sql(self, name: TableName) -> str | None:
        return self.views.get(name)

    def names(self, schema: str | None = None) -> tuple[TableName, ...]:
        names = map(TableName.parse, (*self.tables, *self.views))
        return tuple(name for name in names if schema in {None, name.schema})

    def has_schema(self, schema: str) -> bool:
        return schema == MAIN_SCHEMA

    def system_tables(self) -> tuple[str, ...]:
        return ("queries", "tables")


def bound(sql: str) -> BoundStatement:
    return bind(sql, Names())


def context() -> SessionContext:
    """DataFusion with one partition, so that rows keep their order, and the types that the gateway uses."""
    config = SessionConfig().with_target_partitions(1).with_information_schema(enabled=True)
    return SessionContext(config.set("datafusion.sql_parser.map_string_types_to_utf8view", "false"))


def context_with(tables: Mapping[str, pa.Table]) -> SessionContext:
    found = context()
    for name, table in tables.items():
        found.register_record_batches(quote(name), [table.to_batches()])  # the name is parsed as SQL
    return found
