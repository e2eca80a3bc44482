"""Results in parts over the wire: several endpoints, self-contained tickets, and ADBC's partitions."""

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.execution.endpoints import ENDPOINT_SECONDS, Endpoints
from lance_gateway.gateway.execution.preparation import Preparation
from lance_gateway.gateway.execution.running_queries import Queries
from lance_gateway.gateway.execution.streams import Streams
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.identity import ANONYMOUS
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.engine import DEFAULT_SETTINGS, QueryEngine
from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from tests.gateway import rpc
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int64())])
LAYOUT = bucketed("id", 3, recorded=True)
EVERYTHING = "SELECT id, n FROM items"


@pytest.fixture
def items(root: Path, writers: WriterProcess) -> Iterator[LsmTable]:
    """60 rows in a base and 20 in generations and log tails, of which 10 replace rows of the base."""
    base = pa.table({"id": range(60), "n": [0] * 60}).cast(SCHEMA)
    table = LsmTable.create(
        root, "items", base, bucketed("id", 3, recorded=True), writers, max_memtable_rows=5
    )
    for one in range(50, 70, 2):
        table.put([{"id": one, "n": 1}, {"id": one + 1, "n": 1}])
    yield table
    table.close_writers()


EXPECTED = sorted([(one, 0) for one in range(50)] + [(one, 1) for one in range(50, 70)])


@pytest.fixture
def start(
    items: LsmTable, open_engine: Callable[[Path], QueryEngine]
) -> Iterator[Callable[[], GatewayServer]]:
    """Starts servers over the root of the table."""
    servers: list[GatewayServer] = []

    def started() -> GatewayServer:
        servers.append(GatewayServer(open_engine(items.path.parent)))
        return servers[-1]

    yield started
    for server in servers:
        server.shutdown()


@contextmanager
def client_of(server: GatewayServer) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        yield client


def asking(parts: int) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(headers=[(b"x-lance-gateway-endpoints", str(parts).encode())])


def divided(client: flight.FlightClient, text: str, parts: int) -> flight.FlightInfo:
    return client.get_flight_info(rpc.descriptor(sql.CommandStatementQuery(query=text)), asking(parts))


def rows_of(reader: flight.FlightStreamReader) -> list[tuple[Any, ...]]:
    table = reader.read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 3, 8])
def test_a_header_divides_a_scan(start: Callable[[], GatewayServer], parts: int) -> None:
    with client_of(start()) as client:
        info = divided(client, EVERYTHING, parts)
        assert 1 < len(info.endpoints) <= parts
        assert len({endpoint.ticket.ticket for endpoint in info.endpoints}) == len(info.endpoints)
        read = [rows_of(client.do_get(endpoint.ticket)) for endpoint in info.endpoints]
        assert sorted(row for part in read for row in part) == EXPECTED
        # A reader that was lost is replaced: the same ticket gives the same rows.
        again = [rows_of(client.do_get(endpoint.ticket)) for endpoint in reversed(info.endpoints)]
        assert again[::-1] == read


def test_without_asking_there_is_one_endpoint(start: Callable[[], GatewayServer]) -> None:
    with client_of(start()) as client:
        info = rpc.info(client, sql.CommandStatementQuery(query=EVERYTHING))
        assert len(info.endpoints) == 1
        assert info.endpoints[0].expiration_time is None


@pytest.mark.parametrize(
    "text",
    ["SELECT count(*) FROM items", "SELECT * FROM items ORDER BY id", "SELECT n FROM items WHERE id = 3"],
)
def test_other_statements_stay_whole(start: Callable[[], GatewayServer], text: str) -> None:
    with client_of(start()) as client:
        assert len(divided(client, text, 8).endpoints) == 1


@pytest.mark.slow
def test_any_gateway_over_the_root_serves_any_part_of_what_was_when_the_statement_was_sent(
    items: LsmTable, start: Callable[[], GatewayServer]
) -> None:
    first, second = start(), start()
    with client_of(first) as here, client_of(second) as there:
        info = divided(here, EVERYTHING, 4)
        items.put([{"id": 1, "n": 5}])
        items.delete([{"id": 2}])
        for region in items.regions.values():
            flushed = manifests.read_manifest(items.path, region).flushed_generations
            merge_generations(items.path, region, flushed[-1].generation)
        read = [
            row
            for number, endpoint in enumerate(info.endpoints)
            for row in rows_of((there if number % 2 else here).do_get(endpoint.ticket))
        ]
        assert sorted(read) == EXPECTED
    with client_of(start()) as restarted:
        read = [row for endpoint in info.endpoints for row in rows_of(restarted.do_get(endpoint.ticket))]
        assert sorted(read) == EXPECTED
    for region in items.regions.values():
        clean_up_merged(items.path, region)
    tickets = [endpoint.ticket for endpoint in info.endpoints]
    with (
        client_of(start()) as late,
        pytest.raises(flight.FlightUnavailableError, match="run the query again"),
    ):
        [late.do_get(ticket).read_all() for ticket in tickets]


def test_endpoints_say_until_when_they_are_good(start: Callable[[], GatewayServer]) -> None:
    with client_of(start()) as client:
        before = dt.datetime.now(dt.UTC)
        info = divided(client, EVERYTHING, 2)
        (expiry,) = {endpoint.expiration_time.as_py() for endpoint in info.endpoints}
        assert before < expiry <= before + dt.timedelta(seconds=ENDPOINT_SECONDS + 60)


@pytest.mark.slow
def test_a_prepared_statement_is_divided_with_its_parameters(start: Callable[[], GatewayServer]) -> None:
    with client_of(start()) as client:
        handle = rpc.prepare(client, "SELECT id FROM items WHERE n = ?").prepared_statement_handle
        rpc.bind(client, handle, pa.table({"$1": pa.array([1], pa.int64())}))
        command = rpc.descriptor(sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))
        info = client.get_flight_info(command, asking(3))
        assert len(info.endpoints) > 1
        ids = [row[0] for endpoint in info.endpoints for row in rows_of(client.do_get(endpoint.ticket))]
        assert sorted(ids) == list(range(50, 70))


@pytest.mark.slow
def test_adbc_reads_partitions_one_by_one(start: Callable[[], GatewayServer]) -> None:
    options = {"adbc.flight.sql.rpc.call_header.x-lance-gateway-endpoints": "3"}
    uri = f"grpc://127.0.0.1:{start().port}"
    with (
        flightsql.connect(uri, db_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        partitions, schema = cursor.adbc_execute_partitions(EVERYTHING)
        assert 1 < len(partitions) <= 3
        assert schema.names == ["id", "n"]
    rows = []
    for partition in partitions:
        with flightsql.connect(uri, autocommit=True) as other, other.cursor() as cursor:
            cursor.adbc_read_partition(partition)
            rows += cursor.fetchall()
    assert sorted(rows) == EXPECTED


@pytest.mark.slow
def test_adbc_reads_a_divided_result_as_one(start: Callable[[], GatewayServer]) -> None:
    options = {"adbc.flight.sql.rpc.call_header.x-lance-gateway-endpoints": "4"}
    uri = f"grpc://127.0.0.1:{start().port}"
    with (
        flightsql.connect(uri, db_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(EVERYTHING)
        assert sorted(cursor.fetchall()) == EXPECTED
        cursor.execute("SELECT id FROM items WHERE n = ?", (1,))
        assert sorted(cursor.fetchall()) == [(one,) for one in range(50, 70)]


def test_the_command_line_reads_all_parts(start: Callable[[], GatewayServer]) -> None:
    with GatewayClient(f"grpc://127.0.0.1:{start().port}") as client:
        client.set_options({"endpoints": "4"})
        rows = client.query(EVERYTHING).read_all()
        assert sorted(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True)) == EXPECTED


def test_a_cancelled_statement_has_no_parts_any_more(start: Callable[[], GatewayServer]) -> None:
    with client_of(start()) as client:
        info = divided(client, EVERYTHING, 2)
        request = flight_pb2.CancelFlightInfoRequest(info=flight_pb2.FlightInfo.FromString(info.serialize()))
        (body,) = rpc.act(client, "CancelFlightInfo", request.SerializeToString())
        status = flight_pb2.CancelFlightInfoResult.FromString(body).status
        assert status == flight_pb2.CANCEL_STATUS_CANCELLED
        with pytest.raises(KeyError, match="cancelled"):
            client.do_get(info.endpoints[0].ticket).read_all()


class Later:
    """Endpoints of a gateway whose clock the test moves."""

    def __init__(self, engine: QueryEngine) -> None:
        self.now = 1_000_000.0
        queries = Queries()
        self.endpoints = Endpoints(Preparation(engine, queries), Streams(queries), clock=lambda: self.now)
        settings = dataclasses.replace(DEFAULT_SETTINGS, endpoints=2)
        self.call = Call(
            "here", ANONYMOUS, FULL_ACCESS, None, settings, lambda _name, _value: None, lambda: False
        )
        planned = self.endpoints.divide_result(
            EVERYTHING, engine.prepare(EVERYTHING), DEFAULT_SETTINGS, self.call
        )
        assert planned is not None
        self.ticket = planned.ticket

    def redeem(self, ticket: bytes) -> flight.FlightDataStream:
        entry, _ = self.endpoints.list_handlers()
        return entry.stream(rpc.unpacked(own.PartTicket, ticket), self.call)

    def renew(self, ticket: bytes) -> flight_pb2.FlightEndpoint:
        _, action = self.endpoints.list_handlers()
        endpoint = flight_pb2.FlightEndpoint(ticket=flight_pb2.Ticket(ticket=ticket))
        request = flight_pb2.RenewFlightEndpointRequest(endpoint=endpoint)
        body = action.run(request, self.call)
        assert body is not None
        return flight_pb2.FlightEndpoint.FromString(body)


def test_a_ticket_expires_unless_it_is_renewed(
    items: LsmTable, open_engine: Callable[[Path], QueryEngine]
) -> None:
    later = Later(open_engine(items.path.parent))
    later.now += ENDPOINT_SECONDS - 2
    later.redeem(later.ticket)
    renewed = later.renew(later.ticket)
    assert renewed.expiration_time.seconds == int(later.now + ENDPOINT_SECONDS)
    later.now += 10
    with pytest.raises(NotFoundError, match="expired 8 s ago"):
        later.redeem(later.ticket)
    later.redeem(renewed.ticket.ticket)


def test_a_ticket_that_expired_is_renewed_for_readers_who_come_late(
    items: LsmTable, open_engine: Callable[[Path], QueryEngine]
) -> None:
    later = Later(open_engine(items.path.parent))
    later.now += 3 * ENDPOINT_SECONDS
    renewed = later.renew(later.ticket)
    assert renewed.expiration_time.seconds == int(later.now + ENDPOINT_SECONDS)
    later.redeem(renewed.ticket.ticket)


@pytest.mark.slow
def test_only_what_expires_can_be_renewed(
    items: LsmTable, open_engine: Callable[[Path], QueryEngine]
) -> None:
    later = Later(open_engine(items.path.parent))
    with pytest.raises(InvalidInputError, match="does not expire"):
        later.renew(rpc.packed(sql.TicketStatementQuery()))


def test_the_renewal_reaches_the_client(start: Callable[[], GatewayServer]) -> None:
    with client_of(start()) as client:
        info = divided(client, EVERYTHING, 2)
        endpoint = flight_pb2.FlightEndpoint.FromString(info.endpoints[0].serialize())
        request = flight_pb2.RenewFlightEndpointRequest(endpoint=endpoint)
        (body,) = rpc.act(client, "RenewFlightEndpoint", request.SerializeToString())
        renewed = flight.FlightEndpoint.deserialize(body)
        assert renewed.expiration_time is not None
        assert rows_of(client.do_get(renewed.ticket)) == rows_of(client.do_get(info.endpoints[0].ticket))


def test_a_damaged_part_is_refused(start: Callable[[], GatewayServer]) -> None:
    with client_of(start()) as client:
        info = divided(client, EVERYTHING, 2)
        ticket = rpc.unpacked(own.PartTicket, info.endpoints[0].ticket.ticket)
        ticket.part.snapshot.table = "elsewhere"
        with pytest.raises(pa.ArrowInvalid, match="does not read alone"):
            client.do_get(flight.Ticket(rpc.packed(ticket))).read_all()
