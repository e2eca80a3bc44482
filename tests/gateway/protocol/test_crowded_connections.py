"""Connections of the Flight port that say nothing, or half of what they should, keep nobody out."""

import resource
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import adbc_driver_manager
import httpx
import pytest
from pyarrow import flight

from lance_gateway.gateway.protocol.open_uploads import close_crowd, parse_peer
from lance_gateway.gateway.server import GatewayServer
from tests.gateway import rpc
from tests.support.processes.ports import find_free_port
from tests.support.processes.servers import GatewayProcess, fetch, open_connection

_DESCRIPTORS = 300
# Connections at a time, half of them to either port; so many descriptors are left before the next.
_AT_ONCE = 60
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# A part of what clients send first: nothing, half a preface, the head of a frame, a handshake of HTTP/2 and
# half a frame, half a request of HTTP/1, and the begin of a handshake of TLS.
_BEGINNINGS = (
    b"",
    _PREFACE[:10],
    _PREFACE + b"\x00\x00\x12\x04",
    _PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x40\x00\x01\x04\x00\x00\x00\x01",
    b"GET / HTTP/1.1\r\nHost:",
    b"\x16\x03\x01\x02\x00\x01",
)


@pytest.mark.slow
@pytest.mark.soak
def test_hundreds_of_half_connections_leave_descriptors_for_others(lake: Path) -> None:
    http = str(find_free_port())
    options = ("--http-port", http, "--set", "observability.http_connections=20")
    with GatewayProcess(lake, *options) as gateway, ExitStack() as stack:
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
        ports = (int(gateway.uri.rpartition(":")[2]), int(http))
        with open_connection(gateway.uri) as connection:
            assert fetch(connection, "SELECT count(*) AS n FROM orders")["n"].to_pylist() == [1000]
            for number in range(2 * _DESCRIPTORS):
                port = ports[number % 2]
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
                with suppress(OSError):  # closed already
                    client.sendall(_BEGINNINGS[number // 2 % len(_BEGINNINGS)])
                if number % _AT_ONCE == 0:
                    while count_descriptors(gateway.pid) > _DESCRIPTORS - _AT_ONCE:
                        pass  # the gateway looks four times a second
                    assert fetch(connection, "SELECT count(*) AS n FROM typed")["n"].to_pylist() == [2]
                    assert httpx.get(f"http://127.0.0.1:{http}/readyz", timeout=60).text == "ok\n"
            # Who was there is served, who comes now as well, and storage can be read.
            assert fetch(connection, "SELECT sum(id) AS n FROM orders")["n"].to_pylist() == [499_500]
            assert fetch_when_accepted(gateway.uri, "SELECT max(id) AS n FROM orders") == [999]
        assert len(gateway.log) < 1 << 16


def count_descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def fetch_when_accepted(uri: str, sql: str) -> list[object]:
    """What a new client is answered; it tries again while its connection waits behind the silent ones."""
    while True:
        with suppress(adbc_driver_manager.OperationalError), open_connection(uri) as connection:
            return list(fetch(connection, sql)["n"].to_pylist())


def test_silent_connections_are_closed_before_those_of_clients(gateway: GatewayServer) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(flight.FlightClient(f"grpc://127.0.0.1:{gateway.port}"))
        assert rpc.query(client, "SELECT 1 AS one")["one"].to_pylist() == [1]
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 60)) for _ in range(20)
        ]
        own = {parse_peer(f"ipv4:{':'.join(map(str, one.getsockname()))}") for one in silent}
        closed: set[tuple[str, int]] = set()
        while len(closed) < len(silent):
            # gRPC accepts them one after the other.
            closed |= set(close_crowd(gateway.port, 1, set()))
            assert closed <= own
        for one in silent:
            with suppress(ConnectionResetError):
                while one.recv(4096):
                    pass
        assert rpc.query(client, "SELECT 2 AS two")["two"].to_pylist() == [2]


def test_busy_connections_are_not_closed(gateway: GatewayServer) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), 60) as silent:
        peer = parse_peer(f"ipv4:{':'.join(map(str, silent.getsockname()))}")
        assert peer is not None
        assert peer not in close_crowd(gateway.port, 1, {peer})
