"""An object store of files (versitygw) under gateways that write and die, and under jobs; and its outages."""

import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

import lance
import pytest
from pyarrow import flight

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.jobs.lake import Lake, TableState
from lance_gateway.pipeline.merging import merge
from tests.crash.load import Ledger, Statement, Worker, create_tables, sql_of
from tests.fights.registers import meanwhile
from tests.support.processes.ports import find_free_port
from tests.support.processes.servers import GatewayProcess
from tests.support.stores.object_stores import ObjectStore, start_versitygw

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

BUCKET = "lake"
CLIENTS = range(1, 5)
ROUNDS = 4
SOON_SECONDS = 3.0
GRACE_SECONDS = 10.0
"""Longer than any statement runs here, but for those of an outage."""
OUTAGE_SECONDS = 10.0
"""As long as several of a gateway's attempts."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if shutil.which("go") is None and shutil.which("versitygw") is None and os.environ.get("CI") != "true":
        pytest.skip("versitygw is not installed, and there is no Go to build it")
    with start_versitygw(BUCKET, tmp_path_factory.mktemp("store")) as server:
        yield server


@dataclass(frozen=True)
class Connected:
    """A client of a gateway, whose errors tell what they promise."""

    client: GatewayClient

    def write(self, sql: str) -> int:
        try:
            return self.client.execute(sql)
        except flight.FlightUnavailableError as error:
            raise UnavailableError(str(error)) from error


@dataclass
class Cluster:
    """Two gateways over a root of the store, their clients, and what these know."""

    store: ObjectStore
    root: str
    ownership: str
    ports: list[int] = field(default_factory=lambda: [find_free_port() for _ in range(2)])
    ledger: Ledger = field(default_factory=Ledger)
    numbers: dict[int, int] = field(default_factory=lambda: dict.fromkeys(CLIENTS, 0))
    gateways: list[GatewayProcess] = field(default_factory=list)

    def start(self, port: int) -> GatewayProcess:
        options = [part for one in self.store.options.items() for part in ("--storage-option", "=".join(one))]
        keys = {"ownership": self.ownership, "hold": "50ms"}
        if self.ownership == "forward":
            keys |= {
                "advertise_url": f"grpc://127.0.0.1:{port}",
                "peer_token": "the-secret-of-these-gateways",
            }
        options += [part for key, value in keys.items() for part in ("--set", f"writes.{key}={value}")]
        return GatewayProcess(self.root, *options, "--port", str(port), "--http-port", "off")

    def renew(self, at: int) -> None:
        """Kill a gateway, and start another in its place."""
        self.gateways[at].kill()
        self.gateways[at].stop()
        self.gateways[at] = self.start(self.ports[at])

    def write_during(self, block: Callable[[], object]) -> None:
        """Let clients write through either gateway while a block runs, and check what is there then."""
        over = threading.Event()
        with ThreadPoolExecutor(len(CLIENTS)) as threads:
            running = [threads.submit(self._write, client, over) for client in CLIENTS]
            try:
                block()
            finally:
                over.set()
        for one in running:
            one.result()
        with GatewayClient(self.gateways[0].uri) as reader:
            kept, log = (reader.query(f"SELECT * FROM {name}").read_all() for name in ("kept", "log"))
        assert self.ledger.acknowledged, "no client got anything done"
        self.ledger.check(kept, log)

    def _write(self, client: int, over: threading.Event) -> None:
        """Write as one client, in short connections, until it is over."""
        drawn = random.Random(client + self.numbers[client])
        sent = self.ledger.sent.setdefault(client, [])

        def tell(_client: int, one: Statement) -> None:
            if one.outcome == "unknown":
                sent.append(one)

        while not over.is_set():
            try:
                with GatewayClient(drawn.choice(self.gateways).uri) as connection:
                    worker = Worker(client, Connected(connection), drawn, tell, self.numbers[client])
                    for _ in range(drawn.randrange(1, 10)):
                        self.numbers[client] += 1
                        worker.step()
            except (UnavailableError, flight.FlightError):
                over.wait(0.1)

    def ask(self, gateway: GatewayProcess, client: int) -> None:
        """Write as a client, which has to be acknowledged, and read."""
        sent = self.ledger.sent.setdefault(client, [])
        with GatewayClient(gateway.uri) as connection:
            self.numbers[client] = self.numbers.get(client, 0) + 1
            one = Statement("log", self.numbers[client])
            sent.append(one)
            connection.execute(sql_of(one.kind, client, one.number))
            one.outcome = "acknowledged"
            connection.query("SELECT count(*) FROM kept").read_all()

    def keep(self) -> None:
        """Merge and clean each table once."""
        lake = Lake.open(self.root, self.store.options)
        for name in ("kept", "log"):
            merge(lake.table(name))
            policy = CleanPolicy(grace_seconds=GRACE_SECONDS, retain_versions=1)
            clean(lake.table(name), policy, delete=True)

    def keep_on(self) -> None:
        """The same while others write, and the store may be gone."""
        try:
            self.keep()
        except UnavailableError:
            time.sleep(0.1)

    def check_base(self) -> None:
        """Compare what the gateways show with what merges have left in the base tables, which is all."""
        rows = {}
        with GatewayClient(self.gateways[1].uri) as reader:
            for name in ("kept", "log"):
                rows[name] = reader.query(f"SELECT * FROM {name}").read_all().to_pylist()
        for gateway in self.gateways:
            gateway.stop()  # flushes
        self.keep()
        for name, shown in rows.items():
            table = Lake.open(self.root, self.store.options).table(name)
            assert not any(one.pending for one in TableState.read(table).regions.values())
            base = lance.dataset(f"{self.root}/{name}.lance", storage_options=self.store.options)
            assert sorted(map(str, base.to_table().to_pylist())) == sorted(map(str, shown))


@pytest.fixture
def cluster(store: ObjectStore, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    root = f"s3://{BUCKET}/{request.node.name.replace('[', '-').rstrip(']')}"
    create_tables(root, store.options)
    cluster = Cluster(store, root, getattr(request, "param", "claim"))
    cluster.gateways += map(cluster.start, cluster.ports)
    with ExitStack() as stack:
        stack.callback(lambda: [one.stop() for one in cluster.gateways])
        yield cluster


def test_of_all_that_put_if_absent_one_succeeds(store: ObjectStore):
    storage = Storage.open(f"s3://{BUCKET}/puts", store.options)
    names = [f"{number}" for number in range(200)]

    def put_each(client: bytes) -> list[bool]:
        return [storage.put_if_absent(name, client) for name in names]

    with ThreadPoolExecutor(4) as threads:
        won = list(threads.map(put_each, [b"a", b"b", b"c", b"d"]))
    for name, *wins in zip(names, *won, strict=True):
        assert wins.count(True) == 1
        assert storage.read(name) == b"abcd"[wins.index(True) : wins.index(True) + 1]


@pytest.mark.parametrize("cluster", ["claim", "forward"], indirect=True)
def test_gateways_that_are_killed_leave_their_regions_to_others(cluster: Cluster):
    with meanwhile(cluster.keep_on):
        for turn in range(ROUNDS):
            cluster.write_during(lambda turn=turn: cluster.renew(turn % 2))
    cluster.check_base()


@pytest.mark.parametrize("kind", ["stopped", "ended"])
def test_gateways_answer_soon_after_an_outage(cluster: Cluster, kind: str):
    outage: Callable[[], AbstractContextManager[None]] = getattr(cluster.store, kind)

    def have_outage() -> None:
        time.sleep(1.0)
        with outage():
            time.sleep(OUTAGE_SECONDS)
        back = time.monotonic()
        with ThreadPoolExecutor(len(cluster.gateways)) as threads:
            list(threads.map(cluster.ask, cluster.gateways, (-1, -2)))
        took = time.monotonic() - back
        assert took < SOON_SECONDS, f"the gateways answered {took:.1f} s after the outage"

    with meanwhile(cluster.keep_on):
        for _ in range(2):
            cluster.write_during(have_outage)
    cluster.check_base()
