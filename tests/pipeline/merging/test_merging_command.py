"""`lance-gateway pipeline merge`: what it prints, and what it says when it fails."""

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from lance_gateway.pipeline.cli import app
from tests.support.lake.merged import MergedTable
from tests.support.lake.tables import key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])


@pytest.fixture
def kept(root: Path, writers: WriterProcess) -> MergedTable:
    kept = MergedTable.create(root, writers, unpartitioned(("id",), 1), SCHEMA, [{"id": 1, "v": "base"}])
    kept.put({"id": 2, "v": "new"}, {"id": 3, "v": "new"})
    kept.delete({"id": 1})
    kept.flush()
    return kept


def run(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["merge", "--root", str(root), *arguments])


def test_a_line_says_what_was_done(root: Path, kept: MergedTable):
    first = run(root)
    assert first.exit_code == 0
    assert first.stdout.startswith("t: 2 rows upserted, 1 deleted: 1 generation of 1 region in 1 commit, ")
    kept.check()
    assert run(root).stdout == "t: nothing is pending\n"


@pytest.mark.usefixtures("kept")
def test_json_says_the_same(root: Path):
    facts = json.loads(run(root, "t", "--json").stdout)
    assert facts.pop("seconds") >= 0
    assert facts == {
        "table": "t",
        "regions": 1,
        "generations": 1,
        "commits": 1,
        "upserted": 2,
        "deleted": 1,
        "left": 0,
    }


@pytest.mark.parametrize(
    "arguments",
    [["--min-generations", "2"], ["--min-rows", "9"], ["--min-bytes", "1MiB"], ["--max-lag", "1h"]],
)
def test_a_table_may_be_left_alone(root: Path, kept: MergedTable, arguments: list[str]):
    version = kept.base().version
    assert run(root, *arguments).stdout == (
        "t: 1 generation pending, which is less than what was asked for\n"
    )
    assert kept.base().version == version


def test_a_file_may_say_when_to_merge_and_force_overrules_it(root: Path, kept: MergedTable):
    file = root / "gateway.toml"
    file.write_text(f"root = '{root}'\n[pipeline.merge]\nmin_generations = 2\nmax_lag = '1h'\n")
    command = ["merge", "--config", str(file)]
    assert "1 generation pending, which is less" in CliRunner().invoke(app, command).stdout
    assert "2 rows upserted" in CliRunner().invoke(app, [*command, "--force"]).stdout
    kept.check()


def test_tables_without_mem_wal_are_passed_over_unless_they_are_named(root: Path, kept: MergedTable):
    lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")
    found = run(root)
    assert (found.exit_code, found.stderr) == (0, "")
    kept.check()
    found = run(root, "plain")
    assert found.exit_code == 1
    assert found.stderr.startswith("error: table 'plain' has no MemWAL: ")
    assert found.stderr.count("\n") == 1


def test_a_table_that_fails_does_not_keep_the_others(root: Path, kept: MergedTable, writers: WriterProcess):
    path = root / "log.lance"
    lance.write_dataset(pa.table({"a": pa.array([], pa.int64())}), path).initialize_mem_wal()
    writer = writers.open(path, "00000000-0000-4000-8000-000000000001")
    writer.put([{"a": 1}])
    writer.close()
    (flushed,) = path.glob("_mem_wal/*/*_gen_*")
    shutil.rmtree(flushed)
    found = run(root)
    assert found.exit_code == 1
    assert found.stderr.startswith("error: table 'log': generation 1 of region 00000000-")
    kept.check()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "there is no table 'nowhere'"),
        (["--batch-rows", "0"], "[pipeline.merge]: batch_rows is 0, but must be 1 or more"),
        (["--region", "x"], "table 't' has no region 'x'; it has "),
    ],
)
@pytest.mark.usefixtures("kept")
def test_what_can_t_be_meant_is_one_line(root: Path, arguments: list[str], says: str):
    found = run(root, *arguments)
    assert found.exit_code == 1
    assert found.stderr.startswith(f"error: {says}")
    assert found.stderr.count("\n") == 1
