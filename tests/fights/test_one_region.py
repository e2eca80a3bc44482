"""Two gateways and a writer of Lance's own fight for one region."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.writing import WriteOptions
from tests.fights.registers import create_registers, meanwhile, run_all
from tests.support.lake import manifests
from tests.support.processes.gateways import EngineGateway, has_written_nothing
from tests.support.processes.writer_process import (
    FencedError,
    RegionWriter,
    WriteRefusedError,
    WriterProcess,
)

OpenGateways = Callable[..., list[EngineGateway]]
FIGHTING = WriteOptions(hold_ms=30)


@dataclass
class Acknowledged:
    """Rows by key that were acknowledged, each written once."""

    rows: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, key: int, value: int) -> None:
        with self.lock:
            self.rows[key] = value

    def copied(self) -> dict[int, int]:
        with self.lock:
            return dict(self.rows)

    def check(self, gateway: EngineGateway) -> None:
        """A strong read shows everything that was acknowledged before it began, once."""
        before = self.copied()
        found = gateway.read("SELECT k, v FROM r")
        keys = found["k"].to_pylist()
        assert len(keys) == len(set(keys)), "a row is there twice"
        rows = dict(zip(keys, found["v"].to_pylist(), strict=True))
        missing = {key: value for key, value in before.items() if rows.get(key) != value}
        assert not missing, f"{len(missing)} of {len(before)} acknowledged rows are missing: {missing}"


@dataclass
class GatewayFighter:
    """Inserts rows of its own until each is acknowledged."""

    gateway: EngineGateway
    keys: Iterator[int]
    acknowledged: Acknowledged
    refused: int = 0

    def step(self) -> None:
        key = next(self.keys)
        while True:
            try:
                self.gateway.write(f"INSERT INTO r VALUES ({key}, {key + 1})")
            except UnavailableError as error:
                if not has_written_nothing(error):
                    raise
                self.refused += 1
            else:
                self.acknowledged.add(key, key + 1)
                return


@dataclass
class RawFighter:
    """Claims the region with Lance's own writer, again and again."""

    process: WriterProcess
    table: Path
    region: str
    keys: Iterator[int]
    acknowledged: Acknowledged
    writer: RegionWriter | None = None

    def step(self) -> None:
        key = next(self.keys)
        while True:
            try:
                if self.writer is None:
                    self.writer = self.process.open(self.table, self.region)
                self.writer.append([{"k": key, "v": key + 1}])
            except WriteRefusedError as error:
                if not isinstance(error, FencedError) and "another writer claimed" not in str(error):
                    raise
                self.writer = None
            else:
                self.acknowledged.add(key, key + 1)
                return


def fight(root: Path, gateways: list[EngineGateway], writers: WriterProcess, **how: float) -> None:
    """Let four clients of two gateways and a writer fight for a region; a third gateway only reads."""
    table = create_registers(root, regions=1)
    gateways[0].write("INSERT INTO r VALUES (-1, 0)")
    (region,) = manifests.list_region_ids(table)
    acknowledged = Acknowledged()
    fighters = [
        GatewayFighter(gateways[number % 2], itertools.count(number * 1_000_000), acknowledged)
        for number in range(4)
    ]
    raw = RawFighter(writers, table, region, itertools.count(9_000_000), acknowledged)
    readers = itertools.cycle(gateways)
    with meanwhile(lambda: acknowledged.check(next(readers))):
        run_all([*(one.step for one in fighters), raw.step], **how)
    for gateway in gateways:
        acknowledged.check(gateway)
    done = [sum(key // 1_000_000 == number for key in acknowledged.rows) for number in (0, 1, 2, 3, 9)]
    assert all(done), f"some came to nothing: {done}"


@pytest.mark.slow
def test_nobody_loses_a_row_and_everybody_gets_on(
    root: Path, writers: WriterProcess, open_gateways: OpenGateways
):
    fight(root, open_gateways(3, FIGHTING), writers, rounds=10)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_long_fight(root: Path, writers: WriterProcess, open_gateways: OpenGateways):
    """``SOAK_SECONDS`` sets the time."""
    fight(root, open_gateways(3, FIGHTING), writers, seconds=float(os.environ.get("SOAK_SECONDS", "60")))
