"""When a snapshot is taken, where logs end, and what the command says."""

import dataclasses
import json
import re
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from lance_gateway.memwal.regions.manifest import read_latest_manifest
from lance_gateway.pipeline.cli import app
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import SnapshotPolicy, SnapshotReport, commit, snapshot
from lance_gateway.pipeline.snapshotting import regions as snapshotting_job
from tests.pipeline.snapshotting.remembered import ALWAYS, SCHEMA, details_of, newest, rows
from tests.support.lake.tables import LsmTable, bucketed
from tests.support.processes.writer_process import WriterProcess


class TestWhenOneIsTaken:
    def test_not_where_nothing_has_changed(self, table: LakeTable):
        assert snapshot(table, ALWAYS).committed is not None
        version = table.dataset().version
        again = snapshot(table, ALWAYS)
        assert (again.committed, again.is_current) == (None, True)
        assert table.dataset().version == version

    def test_not_while_the_one_there_is_young(self, table: LakeTable, written: LsmTable):
        snapshot(table, ALWAYS, now=lambda: 1000.0)
        written.put(rows(1, v="later"))
        written.close_writers()
        policy = SnapshotPolicy(max_age_seconds=60)
        young = snapshot(table, policy, now=lambda: 1059.0)
        assert (young.committed, young.is_current) == (None, False)
        assert snapshot(table, policy, now=lambda: 1060.0).committed is not None

    def test_also_where_a_clock_was_ahead_when_the_last_one_was(self, table: LakeTable, written: LsmTable):
        snapshot(table, ALWAYS, now=lambda: 9000.0)
        written.put(rows(1, v="later"))
        written.close_writers()
        report = snapshot(table, SnapshotPolicy(max_age_seconds=60), now=lambda: 1000.0)
        assert report.committed is not None
        assert report.committed.taken_millis == 9_000_001

    def test_not_after_another_process_just_took_one(self, table: LakeTable, monkeypatch: pytest.MonkeyPatch):
        pending = [snapshot]
        other: list[SnapshotReport] = []

        def overtaken(*arguments: object) -> object:
            if pending:
                other.append(pending.pop()(table, ALWAYS))
            return commit(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(snapshotting_job, "commit", overtaken)
        assert snapshot(table, ALWAYS).committed is None
        assert other[0].committed is not None
        assert details_of(table).snapshot_ts_millis == other[0].committed.taken_millis


class TestWhereLogsEnd:
    def test_a_long_log_is_noted_beside_its_live_writer(self, root: Path, writers: WriterProcess):
        written = LsmTable.create(root, "t", SCHEMA.empty_table(), bucketed("id", 1, recorded=True), writers)
        table = Lake.open(str(root)).table("t")
        for at in range(5):
            written.put(rows(at, v="x"))
        (region,) = written.regions.values()
        before = read_latest_manifest(table.storage, region)
        assert before is not None

        assert snapshot(table, dataclasses.replace(ALWAYS, hint_entries=6)).hints == 0
        assert read_latest_manifest(table.storage, region) == before
        report = snapshot(table, dataclasses.replace(ALWAYS, hint_entries=5))
        after = read_latest_manifest(table.storage, region)
        assert (report.hints, after) == (
            1,
            dataclasses.replace(before, version=before.version + 1, wal_entry_position_last_seen=5),
        )
        written.put(rows(5, v="x"))
        written.close_writers()
        merge(table)
        assert newest(table) == dict.fromkeys(range(6), "x")


class TestTheCommand:
    def command(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["snapshot", *arguments])

    def test_it_says_what_it_did(self, root: Path, table: LakeTable):
        lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")  # Nobody asks for it.
        done = self.command("--root", str(root))
        assert re.fullmatch(r"t: 2 regions remembered by version 3, \d,\d+ bytes\n", done.stdout)
        assert self.command("t", "--root", str(root)).stdout == "t: 2 regions, nothing has changed\n"
        as_json = json.loads(self.command("--root", str(root), "--json").stdout)
        assert as_json == {
            "table": "t",
            "regions": 2,
            "is_current": True,
            "version": None,
            "bytes": None,
            "hints": 0,
        }

    def test_what_cannot_be_is_said_in_one_line(self, root: Path, table: LakeTable):
        lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")
        done = self.command("plain", table.name, "--root", str(root))
        assert (done.exit_code, done.stdout.startswith("t: 2 regions remembered")) == (1, True)
        assert done.stderr.startswith("error: table 'plain' has no MemWAL")
        done = self.command("--root", str(root), "--max-age", "soon")
        assert (done.exit_code, done.stderr) == (
            1,
            "error: --max-age: pipeline.snapshot.max_age = 'soon': it is not a duration\n",
        )
