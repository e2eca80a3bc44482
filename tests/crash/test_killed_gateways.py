"""A gateway that is killed loses nothing that it acknowledged, and leaves nothing half done in a region."""

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from lance_gateway.gateway.cli.client import GatewayClient
from tests.crash.load import Ledger, Statement, Worker, create_tables
from tests.crash.told import ToldChanges
from tests.crash.zygote import Zygote
from tests.fights.registers import meanwhile
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.servers import GatewayProcess

ROUNDS = 2000
OTHER = 9
"""The client of the gateway that is not killed."""


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as process:
        yield process


def kill_again_and_again(root: Path, zygote: Zygote, rounds: int, seed: int) -> None:
    """Kill a gateway at drawn points of its clients' work, while another gateway goes on."""
    create_tables(root)
    random_source = random.Random(seed)
    survivor = EngineGateway(root)
    ledger, told = Ledger(), ToldChanges(survivor)

    def tell(client: int, one: Statement) -> None:
        if one.outcome == "unknown":
            ledger.sent.setdefault(client, []).append(one)

    other = Worker(OTHER, survivor, random_source, tell, number=0)
    try:
        for turn in range(rounds):
            limit = random_source.choice((7, 30, 100_000))
            child = zygote.start(
                root,
                clients=[1, 2, 3],
                seed=seed + turn,
                number=turn * 1000,
                hold_ms=0,
                max_memtable_rows=limit,
            )
            with meanwhile(other.step) if turn % 3 == 0 else nullcontext():
                child.await_lines(random_source.randrange(1, 40))
                child.kill()
            ledger.sent |= child.sent()
            try:
                told.check(ledger.sent)
                ledger.check(survivor.read("SELECT * FROM kept"), survivor.read("SELECT * FROM log"))
            except AssertionError as failure:
                failure.add_note(f"round {turn} of seed {seed}, MemTables of {limit} rows")
                raise
    finally:
        survivor.close()


def kill_servers(root: Path, rounds: int, seed: int) -> None:
    """The same with whole servers, whose clients come over Flight SQL."""
    create_tables(root)
    ledger = Ledger()
    reader = EngineGateway(root)
    random_source = random.Random(seed)
    try:
        for turn in range(rounds):
            with GatewayProcess(root) as server:
                _kill_server(server, ledger, random_source, first=turn * 1000)
            ledger.check(reader.read("SELECT * FROM kept"), reader.read("SELECT * FROM log"))
    finally:
        reader.close()


@dataclass(frozen=True)
class _Connected:
    """One client of a server."""

    client: GatewayClient

    def write(self, sql: str) -> int:
        return self.client.execute(sql)


def _kill_server(server: GatewayProcess, ledger: Ledger, random_source: random.Random, first: int) -> None:
    enough, killed = threading.Event(), threading.Event()
    wanted = random_source.randrange(1, 25)

    def tell(client: int, one: Statement) -> None:
        if one.outcome == "unknown":
            ledger.sent[client].append(one)
        elif ledger.acknowledged >= wanted:
            enough.set()

    def run(client: int) -> None:
        try:
            with GatewayClient(server.uri) as connection:
                worker = Worker(client, _Connected(connection), random.Random(client), tell, first)
                while True:
                    worker.step()
        except Exception:
            enough.set()
            if not killed.is_set():
                raise  # nothing may fail before

    clients = range(1, 5)
    ledger.sent.update({client: [] for client in clients})
    with ThreadPoolExecutor(len(clients)) as threads:
        running = [threads.submit(run, client) for client in clients]
        enough.wait()
        killed.set()
        server.kill()
    for one in running:
        one.result()


@pytest.mark.slow
def test_what_was_acknowledged_survives_and_the_rest_is_whole_or_absent(root: Path, zygote: Zygote):
    kill_again_and_again(root, zygote, rounds=8, seed=1)


@pytest.mark.slow
def test_a_server_is_killed_under_its_clients(root: Path):
    kill_servers(root, rounds=2, seed=2)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_server_is_killed_hundreds_of_times(root: Path):
    """``SOAK_ROUNDS`` sets ten times how often."""
    kill_servers(root, int(os.environ.get("SOAK_ROUNDS", ROUNDS)) // 10, seed=3)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_gateway_is_killed_thousands_of_times(root: Path, zygote: Zygote):
    """``SOAK_ROUNDS`` sets how often, ``SOAK_SEED`` repeats a run as far as chance allows."""
    seed = int(os.environ.get("SOAK_SEED", "0")) or int.from_bytes(os.urandom(2), "little")
    kill_again_and_again(root, zygote, int(os.environ.get("SOAK_ROUNDS", ROUNDS)), seed)
