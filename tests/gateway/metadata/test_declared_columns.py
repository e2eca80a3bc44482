"""What the columns of a table are declared to be, wherever a client meets them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.server import GatewayServer
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.support.processes.gateways import EAGER, EngineGateway

READ_ONLY = b"ARROW:FLIGHT:SQL:IS_READ_ONLY"
Open = Callable[[bool], flight.FlightClient]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Clients of gateways, which write or do not, over a table `notes` and one without a MemWAL."""
    made = EngineGateway(tmp_path)
    made.write("CREATE TABLE notes (id BIGINT PRIMARY KEY, text TEXT NOT NULL, stars INT)")
    made.close()
    lance.write_dataset(pa.table({"id": [1]}), tmp_path / "plain.lance")
    closing: list[Callable[[], None]] = []

    def client(writes: bool) -> flight.FlightClient:
        engine = QueryEngine(Catalog.open(str(tmp_path), writing=EAGER if writes else None))
        server = GatewayServer(engine)
        connection = flight.connect(f"grpc://127.0.0.1:{server.port}")
        closing.extend([engine.close, server.shutdown, connection.close])
        return connection

    yield client
    for close in reversed(closing):
        close()


def columns(client: flight.FlightClient, table: str) -> pa.Schema:
    command = sql.CommandGetTables(include_schema=True, table_name_filter_pattern=table)
    (message,) = rpc.fetch(client, command).column("table_schema").to_pylist()
    return rpc.schema_of(message)


def test_where_null_is_refused_every_listing_says_so(opened: Open) -> None:
    client = opened(True)
    listed = columns(client, "notes")
    assert [(field.name, field.nullable) for field in listed] == [
        ("id", False),
        ("text", False),
        ("stars", True),
    ]
    expected = [("id", "NO"), ("text", "NO"), ("stars", "YES")]
    for statement in (
        "DESCRIBE notes",
        "SHOW COLUMNS FROM notes",
        "SELECT column_name, is_nullable FROM information_schema.columns WHERE table_name = 'notes'",
    ):
        rows = rpc.query(client, statement).to_pylist()
        assert [(row["column_name"], row["is_nullable"]) for row in rows] == expected, statement


def test_a_result_promises_nothing_about_null(opened: Open) -> None:
    info = rpc.info(opened(True), sql.CommandStatementQuery(query="SELECT id, text FROM notes"))
    assert [field.nullable for field in info.schema] == [True, True]


@pytest.mark.parametrize(
    ("writes", "table", "expected"),
    [(True, "notes", b"0"), (False, "notes", b"1"), (True, "plain", b"1"), (True, "queries", b"1")],
)
def test_a_column_is_read_only_where_its_rows_can_not_be_changed(
    opened: Open, writes: bool, table: str, expected: bytes
) -> None:
    assert {field.metadata[READ_ONLY] for field in columns(opened(writes), table)} == {expected}
