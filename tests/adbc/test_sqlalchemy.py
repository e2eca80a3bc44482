"""SQLAlchemy over ADBC, with the dialect of the package sqlalchemy-adbc."""

from collections.abc import Iterator

import pandas as pd
import pytest
import sqlalchemy as sa

from lance_gateway.gateway.server import GatewayServer


@pytest.fixture(scope="module")
def engine(gateway: GatewayServer) -> Iterator[sa.Engine]:
    url = f"adbc+flightsql://127.0.0.1:{gateway.port}?tls=false"
    engine = sa.create_engine(url, connect_args={"autocommit": True})
    yield engine
    engine.dispose()


def test_text_with_parameters_returns_rows(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT id, customer FROM orders WHERE id = :id"), {"id": 5})
        assert [tuple(row) for row in rows] == [(5, "customer 5")]


def test_a_table_is_reflected_and_queried(engine: sa.Engine) -> None:
    orders = sa.Table("orders", sa.MetaData(), autoload_with=engine)
    assert {column.name: type(column.type) for column in orders.columns} == {
        "id": sa.BigInteger,
        "customer": sa.String,
        "amount": sa.Float,
    }
    statement = (
        sa.select(orders.c.customer, sa.func.count().label("n"))
        .where(orders.c.id.between(10, 29), orders.c.customer.like("customer%"))
        .group_by(orders.c.customer)
        .order_by(sa.desc("n"), orders.c.customer)
        .limit(2)
    )
    with engine.connect() as connection:
        assert [tuple(row) for row in connection.execute(statement)] == [("customer 0", 3), ("customer 1", 3)]


def test_schemas_and_tables_are_found_by_name(engine: sa.Engine) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["information_schema", "main", "system"]
    assert inspector.has_table("orders", schema="main")
    assert not inspector.has_table("nowhere", schema="main")


def test_pandas_reads_through_an_engine(engine: sa.Engine) -> None:
    frame = pd.read_sql(sa.text("SELECT id, amount FROM orders WHERE id < :n"), engine, params={"n": 3})
    assert frame["amount"].tolist() == [0.0, 0.5, 1.0]


def test_an_error_is_one_of_sqlalchemy(engine: sa.Engine) -> None:
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError, match="does not exist"):
        connection.execute(sa.text("SELECT * FROM nowhere"))
