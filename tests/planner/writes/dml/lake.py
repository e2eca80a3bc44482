"""The tables that statements are tried on, here and in DuckDB."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa

from lance_gateway.planner.access.rights import FULL_ACCESS, Access
from lance_gateway.planner.engine import (
    DEFAULT_SETTINGS,
    PreparedQuery,
    QueryEngine,
    SessionSettings,
    WriteResult,
)
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.tables import key_field

PEOPLE = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("age", pa.int32()),
        pa.field("score", pa.float64()),
    ]
)
ORDERS = pa.schema(
    [
        key_field("customer", pa.string(), 1),
        key_field("number", pa.int32(), 2),
        pa.field("total", pa.decimal128(10, 2)),
        pa.field("day", pa.date32()),
    ]
)
NEWS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("age", pa.int64())])
TABLES = ("people", "orders", "news")

Row = dict[str, Any]


def people() -> pa.Table:
    """Twelve of them."""
    rows = [{"id": i, "name": f"p{i}", "age": 20 + i, "score": i / 4} for i in range(12)]
    return pa.Table.from_pylist(rows, PEOPLE)


def orders() -> pa.Table:
    """Three customers with three orders each."""
    rows = [
        {"customer": customer, "number": number, "total": Decimal(number * 10), "day": None}
        for customer in "abc"
        for number in range(1, 4)
    ]
    return pa.Table.from_pylist(rows, ORDERS)


def news() -> pa.Table:
    """Without a key: rows to write elsewhere."""
    rows = [{"id": i, "name": f"n{i}", "age": i} for i in (3, 5, 20, 21, 21)]
    return pa.Table.from_pylist(rows, NEWS)


def make_lake(root: Path) -> None:
    """The three tables, each with a MemWAL; `people` in four regions."""
    lance.write_dataset(people(), str(root / "people.lance")).initialize_mem_wal(
        bucket_column="id", num_buckets=4
    )
    lance.write_dataset(orders(), str(root / "orders.lance")).initialize_mem_wal()
    lance.write_dataset(news(), str(root / "news.lance")).initialize_mem_wal()


@dataclass(frozen=True, eq=False)
class Lake:
    """An engine over the tables."""

    engine: QueryEngine
    settings: SessionSettings = DEFAULT_SETTINGS
    access: Access = field(default=FULL_ACCESS)

    def speaking(self, dialect: str) -> "Lake":
        """The same in another dialect."""
        return replace(self, settings=replace(self.settings, dialect=dialect))

    def write(self, sql: str, *parameters: Any) -> WriteResult:
        """Execute a statement that changes something."""
        prepared = self.engine.prepare_statement(sql, self.settings, self.access)
        assert not isinstance(prepared, PreparedQuery), f"{sql} is a query"
        values = [one if isinstance(one, pa.Scalar) else pa.scalar(one) for one in parameters]
        return prepared.execute(values)

    def read(self, sql: str) -> list[Row]:
        """The rows of a query."""
        found: list[Row] = self.engine.execute(sql).read_all().to_pylist()
        return found

    def rows(self, table: str) -> list[Row]:
        """All rows of a table, in order."""
        return ordered(self.read(f'SELECT * FROM "{table}"'))


def open_lake(root: Path) -> Lake:
    """Make the tables and open them."""
    make_lake(root)
    return Lake(QueryEngine(Catalog.open(str(root))))


def duckdb_twin() -> duckdb.DuckDBPyConnection:
    """The same tables in DuckDB."""
    twin = duckdb.connect(":memory:")
    twin.execute("CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT, age INTEGER, score DOUBLE)")
    twin.execute(
        "CREATE TABLE orders (customer TEXT, number INTEGER, total DECIMAL(10, 2), day DATE, "
        "PRIMARY KEY (customer, number))"
    )
    twin.execute("CREATE TABLE news (id BIGINT, name TEXT, age BIGINT)")
    for name, rows in (("people", people()), ("orders", orders()), ("news", news())):
        twin.register("given", rows)
        twin.execute(f"INSERT INTO {name} SELECT * FROM given")
        twin.unregister("given")
    return twin


def ordered(rows: Sequence[Row]) -> list[Row]:
    """The rows in an order of their values."""
    return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row.values()])


def rows_of(twin: duckdb.DuckDBPyConnection, sql: str) -> list[Row]:
    """What DuckDB answers."""
    answer = twin.execute(sql)
    names = [one[0] for one in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
