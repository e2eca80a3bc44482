"""Jobs on a standalone cluster whose processes are killed: every acknowledged row is there, once."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.spark.archive import pack
from tests.pipeline.scenario import Scenario, built, shown
from tests.pipeline.spark.cluster import SparkCluster
from tests.support.processes.writer_process import WriterProcess

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

ROWS = {key: f"new {key}" for key in range(2_000)}
"""What ingestion and streams bring."""
Victim = Literal["executor", "worker", "driver"]
Moment = Literal["started", "written"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    if shutil.which("java") is None and os.environ.get("CI") != "true":
        pytest.skip("a cluster of Spark needs java")
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Scenario:
    return built(tmp_path_factory.mktemp("scenario"), shared_writers)


@dataclass
class Killer:
    """Kills one process of a job once: when an executor runs its Python, or when the table's files change."""

    cluster: SparkCluster
    table: Path
    victim: Victim
    moment: Moment
    has_killed: bool = False

    def __post_init__(self) -> None:
        self._before = self._files()

    def __call__(self, driver: psutil.Process) -> bool:
        executors = self.cluster.busy_executors()
        if not executors or (self.moment == "written" and self._files() == self._before):
            return False
        if self.victim == "executor":
            executors[0].kill()
        elif self.victim == "worker":
            self.cluster.kill_worker()
        else:
            driver.kill()
        self.has_killed = True
        return True

    def _files(self) -> frozenset[Path]:
        return frozenset(self.table.rglob("*"))


@dataclass(frozen=True)
class Job:
    """A command.

    Attributes:
        arguments: of it, after --root.
        brings: rows that are there after it, beside those that were.
        prepare: called with the table and a folder for files, before.
    """

    arguments: Callable[[Path], list[str]]
    brings: bool = False
    prepare: Callable[[LakeTable, Path], object] = lambda *_: None


def write_parquet(_table: LakeTable, folder: Path) -> None:
    pq.write_table(pa.table({"id": list(ROWS), "v": list(ROWS.values())}), folder / "rows.parquet")


def write_json(_table: LakeTable, folder: Path) -> None:
    (folder / "rows").mkdir()
    lines = [json.dumps({"id": key, "v": value}) for key, value in ROWS.items()]
    for number in range(4):
        (folder / "rows" / f"{number}.json").write_text("\n".join(lines[number::4]))


JOBS = {
    "ingest": Job(
        lambda folder: ["ingest", "t", "--from", str(folder / "rows.parquet")], True, write_parquet
    ),
    "stream": Job(
        lambda folder: [
            *("ingest", "t", "--from", str(folder / "rows"), "--format", "json", "--stream"),
            *("--option", "maxFilesPerTrigger=1", "--trigger", "available-now"),
            *("--checkpoint", str(folder / "checkpoint")),
        ],
        True,
        write_json,
    ),
    "merge": Job(lambda _: ["merge", "t"]),
    "index": Job(
        lambda _: ["index", "t", "--build", "v:BTREE", "--segment-rows", "2", "--replace"],
        prepare=lambda table, _: merge(table),
    ),
    "clean": Job(
        lambda _: ["clean", "t", "--delete", "--grace", "0s", "--older-than", "0s", "--retain-versions", "1"],
        prepare=lambda table, _: merge(table),
    ),
    "snapshot": Job(lambda _: ["snapshot", "t"]),
}


def run_and_kill(
    cluster: SparkCluster, scenario: Scenario, folder: Path, job: Job, victim: Victim, moment: Moment
) -> None:
    (folder / "root").mkdir()
    table = scenario.copied(folder / "root")
    job.prepare(table, folder)
    command = [*job.arguments(folder), "--root", str(folder / "root")]
    killer = Killer(cluster, Path(table.uri), victim, moment)
    ended = cluster.run(command, killer)
    assert killer.has_killed or moment == "written", "the job ended before anything could be killed"
    if killer.has_killed and victim == "driver":
        assert ended.status != 0
        assert shown(table).keys() >= scenario.rows.keys(), "a job that dies takes no row away"
        ended = cluster.run(command)
    assert ended.status == 0, ended.stderr
    assert shown(table) == (scenario.rows | ROWS if job.brings else scenario.rows)


def test_an_executor_dies_while_rows_are_written(cluster: SparkCluster, scenario: Scenario, tmp_path: Path):
    run_and_kill(cluster, scenario, tmp_path, JOBS["ingest"], "executor", "written")


@pytest.mark.parametrize("moment", ["started", "written"])
@pytest.mark.parametrize("victim", ["executor", "worker", "driver"])
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_whatever_dies_every_row_is_there_once(
    cluster: SparkCluster, scenario: Scenario, tmp_path: Path, job: Job, victim: Victim, moment: Moment
):
    run_and_kill(cluster, scenario, tmp_path, job, victim, moment)


def test_executors_take_their_python_from_an_archive(
    cluster: SparkCluster, scenario: Scenario, tmp_path: Path
):
    """Named instead of a Python that is not there, of which the job says what to do."""
    (tmp_path / "root").mkdir()
    table = scenario.copied(tmp_path / "root")
    command = ["merge", "t", "--root", str(tmp_path / "root")]
    refused = cluster.run(command, PYSPARK_PYTHON="/no/such/python")
    assert refused.status == 1
    assert (
        "Spark executors can't start Python '/no/such/python': name in PYSPARK_PYTHON one" in refused.stderr
    )
    assert "lance-gateway pipeline archive FILE, then --archive FILE" in refused.stderr
    archive = pack(tmp_path / "python.tar.gz").path
    ended = cluster.run([*command, "--archive", str(archive)])
    assert ended.status == 0, ended.stderr
    assert shown(table) == scenario.rows
