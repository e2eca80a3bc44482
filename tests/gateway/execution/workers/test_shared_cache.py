"""What workers keep together: read once for all of them, and there after any of them has ended, or all."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import psutil
import pyarrow as pa
import pytest

from lance_gateway.planner.tables.shared.files import SharedFiles, Totals
from tests.support.lake.hand_made import make_table
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.servers import GatewayProcess, open_connection
from tests.support.processes.writer_process import WriterProcess

pytestmark = pytest.mark.slow

ROWS = 200_000
FRESH = 30_000
SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
TOTALS = "SELECT count(*), sum(id), sum(v) FROM t"
SHOWN = [(ROWS, ROWS * (ROWS - 1) // 2, ROWS - FRESH)]
BUDGET = 32 << 20
MASKED = 8
"""Chunks of both columns that a mask shows; they are in no file at first."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> LsmTable:
    """A table of which a part is superseded by rows of a generation."""
    rows = pa.table({"id": np.arange(ROWS), "v": np.ones(ROWS, np.int64)}, schema=SCHEMA)
    made = LsmTable.create(root, "t", rows, bucketed("id", 1, recorded=True), writers)
    made.put([{"id": key, "v": 0} for key in range(0, 2 * FRESH, 2)])
    made.close_writers()
    return made


@pytest.fixture
def open_gateway(
    root: Path, place: Path, serve: Callable[..., GatewayProcess]
) -> Callable[..., GatewayProcess]:
    def start(workers: int = 2) -> GatewayProcess:
        settings = {"server.workers": workers, "cache.directory": place, "cache.shared_bytes": BUDGET}
        return serve(root, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")))

    return start


@pytest.fixture
def read_totals(place: Path) -> Iterator[Callable[[], Totals]]:
    """Returns what all processes have done so far, once they have told it."""
    files: list[SharedFiles] = []

    def read() -> Totals:
        if not files:
            files.append(SharedFiles(place, BUDGET))
        return files[0].read_totals()

    yield read
    for one in files:
        one.close()


def ask(gateway: GatewayProcess, sql: str = TOTALS) -> list[tuple[Any, ...]]:
    with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def find_workers(gateway: GatewayProcess) -> set[int]:
    return {pid for (pid,) in ask(gateway, "SELECT pid FROM system.workers WHERE state = 'ready'")}


def ask_all(gateway: GatewayProcess, is_enough: Callable[[], bool]) -> None:
    """Let several clients ask at the same time, so that every worker is asked, until it is enough."""
    with ThreadPoolExecutor(4) as clients:
        while not is_enough():
            for rows in clients.map(lambda _: ask(gateway), range(8)):
                assert rows == SHOWN


def list_files(place: Path) -> dict[str, int]:
    others = ("state", "note-")
    return {one.name: one.stat().st_ino for one in place.iterdir() if not one.name.startswith(others)}


def count_mapped(pid: int, place: Path) -> int:
    """How many of the files a process has mapped."""
    try:
        maps = psutil.Process(pid).memory_maps(grouped=False)
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return 0  # It was killed, and not waited for yet.
    return len({one.path for one in maps if str(place) in one.path})


@pytest.mark.usefixtures("table")
@pytest.mark.soak
def test_two_workers_hold_columns_and_masks_once(
    place: Path, open_gateway: Callable[..., GatewayProcess]
) -> None:
    gateway = open_gateway()
    while len(workers := find_workers(gateway)) < 2:
        pass
    ask_all(gateway, lambda: all(count_mapped(pid, place) >= 8 for pid in workers))
    files = list_files(place)
    ask_all(gateway, lambda: True)
    assert ask(gateway) == SHOWN
    assert list_files(place) == files, "neither worker writes what is there"


@pytest.mark.soak
@pytest.mark.usefixtures("table")
def test_a_worker_that_takes_the_place_of_a_killed_one_is_warm(
    place: Path, open_gateway: Callable[..., GatewayProcess], read_totals: Callable[[], Totals]
) -> None:
    gateway = open_gateway(1)
    (worker,) = find_workers(gateway)
    ask_all(gateway, lambda: count_mapped(worker, place) >= 8)
    before = await_quiet(read_totals, lambda one: one.misses > 0)
    files = list_files(place)
    os.kill(worker, signal.SIGKILL)
    while not find_workers(gateway) - {worker}:
        pass
    assert ask(gateway) == SHOWN
    after = await_quiet(read_totals, lambda one: one.hits > before.hits)
    assert after.misses - before.misses <= MASKED
    assert list_files(place) == files
    assert any(count_mapped(pid, place) >= 8 for pid in find_workers(gateway))


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.soak), 2])
@pytest.mark.usefixtures("table")
def test_a_gateway_that_was_started_again_is_warm(
    workers: int, place: Path, open_gateway: Callable[..., GatewayProcess], read_totals: Callable[[], Totals]
) -> None:
    gateway = open_gateway(workers)
    pids = find_workers(gateway) if workers else {gateway.pid}
    ask_all(gateway, lambda: any(count_mapped(pid, place) >= 8 for pid in pids))
    gateway.stop()
    files, before = list_files(place), read_totals()
    gateway = open_gateway(workers)
    assert ask(gateway) == SHOWN
    after = await_quiet(read_totals, lambda one: one.hits > before.hits)
    assert after.misses - before.misses <= MASKED
    assert list_files(place) == files


def await_quiet(read_totals: Callable[[], Totals], is_enough: Callable[[Totals], bool]) -> Totals:
    """Return the totals when they are as expected and two seconds have brought nothing new."""
    known, since = read_totals(), time.monotonic()
    while not is_enough(known) or time.monotonic() - since < 2:
        found = read_totals()
        if found != known:
            known, since = found, time.monotonic()
    return known


@pytest.mark.soak
def test_a_table_made_anew_with_the_same_files_shows_its_own_rows(
    root: Path, open_gateway: Callable[..., GatewayProcess]
) -> None:
    path, gateway = root / "t.lance", open_gateway()
    for value in range(3):
        shutil.rmtree(path, ignore_errors=True)
        make_table(path, pa.table({"id": np.arange(ROWS), "v": np.full(ROWS, value)}, schema=SCHEMA))
        for _ in range(4):
            assert ask(gateway) == [(ROWS, ROWS * (ROWS - 1) // 2, value * ROWS)]
        other = open_gateway()
        for one in (gateway, other, other, gateway):
            assert ask(one) == [(ROWS, ROWS * (ROWS - 1) // 2, value * ROWS)]
        other.stop()


@pytest.mark.soak
def test_writes_of_the_gateway_itself_are_seen_by_all_workers(
    table: LsmTable, open_gateway: Callable[..., GatewayProcess]
) -> None:
    gateway = open_gateway()
    total = ROWS - FRESH
    for key in (1, 3, 5):
        ask_all(gateway, lambda: True)
        with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
            cursor.execute(f"UPDATE t SET v = 1000 WHERE id = {key}")
        total += 999
        expected = [(SHOWN[0][0], SHOWN[0][1], total)]
        with ThreadPoolExecutor(4) as clients:
            assert all(rows == expected for rows in clients.map(lambda _: ask(gateway), range(8)))
        with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
            cursor.execute(f"UPDATE t SET v = 1 WHERE id = {key}")
        total -= 999
    assert lance.dataset(table.path).count_rows() == ROWS


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("config", "check")], ids=" ".join)
def test_a_directory_that_others_may_enter_is_refused(
    command: tuple[str, ...], root: Path, place: Path
) -> None:
    place.mkdir()
    place.chmod(0o755)
    program = str(Path(sys.executable).with_name("lance-gateway"))
    run = subprocess.run(
        [program, *command, "--root", str(root), "--set", f"cache.directory={place}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode != 0
    assert "others may enter it (mode 755)" in run.stderr + run.stdout
    assert "Traceback" not in run.stderr
    assert not list(place.iterdir())


def test_it_can_be_switched_off(root: Path, serve: Callable[..., GatewayProcess], tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": np.arange(ROWS), "v": np.ones(ROWS, np.int64)}), root / "t.lance")
    gateway = serve(root, "--set", "cache.directory=none", "--set", "server.workers=1")
    for _ in range(3):
        assert ask(gateway) == [(ROWS, ROWS * (ROWS - 1) // 2, ROWS)]
    (worker,) = find_workers(gateway)
    assert not count_mapped(worker, Path("lance-gateway"))
    assert not count_mapped(worker, tmp_path / "shared")
