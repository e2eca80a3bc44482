"""Statements as Tableau, Superset, Grafana, dbt and other tools generate them, in the default dialect."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import lance
import pyarrow as pa
import pytest

from lance_gateway.gateway.server import GatewayServer
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.titled import Case, read_titled
from tests.support.lake.tables import key_field

ORDERS = [
    (1, "anna", "paid", 10.0, dt.datetime(2024, 1, 1, 9)),
    (2, "anna", "paid", 20.0, dt.datetime(2024, 1, 8, 9)),
    (3, "berta", "paid", 40.0, dt.datetime(2024, 2, 15, 12)),
    (4, "clara", "open", 30.0, dt.datetime(2024, 2, 1)),
    (5, "clara", "open", 0.0, dt.datetime(2024, 1, 8, 10)),
]
SCHEMA = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("customer", pa.string()),
        pa.field("status", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("created_at", pa.timestamp("us")),
    ]
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A connection to a server over the orders of a shop."""
    root: Path = tmp_path_factory.mktemp("shop")
    names = SCHEMA.names
    rows = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in ORDERS], schema=SCHEMA)
    lance.write_dataset(rows, root / "orders.lance")
    engine = QueryEngine(Catalog.open(str(root)))
    server = GatewayServer(engine)
    with flightsql.connect(f"grpc://127.0.0.1:{server.port}", autocommit=True) as connection:
        yield connection
    server.shutdown()
    engine.close()


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(value, 9) if isinstance(value, float) else value for value in row)


@pytest.mark.slow
@pytest.mark.parametrize("case", read_titled("tools.sql"), ids=str)
def test_the_tool_gets_its_answer(shop: Any, case: Case) -> None:
    sql, *answers = case.parts
    answer = answers[0] if answers else ""
    with shop.cursor() as cursor:
        if answer.startswith("refused: "):
            with pytest.raises(adbc_driver_manager.Error, match=answer.removeprefix("refused: ")):
                cursor.execute(sql)
            return
        cursor.execute(sql)
        table = cursor.fetch_arrow_table()
    found = [rounded(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    expected = [eval(row, {"dt": dt}) for row in answer.splitlines()]
    if "ORDER BY" not in sql.upper():
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert found == expected
