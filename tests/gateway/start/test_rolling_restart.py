"""Gateways behind a balancer are replaced one after another, and no client notices."""

import http.client
import json
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.gateway.config.loader import Flag, load
from lance_gateway.gateway.config.schema import GatewayConfig
from lance_gateway.gateway.start.opening import open_catalog
from lance_gateway.memwal.errors import CorruptDataError, PreconditionError
from lance_gateway.memwal.storage import root_format
from lance_gateway.memwal.storage.root_format import MARK
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.pipeline.jobs.lake import Lake
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.ports import find_free_port
from tests.support.processes.servers import GatewayProcess, open_connection

CONNECTION_SECONDS = 0.5
"""How long a client keeps a connection, as pools do: shorter than `server.stop_delay`."""
CREATE = "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT) WITH (region_by = 'bucket(id, 4)')"


@dataclass
class Backend:
    """A gateway process, and where its health is."""

    process: GatewayProcess
    port: int
    http_port: int

    @staticmethod
    def start(root: Path) -> "Backend":
        port, http_port = find_free_port(), find_free_port()
        settings = {
            "server.stop_delay": "5s",
            "writes.ownership": "forward",
            "writes.advertise_url": f"grpc://127.0.0.1:{port}",
            "writes.peer_token": "the-secret-of-these-gateways",
        }
        sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        ports = ["--port", str(port), "--http-port", str(http_port)]
        return Backend(GatewayProcess(root, "--insecure", *ports, *sets), port, http_port)

    @property
    def is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


class Balancer:
    """Sends each new connection to a backend that says that it is ready."""

    def __init__(self) -> None:
        self.backends: list[Backend] = []
        self.refused = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        backend = next((one for one in self.backends if one.is_ready), None)
        try:
            if backend is None:
                raise ConnectionRefusedError
            server = socket.create_connection(("127.0.0.1", backend.port))
        except OSError:
            self.refused += 1
            client.close()
            return
        other = {client: server, server: client}
        with client, server, suppress(OSError):
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    other[ready].sendall(data)


@contextmanager
def balanced(root: Path, count: int) -> Iterator[tuple[Balancer, ExitStack]]:
    with ExitStack() as stack:
        balancer = Balancer()
        stack.callback(balancer.close)
        for _ in range(count):
            balancer.backends.append(Backend.start(root))
            stack.callback(balancer.backends[-1].process.kill)
        yield balancer, stack


def write_and_read(connection: Any, number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO t VALUES ({number}, {number})")
        cursor.execute(f"SELECT v FROM t WHERE id = {number}")
        assert cursor.fetchall() == [(number,)]


@pytest.mark.soak
def test_clients_that_write_and_read_without_pause_see_no_error(root: Path):
    """Each gateway is replaced while the other one goes on; every statement succeeds, and writes once."""
    engine = EngineGateway(root)
    engine.write(CREATE)
    engine.close()
    is_over = threading.Event()
    failures: list[str] = []
    written: dict[int, int] = {}

    def write(first: int, progress: threading.Semaphore) -> None:
        number = first
        while not is_over.is_set():
            ends_at = time.monotonic() + CONNECTION_SECONDS
            with open_connection(f"grpc://127.0.0.1:{balancer.port}") as connection:
                while time.monotonic() < ends_at and not is_over.is_set():
                    try:
                        write_and_read(connection, number)
                        written[number] = number
                    except Exception as error:  # noqa: BLE001 - whatever a client sees
                        failures.append(f"{number}: {error}")
                    number += 10
                    progress.release()

    with balanced(root, 2) as (balancer, stack):
        clients = [threading.Semaphore(0) for _ in range(3)]
        threads = [threading.Thread(target=write, args=(at, one)) for at, one in enumerate(clients)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                for client in clients:
                    for _ in range(10):
                        assert client.acquire(timeout=60)
                oldest = balancer.backends[0]
                newest = Backend.start(root)
                stack.callback(newest.process.kill)
                balancer.backends.append(newest)
                assert oldest.process.stop() == 0
                balancer.backends.remove(oldest)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        assert failures == []
        assert balancer.refused == 0
    engine = EngineGateway(root)
    read = engine.read("SELECT id, v FROM t")
    engine.close()
    rows = dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))
    assert rows == written
    assert read.num_rows == len(rows)


class TestFormats:
    @pytest.fixture
    def config(self, root: Path) -> GatewayConfig:
        return load([Flag("--root", "root", str(root))]).config

    def test_a_gateway_that_writes_marks_its_root(self, root: Path, config: GatewayConfig):
        open_catalog(config).close()
        assert not (root / MARK).exists()
        open_catalog(config, WriteOptions()).close()
        mark = json.loads((root / MARK).read_text())
        assert mark["format"] == root_format.FORMAT
        open_catalog(config, WriteOptions()).close()

    def test_a_root_that_a_newer_version_has_used_is_refused(self, root: Path, config: GatewayConfig):
        (root / "_gateway").mkdir()
        (root / MARK).write_text(json.dumps({"format": 2, "made_by": "9.1.0", "more": True}))
        for opened in (
            lambda: open_catalog(config, WriteOptions()),
            lambda: open_catalog(config),
            lambda: Lake.open(str(root)),
        ):
            with pytest.raises(
                PreconditionError,
                match=r"format 2 since lance-gateway 9\.1\.0 used it, and lance-gateway \S+ knows .* up to 1",
            ):
                opened()

    @pytest.mark.parametrize("content", ["", "[]", '{"format": "new"}', '{"format": 1}'])
    def test_a_mark_that_can_not_be_read(self, root: Path, content: str):
        (root / "_gateway").mkdir()
        (root / MARK).write_text(content)
        with pytest.raises(CorruptDataError, match=r"_gateway/format .* is not a mark of a format"):
            Lake.open(str(root))
