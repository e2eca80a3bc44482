"""SQLAlchemy's own dialect of PostgreSQL over ADBC: what it reflects of tables, by pg_catalog alone."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGDialect

from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

pytestmark = pytest.mark.slow
CREATE_ORDERS = """
CREATE TABLE orders (
    line INT, id BIGINT, code VARCHAR(20) DEFAULT 'x', qty INT NOT NULL CHECK (qty > 0), price DECIMAL(12, 2),
    customer INT REFERENCES customers (id) NOT ENFORCED, number UUID, made TIMESTAMP, told TIMESTAMPTZ,
    day DATE, tags TEXT[], paid BOOLEAN, share REAL, PRIMARY KEY (id, line)
)"""
STATEMENTS = (
    "CREATE TABLE customers (id INT PRIMARY KEY, name TEXT) COMMENT 'who buys'",
    CREATE_ORDERS,
    "CREATE INDEX orders_qty ON orders (qty)",
    "CREATE VIEW many AS SELECT id, qty FROM orders WHERE qty > 10",
)


class Dialect(PGDialect):
    """PostgreSQL's dialect over a driver that it does not know."""

    driver = "adbc"
    default_paramstyle = "qmark"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        return flightsql

    def create_connect_args(self, url: sa.URL) -> Any:
        return (f"grpc://{url.host}:{url.port}",), {"autocommit": True}

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Nothing is begun."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Nothing is begun."""


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sa.Engine]:
    root: Path = tmp_path_factory.mktemp("reflected")
    engine = QueryEngine(Catalog.open(str(root), writing=WriteOptions()))
    server = GatewayServer(engine)
    sys.modules["gateway_postgres"] = SimpleNamespace(Dialect=Dialect)  # type: ignore[assignment]
    registry.register("gateway_postgres", "gateway_postgres", "Dialect")
    with flightsql.connect(f"grpc://127.0.0.1:{server.port}", autocommit=True) as connection:
        for statement in STATEMENTS:
            with connection.cursor() as cursor:
                cursor.execute(statement)
    created = sa.create_engine(f"gateway_postgres://127.0.0.1:{server.port}")
    yield created
    created.dispose()
    del sys.modules["gateway_postgres"]
    server.shutdown()
    engine.close()


@pytest.fixture(scope="module")
def inspector(bound: sa.Engine) -> sa.Inspector:
    return sa.inspect(bound)


def test_schemas_tables_and_views_are_found(inspector: sa.Inspector) -> None:
    assert inspector.default_schema_name == "main"
    assert inspector.get_schema_names() == ["information_schema", "main", "system"]
    assert inspector.get_table_names() == ["customers", "orders"]
    assert inspector.get_view_names() == ["many"]
    assert inspector.get_view_definition("many") == "SELECT id, qty FROM orders WHERE qty > 10"
    assert inspector.has_table("orders")
    assert not inspector.has_table("orders", schema="system")
    assert {"queries", "tables"} <= set(inspector.get_table_names(schema="system"))


def test_what_does_not_exist_here_is_not_found(inspector: sa.Inspector) -> None:
    assert inspector.get_sequence_names() == []
    assert inspector.get_materialized_view_names() == []
    assert inspector.get_enums() == inspector.get_domains() == []
    with pytest.raises(sa.exc.NoSuchTableError):
        inspector.get_columns("nothing")


def test_columns_have_their_types_and_defaults(inspector: sa.Inspector) -> None:
    columns = {column["name"]: column for column in inspector.get_columns("orders")}
    assert {name: str(column["type"].compile(dialect=PGDialect())) for name, column in columns.items()} == {
        "line": "INTEGER",
        "id": "BIGINT",
        "code": "VARCHAR(20)",
        "qty": "INTEGER",
        "price": "NUMERIC(12, 2)",
        "customer": "INTEGER",
        "number": "UUID",
        "made": "TIMESTAMP WITHOUT TIME ZONE",
        "told": "TIMESTAMP WITH TIME ZONE",
        "day": "DATE",
        "tags": "TEXT[]",
        "paid": "BOOLEAN",
        "share": "REAL",
    }
    assert [name for name, column in columns.items() if not column["nullable"]] == ["line", "id", "qty"]
    assert {name: column["default"] for name, column in columns.items() if column["default"]} == {
        "code": "'x'"
    }
    assert [column["name"] for column in inspector.get_columns("many")] == ["id", "qty"]


def test_keys_constraints_indexes_and_comments_are_found(inspector: sa.Inspector) -> None:
    key = inspector.get_pk_constraint("orders")
    assert (key["name"], key["constrained_columns"]) == ("orders_pkey", ["id", "line"])
    (foreign,) = inspector.get_foreign_keys("orders")
    assert (foreign["constrained_columns"], foreign["referred_table"], foreign["referred_columns"]) == (
        ["customer"],
        "customers",
        ["id"],
    )
    (check,) = inspector.get_check_constraints("orders")
    assert check["sqltext"] == "qty > 0"
    (index,) = inspector.get_indexes("orders")
    assert (index["name"], index["column_names"], index["unique"]) == ("orders_qty", ["qty"], False)
    assert inspector.get_table_comment("customers") == {"text": "who buys"}


def test_a_whole_schema_is_reflected_and_queried(bound: sa.Engine) -> None:
    metadata = sa.MetaData()
    metadata.reflect(bound, views=True)
    assert sorted(metadata.tables) == ["customers", "many", "orders"]
    orders = metadata.tables["orders"]
    with bound.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(orders)).scalar() == 0
        assert connection.execute(sa.select(orders.c.id).where(orders.c.qty > 1)).all() == []
