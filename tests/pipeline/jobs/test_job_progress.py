"""Long jobs say how far they are: lines where there is no terminal, and `system.jobs` of all gateways."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.jobs import JobRecord, RunningJobs
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.pipeline.cli import app
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from lance_gateway.pipeline.jobs.progress import JobTracker, format_progress
from lance_gateway.pipeline.jobs.runners import Advance
from lance_gateway.pipeline.merging import merge
from tests.pipeline.scenario import built
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.writer_process import WriterProcess


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> LakeTable:
    built(root, writers)
    return Lake.open(str(root)).table("t")


def test_a_line_now_and_then_where_there_is_no_terminal(root: Path):
    lines: list[str] = []
    said = threading.Semaphore(0)

    def say(line: str) -> None:
        lines.append(line.rpartition(",")[0])
        said.release()

    running = RunningJobs(Storage.open(str(root)), tick_seconds=0.001)
    with (
        JobTracker(running, say, period_seconds=0).track("merge", TableName("t")) as show,
        show("merge t", 2000, "generation") as advance,
    ):
        assert said.acquire(timeout=60)
        advance(1999)
        while lines[-1] != "merge t: 1,999 of 2,000 generations":
            assert said.acquire(timeout=60)
    assert lines[0] == "merge t: 0 of 2,000 generations"


def test_totals_that_nobody_knows_are_left_out():
    record = JobRecord("1", "load", "t", "write rows", 1000, None, "row", 0.0, "", "", 1)
    assert format_progress(record) == "write rows: 1,000 rows"


def test_a_gateway_sees_a_merge_of_another_process_while_it_runs(table: LakeTable, root: Path):
    """The merge is held at its first step until the gateway has looked."""
    running = RunningJobs(Storage.open(str(root)), quiet_seconds=0, tick_seconds=0.001)
    gateway = EngineGateway(root)
    sql = "SELECT kind, table_name, phase, total, unit FROM system.jobs"
    seen: list[dict[str, object]] = []
    with JobTracker(running, lambda _line: None).track("merge", table.name) as show:

        @contextmanager
        def held(title: str, total: int, unit: str) -> Iterator[Advance]:
            with show(title, total, unit) as advance:
                while not seen:
                    seen.extend(gateway.read(sql).to_pylist())
                yield advance

        merge(table, progress=held)
    assert [(one["kind"], one["table_name"]) for one in seen] == [("merge", "t")]
    assert gateway.read(sql).num_rows == 0
    gateway.close()


@pytest.mark.usefixtures("table")
def test_tables_are_not_folded_in_a_pipe(root: Path):
    name = "a_table_with_quite_a_long_name_that_would_not_fit_into_eighty_columns_with_all_its_numbers"
    (root / "t.lance").rename(root / f"{name}.lance")
    shown = CliRunner().invoke(app, ["status", "--root", str(root), "--regions"])
    head, row, *_ = shown.stdout.splitlines()
    assert head.startswith("TABLE")
    assert head.rstrip().endswith("SNAPSHOT")
    assert row.startswith(f"{name} ")
