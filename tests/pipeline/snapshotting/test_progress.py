"""No snapshot lowers the progress of merges and indexes, whoever commits meanwhile."""

import dataclasses
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_gateway.memwal.base.index_details import read_base_manifest
from lance_gateway.memwal.base.versions import commit_next
from lance_gateway.memwal.errors import UnavailableError, UnsupportedError
from lance_gateway.memwal.regions.region_snapshots import decode_region_snapshots
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.local import LocalBackend
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable, TableState
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import commit, snapshot
from lance_gateway.pipeline.snapshotting import regions as snapshotting_job
from lance_gateway.protos import mem_wal_pb2
from tests.pipeline.snapshotting.remembered import ALWAYS, SCHEMA, details_of, newest, rows
from tests.support.lake.tables import LsmTable, bucketed
from tests.support.processes.writer_process import WriterProcess


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
    snapshot(table, ALWAYS)


def inserted(table: LakeTable) -> None:
    table.dataset().insert(pa.Table.from_pylist(rows(91, v="more"), schema=SCHEMA))


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

    @pytest.mark.slow
    @pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.__name__)
    def test_one_that_others_overtook_is_not_committed(
        self, table: LakeTable, other: Callable[[LakeTable], None]
    ):
        state = TableState.read(table)
        other(table)
        before = read_base_manifest(table.storage, table.dataset().version)
        files = set(table.storage.list("_versions"))

        assert commit(state, 1_000) is None

        assert read_base_manifest(table.storage, table.dataset().version) == before
        assert set(table.storage.list("_versions")) == files

    @pytest.mark.slow
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
        report = snapshot(table, ALWAYS)
        details = details_of(table)
        if other is merged_by_another:
            assert set(details.merged_generations.values()) == {1}
        if other is not snapshot_taken:
            assert report.committed is not None
            assert report.committed.version == table.dataset().version
        assert len(decode_region_snapshots(details)) == 2
        assert {one: value for one, value in newest(table).items() if one < 10} == (
            dict.fromkeys(range(6), "first") | dict.fromkeys(range(6, 10), "base")
            if other is merged_by_another
            else dict.fromkeys(range(10), "base")
        )

    def test_a_merge_that_began_before_keeps_the_snapshot(self, table: LakeTable):
        began = table.dataset()
        region = next(iter(TableState.read(table).regions))
        report = snapshot(table, ALWAYS)
        builder = began.merge_insert(["id"]).when_matched_update_all().when_not_matched_insert_all()
        builder.mark_sstables_as_compacted([lance.CompactedSsTable(region, 1)])
        builder.execute(pa.Table.from_pylist(rows(1, v="merged"), schema=SCHEMA))
        details = details_of(table)
        assert details.merged_generations == {region: 1}
        assert report.committed is not None
        assert details.snapshot_ts_millis == report.committed.taken_millis
        assert len(decode_region_snapshots(details)) == 2

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
        assert commit(state, 1_000) is None
        assert table.dataset().version == state.version + 3
        assert table.dataset().count_rows() == 13
        names = [one.name for one in table.storage.list("_versions") if one.name.endswith(".manifest")]
        assert len(names) == 1
        assert snapshot(table, ALWAYS).committed is not None
        assert table.dataset().count_rows() == 13

    def test_fields_that_nobody_knows_stay(self, table: LakeTable):
        merge(table)
        state = TableState.read(table)
        unknown = b"\xf2\x07\x05hello"  # Field 126, a text.
        strange = dataclasses.replace(state.details, origin=state.details.origin + unknown)
        assert commit(dataclasses.replace(state, details=strange), 1_000) is not None
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
                            assert (commit(state, at) is not None) == is_newest
                    case "merge":
                        merge(table)
                        merged = dict(expected)
                    case "snapshot":
                        snapshot(table, ALWAYS)
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
            snapshot(table, ALWAYS)

    @pytest.mark.slow
    def test_a_table_whose_versions_dynamodb_counts_is_refused(self):
        storage = Storage.open("s3+ddb://bucket/t.lance?ddbTableName=commits")
        with pytest.raises(UnsupportedError, match="decided in a DynamoDB table"):
            commit_next(storage, 1, lance.LanceOperation.CreateIndex([], []))
