"""Statements that would end or occupy a process, sent over and over by users without any grant."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import adbc_driver_manager
import psutil
import pytest

from benchmarks.servers.attacks import ATTACKS
from tests.support.processes.servers import GatewayProcess, open_connection


class Attacker(threading.Thread):
    """Sends the attacks, one after the other."""

    def __init__(self, uri: str, rounds: int) -> None:
        super().__init__(daemon=True)
        self._uri = uri
        self._rounds = rounds
        self.answers = 0

    def run(self) -> None:
        for _ in range(self._rounds):
            for attack in ATTACKS:
                with open_connection(self._uri) as connection, connection.cursor() as cursor:
                    with suppress(adbc_driver_manager.Error, OSError):
                        cursor.execute(attack)
                        cursor.fetchall()
                    self.answers += 1


@pytest.fixture
def gateway(lake: Path) -> Iterator[GatewayProcess]:
    server = GatewayProcess(
        lake,
        *("--set", "server.workers=2"),
        *("--set", "limits.worker_memory_bytes=1GiB"),
        *("--set", "limits.query_timeout=1s"),
    )
    yield server
    server.stop()


def look_up(cursor: Any, seconds: list[float]) -> None:
    """Looks up a key, and adds how long that took."""
    began = time.perf_counter()
    cursor.execute("SELECT customer FROM orders WHERE id = 8")
    assert cursor.fetchall() == [("customer 1",)]
    seconds.append(time.perf_counter() - began)


@pytest.mark.slow
@pytest.mark.soak
def test_others_are_served_all_the_time(gateway: GatewayProcess) -> None:
    attacker, seconds = Attacker(gateway.uri, 1), list[float]()
    with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
        attacker.start()
        while attacker.is_alive():
            look_up(cursor, seconds)
        cursor.execute("SELECT count(*) FROM orders")
        assert cursor.fetchall() == [(1000,)]
    assert attacker.answers == len(ATTACKS)
    assert psutil.pid_exists(gateway.pid)
