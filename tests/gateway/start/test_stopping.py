"""When a statement is stopped, its work stops: the processor time of a real server falls."""

import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.execution.test_running_queries import ENDLESS, ENDLESS_IN_TWO_STEPS, TRICKLE, Background
from tests.support.processes.servers import GatewayProcess
from tests.support.sampling import sample

pytestmark = pytest.mark.slow


# What holds rows until it has all of them, over a table.
SORTED = "SELECT id, a FROM orders CROSS JOIN generate_series(1, 100000000) AS t(a) ORDER BY a % 1000, id"
GROUPED = "SELECT id, a, count(*) FROM orders CROSS JOIN generate_series(1, 100000000) AS t(a) GROUP BY id, a"


@pytest.fixture(scope="module")
def server(lake: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(lake, "--http-port", "off") as process:
        yield process


@pytest.fixture
def client(server: GatewayProcess) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(server.uri) as connected:
        yield connected


def running(client: flight.FlightClient, text: str) -> str:
    """The id of a statement, as soon as it runs."""
    question = f"SELECT query_id FROM system.queries WHERE state = 'running' AND statement = '{text}'"
    while not (found := rpc.query(client, question).column("query_id").to_pylist()):
        threading.Event().wait(0.02)
    return str(found[0])


def assert_idle(server: GatewayProcess) -> None:
    """Within seconds, the server computes no more."""
    process = psutil.Process(server.pid)
    for _ in range(40):
        before = process.cpu_times().user
        threading.Event().wait(0.25)
        if process.cpu_times().user - before < 0.1:
            return
    pytest.fail("the work goes on")


@pytest.mark.parametrize("text", sample([ENDLESS, ENDLESS_IN_TWO_STEPS, SORTED, GROUPED], 2))
def test_when_an_operator_stops_it(server: GatewayProcess, client: flight.FlightClient, text: str) -> None:
    background = Background(client, text)
    rpc.query(client, f"KILL QUERY '{running(client, text)}'")
    assert isinstance(background.ended(), flight.FlightCancelledError)
    assert_idle(server)


def test_when_its_client_goes_away_before_the_first_batch(
    server: GatewayProcess, client: flight.FlightClient
) -> None:
    reader = rpc.stream(client, sql.CommandStatementQuery(query=ENDLESS))
    running(client, ENDLESS)
    reader.cancel()
    assert_idle(server)


def test_when_its_client_leaves_in_the_middle_of_the_result(
    server: GatewayProcess, client: flight.FlightClient
) -> None:
    reader = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
    reader.read_chunk()
    reader.cancel()
    assert_idle(server)


def test_when_its_time_is_up(server: GatewayProcess, client: flight.FlightClient) -> None:
    call = flight.FlightCallOptions(headers=[(b"query_timeout_ms", b"500")])
    command = rpc.descriptor(sql.CommandStatementQuery(query=ENDLESS))
    ticket = client.get_flight_info(command, call).endpoints[0].ticket
    with pytest.raises(flight.FlightTimedOutError, match="ran longer than it may"):
        client.do_get(ticket, call).read_all()
    assert_idle(server)
