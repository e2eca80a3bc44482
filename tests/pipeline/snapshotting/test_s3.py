"""On S3, regions are remembered as on a local disk."""

import pyarrow as pa
import pytest

from lance_gateway.memwal.base.index_details import read_base_manifest
from lance_gateway.memwal.regions.region_snapshots import decode_region_snapshots
from lance_gateway.pipeline.jobs.lake import Lake, TableState
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import commit, snapshot
from lance_gateway.pipeline.status import read_status
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.memwal.written import WrittenTable, keyed_schema

pytestmark = pytest.mark.slow


@pytest.mark.soak
def test_snapshots_are_committed_and_read(s3_location: tuple[str, dict[str, str]]):
    uri, options = s3_location
    schema = keyed_schema(pa.field("id", pa.int64()))
    written = WrittenTable.create(f"{uri}/t.lance", schema, options, bucket_column="id", num_buckets=2)
    written.write(written.rows(id=[1, 2], qty=[10, 20]))
    table = Lake.open(uri, options).table("t")
    engine = QueryEngine(Catalog.open(uri, options))
    for added, earlier in ((3, 0), (4, 1)):
        stale = TableState.read(table)
        report = snapshot(table)
        assert report.committed is not None
        assert commit(stale, 1) is None
        details = read_base_manifest(table.storage, table.dataset().version).details
        assert details is not None
        assert len(decode_region_snapshots(details)) == report.regions
        found = engine.execute("SELECT count(*) AS n FROM t", SessionSettings(consistency="snapshot"))
        assert found.read_all().to_pylist() == [{"n": 2 + earlier}]
        written.write(written.rows(id=[added], qty=[30]))
        assert read_status(table).pending_rows == 3 + earlier
    merge(table)
    assert table.dataset().count_rows() == 4
    assert read_status(table).pending_generations == 0
    engine.close()
