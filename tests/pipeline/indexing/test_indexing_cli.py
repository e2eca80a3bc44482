"""`lance-gateway pipeline index`."""

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from lance_gateway.gateway.cli import app
from tests.pipeline.indexed_table import IndexedTable
from tests.support.lake.written import make_notes
from tests.support.processes.writer_process import WriterProcess


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> IndexedTable:
    table = IndexedTable(root, writers)
    table.turn(range(150, 260), 1)
    return table


def index(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "index", "--root", str(root), *arguments])


@pytest.mark.slow
def test_upkeep_is_told_and_then_there_is_nothing_to_do(root: Path, table: IndexedTable):
    told = index(root, "docs", "--no-compact")
    assert told.exit_code == 0, told.output
    lines = told.stdout.splitlines()
    assert lines[0] == f"docs: now at version {table.state().version}"
    assert "  because index 'n_index': 110 rows in 2 fragments are not in it" in lines[1]
    assert lines[-1] == "  up to date: n_index, txt_index, vec_index"
    assert index(root, "--no-compact").stdout == "docs: nothing to do\n"


@pytest.mark.slow
def test_small_files_are_put_together_unless_told_otherwise(root: Path, table: IndexedTable):
    assert "put together" not in index(root, "--max-spare-fragments", "1", "--no-compact").stdout
    assert "put together: 3 fragments became 1" in index(root, "--max-spare-fragments", "1").stdout
    assert len(table.state().fragments) == 1


@pytest.mark.slow
def test_deleted_rows_stay_where_they_are_when_told(root: Path, table: IndexedTable):
    table.turn(range(0), 1, deleted=range(100))
    assert "put together" not in index(root, "--materialize-deletions", "1").stdout
    assert "rows of 1 fragment are deleted" in index(root, "--materialize-deletions", "0.4").stdout


@pytest.mark.slow
def test_reports_as_json(root: Path, table: IndexedTable):
    report = json.loads(index(root, "--json").stdout)
    assert report["table"] == "docs"
    assert report["optimised"] == ["n_index", "txt_index", "vec_index"]
    assert report["version"] == table.state().version


@pytest.mark.slow
@pytest.mark.usefixtures("table")
def test_indexes_are_built(root: Path):
    told = index(root, "docs", "--build", "id:BTREE", "--build", "n:bitmap:n_bits")
    assert told.exit_code == 0, told.output
    assert "docs: index id_idx covers 260 rows, from one segment" in told.stdout
    assert "docs: index n_bits covers 260 rows" in told.stdout
    again = index(root, "docs", "--build", "id:BTREE")
    assert again.exit_code == 1
    assert again.stderr.startswith("error: table 'docs' has an index 'id_idx' already")
    told = index(root, "docs", "--build", "id:BTREE", "--replace", "--segment-rows", "100")
    assert "covers 260 rows, from 2 segments side by side" in told.stdout


@pytest.mark.slow
def test_parameters_of_what_is_built(root: Path, table: IndexedTable):
    build = ("docs", "--build", "vec:IVF_FLAT:other")
    told = index(root, *build, "--parameter", "metric=cosine", "--parameter", "num_partitions=3")
    assert told.exit_code == 0, told.output
    (found,) = (one for one in table.table.dataset().describe_indices() if one.name == "other")
    assert found.details["metric_type"] == "COSINE"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope",), "error: there is no table 'nope'"),
        (("--build", "id"), "error: 'id' is not an index: write it as COLUMN:TYPE"),
        (("--build", "id:BTREE", "--parameter", "x"), "error: --parameter 'x' is not a pair"),
        (("--target-rows", "0"), "error: target_rows is 0, but must be 1 or more"),
        (("--build", "id:BTREE"), "error: --build id:BTREE: name the table that it is of"),
        (("docs", "--build", "txt:INVERTED"), "error: table 'docs' has no column 'txt': did you mean text?"),
    ],
)
def test_what_goes_wrong_is_one_line(root: Path, arguments: tuple[str, ...], message: str):
    make_notes(root, "docs")
    told = index(root, *arguments)
    assert told.exit_code == 1
    assert told.stderr.startswith(message)
    assert len(told.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_table_that_fails_does_not_keep_others_from_their_turn(root: Path, table: IndexedTable):
    broken = root / "broken.lance"
    lance.write_dataset(pa.table({"a": range(10)}), broken)
    lance.dataset(broken).create_scalar_index("a", "BTREE")
    lance.write_dataset(pa.table({"a": range(100)}), broken, mode="append")
    for file in (broken / "_indices").rglob("*.lance"):
        file.write_bytes(b"")
    lance.write_dataset(pa.table({"a": range(10)}), root / "plain.lance")
    told = index(root, "--no-compact")
    assert told.exit_code == 1
    assert told.stderr.startswith("error: table 'broken': index 'a_idx' can't catch up with the table: ")
    assert len(told.stderr.splitlines()) == 1
    assert "docs: now at version" in told.stdout
    assert "plain: nothing to do" in told.stdout
    assert all(one.is_current for one in table.state().indexes)
