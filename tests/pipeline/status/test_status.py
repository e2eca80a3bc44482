"""How tables are: found in few requests, told to people, to programs and to Prometheus."""

import io
import json
import re
import shutil
from pathlib import Path
from unittest import mock

import lance
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from typer.testing import CliRunner, Result

from lance_gateway.memwal.storage.local import LocalBackend
from lance_gateway.pipeline.cli import app
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import snapshot
from lance_gateway.pipeline.status import read_status
from lance_gateway.pipeline.status.shown import build_document, format_exposition, render
from tests.support.lake import manifests
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])
HOUR = 3600.0


@pytest.fixture
def written(root: Path, writers: WriterProcess) -> LsmTable:
    base = pa.Table.from_pylist([{"id": one, "v": "base"} for one in range(10)], schema=SCHEMA)
    return LsmTable.create(root, "orders", base, bucketed("id", 2, recorded=True), writers)


@pytest.fixture
def table(root: Path, written: LsmTable) -> LakeTable:
    return Lake.open(str(root)).table(written.name)


def flushed(written: LsmTable, *ids: int) -> None:
    written.put([{"id": one, "v": "new"} for one in ids])
    written.close_writers()


def command(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


class TestReading:
    def test_a_table_that_nobody_wrote_to(self, table: LakeTable):
        status = read_status(table)
        assert (status.table, status.rows, status.fragments, status.deleted_rows) == ("orders", 10, 1, 0)
        assert (status.has_mem_wal, status.regions, status.indexes) == (True, (), ())
        assert (status.oldest_pending_seconds, status.snapshot_age_seconds) == (None, None)

    def test_what_is_pending_and_since_when(self, table: LakeTable, written: LsmTable):
        flushed(written, 1, 2, 3)
        flushed(written, 1)
        directories = list(Path(table.uri).glob("_mem_wal/*/*_gen_*/data/*"))
        newest = max(one.stat().st_mtime for one in directories)
        oldest = min(one.stat().st_mtime for one in directories)

        status = read_status(table, now=lambda: oldest + HOUR)

        assert (status.pending_generations, status.pending_rows) == (3, 4)
        assert status.pending_bytes == sum(one.stat().st_size for one in directories)
        assert status.oldest_pending_seconds == pytest.approx(HOUR, abs=0.01)
        ages = [one.oldest_pending_seconds for one in status.regions]
        assert all(age is not None and HOUR - (newest - oldest) - 0.01 <= age for age in ages)
        assert sorted(one.current_generation for one in status.regions) == [2, 3]
        assert {one.merged_generation for one in status.regions} == {0}
        assert status.unflushed_entries == 0

    def test_entries_that_are_in_logs_alone(self, table: LakeTable, written: LsmTable):
        flushed(written, 1, 2)
        region = written.region_of({"id": 1})
        for one in range(3):
            written.put([{"id": 1, "v": str(one)}])
        found = {one.region_id: one.unflushed_entries for one in read_status(table).regions}
        assert found.pop(region) == 3
        assert not any(found.values())
        written.close_writers()
        assert read_status(table).unflushed_entries == 0

    def test_what_merges_leave(self, table: LakeTable, written: LsmTable):
        table.dataset().create_scalar_index("v", "BTREE")
        flushed(written, 1, 2, 3)
        merge(table)
        snapshot(table, now=lambda: 1000.0)
        status = read_status(table, now=lambda: 1000.0 + HOUR)
        assert (status.pending_generations, status.merged_listed) == (0, 2)
        assert {one.merged_generation for one in status.regions} == {1}
        assert status.deleted_rows == 3
        (index,) = status.indexes
        assert (index.name, index.generations_behind, index.regions_behind) == ("v_idx", 2, 2)
        assert status.snapshot_age_seconds == HOUR
        table.dataset().optimize.optimize_indices()
        assert read_status(table).indexes[0].generations_behind == 0

    def test_thousands_of_regions_are_read_region_by_region_only_where_there_is_something(
        self, table: LakeTable
    ):
        for at in range(300):
            region = f"00000000-0000-4000-8000-{at:012d}"
            manifests.record_region(Path(table.uri), region, 1, {"bucket": b"\0\0\0\0"})
        exists, listings = LocalBackend.exists, LocalBackend.list
        with (
            mock.patch.object(LocalBackend, "exists", autospec=True, side_effect=exists) as probes,
            mock.patch.object(LocalBackend, "list", autospec=True, side_effect=listings) as lists,
        ):
            assert len(read_status(table).regions) == 300
        # Manifests are looked for region by region; of logs and generations there is one question in all.
        logs = [call for call in probes.call_args_list if any("/wal/" in one for one in call.args[1])]
        assert len(logs) == 1
        assert not any("/data" in call.args[1] for call in lists.call_args_list)


class TestTelling:
    def test_people_read_it_on_eighty_columns(self, table: LakeTable, written: LsmTable):
        flushed(written, 1, 2, 3)
        console = Console(width=80, file=io.StringIO())
        console.print(render([read_status(table)], regions=True))
        lines = console.file.getvalue().splitlines()
        assert lines[0].split() == [
            "TABLE", "VERSION", "REGIONS", "PENDING", "ROWS", "SIZE", "OLDEST", "LOG", "LAG", "SNAPSHOT",
        ]  # fmt: skip
        assert re.fullmatch(r"orders +2 +2 +2 +3 +\S+B +\d+s +0 +0 +-\s*", lines[1])
        assert lines[2].split()[0] == "REGION"
        assert len(lines[3].split()[0]) == 8

    def test_programs_read_json_whose_keys_stay(self, table: LakeTable, written: LsmTable):
        flushed(written, 1)
        found = json.loads(json.dumps(build_document([read_status(table)], {"bad": "why"}, regions=True)))
        assert found["format"] == 1
        bad, good = found["tables"]
        assert bad == {"table": "bad", "error": "why"}
        assert list(good) == [
            "table", "version", "rows", "deleted_rows", "fragments", "has_mem_wal", "regions",
            "pending_generations", "pending_rows", "pending_bytes", "oldest_pending_seconds", "merged_listed",
            "unflushed_entries", "snapshot_age_seconds", "indexes", "by_region",
        ]  # fmt: skip
        (region,) = good["by_region"]
        assert list(region) == [
            "region_id", "writer_epoch", "current_generation", "merged_generation", "pending_generations",
            "pending_rows", "pending_bytes", "oldest_pending_seconds", "merged_listed", "unflushed_entries",
            "is_sealed",
        ]  # fmt: skip

    def test_prometheus_reads_its_own_format(self, table: LakeTable, written: LsmTable):
        flushed(written, 1, 2, 3)
        text = format_exposition([read_status(table)], regions=True)
        families = {one.name: one for one in text_string_to_metric_families(text)}
        assert all(name.startswith("lance_pipeline_") for name in families)
        (sample,) = families["lance_pipeline_table_pending_rows"].samples
        assert (sample.labels, sample.value) == ({"table": "orders"}, 3)
        regions = families["lance_pipeline_region_pending_generations"].samples
        assert sorted(one.labels["region"] for one in regions) == sorted(written.regions.values())
        assert families["lance_pipeline_table_snapshot_age_seconds"].samples == []
        assert "lance_pipeline_region_pending_rows" not in format_exposition(
            [read_status(table)], regions=False
        )


class TestTheCommand:
    def test_a_table_that_cannot_be_read_does_not_hide_the_others(self, root: Path, table: LakeTable):
        lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")
        shutil.copytree(table.uri, root / "broken.lance")
        for manifest in (root / "broken.lance" / "_versions").glob("*.manifest"):
            manifest.write_bytes(b"garbage")
        done = command("status", "--root", str(root), "--json")
        assert done.exit_code == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: table 'broken': ")
        found = {one["table"]: one for one in json.loads(done.stdout)["tables"]}
        assert "error" in found["broken"]
        assert (found["plain"]["has_mem_wal"], found["plain"]["rows"]) == (False, 1)
        assert found["orders"]["has_mem_wal"]

    def test_what_cannot_be_is_said_in_one_line(self, root: Path, table: LakeTable):
        done = command("status", "order", "--root", str(root))
        assert (done.exit_code, done.stdout) == (1, "")
        assert "there is no table 'order'" in done.stderr
        assert "did you mean 'orders'?" in done.stderr
        done = command("status", "--root", str(root), "--json", "--prometheus")
        assert (done.exit_code, done.stderr) == (1, "error: --json and --prometheus: choose one\n")
