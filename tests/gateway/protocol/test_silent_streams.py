"""Clients that open streams and send nothing: they hold few threads, and not for long."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.auth.gateway_tokens import create_token
from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.protocol.open_uploads import OpenUploads, close_quiet_connections, parse_peer
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.auth.conftest import Clock
from tests.support.processes.servers import GatewayProcess

SERVICE = "/arrow.flight.protocol.FlightService/"
FLOOD = 100
# Beside the threads that wait for a client, gRPC keeps some at hand.
SPARE_THREADS = 8
OPTIONS = sql.CommandStatementIngest.TableDefinitionOptions
INGEST = sql.CommandStatementIngest(
    table="parts",
    table_definition_options=OPTIONS(
        if_not_exist=OPTIONS.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=OPTIONS.TABLE_EXISTS_OPTION_APPEND
    ),
)

Serve = Callable[..., GatewayProcess]


class Silent:
    """A client whose streams stay open and empty until it is closed."""

    def __init__(self, gateway: GatewayProcess, *metadata: tuple[str, str]) -> None:
        self._channel = grpc.insecure_channel(
            gateway.uri.removeprefix("grpc://"), options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self._metadata = metadata
        self._over = threading.Event()

    def open(self, method: str, *first: bytes) -> Any:
        """Open a stream, send it some messages, and then nothing."""

        def messages() -> Iterator[bytes]:
            yield from first
            self._over.wait()

        return self._channel.stream_stream(SERVICE + method)(messages(), metadata=self._metadata)

    def flood(self, method: str, count: int = FLOOD) -> list[Any]:
        return [self.open(method) for _ in range(count)]

    def close(self) -> None:
        self._over.set()
        self._channel.close()


@contextmanager
def silent(gateway: GatewayProcess, token: str = "") -> Iterator[Silent]:
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with closing(Silent(gateway, *metadata)) as client:
        yield client


def count_threads(gateway: GatewayProcess) -> int:
    """The threads in which calls are served."""
    count = 0
    for task in Path(f"/proc/{gateway.pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            count += (task / "comm").read_text().startswith("grpcpp_sync")
    return count


def count_ended(calls: list[Any]) -> int:
    return sum(call.done() for call in calls)


def await_that(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.02)


def fetch_one(gateway: GatewayProcess, token: str = "") -> int:
    headers = [("authorization", f"Bearer {token}")] if token else []
    options = flight.FlightCallOptions(headers=[(key.encode(), value.encode()) for key, value in headers])
    command = rpc.descriptor(sql.CommandStatementQuery(query="SELECT 1 AS n"))
    with flight.FlightClient(gateway.uri) as client:
        (endpoint,) = client.get_flight_info(command, options).endpoints
        return int(client.do_get(endpoint.ticket, options).read_all()["n"][0].as_py())


@pytest.fixture
def tokens_file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


@pytest.fixture
def guarded(lake: Path, serve: Serve, tokens_file: Path) -> Callable[..., GatewayProcess]:
    """Starts a server that asks for tokens, with limits."""

    def start(**limits: object) -> GatewayProcess:
        keys = {"auth.tokens_file": tokens_file} | {f"limits.{key}": value for key, value in limits.items()}
        settings = [text for key, value in keys.items() for text in ("--set", f"{key}={value}")]
        return serve(lake, "--http-port", "off", *settings)

    return start


@pytest.mark.slow
@pytest.mark.parametrize("method", ["DoPut", "DoExchange"])
@pytest.mark.parametrize("token", ["", "wrong"])
def test_strangers_open_no_stream(
    guarded: Callable[..., GatewayProcess], tokens_file: Path, method: str, token: str
) -> None:
    mine = create_token(tokens_file, "ci", "ci", frozenset())
    gateway = guarded()
    assert fetch_one(gateway, mine) == 1
    with silent(gateway, token) as client:
        calls = client.flood(method)
        assert {call.code() for call in calls} == {grpc.StatusCode.UNAUTHENTICATED}
        assert count_threads(gateway) <= SPARE_THREADS
        assert fetch_one(gateway, mine) == 1


@pytest.mark.slow
def test_as_many_streams_wait_as_may(guarded: Callable[..., GatewayProcess], tokens_file: Path) -> None:
    mine, other = (create_token(tokens_file, name, name, frozenset()) for name in ("ann", "bob"))
    gateway = guarded(max_waiting_uploads=15, max_user_waiting_uploads=10)
    assert fetch_one(gateway, other) == 1
    with silent(gateway, mine) as first, silent(gateway, other) as second:
        calls = first.flood("DoPut")
        await_that(lambda: count_ended(calls) == FLOOD - 10)
        refused = {(call.code(), call.details()) for call in calls if call.done()}
        assert {code for code, _ in refused} == {grpc.StatusCode.UNAVAILABLE}
        assert all("10 streams of user 'ann' wait for what their clients send" in text for _, text in refused)
        others = second.flood("DoPut")
        await_that(lambda: count_ended(others) == FLOOD - 5)
        assert all("15 streams wait" in call.details() for call in others if call.done())
        assert count_threads(gateway) <= 15 + SPARE_THREADS
        assert fetch_one(gateway, other) == 1


@pytest.mark.slow
def test_streams_that_stay_silent_are_ended(tmp_path: Path, serve: Serve) -> None:
    gateway = serve(tmp_path, "--http-port", "off", "--set", "limits.upload_timeout=500ms")
    with flight.FlightClient(gateway.uri) as bystander:
        assert rpc.query(bystander, "SELECT 1 AS n").num_rows == 1
        # One client says nothing at all; the other says what it is about to send, and then nothing.
        message = first_message(rpc.packed(INGEST), pa.schema([("id", pa.int64())]))
        with silent(gateway) as first, silent(gateway) as second:
            calls = [*first.flood("DoPut"), second.open("DoPut", message)]
            assert {call.code() for call in calls} == {grpc.StatusCode.UNAVAILABLE}
        await_that(lambda: count_threads(gateway) <= SPARE_THREADS)
        # Its connection was as silent, and may be closed too: it does not notice.
        assert rpc.query(bystander, "SELECT 1 AS n").num_rows == 1
    assert re.search(r"closed the connection of 127\.0\.0\.1:\d+: \d+ streams wait", gateway.log)


@pytest.mark.slow
def test_handshakes_that_stay_silent_are_ended(
    lake: Path, serve: Serve, users_file: Path, tokens_file: Path
) -> None:
    mine = create_token(tokens_file, "ci", "ci", frozenset())
    gateway = serve(
        lake,
        *("--http-port", "off", "--set", "limits.upload_timeout=500ms"),
        *("--set", f"auth.users_file={users_file}", "--set", f"auth.tokens_file={tokens_file}"),
    )
    assert fetch_one(gateway, mine) == 1
    with silent(gateway) as client:
        calls = client.flood("Handshake")
        assert {call.code() for call in calls} == {grpc.StatusCode.UNAVAILABLE}
    await_that(lambda: count_threads(gateway) <= SPARE_THREADS)
    assert fetch_one(gateway, mine) == 1


@pytest.fixture(scope="module")
def users_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("users") / "users.toml"
    path.write_text("[users.alice]\nroles = []\n")
    return path


def first_message(command: bytes, schema: pa.Schema) -> bytes:
    """The first message of a stream: FlightData with a descriptor and a schema."""
    descriptor = flight.FlightDescriptor.for_command(command).serialize()
    header, _ = rpc.split_message(schema.serialize())
    return rpc.encode_frame(header, descriptor=descriptor)


class TestCounting:
    def test_a_stream_counts_while_it_waits(self) -> None:
        uploads = OpenUploads(LimitsSection(max_waiting_uploads=2, max_user_waiting_uploads=1))
        first = uploads.open("ann")
        with pytest.raises(UnavailableError, match="1 streams of user 'ann' wait"):
            uploads.open("ann")
        first.begin("ipv4:127.0.0.1:5000")
        second = uploads.open("ann")
        second.begin("ipv4:127.0.0.1:5001")
        with first.waiting(), second.waiting(), pytest.raises(UnavailableError, match="2 streams wait"):
            uploads.open("bob")
        assert uploads.list_busy_peers() == {("127.0.0.1", 5000), ("127.0.0.1", 5001)}
        for upload in (first, second):
            upload.close()
        assert len(uploads) == 0

    def test_a_stream_that_ended_twice_is_counted_once(self) -> None:
        uploads = OpenUploads(LimitsSection(max_waiting_uploads=1))
        uploads.open(None).close()
        ended = uploads.open(None)
        ended.close()
        ended.close()
        uploads.open(None)
        with pytest.raises(UnavailableError):
            uploads.open(None)

    def test_a_stream_is_late_when_it_has_waited_too_long(self, clock: Clock) -> None:
        uploads = OpenUploads(LimitsSection(upload_timeout=60.0), clock)
        upload = uploads.open(None)
        clock.now += 59.9
        assert uploads.count_late() == 0
        clock.now += 0.1
        assert uploads.count_late() == 1
        upload.begin("unix:")
        assert uploads.count_late() == 0
        with upload.waiting():
            assert uploads.count_late() == 0


@pytest.fixture
def clock() -> Clock:
    return Clock()


class TestConnections:
    @pytest.mark.parametrize(
        ("text", "peer"),
        [
            ("ipv4:127.0.0.1:34567", ("127.0.0.1", 34567)),
            ("ipv6:%5B::ffff:10.0.0.1%5D:1", ("10.0.0.1", 1)),
            ("ipv6:[2001:db8:0::7]:443", ("2001:db8::7", 443)),
            ("unix:", None),
            ("", None),
        ],
    )
    def test_peers_are_known_by_address_and_port(self, text: str, peer: tuple[str, int] | None) -> None:
        assert parse_peer(text) == peer

    @pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
    def test_a_quiet_connection_is_closed_unless_its_client_works(self, family: socket.AddressFamily) -> None:
        host = "127.0.0.1" if family == socket.AF_INET else "::1"
        with socket.create_server((host, 0), family=family) as server:
            port = server.getsockname()[1]
            with socket.create_connection((host, port)) as client, server.accept()[0] as accepted:
                peer = client.getsockname()[:2]
                assert close_quiet_connections(port, 3600.0, set()) == []
                assert close_quiet_connections(port, 0.0, {peer}) == []
                client.sendall(b"still open")
                assert accepted.recv(100) == b"still open"
                assert close_quiet_connections(port, 0.0, set()) == [peer]
                assert client.recv(100) == b""
            with socket.create_connection((host, port)):
                server.accept()[0].close()  # the listening socket was left alone

    def test_connections_of_other_ports_are_left_alone(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as own:
            port = server.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
                assert close_quiet_connections(own.getsockname()[1], 0.0, set()) == []


def test_rows_that_arrive_after_a_pause_are_taken(serve: Serve, tmp_path: Path) -> None:
    gateway = serve(tmp_path, "--http-port", "off", "--set", "limits.max_waiting_uploads=1")
    rows = pa.table({"id": [1, 2, 3]})
    with flight.FlightClient(gateway.uri) as client:
        for _ in range(3):
            assert rpc.put(client, INGEST, rows, 1) == 3
        assert rpc.query(client, "SELECT count(*) AS n FROM parts")["n"].to_pylist() == [9]
