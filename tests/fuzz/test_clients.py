"""Clients that are slow, silent, or gone: the server serves the others, and what theirs was is let go."""

import os
import random
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from pyarrow import flight

from protos import flight_sql_pb2 as sql
from tests.fuzz.target import Target
from tests.gateway import rpc
from tests.gateway.test_queries import TRICKLE
from tests.support.servers import connected, fetch

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


@pytest.mark.slow
def test_two_hundred_connections(fuzzed: Target) -> None:
    """Each with a session and statements of its own, all open at once."""
    with fuzzed.unharmed(), ExitStack() as stack, ThreadPoolExecutor(16) as pool:

        def converse(number: int) -> int:
            connection = stack.enter_context(connected(fuzzed.uri))
            connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "spark"})
            with connection.cursor() as cursor:
                cursor.execute("SELECT id FROM orders WHERE id = ?", (number % 40,))
                (row,) = cursor.fetchall()
            assert fetch(connection, "SELECT count(*) AS n FROM orders").to_pydict() == {"n": [40]}
            return int(row[0])

        assert list(pool.map(converse, range(200))) == [number % 40 for number in range(200)]
        assert fuzzed.held().sessions >= 200
