"""Every kind of read is right while writers, merges, clean-ups, compaction and builds of indexes go on."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fights.ledgers import Ledger
from tests.fights.readers import Reader, text_of, vector_of
from tests.fights.upkept_reads import BIG, Outcomes, read
from tests.support.processes.servers import GatewayProcess, fetch, open_connection

SECONDS = 120.0
LANES, READERS, KEYS_EACH = 3, 5, 40
UPKEEP = """
[pipeline.merge]
min_generations = 2
[pipeline.snapshot]
max_age = "3s"
[pipeline.clean]
grace = "2s"
keep_changes = "{grace}s"
older_than = "{grace}s"
[pipeline.run]
interval = "1s"
clean_interval = "2s"
delete = true
"""
OPTIONS = (
    *("--http-port", "off", "--set", "writes.max_memtable_rows=100", "--set", "server.workers=2"),
    *("--set", "writes.claim_timeout=5m"),  # A machine that has much else to do is not a failure.
)
TABLES = (
    """CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, s VARCHAR, vec FLOAT[4])
    WITH (region_by = 'bucket(id, 3)')""",
    "CREATE TABLE n (id BIGINT, v BIGINT)",
    "CREATE TABLE b (id BIGINT PRIMARY KEY, v BIGINT, pad VARCHAR)",
    f"INSERT INTO b SELECT value, 0, repeat('x', 100) FROM generate_series(0, {BIG - 1})",
    "CREATE INDEX s_idx ON t USING FTS (s)",
)


class Fight:
    """Two gateways, their clients, and how long they go on."""

    def __init__(self, uris: list[str], seed: int, seconds: float) -> None:
        self.uris, self.seed = uris, seed
        self.ledger, self.keyless = Ledger(), Ledger()
        self.pause = threading.Event()
        self.ends_at = time.monotonic() + seconds

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_at

    def write(self, lane: int) -> None:
        """Change keys of one lane alone, each statement with a value of its own."""
        rng, number = random.Random(self.seed * 100 + lane), lane
        keys = range(lane * KEYS_EACH, (lane + 1) * KEYS_EACH)
        # All through one gateway: two that write several regions may be told that some have their rows.
        with open_connection(self.uris[0]) as connection:
            while not self.is_over():
                number += LANES
                chosen = sorted(rng.sample(keys, rng.randint(1, 5)))
                there = self.ledger.current()
                text, after = _draw_change(rng, chosen, [key for key in chosen if key in there], number)
                with self.ledger.changing(after):
                    fetch(connection, text)
                self.pause.wait(rng.uniform(0, 0.1))

    def write_keyless(self) -> None:
        rng, number = random.Random(self.seed * 7), 0
        with open_connection(self.uris[0]) as connection:
            while not self.is_over():
                number += 1
                key = rng.randrange(60)
                is_there = key in self.keyless.current()
                after: dict[int, int | None] = {key: number}
                if not is_there:
                    text = f"INSERT INTO n VALUES ({key}, {number})"
                elif rng.random() < 0.7:
                    text = f"UPDATE n SET v = {number} WHERE id = {key}"
                else:
                    text, after = f"DELETE FROM n WHERE id = {key}", {key: None}
                with self.keyless.changing(after):
                    fetch(connection, text)
                self.pause.wait(rng.uniform(0.05, 0.4))

    def disturb(self) -> None:
        """Compact, index and rewrite tables, all the time."""
        rng, number = random.Random(self.seed * 13), 0
        kinds = ("OPTIMIZE t", "OPTIMIZE t COMPACT", "OPTIMIZE t INDEXES", "OPTIMIZE n", "rewrite", "index")
        with ExitStack() as stack:
            connections = [stack.enter_context(open_connection(uri)) for uri in self.uris]
            while not self.is_over():
                number += 1
                connection, kind = rng.choice(connections), rng.choice(kinds)
                if kind == "rewrite":
                    few = f"SELECT id, {number}, pad FROM b WHERE id % 1000 = {number % 1000}"
                    fetch(connections[0], f"INSERT OR REPLACE INTO b {few}")
                elif kind == "index":
                    fetch(connection, "CREATE INDEX v_idx ON t (v)")
                    self.pause.wait(1)
                    fetch(connection, "DROP INDEX v_idx ON t")
                else:
                    fetch(connection, kind)
                self.pause.wait(rng.uniform(0.5, 2))

    def read(self, lane: int, grace: float, outcomes: Outcomes) -> None:
        with ExitStack() as stack:
            connections = [stack.enter_context(open_connection(uri)) for uri in self.uris]
            rng = random.Random(self.seed * 1000 + lane)
            read(
                Reader(connections, self.ledger, self.keyless, rng, lane), self.is_over, grace, outcomes, tell
            )


def _draw_change(
    rng: random.Random, chosen: list[int], there: list[int], number: int
) -> tuple[str, dict[int, int | None]]:
    """A statement, and what it makes of its keys."""
    kind, listed = rng.choice(("upsert", "upsert", "upsert", "update", "delete")), ", ".join(map(str, chosen))
    if kind == "upsert":
        rows = ", ".join(
            f"({key}, {number}, '{text_of(number)}', {vector_of(key, number)})" for key in chosen
        )
        return f"INSERT OR REPLACE INTO t (id, v, s, vec) VALUES {rows}", dict.fromkeys(chosen, number)
    if kind == "update":
        vector = f"[{float(number % 10)}, id % 10, 1.0, 0.0]"
        values = f"v = {number}, s = '{text_of(number)}', vec = {vector}"
        return f"UPDATE t SET {values} WHERE id IN ({listed})", dict.fromkeys(there, number)
    return f"DELETE FROM t WHERE id IN ({listed})", dict.fromkeys(there)


@contextmanager
def keep(root: Path, grace: float) -> Iterator[None]:
    """Merge, index, remember and clean up meanwhile, in a process of its own."""
    config = root.parent / "upkeep.toml"
    config.write_text(UPKEEP.format(grace=grace))
    program = str(Path(sys.executable).with_name("lance-gateway"))
    command = [program, "pipeline", "run", "--root", str(root), "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            yield
            assert child.poll() is None, "the pipeline has ended"
        finally:
            child.send_signal(signal.SIGTERM)


def tell(failure: str) -> None:
    print(failure)  # noqa: T201 - pytest -s shows it


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("grace", [2.0, 8.0])
def test_every_kind_of_read_is_right_beside_writers_and_upkeep(root: Path, grace: float) -> None:
    """``SOAK_SECONDS`` sets the time, ``SOAK_SEED`` the seed."""
    seed = int(os.environ.get("SOAK_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
    tell(f"seed {seed}")
    outcomes = Outcomes()
    with GatewayProcess(root, *OPTIONS) as gateway, GatewayProcess(root, *OPTIONS) as other:
        with open_connection(gateway.uri) as connection:
            for text in TABLES:
                fetch(connection, text)
        uris = [gateway.uri, other.uri]
        with keep(root, grace), ThreadPoolExecutor(LANES + READERS + 2) as pool:
            fight = Fight(uris, seed, float(os.environ.get("SOAK_SECONDS", SECONDS)))
            steps: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
                (fight.write_keyless, ()),
                (fight.disturb, ()),
                *((fight.write, (lane,)) for lane in range(LANES)),
                *((fight.read, (lane, grace, outcomes)) for lane in range(READERS)),
            ]
            for future in [pool.submit(step, *arguments) for step, arguments in steps]:
                future.result()
    assert sum(outcomes.right.values()) > 10 * sum(outcomes.overtaken.values())
    assert not outcomes.failures, f"seed {seed}"
