"""Tables that a gateway opens when it starts, before a statement asks for them."""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import adbc_driver_manager
import lance
import numpy as np
import pyarrow as pa
import pytest

from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.servers import GatewayProcess, fetch, open_connection
from tests.support.processes.writer_process import WriterProcess

pytestmark = pytest.mark.slow

ROWS = 300_000
FRESH = 30_000
SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
TOTALS = "SELECT count(*) AS n, sum(id) AS ids, sum(v) AS vs FROM t"
SHOWN = {"n": ROWS, "ids": ROWS * (ROWS - 1) // 2, "vs": ROWS - FRESH}
OPENED = "were opened ahead"


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> LsmTable:
    """A table of which a part is superseded by rows of a generation."""
    rows = pa.table({"id": np.arange(ROWS), "v": np.ones(ROWS, np.int64)}, schema=SCHEMA)
    made = LsmTable.create(root, "t", rows, bucketed("id", 1, recorded=True), writers)
    made.put([{"id": key, "v": 0} for key in range(0, 2 * FRESH, 2)])
    made.close_writers()
    return made


@pytest.fixture
def start(root: Path, tmp_path: Path, serve: Callable[..., GatewayProcess]) -> Callable[..., GatewayProcess]:
    def start(**settings: Any) -> GatewayProcess:
        settings = {"cache.directory": tmp_path / "shared", "server.workers": 2, **settings}
        return serve(root, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")))

    return start


def ask(gateway: GatewayProcess) -> dict[str, int]:
    with open_connection(gateway.uri) as connection:
        (row,) = fetch(connection, TOTALS).to_pylist()
        return dict(row)


def ask_at_once(gateway: GatewayProcess) -> list[dict[str, int]]:
    """Let several clients ask at the same time, so that every worker is asked."""
    with ThreadPoolExecutor(4) as clients:
        return list(clients.map(lambda _: ask(gateway), range(12)))


def await_opened(gateway: GatewayProcess) -> None:
    while OPENED not in gateway.log:
        pass


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.soak), 2])
@pytest.mark.soak
def test_the_first_statement_after_a_restart_opens_nothing(
    workers: int, table: LsmTable, start: Callable[..., GatewayProcess]
) -> None:
    before = start(**{"server.workers": workers})
    for _ in range(3):  # Columns that are read once are not kept.
        assert ask_at_once(before) == [SHOWN] * 12
    before.stop()
    again = start(**{"server.workers": workers})
    plain = start(**{"server.workers": workers, "cache.open_ahead": "false"})
    await_opened(again)
    lose_files(table)
    assert ask_at_once(again) == [SHOWN] * 12
    with pytest.raises(adbc_driver_manager.Error):
        ask(plain)
    assert OPENED not in plain.log


def lose_files(table: LsmTable) -> None:
    """Remove all that a statement needs to open the table, but not what tells that nothing has changed."""
    path = Path(table.path)
    shutil.rmtree(path / "data")
    generations = list(path.glob("_mem_wal/*/*_gen_*"))
    assert generations
    for generation in generations:
        shutil.rmtree(generation)


def test_tables_that_cannot_be_opened_keep_no_gateway_from_starting(
    root: Path, start: Callable[..., GatewayProcess]
) -> None:
    for name in ("broken", "hanging", "sound"):
        lance.write_dataset(pa.table({"v": [1, 2]}), root / f"{name}.lance")
    for manifest in (root / "broken.lance" / "_versions").iterdir():
        manifest.write_bytes(b"nothing that Lance has written")
    (manifest,) = (root / "hanging.lance" / "_versions").glob("*.manifest")
    manifest.unlink()
    os.mkfifo(manifest)  # Who opens it waits for somebody to write.
    gateway = start()
    with open_connection(gateway.uri) as connection:
        assert fetch(connection, "SELECT sum(v) AS s FROM sound").to_pylist() == [{"s": 3}]
    while "can't be opened ahead" not in gateway.log:
        pass
    (line,) = [line for line in gateway.log.splitlines() if "broken" in line]
    assert "WARNING" in line
    assert "table 'broken' can't be opened ahead: " in line
    assert "Traceback" not in gateway.log
    assert OPENED not in gateway.log, "one table is being opened still"
