"""Nobody sees half of what a statement does in one region, and no increment is lost."""

import functools
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import UnavailableError
from tests.fights.registers import create_registers, meanwhile, run_all
from tests.fights.test_linearizable import Disturber
from tests.support.processes.gateways import EngineGateway, has_written_nothing

OpenGateways = Callable[..., list[EngineGateway]]
TOGETHER = range(5)
CLIENTS, ROUNDS = 4, 8


def _written(gateway: EngineGateway, sql: str) -> int:
    """Until it is done."""
    while True:
        try:
            return gateway.write(sql)
        except UnavailableError as error:
            if not has_written_nothing(error):
                raise


class Watcher:
    """Reads rows that are always changed together; what it sees never goes back."""

    def __init__(self, gateway: EngineGateway, consistency: str = "strong") -> None:
        self.gateway = gateway
        self.consistency = consistency
        self.last = 0

    def step(self) -> None:
        rows = self.gateway.read("SELECT k, v FROM r", self.consistency)
        values = set(rows["v"].to_pylist())
        assert rows.num_rows == len(TOGETHER) or (not values and self.consistency != "strong"), (
            rows.to_pylist()
        )
        assert len(values) <= 1, f"half of a statement at {self.consistency}: {rows.to_pylist()}"
        value = max(values, default=0)
        assert value >= self.last, f"{self.last} was there, and now it is {value} at {self.consistency}"
        self.last = value


@pytest.mark.slow
def test_increments_of_rows_that_stay_equal(root: Path, open_gateways: OpenGateways):
    """By two gateways, through flushes and merges; watched at every level."""
    table = create_registers(root, regions=1)
    gateways = open_gateways(3)
    rows = ", ".join(f"({key}, 0)" for key in TOGETHER)
    gateways[0].write(f"INSERT INTO r VALUES {rows}")

    def increment(gateway: EngineGateway) -> None:
        assert _written(gateway, "UPDATE r SET v = v + 1") == len(TOGETHER)

    watchers = [
        Watcher(gateway, level) for gateway in gateways for level in ("strong", "flushed", "snapshot")
    ]
    looks = itertools.cycle(watchers)
    clients = [gateways[number % 2] for number in range(CLIENTS)]
    with meanwhile(Disturber(table, gateways[:2], seed=5).step), meanwhile(lambda: next(looks).step()):
        run_all([functools.partial(increment, one) for one in clients], rounds=ROUNDS)
    for watcher in watchers:
        watcher.step()
        assert watcher.last == CLIENTS * ROUNDS or watcher.consistency != "strong", "increments were lost"
