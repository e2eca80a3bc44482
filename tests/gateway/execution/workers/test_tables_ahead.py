"""Which tables a process opens ahead, and what it reads of them."""

import shutil
import threading
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.gateway.execution.workers.tables_ahead import MAX_TABLES, TablesAhead
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.tables.shared.recent_reads import RecentReads
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess


def create_tables(root: Path, count: int) -> list[str]:
    names = [f"t{number:02}" for number in range(count)]
    lance.write_dataset(pa.table({"v": range(1000)}), root / f"{names[0]}.lance")
    for name in names[1:]:
        shutil.copytree(root / f"{names[0]}.lance", root / f"{name}.lance")
    return names


def open_ahead(catalog: Catalog, reads: RecentReads, *, is_closed: bool = False) -> list[str]:
    closed = threading.Event()
    if is_closed:
        closed.set()
    opened = list(TablesAhead(catalog, reads, closed, QueryPlanner(catalog)).open())
    assert all(reason is None for _, reason in opened)
    return [name for name, _ in opened]


@pytest.mark.parametrize(
    ("count", "read", "opened"),
    [
        (3, (), ["t00", "t01", "t02"]),
        (3, ("t00", "t02"), ["t02", "t00", "t01"]),
        (3, ("dropped", "t01"), ["t01", "t00", "t02"]),
        (MAX_TABLES + 1, (), []),
        (MAX_TABLES + 1, ("t01", "t16"), ["t16", "t01"]),
    ],
)
def test_the_tables_that_were_read_last_come_first_and_others_of_a_small_root_follow(
    count: int, read: tuple[str, ...], opened: list[str], root: Path
) -> None:
    create_tables(root, count)
    catalog, reads = Catalog.open(str(root)), RecentReads(str(root), None)
    for name in read:
        reads.note(name, ("v",))
    assert open_ahead(catalog, reads) == opened
    assert [one.name for one in catalog.list_open_tables() if one.last_snapshot is not None] == opened
    catalog.close()


def test_no_more_tables_are_opened_than_allowed_and_none_once_the_process_stops(root: Path) -> None:
    names = create_tables(root, MAX_TABLES + 2)
    catalog, reads = Catalog.open(str(root)), RecentReads(str(root), None)
    for name in names:
        reads.note(name, None)
    assert open_ahead(catalog, reads, is_closed=True) == []
    assert open_ahead(catalog, reads) == names[: -MAX_TABLES - 1 : -1]
    catalog.close()


def test_columns_that_are_not_kept_are_not_read(root: Path) -> None:
    lance.write_dataset(pa.table({"v": range(300_000)}), root / "t00.lance")
    shutil.rmtree(root / "t00.lance" / "data")
    catalog, reads = Catalog.open(str(root)), RecentReads(str(root), None)
    reads.note("t00", ("gone", "v"))
    assert open_ahead(catalog, reads) == ["t00"]
    catalog.close()


class RecordingPlanner(QueryPlanner):
    """Remembers what it was asked to run."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self.statements: list[str] = []

    def execute(self, sql: str, *arguments: Any, **options: Any) -> pa.RecordBatchReader:
        self.statements.append(sql)
        return super().execute(sql, *arguments, **options)


def test_the_first_statement_needs_the_values_of_columns_whose_types_have_an_order(root: Path) -> None:
    columns = {"i": [3], "f": [0.5], "s": ["a"], "l": [[1]], "b": [b"x"], "z": [None]}
    lance.write_dataset(pa.table(columns), root / "t.lance")
    catalog, reads = Catalog.open(str(root)), RecentReads(str(root), None)
    reads.note("t", tuple(columns))
    planner = RecordingPlanner(catalog)
    assert list(TablesAhead(catalog, reads, threading.Event(), planner).open()) == [("t", None)]
    (statement,) = planner.statements
    for used in ("min(i)", "min(f)", "min(s)", "count(l)", "count(b)", "count(z)"):
        assert used in statement.replace('"', "")
    catalog.close()


def test_a_statement_tells_which_columns_it_scanned(root: Path, writers: WriterProcess) -> None:
    schema = pa.schema([key_field("id", pa.int64()), pa.field("a", pa.int64()), pa.field("b", pa.int64())])
    rows = pa.Table.from_pylist([{"id": one, "a": one, "b": one} for one in range(10)], schema=schema)
    LsmTable.create(root, "t", rows, bucketed("id", 1, recorded=True), writers)
    engine = QueryEngine(Catalog.open(str(root)))

    def find_columns(sql: str) -> set[str] | None:
        control = RunControl()
        engine.prepare(sql).execute(control=control).read_all()
        (read,) = control.reads
        return None if read.columns is None else set(read.columns)

    assert find_columns("SELECT a FROM t WHERE b > 3") == {"a", "b"}
    assert find_columns("SELECT a, count(*) FROM t GROUP BY a") == {"a"}
    assert find_columns("SELECT count(*) FROM t") == set()
    assert find_columns("SELECT a FROM t WHERE id = 3") is None
    assert find_columns("SELECT max(a) FROM t WHERE id IN (3, 4)") is None
    engine.close()
