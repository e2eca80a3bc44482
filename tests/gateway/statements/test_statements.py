"""Queries without parameters, through ADBC and on the wire."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.protocol.commands import decode_settings
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from tests.gateway import rpc
from tests.gateway.conftest import ORDER_COUNT, TYPES, serving, typed_rows
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess


def test_a_query_returns_its_rows(cursor: Any) -> None:
    cursor.execute("SELECT count(*) AS n, max(id) AS last FROM orders")
    assert cursor.fetchall() == [(ORDER_COUNT, ORDER_COUNT - 1)]
    assert [column[0] for column in cursor.description] == ["n", "last"]


def test_fresh_rows_and_deletions_are_seen_at_once(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], Any]
) -> None:
    rows = pa.table(
        {"id": [1, 2, 3], "qty": [10, 20, 30]},
        schema=pa.schema([key_field("id", pa.int64()), pa.field("qty", pa.int64())]),
    )
    table = LsmTable.create(root, "items", rows, bucketed("id", 2, recorded=True), writers)
    server = GatewayServer(open_engine(root))
    try:
        with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
            table.put([{"id": 2, "qty": 21}, {"id": 4, "qty": 40}])
            table.delete([{"id": 3}])
            found = rpc.query(client, "SELECT id, qty FROM items ORDER BY id").to_pylist()
            assert found == [{"id": 1, "qty": 10}, {"id": 2, "qty": 21}, {"id": 4, "qty": 40}]
    finally:
        server.shutdown()
        table.close_writers()


@pytest.mark.parametrize("name", ["orders", "main.orders", "lance.main.orders", '"orders"'])
def test_a_table_has_one_to_three_names(cursor: Any, name: str) -> None:
    cursor.execute(f"SELECT count(*) FROM {name}")
    assert cursor.fetchone() == (ORDER_COUNT,)


def test_a_view_is_queried_like_a_table(cursor: Any) -> None:
    cursor.execute("SELECT min(amount), count(*) FROM big_orders")
    assert cursor.fetchone() == (400.0, 180)


def test_every_common_type_arrives_as_itself(cursor: Any) -> None:
    cursor.execute("SELECT * FROM typed ORDER BY id")
    found = cursor.fetch_arrow_table()
    assert found.schema.types == typed_rows().schema.types
    assert found.to_pylist() == typed_rows().to_pylist()


def test_explain_is_a_query_like_any_other(cursor: Any) -> None:
    cursor.execute("EXPLAIN SELECT * FROM orders WHERE id = 5")
    assert [column[0] for column in cursor.description] == ["plan_type", "plan"]
    assert cursor.fetchall()


QUERIES = [
    "SELECT * FROM typed",
    "SELECT min(id) AS low FROM orders",
    "SELECT 'literal' AS text, 1 AS number, NULL AS nothing",
    "SELECT id, row_number() OVER (ORDER BY id) AS place FROM orders",
    "SELECT arrow_cast(customer, 'Dictionary(Int32, Utf8)') AS customer FROM orders",
    "SELECT arrow_cast(customer, 'Utf8View') AS customer FROM orders",
    "SELECT customer, array_agg(id) AS ids FROM orders GROUP BY customer",
    "SELECT * FROM orders WHERE false",
    "EXPLAIN SELECT * FROM orders",
]


@pytest.mark.parametrize("text", QUERIES)
def test_the_advertised_schema_is_the_streamed_one(wire: flight.FlightClient, text: str) -> None:
    command = sql.CommandStatementQuery(query=text)
    info = rpc.info(wire, command)
    reader = wire.do_get(info.endpoints[0].ticket)
    advertised = wire.get_schema(rpc.descriptor(command)).schema
    assert reader.schema == info.schema == advertised
    for chunk in reader:
        chunk.data.validate(full=True)
        assert chunk.data.schema == info.schema


def test_views_and_dictionaries_are_streamed_as_plain_types(wire: flight.FlightClient) -> None:
    found = rpc.query(wire, QUERIES[4])
    assert found.schema.field("customer").type == pa.string()
    assert found.column("customer")[8].as_py() == "customer 1"


def test_the_flight_info_names_no_location_and_no_sizes(wire: flight.FlightClient) -> None:
    info = rpc.info(wire, sql.CommandStatementQuery(query="SELECT 1"))
    assert [endpoint.locations for endpoint in info.endpoints] == [[]]
    assert (info.total_records, info.total_bytes) == (-1, -1)


def test_a_ticket_is_a_packed_statement_handle_that_says_it_all(wire: flight.FlightClient) -> None:
    info = rpc.info(wire, sql.CommandStatementQuery(query="SELECT 7 AS seven"))
    ticket = rpc.unpacked(sql.TicketStatementQuery, info.endpoints[0].ticket.ticket)
    handle = own.StatementHandle.FromString(ticket.statement_handle)
    assert handle.query == "SELECT 7 AS seven"
    assert decode_settings(handle.settings).consistency == "strong"


def test_a_ticket_can_be_redeemed_at_another_gateway_over_the_same_root(
    wire: flight.FlightClient, lake: Path
) -> None:
    info = rpc.info(wire, sql.CommandStatementQuery(query="SELECT count(*) AS n FROM orders"))
    with serving(lake) as server, flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as other:
        assert other.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"n": ORDER_COUNT}]


def test_a_ticket_is_good_for_once(wire: flight.FlightClient) -> None:
    info = rpc.info(wire, sql.CommandStatementQuery(query="SELECT count(*) AS n FROM orders"))
    assert wire.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"n": ORDER_COUNT}]
    with pytest.raises(KeyError, match=r"was used.*good for one DoGet"):
        wire.do_get(info.endpoints[0].ticket).read_all()


@pytest.mark.slow
def test_a_column_of_each_type_can_be_compared(cursor: Any) -> None:
    for name in TYPES:
        cursor.execute(f'SELECT count(*) FROM typed AS a JOIN typed AS b ON a."{name}" = b."{name}"')
        assert cursor.fetchone() == (1,), name
