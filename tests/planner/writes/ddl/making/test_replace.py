"""CREATE OR REPLACE TABLE: there is one of both tables at every moment, and a whole one."""

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.local import LocalBackend
from lance_gateway.planner.scans.settings import NO_SHORTCUTS
from lance_gateway.planner.tables.local.scratch import SCRATCH, Scratch, sweep_scratch

Sql = Any
REPLACE = (
    "CREATE OR REPLACE TABLE t (PRIMARY KEY (id)) AS "
    "SELECT value AS id, {} AS n FROM generate_series(1, 3000) AS s(value)"
)


@pytest.mark.slow
@pytest.mark.parametrize("shortcuts", [{}, {"shortcuts": NO_SHORTCUTS}], ids=["kept", "not kept"])
def test_readers_find_the_old_table_or_the_new_one(
    root: Path, open_gateway: Callable[..., Sql], shortcuts: Any
) -> None:
    first, second = open_gateway(root), open_gateway(root)
    first(REPLACE.format(0))
    stops = threading.Event()

    def read(gateway: Sql) -> set[Any]:
        seen = set()
        while not stops.is_set():
            seen.update(gateway("SELECT count(*), max(n) - min(n) FROM t WHERE n >= 0", **shortcuts))
        return seen

    with ThreadPoolExecutor(2) as pool:
        reads = [pool.submit(read, gateway) for gateway in (first, second)]
        try:
            for number in range(1, 13):
                first(REPLACE.format(number))
        finally:
            stops.set()
    assert [one.result() for one in reads] == [{(3000, 0)}, {(3000, 0)}]
    assert second("SELECT max(n) FROM t") == [(12,)]


def test_writers_of_the_old_table_write_to_the_new_one(root: Path, open_gateway: Callable[..., Sql]) -> None:
    first, second = open_gateway(root), open_gateway(root)
    first(REPLACE.format(1))
    for gateway, key in ((first, 1), (second, 2)):
        gateway(f"INSERT INTO t VALUES ({key}, 100)")  # holds the region
    first("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, s TEXT)")
    assert second("SELECT * FROM t") == []
    second("INSERT INTO t VALUES (1, 'a')")
    first("INSERT INTO t VALUES (2, 'b')")
    assert (
        first("SELECT * FROM t ORDER BY id") == second("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b")]
    )


def test_nothing_is_left_of_either_table(sql: Sql, root: Path) -> None:
    sql(REPLACE.format(1))
    sql(REPLACE.format(2))
    assert len(list((root / "t.lance" / "data").iterdir())) == 1
    with pytest.raises(Exception, match="key of another one"):
        sql("CREATE OR REPLACE TABLE t (PRIMARY KEY (a)) AS SELECT 1 AS a UNION ALL SELECT 1")
    sql.engine.close()
    assert [path.name for path in root.iterdir()] == ["t.lance"]


def test_where_directories_can_not_be_exchanged_the_old_table_goes_first(
    sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(REPLACE.format(1))
    monkeypatch.setattr(LocalBackend, "exchange", lambda *_: False)
    assert sql(REPLACE.format(2)) == 3000
    assert sql("SELECT min(n), max(n) FROM t") == [(2, 2)]


def test_a_table_that_is_dropped_meanwhile_is_made(
    sql: Sql, open_gateway: Callable[..., Sql], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(REPLACE.format(1))
    other, exchange = open_gateway(sql.root), LocalBackend.exchange

    def drop_and_exchange(backend: LocalBackend, path: str, target: str) -> bool:
        monkeypatch.undo()
        other("DROP TABLE t")
        return exchange(backend, path, target)

    monkeypatch.setattr(LocalBackend, "exchange", drop_and_exchange)
    sql(REPLACE.format(2))
    assert sql("SELECT min(n), max(n) FROM t") == other("SELECT min(n), max(n) FROM t") == [(2, 2)]


@pytest.mark.slow
def test_what_a_killed_gateway_left_is_removed_by_the_next_one(root: Path) -> None:
    script = (
        "import os, sys; from lance_gateway.memwal.storage.files import Storage; "
        "from lance_gateway.planner.tables.local.scratch import Scratch; "
        "made = Scratch(Storage.open(sys.argv[1])).create(); made.put('x', b'x'); "
        "print(made.root, flush=True); os._exit(9)"
    )
    ended = subprocess.run([sys.executable, "-c", script, root], capture_output=True, text=True, check=False)
    left = Path(ended.stdout.strip())
    living = Scratch(Storage.open(str(root)))
    living.create().put("y", b"y")
    assert (left / "x").exists()
    sweep_scratch(Storage.open(str(root)))
    assert not left.exists()
    assert [path.name for path in (root / SCRATCH).rglob("y")] == ["y"]
    living.close()
    assert list(root.iterdir()) == []
