"""Random histories while workers are killed: every answer is that of a dict of the acknowledged writes."""

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import adbc_driver_manager
import psutil
import pytest

from tests.support.processes.servers import GatewayProcess, open_connection

KEYS = range(200)
NEWER = "ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n"


class Killer(threading.Thread):
    """Kills a worker of a gateway now and then."""

    def __init__(self, gateway: GatewayProcess, seed: int) -> None:
        super().__init__(daemon=True)
        self._front = psutil.Process(gateway.pid)
        self._random = random.Random(seed)
        self._stopped = threading.Event()
        self.kills = 0

    def run(self) -> None:
        while not self._stopped.wait(self._random.uniform(0.2, 2.0)):
            # The one that workers are forked from is the parent of all of them.
            workers = [grandchild for child in self._front.children() for grandchild in child.children()]
            if workers:
                os.kill(self._random.choice(workers).pid, signal.SIGKILL)
                self.kills += 1

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def change(cursor: Any, rows: dict[int, int], randomly: random.Random) -> None:
    """Changes rows by a random statement, and the dict alike."""
    key, value = randomly.choice(KEYS), randomly.randrange(1000)
    match randomly.randrange(5):
        case 0:
            cursor.execute(
                f"INSERT INTO t VALUES ({key}, {value}) ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n"
            )
            rows[key] = value
        case 1:
            cursor.execute(f"UPDATE t SET n = n + 1 WHERE n % 7 = {value % 7}")
            rows.update({one: n + 1 for one, n in rows.items() if n % 7 == value % 7})
        case 2:
            cursor.execute(f"DELETE FROM t WHERE id = {key}")
            rows.pop(key, None)
        case 3:
            cursor.execute(
                f"INSERT INTO t SELECT value, value * 2 FROM generate_series({key}, {key + 5}) {NEWER}"
            )
            rows.update({one: one * 2 for one in range(key, key + 6)})
        case 4:
            cursor.execute(f"UPDATE t SET n = length(repeat('x', {value})) WHERE id = {key}")
            if key in rows:
                rows[key] = value


def fetch(cursor: Any, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a query, sent again as long as the gateway says that this may help."""
    while True:
        with suppress(adbc_driver_manager.OperationalError, OSError):
            cursor.execute(statement)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows


def check(cursor: Any, rows: dict[int, int]) -> None:
    """Compares some answers with the dict."""
    assert dict(fetch(cursor, "SELECT id, n FROM t ORDER BY id")) == rows
    groups: dict[int, tuple[int, int]] = {}
    for n in rows.values():
        count, total = groups.get(n % 5, (0, 0))
        groups[n % 5] = count + 1, total + n
    found = fetch(cursor, "SELECT n % 5, count(*), sum(n) FROM t GROUP BY 1")
    assert {group: (count, total) for group, count, total in found} == groups


def follow_history(root: Path, steps: int, seed: int) -> int:
    """Runs a history; returns how many workers were killed."""
    randomly, rows = random.Random(seed), dict[int, int]()
    gateway = GatewayProcess(root, "--set", "server.workers=2")
    killer = Killer(gateway, seed)
    try:
        with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
            killer.start()
            for _ in range(steps):
                # What a write reads may be lost with its worker, before anything is written.
                with suppress(adbc_driver_manager.OperationalError):
                    change(cursor, after := dict(rows), randomly)
                    rows = after
                check(cursor, rows)
        assert psutil.pid_exists(gateway.pid)
    finally:
        killer.stop()
        gateway.stop()
    return killer.kills


@pytest.mark.slow
@pytest.mark.soak
def test_answers_stay_right_and_nothing_is_lost(tmp_path: Path) -> None:
    assert follow_history(tmp_path, 60, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_long_histories(tmp_path: Path, seed: int) -> None:
    assert follow_history(tmp_path, 2000, seed=seed) > 50


@pytest.mark.slow
@pytest.mark.soak
def test_what_workers_are_forked_from_is_started_again(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "--set", "server.workers=1") as gateway:
        front = psutil.Process(gateway.pid)
        with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
            for number in range(2):
                (template,) = front.children()
                (worker,) = template.children()
                template.kill()
                worker.kill()
                worker.wait()
                assert fetch(cursor, f"SELECT sum(value) + {number} FROM generate_series(1, 10)") == [
                    (55 + number,)
                ]
                assert template.pid not in [one.pid for one in front.children()]
        assert "starting another one" in gateway.log
