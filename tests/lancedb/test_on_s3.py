"""LanceDB and the gateway write one table on S3."""

import lancedb
import pyarrow as pa
import pytest
from lancedb import LsmWriteSpec

from lance_gateway.memwal.regions.manifest import list_regions
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.engine import DEFAULT_SETTINGS, PreparedQuery, QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.lancedb.both import KEY, SCHEMA


@pytest.mark.slow
@pytest.mark.soak
def test_both_write_the_same_regions(s3_location: tuple[str, dict[str, str]]):
    root, options = s3_location
    connection = lancedb.connect(root, storage_options=options)
    connection.create_table("t", schema=SCHEMA).set_lsm_write_spec(LsmWriteSpec.bucket("tenant", 4))
    engine = QueryEngine(Catalog.open(root, options, writing=WriteOptions(hold_ms=0)))
    expected: dict[tuple[str, int], int] = {}
    for turn in range(2):
        handle = lancedb.connect(root, storage_options=options).open_table("t")
        merging = handle.merge_insert(list(KEY)).when_matched_update_all().when_not_matched_insert_all()
        rows = [{"tenant": "ann", "id": key, "v": turn} for key in (1, 2)]
        merging.execute(pa.Table.from_pylist(rows, SCHEMA))
        inserted = f"INSERT INTO t VALUES ('ann', 2, {10 + turn}), ('eve', 1, {turn})"
        prepared = engine.prepare_statement(inserted, DEFAULT_SETTINGS)
        assert not isinstance(prepared, PreparedQuery)
        prepared.execute([])
        engine.catalog.table("t").writer().flush()

        expected |= {("ann", 1): turn, ("ann", 2): 10 + turn, ("eve", 1): turn}
        found = engine.execute("SELECT * FROM t").read_all().to_pylist()
        assert {(one["tenant"], one["id"]): one["v"] for one in found} == expected
        assert len(found) == len(expected)
    engine.close()
    assert len(list_regions(Storage.open(f"{root}/t.lance", options))) == 2
