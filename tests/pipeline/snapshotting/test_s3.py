"""On S3, regions are remembered as on a local disk."""

import pyarrow as pa
import pytest

from memwal.index_details import read_base_manifest
from memwal.region_snapshots import read_region_snapshots
from pipeline.lake import Lake
from pipeline.merging import merge
from pipeline.snapshotting import SnapshotPolicy, snapshot
from pipeline.snapshotting.committing import commit
from pipeline.state import TableState
from pipeline.status import read_status
from planner.catalog import Catalog
from planner.engine import QueryEngine, SessionSettings
from tests.memwal.written import WrittenTable, keyed_schema

pytestmark = pytest.mark.slow


def test_snapshots_inline_and_in_a_file(s3_location: tuple[str, dict[str, str]]):
    uri, options = s3_location
    schema = keyed_schema(pa.field("id", pa.int64()))
    written = WrittenTable.create(f"{uri}/t.lance", schema, options, bucket_column="id", num_buckets=2)
    written.write(written.rows(id=[1, 2], qty=[10, 20]))
    table = Lake.open(uri, options).table("t")
    engine = QueryEngine(Catalog.open(uri, options))
    for added, limit in ((3, 100), (4, 0)):
        stale = TableState.read(table)
        policy = SnapshotPolicy(max_age_seconds=0, inline_regions=limit)
        report = snapshot(table, policy)
        assert report.committed is not None
        assert report.committed.is_inline == (limit > 0)
        assert commit(stale, 1, limit) is None
        details = read_base_manifest(table.storage, table.dataset().version).details
        assert details is not None
        assert len(read_region_snapshots(table.storage, details)) == report.regions
        found = engine.execute("SELECT count(*) AS n FROM t", SessionSettings(consistency="snapshot"))
        assert found.read_all().to_pylist() == [{"n": 2 + (limit == 0)}]
        written.write(written.rows(id=[added], qty=[30]))
        assert read_status(table).pending_rows == 3 + (limit == 0)
    merge(table)
    assert table.dataset().count_rows() == 4
    assert read_status(table).pending_generations == 0
    engine.close()
