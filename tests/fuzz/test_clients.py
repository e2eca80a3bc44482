"""Clients that are slow, silent, or gone: the server serves the others, and what theirs was is let go."""

import os
import random
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import adbc_driver_flightsql.dbapi as flightsql
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.fuzz.target import Target
from tests.gateway import rpc
from tests.gateway.execution.test_running_queries import TRICKLE

ENDLESS = sql.CommandStatementQuery(query=TRICKLE)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# Starts to read a result that never ends, says so, and waits to be killed.
READER = """
import sys
from pyarrow import flight
client = flight.connect(sys.argv[1])
info = client.get_flight_info(flight.FlightDescriptor.for_command(bytes.fromhex(sys.argv[2])))
reader = client.do_get(info.endpoints[0].ticket)
reader.read_chunk()
print("reading", flush=True)
for _ in reader if sys.argv[3] == "on" else sys.stdin:
    pass
"""


@pytest.mark.slow
def test_a_reader_that_stops_after_one_batch(fuzzed: Target) -> None:
    with fuzzed.unharmed():
        for _ in range(10):
            with flight.connect(fuzzed.uri) as client:
                rpc.stream(client, ENDLESS).read_chunk()


def test_a_reader_that_cancels(fuzzed: Target) -> None:
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        for _ in range(10):
            reader = rpc.stream(client, ENDLESS)
            reader.read_chunk()
            reader.cancel()


def test_connections_that_say_nothing_or_nonsense(fuzzed: Target) -> None:
    rng = random.Random(4)
    host, _, port = fuzzed.uri.removeprefix("grpc://").rpartition(":")
    sayings = (b"", b"GET / HTTP/1.1\r\n\r\n", PREFACE, PREFACE + rng.randbytes(500), b"\x16\x03\x01" * 50)
    with ExitStack() as stack, fuzzed.unharmed():
        for number in range(100):
            peer = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            peer.sendall(sayings[number % len(sayings)])
        # All of them are still connected.
        with flight.connect(fuzzed.uri) as client:
            assert rpc.query(client, "SELECT count(*) AS n FROM orders").to_pydict() == {"n": [40]}
        stack.close()


@pytest.mark.slow
@pytest.mark.parametrize("reads", ["on", "one batch"])
@pytest.mark.soak
def test_readers_that_are_killed_in_the_middle(fuzzed: Target, reads: str) -> None:
    arguments = [sys.executable, "-c", READER, fuzzed.uri, rpc.packed(ENDLESS).hex(), reads]
    with fuzzed.unharmed():
        for _ in range(3):
            with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
                assert reader.stdout is not None
                assert reader.stdout.readline() == b"reading\n"
                os.kill(reader.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_slow_reader_does_not_fill_the_server(fuzzed: Target) -> None:
    """While it waits for its reader a stream takes what one batch takes; others are served."""
    with fuzzed.unharmed(), ExitStack() as stack:
        clients = [stack.enter_context(flight.connect(fuzzed.uri)) for _ in range(8)]
        readers = [rpc.stream(client, ENDLESS) for client in clients]
        for reader in readers:
            reader.read_chunk()
        assert fuzzed.held().queries_running == len(readers)
        with flight.connect(fuzzed.uri) as other:
            for _ in range(50):
                rpc.query(other, "SELECT * FROM orders")
        for reader in readers:
            reader.cancel()


class _Cookie(flight.ClientMiddlewareFactory):
    """Keeps the cookie of one client's session."""

    def __init__(self) -> None:
        super().__init__()
        self.value: str | None = None

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        return _SendsCookie(self)


class _SendsCookie(flight.ClientMiddleware):
    def __init__(self, cookie: _Cookie) -> None:
        super().__init__()
        self._cookie = cookie

    def sending_headers(self) -> dict[str, str]:
        return {} if self._cookie.value is None else {"cookie": self._cookie.value}

    def received_headers(self, headers: dict[str, list[str]]) -> None:
        for value in headers.get("set-cookie", ()):
            self._cookie.value = value


@pytest.mark.slow
@pytest.mark.soak
def test_two_hundred_connections(fuzzed: Target) -> None:
    """Each with a session of its own, all open at once, and closed one by one."""
    option = flight_pb2.SessionOptionValue(string_value="spark")
    options = flight_pb2.SetSessionOptionsRequest(session_options={"dialect": option}).SerializeToString()
    with fuzzed.unharmed(), ExitStack() as stack, ThreadPoolExecutor(16) as pool:

        def converse(number: int) -> flight.FlightClient:
            client = stack.enter_context(flight.connect(fuzzed.uri, middleware=[_Cookie()]))
            rpc.act(client, "SetSessionOptions", options)
            # Quoted as Spark does.
            rows = rpc.query(client, f"SELECT `id` FROM `orders` WHERE `id` = {number % 40}")
            assert rows.to_pydict() == {"id": [number % 40]}
            return client

        held = fuzzed.held()
        clients = list(pool.map(converse, range(200)))
        assert fuzzed.held().sessions == held.sessions + 200
        for answer in pool.map(lambda client: rpc.act(client, "CloseSession", b""), clients):
            closed = flight_pb2.CloseSessionResult.FromString(answer[0])
            assert closed.status == flight_pb2.CloseSessionResult.CLOSED


@pytest.mark.slow
@pytest.mark.soak
def test_a_hundred_drivers_at_once(fuzzed: Target) -> None:
    """Each prepares, binds and reads; nothing that they prepared stays."""
    with fuzzed.unharmed(), ExitStack() as stack, ThreadPoolExecutor(16) as pool:

        def converse(number: int) -> int:
            connection = stack.enter_context(flightsql.connect(fuzzed.uri, autocommit=True))
            with connection.cursor() as cursor:
                cursor.execute("SELECT id FROM orders WHERE id = ?", (number % 40,))
                (row,) = cursor.fetchall()
            return int(row[0])

        assert list(pool.map(converse, range(100))) == [number % 40 for number in range(100)]
