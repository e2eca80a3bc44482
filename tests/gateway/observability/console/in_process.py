"""A gateway with a console in the test process, for many clients at a time."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.config import Flag, load
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.gateway.start.observability import Observability
from lance_gateway.gateway.start.opening import open_security
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.gateway.auth.conftest import QUICK

_PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Office:
    """A console, and what is behind it."""

    server: GatewayServer
    security: Security
    observability: Observability

    @property
    def port(self) -> int:
        assert self.observability.http is not None
        return self.observability.http.port

    @contextmanager
    def browse(self, **login: str) -> Iterator[httpx.Client]:
        """A browser; logged in where a user and password are given."""
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=_PATIENCE_SECONDS) as browser:
            if login:
                answer = browser.post("/api/login", json=login)
                assert answer.status_code == 200, answer.text
                browser.headers["x-csrf-token"] = answer.json()["csrf_token"]
            yield browser

    def connect(self) -> socket.socket:
        """A connection over which nothing was sent yet."""
        return socket.create_connection(("127.0.0.1", self.port), _PATIENCE_SECONDS)

    def send(self, path: str, body: dict[str, Any], browser: httpx.Client | None = None) -> socket.socket:
        """Send a request, and read nothing of the answer yet."""
        data = json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(data)}"]
        if browser is not None:
            lines.append(f"Cookie: {'; '.join(f'{name}={value}' for name, value in browser.cookies.items())}")
            lines.append(f"X-CSRF-Token: {browser.headers['x-csrf-token']}")
        client = self.connect()
        # A window of its own choice would take large results.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall("\r\n".join([*lines, "", ""]).encode() + data)
        return client

    def count_active(self, user: str | None = None) -> int:
        """Statements under way."""
        return sum(user in (None, query.user) for query in self.server.queries.list_active())


def read_answer(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """The status and the headers of an answer, and what has come of its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(4096)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, body


def read_status(client: socket.socket) -> int:
    """The status of an answer."""
    return read_answer(client)[0]


@contextmanager
def open_office(root: Path, **flags: object) -> Iterator[Office]:
    """A gateway that writes, with the configuration of some flags: `auth.users_file` and others."""
    given = {"root": str(root), "observability.http_port": 0, **flags}
    loaded = load([Flag("test", name, value) for name, value in given.items()])
    security = open_security(loaded.config.tls, loaded.config.auth, host="127.0.0.1", hasher=QUICK)
    catalog = Catalog.open(str(root), writing=WriteOptions(hold_ms=0))
    is_open = security.authenticator is None
    observability = Observability(loaded.config.observability, catalog, 0, is_open=is_open)
    server = GatewayServer(
        observability.create_engine(None, None),
        security=security,
        observers=observability.list_query_observers(),
    )
    try:
        observability.offer_console(loaded, security, server)
        observability.watch(server)
        yield Office(server, security, observability)
    finally:
        server.queries.cancel_all(UnavailableError("the test is over"))
        observability.close()
        with suppress(Exception):
            server.shutdown()
        catalog.close()
