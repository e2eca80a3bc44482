"""Regions remembered by the MemWAL index, and what readers see of them."""

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.regions.region_snapshots import decode_region_snapshots
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable, TableState
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import snapshot
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import SessionSettings
from tests.pipeline.snapshotting.remembered import ALWAYS, SCHEMA, details_of, rows
from tests.support.lake.tables import LsmTable, bucketed
from tests.support.processes.servers import GatewayProcess, fetch, open_connection
from tests.support.processes.writer_process import WriterProcess


class TestWhatIsRemembered:
    def test_every_region_as_its_newest_manifest_says(self, table: LakeTable):
        state = TableState.read(table)
        before = details_of(table)

        report = snapshot(table, ALWAYS, now=lambda: 5000.5)

        assert report.committed is not None
        assert (report.regions, report.committed.version) == (2, state.version + 1)
        details = details_of(table)
        assert (details.snapshot_ts_millis, details.num_regions) == (5_000_500, 2)
        assert details.inline_snapshots is not None
        remembered = {one.region_id: one.manifest for one in decode_region_snapshots(details)}
        assert remembered == {one.region_id: one.manifest for one in state.regions.values()}
        assert details.region_specs == before.region_specs
        assert details.writer_config_defaults == before.writer_config_defaults

    def test_columns_are_those_of_the_specification_and_more(self, table: LakeTable, tmp_path: Path):
        snapshot(table, ALWAYS)
        path = tmp_path / "index.lance"
        path.write_bytes(details_of(table).inline_snapshots or b"")
        found = lance.file.LanceFileReader(str(path)).read_all().to_table()
        assert found.schema.names[:3] == ["shard_id", "shard_spec_id", "shard_field_bucket"]
        assert found.schema.types[:3] == [pa.string(), pa.uint32(), pa.int32()]
        assert sorted(found.column("shard_field_bucket").to_pylist()) == [0, 1]

    def test_a_table_without_regions_has_none(self, root: Path, writers: WriterProcess):
        LsmTable.create(root, "t", SCHEMA.empty_table(), bucketed("id", 2, recorded=True), writers)
        table = Lake.open(str(root)).table("t")
        assert snapshot(table, ALWAYS).regions == 0
        assert decode_region_snapshots(details_of(table)) == ()

    def test_lance_opens_the_table_and_writes_to_its_regions(self, table: LakeTable, written: LsmTable):
        for _ in range(2):
            snapshot(table, ALWAYS)
            written.put(rows(3, v="again"))
            written.close_writers()
            spoken = table.dataset().mem_wal_index_details()
            assert spoken["num_shards"] == 2
            assert spoken["sharding_specs"][0]["fields"][0]["transform"] == "bucket"

    @pytest.mark.slow
    def test_consistency_snapshot_reads_what_was_flushed_by_then(
        self,
        root: Path,
        table: LakeTable,
        written: LsmTable,
        open_engine: Callable[[Path], QueryEngine],
    ):
        engine = open_engine(root)

        def read(where: str = "") -> dict[int, str]:
            settings = SessionSettings(consistency="snapshot")
            found = engine.execute(f"SELECT id, v FROM t {where}", settings).read_all().to_pylist()
            return {row["id"]: row["v"] for row in found}

        assert read() == dict.fromkeys(range(10), "base")
        snapshot(table, ALWAYS)
        written.put(rows(8, v="later"))
        written.close_writers()
        remembered = dict.fromkeys(range(6), "first") | dict.fromkeys(range(6, 10), "base")
        assert read() == remembered
        assert read("WHERE id IN (5, 6)") == {5: "first", 6: "base"}  # Regions are pruned by it.
        merge(table)  # Gives the index another UUID.
        assert read() == remembered | {8: "later"}
        snapshot(table, ALWAYS)
        assert read() == remembered | {8: "later"}

    @pytest.mark.slow
    def test_clients_of_a_gateway_read_them(
        self, root: Path, table: LakeTable, written: LsmTable, serve: Callable[..., GatewayProcess]
    ):
        with open_connection(serve(root).uri) as connection:
            connection.adbc_connection.set_options(
                **{"adbc.flight.sql.session.option.consistency": "snapshot"}
            )
            seen = []
            for take in (False, True, True):
                if take:
                    written.put(rows(9, v="later"))
                    written.close_writers()
                    snapshot(table, ALWAYS)
                found = fetch(connection, "SELECT v, count(*) AS n FROM t GROUP BY v ORDER BY v")
                seen.append(dict(zip(*(one.to_pylist() for one in found.columns), strict=True)))
        remembered = {"base": 3, "first": 6, "later": 1}
        assert seen == [{"base": 10}, remembered, remembered]
