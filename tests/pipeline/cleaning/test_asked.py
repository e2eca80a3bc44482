"""What is asked of cleaning, from Python and from the command line, and what it answers."""

import json
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning import CleanPolicy, Kind, clean, find, remove
from lance_gateway.pipeline.cli import app
from lance_gateway.pipeline.jobs.lake import Lake
from tests.support.lake.cleaning import NEWEST_ONLY, SCHEMA, CleanedTable, create_late_clock
from tests.support.lake.tables import LsmTable, unpartitioned
from tests.support.processes.writer_process import WriterProcess


def test_only_what_was_found_is_removed_and_only_if_it_is_garbage_still(kept: CleanedTable):
    garbage = find(kept.lake, NEWEST_ONLY, clock=create_late_clock())
    log = [one for one in garbage if one.kind is Kind.LOG]
    (first, *_) = log
    removed = remove(
        kept.lake, [replace(first, last=first.first + 1, files=2)], NEWEST_ONLY, clock=create_late_clock()
    )
    assert [(one.first, one.last) for one in removed] == [(first.first, first.first + 1)]
    assert kept.list_generations() == [1, 2, 3]
    kept.table.dataset().tags.create("kept", 3)
    removed = remove(kept.lake, garbage, NEWEST_ONLY, clock=create_late_clock())
    assert not any(one.kind is Kind.GENERATIONS for one in removed), "a tag holds them since"
    assert 3 in [one["version"] for one in kept.table.dataset().versions()]
    assert remove(kept.lake, [], NEWEST_ONLY) == ()


def test_kinds_are_chosen(kept: CleanedTable):
    for kind in Kind:
        report = kept.find(replace(NEWEST_ONLY, kinds=(kind,)))
        assert {one.kind for one in report.garbage} <= {kind}


def test_policies_that_can_not_be_are_refused():
    for made in (
        lambda: CleanPolicy(-1),
        lambda: CleanPolicy(older_than_seconds=-1),
        lambda: CleanPolicy(retain_versions=0),
        lambda: CleanPolicy(kinds=()),
    ):
        with pytest.raises(InvalidInputError):
            made()


def test_a_table_without_mem_wal_is_refused(root: Path):
    lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")
    with pytest.raises(PreconditionError, match="'plain' has no MemWAL"):
        clean(Lake.open(str(root)).table("plain"))


def test_a_table_that_nobody_has_written_to_has_no_garbage(root: Path, writers: WriterProcess):
    LsmTable.create(root, "new", SCHEMA.empty_table(), unpartitioned(("id",), 1), writers)
    Storage.open(str(root)).put("new.lance/_mem_wal/6b1f8ce2-7a43-4a39-9d3f-3f3f6e1f0c55/wal/x", b"")
    assert not find(Lake.open(str(root)).table("new"), clock=create_late_clock())


@pytest.mark.slow
def test_the_command_lists_by_default_and_removes_when_told(kept: CleanedTable, root: Path):
    cli = CliRunner()
    listed = cli.invoke(app, ["clean", "t", "--root", str(root), "--grace", "0s", "--retain-versions", "1"])
    assert listed.exit_code == 0, listed.output
    assert "generation 1 is merged" in listed.output
    assert "would be removed; --delete removes them" in listed.output
    assert kept.list_generations() == [1, 2, 3]
    options = ["--root", str(root), "--grace", "0s", "--retain-versions", "1", "--delete", "--json"]
    done = json.loads(cli.invoke(app, ["clean", *options]).output)
    assert done["removed"]
    assert {one["kind"] for one in done["garbage"]} >= {"versions", "generations", "log"}
    assert kept.list_generations() == [3]
    for wrong, said in (
        (["--grace", "soon"], "--grace: pipeline.clean.grace = 'soon': it is not a duration"),
        (["--kind", "wals"], "wals"),
        (["--retain-versions", "0"], "0 versions can't be retained"),
    ):
        failed = cli.invoke(app, ["clean", "--root", str(root), *wrong])
        assert failed.exit_code == 1
        assert said in failed.stderr


@pytest.mark.slow
def test_the_command_removes_what_an_earlier_report_lists_and_no_more(
    kept: CleanedTable, root: Path, tmp_path: Path
):
    cli, options = CliRunner(), ["--root", str(root), "--grace", "0s", "--retain-versions", "1", "--json"]
    report, file = json.loads(cli.invoke(app, ["clean", "t", *options]).output), tmp_path / "report.json"
    first, *others = [one for one in report["garbage"] if one["kind"] == "versions"]
    assert others
    file.write_text(json.dumps(report | {"garbage": [first]}))
    removes = ["clean", "t", *options, "--delete", "--report", str(file)]
    done = json.loads(cli.invoke(app, removes).output)
    assert (done["removed"], done["garbage"]) == (True, [first])
    left = [one["version"] for one in kept.table.dataset().versions()]
    assert first["first"] not in left
    assert {one["first"] for one in others} < set(left)
    assert kept.list_generations() == [1, 2, 3]
    again = json.loads(cli.invoke(app, removes).output)
    assert again["garbage"] == []
    for content, arguments, said in (
        ("{}", removes, "is not a report"),
        ("[]", removes, "is not a report"),
        ('{"table": "t", "garbage": [{"kind": "rows"}]}', removes, "is not a report"),
        (json.dumps(report | {"table": "u"}), removes, "is of table 'u', not of 't'"),
        (json.dumps(report), ["clean", *removes[2:]], "name the table"),
        (json.dumps(report), [one for one in removes if one != "--delete"], "goes with --delete"),
        (json.dumps(report), [*removes[:-1], str(tmp_path / "none")], "can't be read: No such file"),
    ):
        file.write_text(content)
        failed = cli.invoke(app, arguments)
        assert (failed.exit_code, said in failed.stderr) == (1, True), failed.stderr
    assert [one["version"] for one in kept.table.dataset().versions()] == left


@pytest.mark.slow
@pytest.mark.usefixtures("kept")
def test_one_table_does_not_keep_the_others_from_their_turn(root: Path):
    lance.write_dataset(pa.table({"a": [1]}), root / "a_plain.lance")
    lance.write_dataset(pa.table({"a": [1]}), root / "b_broken.lance")
    (version,) = (root / "b_broken.lance" / "_versions").glob("*.manifest")
    version.write_bytes(b"broken")
    cli = CliRunner()
    done = cli.invoke(app, ["clean", "--root", str(root)])
    assert done.exit_code == 1
    assert "t: " in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "b_broken" in line
    asked = cli.invoke(app, ["clean", "a_plain", "--root", str(root)])
    assert asked.exit_code == 1
    assert "'a_plain' has no MemWAL" in asked.stderr
