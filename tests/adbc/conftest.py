"""The gateway's test server and lake, for the ADBC driver."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.gateway.server import GatewayServer
from tests.adbc.values import typed_table
from tests.gateway.conftest import orders, serving
from tests.support.processes.servers import open_connection


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the tables `orders`, `typed` and `Odd Name` and the view `big_orders`."""
    root = tmp_path_factory.mktemp("adbc")
    lance.write_dataset(orders(), root / "orders.lance", max_rows_per_file=300)
    lance.write_dataset(typed_table(), root / "typed.lance")
    lance.write_dataset(pa.table({"A column": [1]}), root / "Odd Name.lance")
    (root / "big_orders.view.sql").write_text("SELECT id, amount FROM orders WHERE amount >= 400")
    return root


@pytest.fixture(scope="session")
def gateway(lake: Path) -> Iterator[GatewayServer]:
    with serving(lake) as server:
        yield server


@pytest.fixture(scope="session")
def uri(gateway: GatewayServer) -> str:
    return f"grpc://127.0.0.1:{gateway.port}"


@pytest.fixture(scope="session")
def adbc(uri: str) -> Iterator[Any]:
    """A connection that keeps its session's cookie; tests leave its options as they were."""
    with open_connection(uri) as connection:
        yield connection


@pytest.fixture
def cursor(adbc: Any) -> Iterator[Any]:
    with adbc.cursor() as cursor:
        yield cursor
