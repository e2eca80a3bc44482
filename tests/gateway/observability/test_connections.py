"""Connections of the HTTP port: whoever opens many, or sends half a request, keeps nobody out."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from lance_gateway.gateway.observability import connections
from lance_gateway.gateway.observability.hosts import HostCheck
from lance_gateway.gateway.observability.http import HttpServer, Readiness
from lance_gateway.memwal.storage.files import Storage

_PATIENCE_SECONDS = 60


@pytest.fixture
def readiness(tmp_path: Path) -> Iterator[Readiness]:
    readiness = Readiness(Storage.open(str(tmp_path)))
    readiness.start()
    yield readiness
    readiness.close()


@pytest.fixture
def start(readiness: Readiness) -> Iterator[Callable[..., HttpServer]]:
    with ExitStack() as stack:

        def start(**options: object) -> HttpServer:
            server = HttpServer(CollectorRegistry(), readiness, "127.0.0.1", 0, **options)  # type: ignore[arg-type]
            stack.callback(server.close)
            return server

        yield start


@contextmanager
def connect(server: HttpServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), _PATIENCE_SECONDS) as client:
        yield client


def read_all(client: socket.socket) -> bytes:
    """Everything until the connection ends."""
    parts = []
    with suppress(ConnectionResetError):
        while part := client.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def ask(server: HttpServer, path: str, *headers: str, host: str | None = "127.0.0.1") -> tuple[int, str]:
    """Status and text of an answer."""
    lines = [f"GET {path} HTTP/1.1", "Connection: close", *headers]
    if host is not None:
        lines.insert(1, f"Host: {host}")
    with connect(server) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def test_half_a_request_is_closed_after_a_time(
    start: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HEADER_SECONDS", 0.05)
    server = start()
    for sent in (b"", b"GET /livez HTTP/1.1\r\nHost: a"):
        with connect(server) as client:
            client.sendall(sent)
            assert read_all(client) == b""


def test_what_follows_an_answer_is_closed_after_a_time(
    start: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HEADER_SECONDS", 0.05)
    body = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf"
    with connect(start()) as client:
        client.sendall(body)
        # Bytes that come slowly don't prolong the time.
        assert client.recv(65_536).startswith(b"HTTP/1.1 404")
        client.sendall(b"x")
        read_all(client)


def test_of_too_many_connections_those_are_closed_that_say_nothing(
    start: Callable[..., HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_RESERVED", 4)
    server = start(max_connections=8)
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server)) for _ in range(40)]
        for number, client in enumerate(clients):
            if number % 2:
                with suppress(OSError):  # closed already
                    client.sendall(b"GET /metr")
        assert ask(server, "/livez") == (200, "ok\n")
        assert ask(server, "/readyz") == (200, "ok\n")
        status, text = ask(server, "/metrics")
        assert (status, "too many connections" in text) == (503, True)
        # The oldest were closed, the newest are open.
        assert read_all(clients[0]) == b""
        clients[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            clients[-1].recv(1)
    while ask(server, "/metrics")[0] != 200:
        pass  # the server sees one after the other that its clients went away


def test_a_client_that_pipelines_is_answered_in_order(start: Callable[..., HttpServer]) -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connect(start()) as client:
        client.sendall(request * 2 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert read_all(client).count(b"ok\n") == 3


def test_few_descriptors_mean_few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: (1024, 1024))
    assert connections.Connections(512).most == 256
    assert connections.Connections(16).limit == 16


def test_malformed_headers_are_refused(
    start: Callable[..., HttpServer], caplog: pytest.LogCaptureFixture
) -> None:
    server = start()
    for host in ("[", "[::1", "a b", "a/b", "evil.example@127.0.0.1", "[1.2.3.4]", "a:b", "a:1:2"):
        status, text = ask(server, "/livez", host=host)
        assert (status, "Host" in text) == (400, True), host
    for origin in ("http://[", "http://", "http://a/b", "http://a@b", "//a", "x"):
        status, text = ask(server, "/livez", f"Origin: {origin}")
        assert (status, "Origin" in text) == (400, True), origin
    lengths = "Content-Length: 5", "Transfer-Encoding: chunked"
    for order in (lengths, lengths[::-1]):
        status, text = ask(server, "/livez", *order)
        assert (status, "send one of them" in text) == (400, True)
    assert not caplog.records


def test_without_logins_other_names_are_refused_on_every_path(start: Callable[..., HttpServer]) -> None:
    server = start(hosts=HostCheck.of(["Gateway.example", "0.0.0.0", "[::]"]))
    strange = ("evil.example", "8.8.8.8", "127.0.0.1.evil.example", "0.0.0.0", "[::2]", "localhost.evil", "1")
    own = ("localhost", "LOCALHOST:1", "127.0.0.1:80", "127.9.9.9", "[::1]", "gateway.example:9")
    for path in ("/metrics", "/livez", "/readyz", "/healthz", "/console/", "/api/query", "/x"):
        for host in strange:
            assert ask(server, path, host=host)[0] == 403, host
        for host in own:
            assert ask(server, path, host=host)[0] in {200, 404}, host


def test_http_without_a_host_comes_from_no_browser(start: Callable[..., HttpServer]) -> None:
    with connect(start(hosts=HostCheck())) as client:
        client.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert read_all(client).endswith(b"ok\n")


def test_the_address_that_a_request_came_to_is_taken() -> None:
    hosts = HostCheck()
    assert hosts.takes("192.0.2.7", "192.0.2.7")
    assert not hosts.takes("192.0.2.8", "192.0.2.7")
