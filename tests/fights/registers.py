"""Clients that read and change a few keys at once, through several gateways, and remember what they saw."""

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import lance
import pyarrow as pa

from lance_gateway.memwal.errors import UnavailableError
from tests.support.judging.linearizability import Kind, Operation, Value, check_registers
from tests.support.lake.tables import key_field
from tests.support.processes.gateways import Gateway, has_written_nothing

SCHEMA = pa.schema([key_field("k", pa.int64()), pa.field("v", pa.int64())])
KEYS = 4
CHANGES: dict[str, str] = {
    "write": "INSERT INTO r VALUES ({key}, {argument})",
    "delete": "DELETE FROM r WHERE k = {key}",
    "swap": "UPDATE r SET v = {argument} WHERE k = {key} AND v = {expected}",
    "add": "UPDATE r SET v = v + {argument} WHERE k = {key}",
    "insert": "INSERT INTO r VALUES ({key}, {argument}) ON CONFLICT DO NOTHING",
}
MERGES: dict[str, str] = {
    "write": (
        "MERGE INTO r USING (VALUES ({key}, {argument})) AS s (k, v) ON r.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
    ),
    "delete": "MERGE INTO r USING (VALUES ({key})) AS s (k) ON r.k = s.k WHEN MATCHED THEN DELETE",
    "add": (
        "MERGE INTO r USING (VALUES ({key}, {argument})) AS s (k, v) ON r.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = r.v + s.v"
    ),
}


def create_registers(root: Path, regions: int) -> Path:
    """An empty table ``r`` of registers in so many regions."""
    path = root / "r.lance"
    dataset = lance.write_dataset(SCHEMA.empty_table(), path)
    if regions == 1:
        dataset.initialize_mem_wal()
    else:
        dataset.initialize_mem_wal(bucket_column="k", num_buckets=regions)
    return path


@dataclass
class Recorder:
    """What clients saw, by key; and how often each of them got something done."""

    histories: dict[int, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    done: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def check(self) -> None:
        """There is an order that explains everything, and every client came to something."""
        check_registers(self.histories)
        stuck = [client for client in {*self.done, *self.refused} if not self.done[client]]
        assert not stuck, f"{stuck} got nothing done: {dict(self.refused)}"


@dataclass
class Client:
    """One client of one gateway."""

    name: str
    gateway: Gateway
    recorder: Recorder
    random: random.Random
    changes: Sequence[Kind] = ("write", "delete", "swap", "add")
    merges: bool = False
    fresh: Iterator[int] = field(default_factory=itertools.count)
    seen: dict[int, Value] = field(default_factory=dict)

    def step(self) -> None:
        """Do one thing, drawn at random."""
        draw = self.random.random()
        key = self.random.randrange(KEYS)
        if draw < 0.3:
            self._read(f"SELECT k, v FROM r WHERE k = {key}", [key])
        elif draw < 0.4:
            self._read("SELECT k, v FROM r", range(KEYS))
        elif draw < 0.45:
            self._read(f"SELECT k, sum(v) AS v FROM r WHERE v >= 0 OR k = {key} GROUP BY k", range(KEYS))
        else:
            self._change(self.random.choice(self.changes), key)

    def _read(self, sql: str, keys: Sequence[int]) -> None:
        invoked = time.monotonic()
        rows = self.gateway.read(sql)
        returned = time.monotonic()
        ids = rows["k"].to_pylist()
        assert len(set(ids)) == len(ids), f"{sql} finds a key twice: {rows.to_pylist()}"
        found = dict(zip(ids, rows["v"].to_pylist(), strict=True))
        for key in keys:
            self.seen[key] = found.get(key)
            self.recorder.histories[key].append(
                Operation("read", invoked, returned, result=found.get(key), client=self.name)
            )
        self.recorder.done[self.name] += 1

    def _change(self, kind: Kind, key: int) -> None:
        argument = 1 if kind == "add" else next(self.fresh)
        expected = self.seen.get(key) if kind == "swap" else None
        if kind == "swap" and expected is None:
            kind = "write"
        shapes = MERGES if self.merges and kind in MERGES and self.random.random() < 0.5 else CHANGES
        sql = shapes[kind].format(key=key, argument=argument, expected=expected)
        invoked = time.monotonic()
        try:
            result = self.gateway.write(sql)
        except UnavailableError as error:
            self.recorder.refused[self.name] += 1
            if has_written_nothing(error):
                return
            returned, result = inf, None
        else:
            returned = time.monotonic()
            self.recorder.done[self.name] += 1
            assert kind != "write" or result == 1, f"{sql} affected {result} rows"
        self.recorder.histories[key].append(
            Operation(kind, invoked, returned, argument, expected, result, client=self.name)
        )


def clients(
    gateways: Sequence[Gateway], count: int, recorder: Recorder, seed: int, **more: object
) -> list[Client]:
    """So many clients, by turns of each gateway."""
    return [
        Client(
            f"client {number} of gateway {number % len(gateways)}",
            gateways[number % len(gateways)],
            recorder,
            random.Random(seed * 1000 + number),
            fresh=itertools.count(number * 1_000_000),
            **more,
        )
        for number in range(count)
    ]


def run_all(steps: Sequence[Callable[[], None]], rounds: int | None = None, seconds: float = inf) -> None:
    """Run each step again and again in a thread of its own, so often or for so long; errors are raised."""
    end = time.monotonic() + seconds
    failed = threading.Event()

    def repeat(step: Callable[[], None]) -> None:
        try:
            for _ in range(rounds) if rounds is not None else itertools.count():
                if time.monotonic() > end or failed.is_set():
                    return
                step()
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(len(steps), thread_name_prefix="client") as threads:
        for done in [threads.submit(repeat, step) for step in steps]:
            done.result()


@contextmanager
def meanwhile(step: Callable[[], None]) -> Iterator[None]:
    """Repeat a step in the background while the block runs; its errors are raised at the end."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            step()

    with ThreadPoolExecutor(1, thread_name_prefix="meanwhile") as thread:
        running = thread.submit(repeat)
        try:
            yield
        finally:
            over.set()
            running.result()
