"""Followers beside four writers, merges and cleans: what they are told is what was acknowledged, and soon."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

import psutil
import pytest
from pyarrow import flight

from lance_gateway.memwal.regions.wal import wal_entry_path
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.statements.copies import DONE, Copy, create_table
from tests.support.lake import manifests
from tests.support.processes.servers import GatewayProcess, fetch, open_connection

pytestmark = pytest.mark.slow

WRITERS = 4
KEYS_EACH = 40
LONG_SECONDS = 600.0
OPTIONS = (
    *("--http-port", "off", "--set", "writes.max_memtable_rows=300"),
    *("--set", "writes.claim_timeout=5m"),  # A machine that has much else to do is not a failure.
)
UPKEEP = """
[pipeline.merge]
min_generations = 2
[pipeline.clean]
grace = "30s"
keep_changes = "4m"
older_than = "4m"
[pipeline.run]
interval = "2s"
clean_interval = "10s"
delete = true
"""
"""Changes stay readable for less than half of the long run, so most of them are removed in it."""
MOST_GROWTH = 256 << 20
"""Of the resident memory of a gateway with its workers, from the first fifth of the long run to its end."""

Row = tuple[int, str]
Step = tuple[Row | None, Row | None]
"""A row before and after a change; None where it was not there."""


@dataclass
class Ledger:
    """Every change that a writer was acknowledged of, by key and in order; when it was, in seconds."""

    steps: dict[int, list[Step]] = field(default_factory=lambda: defaultdict(list))
    times: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[int, Row] = field(default_factory=dict)
    longest: float = 0.0
    """Seconds that the slowest statement took."""

    def change(self, after: dict[int, Row | None], now: float) -> None:
        for key, row in after.items():
            self.steps[key].append((self.rows.pop(key, None), row))
            self.times[key].append(now)
            if row is not None:
                self.rows[key] = row


def write(uri: str, lane: int, ledger: Ledger, is_over: Callable[[int], bool]) -> None:
    """Change keys of this lane alone, each statement with a value of its own, some ten times a second."""
    rng, pause = random.Random(lane), threading.Event()
    keys = range(lane * KEYS_EACH, (lane + 1) * KEYS_EACH)
    number = 0
    with open_connection(uri) as connection:
        while not is_over(number):
            number += 1
            chosen = sorted(rng.sample(keys, rng.randint(1, 5)))
            there = [key for key in chosen if key in ledger.rows]
            kind = rng.choice(("upsert", "upsert", "update", "delete"))
            after: dict[int, Row | None]
            if kind == "upsert":
                values = ", ".join(f"({key}, {number}, 's{number}')" for key in chosen)
                text = f"INSERT OR REPLACE INTO t VALUES {values}"
                after = dict.fromkeys(chosen, (number, f"s{number}"))
            elif kind == "update":
                text = f"UPDATE t SET v = {number} WHERE id IN ({', '.join(map(str, chosen))})"
                after = {key: (number, ledger.rows[key][1]) for key in there}
            else:
                text = f"DELETE FROM t WHERE id IN ({', '.join(map(str, chosen))})"
                after = dict.fromkeys(there)
            began = time.perf_counter()
            fetch(connection, text)
            now = time.perf_counter()
            ledger.change(after, now)
            ledger.longest = max(ledger.longest, now - began)
            pause.wait(rng.uniform(0, 0.15))


@dataclass
class EveryChange:
    """A follower of every single change, which goes on from its last token."""

    told: dict[int, list[Step]] = field(default_factory=lambda: defaultdict(list))
    times: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))

    def follow(self, uri: str) -> None:
        text = "SELECT * FROM lance_changes('t', since => 1, mode => 'all', follow => true)"
        rows: list[dict[str, Any]] = []
        with flight.FlightClient(uri) as client:
            for chunk in rpc.stream(client, sql.CommandStatementQuery(query=text)):
                now = time.perf_counter()
                rows += chunk.data.to_pylist()
                token = None if chunk.app_metadata is None else chunk.app_metadata.to_pybytes().decode()
                if token is None or (rows and token != rows[-1]["_position"]):
                    continue  # There is more of the same step.
                self._take(rows, now)
                rows.clear()
                if DONE in self.told:
                    return

    def _take(self, rows: list[dict[str, Any]], now: float) -> None:
        before: Row | None = None
        for one in sorted(rows, key=lambda row: row["_sequence"]):
            key, row, kind = one["id"], (one["v"], one["s"]), one["_change"]
            if kind == "update_before":
                before = row
                continue
            self.told[key].append((row, None) if kind == "delete" else (before, row))
            self.times[key].append(now)
            before = None


class SlowCopy(Copy):
    """A copy whose client takes its time after each step, until it is told to catch up.

    What it was sent and has not read by then waits in the buffers of the connection, which hold many steps.
    """

    def __init__(self, since: str) -> None:
        super().__init__(since)
        self.catches_up = threading.Event()

    def _apply(self) -> None:
        super()._apply()
        self.catches_up.wait(0.5)


@contextmanager
def keep(root: Path) -> Iterator[None]:
    """Merge and clean meanwhile, in a process of its own."""
    config = root.parent / "upkeep.toml"
    config.write_text(UPKEEP)
    program = str(Path(sys.executable).with_name("lance-gateway"))
    command = [program, "pipeline", "run", "--root", str(root), "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        try:
            yield
            assert child.poll() is None, "the pipeline has ended"
        finally:
            child.send_signal(signal.SIGTERM)
            _, errors = child.communicate(timeout=120)
    assert "ERROR" not in errors


def read_own_bytes(gateway: GatewayProcess) -> int:
    """Resident bytes of a gateway and its workers, without what they share."""
    process = psutil.Process(gateway.pid)
    return sum(each.memory_full_info().uss for each in (process, *process.children(recursive=True)))


def follow_beside_writers(root: Path, is_over: Callable[[int], bool]) -> list[int]:
    """Let four writers work until it is over; each follower must be told what they were acknowledged of.

    Args:
        root: of the table.
        is_over: whether a writer has done enough, given the number of its statements.

    Returns:
        The memory of the gateway, in bytes, every second.
    """
    ledgers = [Ledger() for _ in range(WRITERS)]
    everything = {"same gateway": EveryChange(), "other gateway": EveryChange()}
    slow = SlowCopy("1")
    copies = [Copy("1"), slow]
    resident: list[int] = []
    with GatewayProcess(root, *OPTIONS) as gateway, GatewayProcess(root, *OPTIONS) as other:
        with open_connection(gateway.uri) as connection:
            create_table(connection, "WITH (region_by = 'bucket(id, 3)')")
        with keep(root), ThreadPoolExecutor(WRITERS + len(everything) + len(copies)) as pool:
            following = [
                pool.submit(one.follow, at.uri)
                for one, at in zip(everything.values(), (gateway, other), strict=True)
            ]
            following += [pool.submit(one.follow_through, [gateway.uri]) for one in copies]
            writing = [
                pool.submit(write, gateway.uri, lane, ledger, is_over) for lane, ledger in enumerate(ledgers)
            ]
            while not all(one.done() for one in writing):
                resident.append(read_own_bytes(gateway))
                threading.Event().wait(1)
            slow.catches_up.set()
            with open_connection(gateway.uri) as connection:
                fetch(connection, f"INSERT INTO t VALUES ({DONE}, 0, 'done')")
                shown = {
                    row["id"]: (row["v"], row["s"])
                    for row in fetch(connection, "SELECT * FROM t").to_pylist()
                }
            for future in (*writing, *following):
                future.result(timeout=180)
    rows = {DONE: (0, "done")}
    steps: dict[int, list[Step]] = {DONE: [(None, (0, "done"))]}
    for ledger in ledgers:
        rows |= ledger.rows
        steps |= ledger.steps
    assert shown == rows
    for where, one in everything.items():
        assert dict(one.told) == steps
        lags = [
            max(told - acknowledged, 0.0) * 1000
            for ledger in ledgers
            for key, times in ledger.times.items()
            for told, acknowledged in zip(one.times[key], times, strict=True)
        ]
        cuts = quantiles(lags, n=100)
        tell(f"{where}: {len(lags)} changes, told after {cuts[49]:.0f} ms (p50), {cuts[98]:.0f} ms (p99)")
    assert [copy.failure for copy in copies] == [None] * len(copies)
    assert [copy.rows for copy in copies] == [rows] * len(copies)
    tell(f"the slowest write took {max(one.longest for one in ledgers):.1f} s")
    tenths = [resident[len(resident) * tenth // 10 - 1] >> 20 for tenth in range(1, 11)]
    tell(f"memory after each tenth of the time, in MiB: {', '.join(map(str, tenths))}")
    return resident


def tell(figures: str) -> None:
    print(figures)  # noqa: T201 - pytest -s shows it


@pytest.mark.soak
def test_followers_beside_writers_merges_and_cleans(root: Path) -> None:
    follow_beside_writers(root, lambda number: number >= 12)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_followers_beside_writers_merges_and_cleans_for_ten_minutes(root: Path) -> None:
    ends_at = time.monotonic() + LONG_SECONDS
    resident = follow_beside_writers(root, lambda _: time.monotonic() >= ends_at)
    path = root / "t.lance"
    for region in manifests.list_region_ids(path):
        assert manifests.read_merged_generations(path)[region] > 3
        assert not (path / wal_entry_path(region, 1)).exists(), "it was cleaned up"
    assert min(resident[-3:]) - resident[len(resident) // 5] < MOST_GROWTH
