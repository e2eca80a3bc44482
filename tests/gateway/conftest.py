"""A gateway inside the test process, over tables that pylance wrote, and the clients that talk to it."""

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.tables import key_field
from tests.support.processes.servers import open_connection

ORDER_COUNT = 1000

# One row of values and one row of NULLs beside the key.
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "flag": (pa.bool_(), True),
    "tiny": (pa.int8(), -8),
    "small": (pa.int16(), -16),
    "medium": (pa.int32(), -32),
    "large": (pa.int64(), -64),
    "utiny": (pa.uint8(), 8),
    "usmall": (pa.uint16(), 16),
    "umedium": (pa.uint32(), 32),
    "ularge": (pa.uint64(), 64),
    "single": (pa.float32(), 0.5),
    "double": (pa.float64(), 0.25),
    "text": (pa.string(), "grün; 'quoted'"),
    "blob": (pa.binary(), b"\x00\xff'"),
    "day": (pa.date32(), dt.date(2026, 2, 28)),
    "moment": (pa.timestamp("us"), dt.datetime(2026, 2, 28, 23, 59, 59, 123456)),
    "instant": (pa.timestamp("us", "UTC"), dt.datetime(2026, 2, 28, 23, 59, 59, tzinfo=dt.UTC)),
    "price": (pa.decimal128(12, 2), Decimal("12.34")),
}


def orders() -> pa.Table:
    numbers = range(ORDER_COUNT)
    return pa.table(
        [
            pa.array(numbers, pa.int64()),
            pa.array([f"customer {number % 7}" for number in numbers]),
            pa.array([None if number % 10 == 9 else number * 0.5 for number in numbers]),
        ],
        schema=pa.schema(
            [
                key_field("id", pa.int64()),
                pa.field("customer", pa.string()),
                pa.field("amount", pa.float64(), metadata={"comment": "in euros, without tax"}),
            ]
        ),
    )


def typed_rows() -> pa.Table:
    columns = [pa.array([1, 2], pa.int64())]
    columns += [pa.array([value, None], data_type) for data_type, value in TYPES.values()]
    fields = [key_field("id", pa.int64())]
    fields += [pa.field(name, data_type) for name, (data_type, _) in TYPES.items()]
    return pa.table(columns, schema=pa.schema(fields))


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the tables `orders` and `typed` and the view `big_orders`."""
    root = tmp_path_factory.mktemp("lake")
    lance.write_dataset(orders(), root / "orders.lance")
    lance.write_dataset(typed_rows(), root / "typed.lance")
    (root / "big_orders.view.sql").write_text("SELECT id, amount FROM orders WHERE amount >= 400")
    return root


@contextmanager
def serving(
    root: Path, engine_options: Mapping[str, Any] = MappingProxyType({}), **options: Any
) -> Iterator[GatewayServer]:
    """A server over a root; options are those of `GatewayServer`."""
    engine = QueryEngine(Catalog.open(str(root)), **engine_options)
    server = GatewayServer(engine, **options)
    try:
        yield server
    finally:
        server.queries.cancel_all(UnavailableError("the test is over"))
        server.shutdown()
        engine.close()


@pytest.fixture(scope="session")
def gateway(lake: Path) -> Iterator[GatewayServer]:
    """A server over the lake."""
    with serving(lake) as server:
        yield server


@pytest.fixture(scope="session")
def uri(gateway: GatewayServer) -> str:
    return f"grpc://127.0.0.1:{gateway.port}"


@pytest.fixture
def adbc(uri: str) -> Iterator[Any]:
    """An ADBC connection that keeps its session's cookie."""
    with open_connection(uri) as connection:
        yield connection


@pytest.fixture
def cursor(adbc: Any) -> Iterator[Any]:
    with adbc.cursor() as cursor:
        yield cursor


@pytest.fixture
def wire(uri: str) -> Iterator[flight.FlightClient]:
    """A bare Flight client."""
    with flight.FlightClient(uri) as client:
        yield client
