"""Gateways that forward are killed and started again while clients write: no row is doubled, none lost."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.peers.peer_gateways import TABLE, make_table
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.ports import find_free_port
from tests.support.processes.servers import GatewayProcess

ROUNDS = 30
CLIENTS = 4

pytestmark = [pytest.mark.soak, pytest.mark.slow]


class Cluster:
    """Gateways at fixed addresses, of which one is killed and started again now and then."""

    def __init__(self, root: Path, count: int) -> None:
        self._root = root
        self.ports = [find_free_port() for _ in range(count)]
        self._running = [self._started(port) for port in self.ports]

    def _started(self, port: int) -> GatewayProcess:
        keys = {
            "writes.ownership": "forward",
            "writes.advertise_url": f"grpc://127.0.0.1:{port}",
            "writes.peer_token": "the-secret-of-these-gateways",
            "writes.hold": "50ms",
        }
        sets = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
        return GatewayProcess(self._root, "--port", str(port), "--http-port", "off", *sets)

    def renew(self, at: int) -> None:
        os.kill(self._running[at].pid, signal.SIGKILL)
        self._running[at].stop()
        self._running[at] = self._started(self.ports[at])

    def close(self) -> None:
        for one in self._running:
            one.stop()


@pytest.fixture
def cluster(root: Path) -> Iterator[Cluster]:
    make_table(root, buckets=1, keyed=False)
    cluster = Cluster(root, 3)
    yield cluster
    cluster.close()


class Client(threading.Thread):
    """Inserts numbers of its own through any gateway, each of them once, whatever it is told."""

    def __init__(self, cluster: Cluster, lane: int, stop: threading.Event) -> None:
        super().__init__()
        self._cluster, self._lane, self._until = cluster, lane, stop
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []

    def run(self) -> None:
        choices = random.Random(self._lane)
        number = self._lane * 1_000_000
        while not self._until.is_set():
            number += 1
            text = f"INSERT INTO {TABLE} VALUES ({number}, 'row')"
            with flight.FlightClient(f"grpc://127.0.0.1:{choices.choice(self._cluster.ports)}") as client:
                try:
                    rpc.info(client, sql.CommandStatementQuery(query=text))
                except (pa.ArrowException, flight.FlightError):
                    self.unknown.append(number)
                    self._until.wait(0.02)
                else:
                    self.acknowledged.append(number)


def test_rows_are_written_once(cluster: Cluster, root: Path) -> None:
    over = threading.Event()
    clients = [Client(cluster, lane, over) for lane in range(CLIENTS)]
    for client in clients:
        client.start()
    choices = random.Random(7)
    try:
        for _ in range(ROUNDS):
            cluster.renew(choices.randrange(len(cluster.ports)))
    finally:
        over.set()
        for client in clients:
            client.join()
    engine = EngineGateway(root)
    found = engine.read(f"SELECT id FROM {TABLE}")["id"].to_pylist()
    engine.close()
    acknowledged = {number for client in clients for number in client.acknowledged}
    unknown = {number for client in clients for number in client.unknown}
    assert len(found) == len(set(found))
    assert acknowledged <= set(found) <= acknowledged | unknown
    assert len(acknowledged) > ROUNDS
