"""`lance-gateway pipeline ingest`, and the same by spark-submit."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from typer.testing import CliRunner, Result

from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.jobs import RunningJobs
from lance_gateway.pipeline.cli import app
from tests.support.lake.written import make_notes
from tests.support.processes.gateways import EngineGateway

CSV = "id,text,score\n1,one,0.5\n2,,\n3,three,1e3\n"
MAIN = Path(__file__).parents[3] / "pipeline" / "__main__.py"


@pytest.fixture
def gateway(root: Path) -> Iterator[EngineGateway]:
    make_notes(root, "notes", 2)
    found = EngineGateway(root)
    yield found
    found.close()


def run(root: Path, *options: object) -> Result:
    return CliRunner().invoke(app, ["ingest", "notes", "--root", str(root), *map(str, options)])


def failed(root: Path, *options: object) -> str:
    result = run(root, *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


def held(gateway: EngineGateway) -> list[tuple[object, ...]]:
    rows = gateway.read("SELECT id, text, score FROM notes ORDER BY id").to_pylist()
    return [tuple(row.values()) for row in rows]


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.soak
def test_files_of_several_kinds(root: Path, tmp_path: Path, gateway: EngineGateway):
    (tmp_path / "notes.csv").write_text(CSV)
    result = run(root, "--from", tmp_path / "notes.csv", "--format", "csv")
    assert (result.exit_code, result.stdout) == (0, "notes: 3 rows in 2 regions\n")
    assert held(gateway) == [(1, "one", 0.5), (2, None, None), (3, "three", 1000.0)]
    rows = [
        {"id": 1, "gone": True, "at": 1},
        {"id": 3, "text": "x", "at": 2},
        {"id": 3, "text": "y", "at": 3},
    ]
    (tmp_path / "notes.json").write_text("\n".join(map(json.dumps, rows)))
    options = ("--order-by", "at", "--deleted-column", "gone")
    result = run(root, "--from", tmp_path / "notes.json", "--format", "json", *options)
    assert (result.exit_code, result.stdout) == (0, "notes: 1 row, 1 deleted in 2 regions\n")
    assert held(gateway) == [(2, None, None), (3, "y", None)]
    pq.write_table(pa.table({"id": [4], "text": ["four"]}), tmp_path / "notes.parquet")
    assert run(root, "--from", tmp_path / "notes.parquet", "--no-flush").exit_code == 0
    assert held(gateway)[-1] == (4, "four", None)


@pytest.mark.soak
def test_by_spark_submit_what_comes_in_a_directory(root: Path, tmp_path: Path, gateway: EngineGateway):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(CSV)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    stream = ["--stream", "--checkpoint", str(tmp_path / "checkpoint"), "--trigger", "available-now"]
    command = [str(submit), "--master", "local[2,4]", str(MAIN), "ingest", "notes", "--root", str(root)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    jobs, shown = RunningJobs(Storage.open(str(root))), set()
    with subprocess.Popen(
        [*command, "--from", str(tmp_path / "in"), "--format", "csv", *stream],
        env=environment,
        cwd=tmp_path,  # The package is found where the script is.
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as done:
        while True:
            shown |= {(one.kind, one.table) for one in jobs.list_all()}
            with suppress(subprocess.TimeoutExpired):
                stdout, stderr = done.communicate(timeout=0.2)
                break
    assert (done.returncode, stdout) == (0, "notes: batch 0: 3 rows in 2 regions\n"), stderr[-3000:]
    assert shown == {("ingest", "notes")}, "a stream is in system.jobs while it runs"
    assert held(gateway) == [(1, "one", 0.5), (2, None, None), (3, "three", 1000.0)]


@pytest.mark.usefixtures("gateway")
def test_what_cannot_be_is_said_before_spark_starts(root: Path):
    assert failed(root, "--stream") == (
        "error: --stream needs --checkpoint DIR, where Spark keeps how far it is"
    )
    assert failed(root, "--checkpoint", "c") == (
        "error: --checkpoint and --trigger belong to a stream: give --stream too"
    )
    assert (
        failed(root, "--option", "header") == "error: --option 'header' is not a pair: write it as KEY=VALUE"
    )
    assert failed(root, "--tasks", 0) == "error: tasks is 0, but must be 1 or more"
    result = CliRunner().invoke(app, ["ingest", "note", "--root", str(root)])
    assert result.stderr == f"error: there is no table 'note' in {root}: did you mean 'notes'?\n"


@pytest.mark.usefixtures("spark", "gateway")
@pytest.mark.soak
def test_what_spark_cannot_read(root: Path, tmp_path: Path):
    assert (
        failed(root, "--from", tmp_path / "none") == f"error: there is nothing at '{tmp_path}/none' to read"
    )
    (tmp_path / "empty").mkdir()
    assert failed(root, "--from", tmp_path / "empty") == (
        f"error: no file in '{tmp_path}/empty' tells its columns: give --schema 'id BIGINT, ..'"
    )
    assert failed(root, "--from", tmp_path, "--format", "punchcards").startswith(
        "error: Spark knows no format 'punchcards': parquet, orc, csv and json need nothing, others a package"
    )
    assert failed(root, "--from", tmp_path, "--schema", "id WHAT").startswith("error: reading ")
