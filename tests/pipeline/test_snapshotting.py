"""Regions remembered by the MemWAL index: what readers see of them, and what it never forgets over that."""

import dataclasses
import json
import re
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from memwal.backends import LocalBackend
from memwal.base_versions import commit_next
from memwal.errors import NotFoundError, UnavailableError, UnsupportedError
from memwal.index_details import MemWalIndexDetails, read_base_manifest
from memwal.manifest import read_latest_manifest
from memwal.region_snapshots import external_path, read_region_snapshots
from memwal.storage import Storage
from pipeline.cli import app
from pipeline.lake import Lake, LakeTable
from pipeline.merging import merge
from pipeline.snapshotting import SnapshotPolicy, SnapshotReport, snapshot
from pipeline.snapshotting import job as snapshotting_job
from pipeline.snapshotting.committing import commit
from pipeline.state import TableState
from planner.engine import QueryEngine
from planner.settings import SessionSettings
from protos import mem_wal_pb2
from tests.support.servers import GatewayProcess, connected, fetch
from tests.support.tables import LsmTable, bucketed, key_field
from tests.support.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])
INLINE = SnapshotPolicy(max_age_seconds=0)
IN_A_FILE = SnapshotPolicy(max_age_seconds=0, inline_regions=0)


def rows(*ids: int, v: str) -> list[dict[str, object]]:
    return [{"id": one, "v": v} for one in ids]


@pytest.fixture
def written(root: Path, writers: WriterProcess) -> LsmTable:
    """Ten rows in the base, and a generation over some of them in each of two regions."""
    base = pa.Table.from_pylist(rows(*range(10), v="base"), schema=SCHEMA)
    table = LsmTable.create(root, "t", base, bucketed("id", 2, recorded=True), writers)
    table.put(rows(*range(6), v="first"))
    table.close_writers()
    return table


@pytest.fixture
def table(root: Path, written: LsmTable) -> LakeTable:
    return Lake.open(str(root)).table(written.name)


def details_of(table: LakeTable) -> MemWalIndexDetails:
    details = read_base_manifest(table.storage, table.dataset().version).details
    assert details is not None
    return details


def newest(table: LakeTable) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table.dataset().to_table().to_pylist()}


class TestWhatIsRemembered:
    @pytest.mark.parametrize("policy", [INLINE, IN_A_FILE], ids=["inline", "in a file"])
    def test_every_region_as_its_newest_manifest_says(self, table: LakeTable, policy: SnapshotPolicy):
        state = TableState.read(table)
        before = details_of(table)

        report = snapshot(table, policy, now=lambda: 5000.5)

        assert report.committed is not None
        assert (report.regions, report.committed.version) == (2, state.version + 1)
        assert report.committed.is_inline == (policy is INLINE)
        details = details_of(table)
        assert (details.snapshot_ts_millis, details.num_regions) == (5_000_500, 2)
        assert (details.inline_snapshots is not None) == (policy is INLINE)
        remembered = {one.region_id: one.manifest for one in read_region_snapshots(table.storage, details)}
        assert remembered == {one.region_id: one.manifest for one in state.regions.values()}
        assert details.region_specs == before.region_specs
        assert details.writer_config_defaults == before.writer_config_defaults

    def test_columns_are_those_of_the_specification_and_more(self, table: LakeTable, tmp_path: Path):
        snapshot(table, IN_A_FILE, now=lambda: 5.0)
        path = Path(table.uri, external_path(5000))
        found = lance.file.LanceFileReader(str(path)).read_all().to_table()
        assert found.schema.names[:3] == ["shard_id", "shard_spec_id", "shard_field_bucket"]
        assert found.schema.types[:3] == [pa.string(), pa.uint32(), pa.int32()]
        assert sorted(found.column("shard_field_bucket").to_pylist()) == [0, 1]

    def test_a_table_without_regions_has_none(self, root: Path, writers: WriterProcess):
        LsmTable.create(root, "t", SCHEMA.empty_table(), bucketed("id", 2, recorded=True), writers)
        table = Lake.open(str(root)).table("t")
        assert snapshot(table, IN_A_FILE).regions == 0
        assert read_region_snapshots(table.storage, details_of(table)) == ()

    def test_lance_opens_the_table_and_writes_to_its_regions(self, table: LakeTable, written: LsmTable):
        for policy in (INLINE, IN_A_FILE):
            snapshot(table, policy)
            written.put(rows(3, v="again"))
            written.close_writers()
            spoken = table.dataset().mem_wal_index_details()
            assert spoken["num_shards"] == 2
            assert spoken["sharding_specs"][0]["fields"][0]["transform"] == "bucket"

    @pytest.mark.parametrize("policy", [INLINE, IN_A_FILE], ids=["inline", "in a file"])
    def test_consistency_snapshot_reads_what_was_flushed_by_then(
        self,
        root: Path,
        table: LakeTable,
        written: LsmTable,
        policy: SnapshotPolicy,
        open_engine: Callable[[Path], QueryEngine],
    ):
        engine = open_engine(root)

        def read(where: str = "") -> dict[int, str]:
            settings = SessionSettings(consistency="snapshot")
            found = engine.execute(f"SELECT id, v FROM t {where}", settings).read_all().to_pylist()
            return {row["id"]: row["v"] for row in found}

        assert read() == dict.fromkeys(range(10), "base")
        snapshot(table, policy)
        written.put(rows(8, v="later"))
        written.close_writers()
        remembered = dict.fromkeys(range(6), "first") | dict.fromkeys(range(6, 10), "base")
        assert read() == remembered
        assert read("WHERE id IN (5, 6)") == {5: "first", 6: "base"}  # Regions are pruned by it.
        merge(table)  # Gives the index another UUID.
        assert read() == remembered | {8: "later"}
        snapshot(table, policy)
        assert read() == remembered | {8: "later"}

    @pytest.mark.slow
    def test_clients_of_a_gateway_read_them(
        self, root: Path, table: LakeTable, written: LsmTable, serve: Callable[..., GatewayProcess]
    ):
        with connected(serve(root).uri) as connection:
            connection.adbc_connection.set_options(
                **{"adbc.flight.sql.session.option.consistency": "snapshot"}
            )
            seen = []
            for policy in (None, INLINE, IN_A_FILE):
                if policy is not None:
                    written.put(rows(9, v="later"))
                    written.close_writers()
                    snapshot(table, policy)
                found = fetch(connection, "SELECT v, count(*) AS n FROM t GROUP BY v ORDER BY v")
                seen.append(dict(zip(*(one.to_pylist() for one in found.columns), strict=True)))
        remembered = {"base": 3, "first": 6, "later": 1}
        assert seen == [{"base": 10}, remembered, remembered]

    def test_snapshots_that_were_cleaned_up_are_named_and_taken_anew(self, table: LakeTable):
        snapshot(table, IN_A_FILE, now=lambda: 5.0)
        table.storage.delete(external_path(5000))
        with pytest.raises(NotFoundError, match=r"index.lance are gone\. Read with consistency 'flushed'"):
            read_region_snapshots(table.storage, details_of(table))
        assert snapshot(table, IN_A_FILE).committed is not None
        assert len(read_region_snapshots(table.storage, details_of(table))) == 2


class TestWhenOneIsTaken:
    def test_not_where_nothing_has_changed(self, table: LakeTable):
        assert snapshot(table, INLINE).committed is not None
        version = table.dataset().version
        again = snapshot(table, INLINE)
        assert (again.committed, again.is_current) == (None, True)
        assert table.dataset().version == version

    def test_not_while_the_one_there_is_young(self, table: LakeTable, written: LsmTable):
        snapshot(table, INLINE, now=lambda: 1000.0)
        written.put(rows(1, v="later"))
        written.close_writers()
        policy = SnapshotPolicy(max_age_seconds=60)
        young = snapshot(table, policy, now=lambda: 1059.0)
        assert (young.committed, young.is_current) == (None, False)
        assert snapshot(table, policy, now=lambda: 1060.0).committed is not None

    def test_also_where_a_clock_was_ahead_when_the_last_one_was(self, table: LakeTable, written: LsmTable):
        snapshot(table, INLINE, now=lambda: 9000.0)
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
                other.append(pending.pop()(table, INLINE))
            return commit(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(snapshotting_job, "commit", overtaken)
        assert snapshot(table, INLINE).committed is None
        assert other[0].committed is not None
        assert details_of(table).snapshot_ts_millis == other[0].committed.taken_millis


def merged_by_another(table: LakeTable) -> None:
    merge(table)


def indexed(table: LakeTable) -> None:
    table.dataset().create_scalar_index("v", "BTREE")


def compacted(table: LakeTable) -> None:
    table.dataset().insert(pa.Table.from_pylist(rows(90, v="more"), schema=SCHEMA))
    table.dataset().optimize.compact_files()


def column_added(table: LakeTable) -> None:
    table.dataset().add_columns(pa.schema([pa.field("w", pa.int64())]))


def snapshot_taken(table: LakeTable) -> None:
    snapshot(table, IN_A_FILE)


def inserted(table: LakeTable) -> None:
    table.dataset().insert(pa.Table.from_pylist(rows(91, v="more"), schema=SCHEMA))


ACTIONS = ["write", "look", "commit", "merge", "snapshot", "compact"]
OTHERS = [merged_by_another, indexed, compacted, column_added, snapshot_taken, inserted]


class TestProgressIsNeverLowered:
    def test_lance_alone_would_do_it(self, table: LakeTable):
        """Why snapshots are not left to Lance's own commit; were this to fail, they could be."""
        version = table.dataset().version
        made_from_it = table.dataset().read_transaction(version).operation
        merge(table)
        assert details_of(table).merged_generations
        lance.LanceDataset.commit(table.uri, made_from_it, read_version=version)
        assert details_of(table).merged_generations == {}

    @pytest.mark.parametrize("policy", [INLINE, IN_A_FILE], ids=["inline", "in a file"])
    @pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.__name__)
    def test_one_that_others_overtook_is_not_committed(
        self, table: LakeTable, other: Callable[[LakeTable], None], policy: SnapshotPolicy
    ):
        state = TableState.read(table)
        other(table)
        before = read_base_manifest(table.storage, table.dataset().version)
        files = set(table.storage.list("_indices")), set(table.storage.list("_versions"))

        assert commit(state, 1_000, policy.inline_regions) is None

        assert read_base_manifest(table.storage, table.dataset().version) == before
        assert set(table.storage.list("_versions")) == files[1]
        assert not table.storage.exists(external_path(1_000))[0]

    @pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.__name__)
    def test_and_the_job_begins_anew(
        self,
        table: LakeTable,
        other: Callable[[LakeTable], None],
        monkeypatch: pytest.MonkeyPatch,
    ):
        pending = [other]

        def overtaken(*arguments: object) -> object:
            if pending:
                pending.pop()(table)
            return commit(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(snapshotting_job, "commit", overtaken)
        report = snapshot(table, INLINE)
        details = details_of(table)
        if other is merged_by_another:
            assert set(details.merged_generations.values()) == {1}
        if other is not snapshot_taken:
            assert report.committed is not None
            assert report.committed.version == table.dataset().version
        assert len(read_region_snapshots(table.storage, details)) == 2
        assert {one: value for one, value in newest(table).items() if one < 10} == (
            dict.fromkeys(range(6), "first") | dict.fromkeys(range(6, 10), "base")
            if other is merged_by_another
            else dict.fromkeys(range(10), "base")
        )

    def test_a_merge_that_began_before_keeps_the_snapshot(self, table: LakeTable):
        began = table.dataset()
        region = next(iter(TableState.read(table).regions))
        report = snapshot(table, IN_A_FILE)
        builder = began.merge_insert(["id"]).when_matched_update_all().when_not_matched_insert_all()
        builder.mark_sstables_as_compacted([lance.CompactedSsTable(region, 1)])
        builder.execute(pa.Table.from_pylist(rows(1, v="merged"), schema=SCHEMA))
        details = details_of(table)
        assert details.merged_generations == {region: 1}
        assert report.committed is not None
        assert details.snapshot_ts_millis == report.committed.taken_millis
        assert len(read_region_snapshots(table.storage, details)) == 2

    @pytest.mark.parametrize("when", ["read", "put_if_absent"])
    def test_one_that_slept_while_versions_were_cleaned_up_leaves_the_newest_alone(
        self, table: LakeTable, monkeypatch: pytest.MonkeyPatch, when: str
    ):
        """The next version is not there then, but it was."""
        state = TableState.read(table)
        others = [inserted]
        original = getattr(LocalBackend, when)

        def late(backend: LocalBackend, path: str, *more: bytes) -> object:
            is_draft = when == "read" and "_versions/d" in path
            if others and (is_draft or (when == "put_if_absent" and "_versions/" in path)):
                for _ in range(3):
                    others[0](table)
                others.clear()
                table.dataset().cleanup_old_versions(older_than=timedelta(0))
            return original(backend, path, *more)

        monkeypatch.setattr(LocalBackend, when, late)
        assert commit(state, 1_000, 100) is None
        assert table.dataset().version == state.version + 3
        assert table.dataset().count_rows() == 13
        names = [one.name for one in table.storage.list("_versions") if one.name.endswith(".manifest")]
        assert len(names) == 1
        assert snapshot(table, INLINE).committed is not None
        assert table.dataset().count_rows() == 13

    def test_fields_that_nobody_knows_stay(self, table: LakeTable):
        merge(table)
        state = TableState.read(table)
        unknown = b"\xf2\x07\x05hello"  # Field 126, a text.
        strange = dataclasses.replace(state.details, origin=state.details.origin + unknown)
        assert commit(dataclasses.replace(state, details=strange), 1_000, 100) is not None
        details = details_of(table)
        assert unknown in details.origin
        expected = mem_wal_pb2.MemWalIndexDetails.FromString(strange.origin)
        found = mem_wal_pb2.MemWalIndexDetails.FromString(details.origin)
        for name in ("snapshot_ts_millis", "num_regions", "inline_snapshots"):
            expected.ClearField(name)
            found.ClearField(name)
        assert found.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
        assert details.merged_generations == state.details.merged_generations

    @pytest.mark.slow
    @given(
        st.lists(st.sampled_from(["write", "look", "commit", "merge", "snapshot", "compact"]), max_size=12)
    )
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_whatever_is_done_in_whatever_order(
        self, tmp_path: Path, writers: WriterProcess, actions: list[str]
    ):
        with tempfile.TemporaryDirectory(dir=tmp_path) as directory:
            base = pa.Table.from_pylist(rows(*range(10), v="base"), schema=SCHEMA)
            written = LsmTable.create(Path(directory), "t", base, bucketed("id", 2, recorded=True), writers)
            table = Lake.open(directory).table("t")
            looked: list[TableState] = []
            expected, merged = dict.fromkeys(range(10), "base"), dict.fromkeys(range(10), "base")
            progress: dict[str, int] = {}
            for at, action in enumerate(actions):
                match action:
                    case "write":
                        written.put(rows(at, at + 1, v=f"at {at}"))
                        written.close_writers()
                        expected |= dict.fromkeys((at, at + 1), f"at {at}")
                    case "look":
                        looked.append(TableState.read(table))
                    case "commit":
                        for state in looked:
                            is_newest = state.version == table.dataset().version
                            assert (commit(state, at, at % 3) is not None) == is_newest
                    case "merge":
                        merge(table)
                        merged = dict(expected)
                    case "snapshot":
                        snapshot(table, INLINE)
                    case "compact":
                        table.dataset().optimize.compact_files()
                found = details_of(table).merged_generations
                assert all(found.get(one, 0) >= before for one, before in progress.items())
                progress = dict(found)
                assert newest(table) == merged

    def test_who_never_gets_a_turn_gives_up(self, table: LakeTable, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(snapshotting_job, "_FIRST_PAUSE_SECONDS", 0.0)
        monkeypatch.setattr(snapshotting_job, "commit", lambda *_: None)
        with pytest.raises(UnavailableError, match="others committed to it 12 times meanwhile"):
            snapshot(table, INLINE)

    def test_a_table_whose_versions_dynamodb_counts_is_refused(self):
        storage = Storage.open("s3+ddb://bucket/t.lance?ddbTableName=commits")
        with pytest.raises(UnsupportedError, match="decided in a DynamoDB table"):
            commit_next(storage, 1, lance.LanceOperation.CreateIndex([], []))


class TestWhereLogsEnd:
    def test_a_long_log_is_noted_beside_its_live_writer(self, root: Path, writers: WriterProcess):
        written = LsmTable.create(root, "t", SCHEMA.empty_table(), bucketed("id", 1, recorded=True), writers)
        table = Lake.open(str(root)).table("t")
        for at in range(5):
            written.put(rows(at, v="x"))
        (region,) = written.regions.values()
        before = read_latest_manifest(table.storage, region)
        assert before is not None

        assert snapshot(table, dataclasses.replace(INLINE, hint_entries=6)).hints == 0
        assert read_latest_manifest(table.storage, region) == before
        report = snapshot(table, dataclasses.replace(INLINE, hint_entries=5))
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
        done = self.command("--root", str(root), "--inline-regions", "0")
        assert re.fullmatch(
            r"t: 2 regions remembered by version 3, \d,\d+ bytes in a file of its own\n", done.stdout
        )
        assert self.command("t", "--root", str(root)).stdout == "t: 2 regions, nothing has changed\n"
        as_json = json.loads(self.command("--root", str(root), "--json").stdout)
        assert as_json == {
            "table": "t",
            "regions": 2,
            "is_current": True,
            "version": None,
            "bytes": None,
            "is_inline": None,
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
            "error: --max-age: pipeline.snapshot.max_age = 'soon': it is no duration\n",
        )
