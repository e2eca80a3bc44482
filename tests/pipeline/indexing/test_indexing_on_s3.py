"""Upkeep and builds of a table on S3."""

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.pipeline.indexing import IndexPolicy, IndexSpec, build, maintain, needs
from lance_gateway.pipeline.jobs.lake import LakeTable

SCHEMA = pa.schema([("id", pa.int64()), ("vec", pa.list_(pa.float32(), 4))])


def rows(first: int, count: int) -> pa.Table:
    vectors = np.random.default_rng(first).random((count, 4), dtype=np.float32)
    return pa.table({"id": range(first, first + count), "vec": list(vectors)}, SCHEMA)


@pytest.mark.slow
def test_a_table_on_s3(s3_location: tuple[str, dict[str, str]]):
    root, options = s3_location
    uri = f"{root}/t.lance"
    lance.write_dataset(rows(0, 200), uri, storage_options=options, max_rows_per_file=100)
    table = LakeTable.at(uri, options)
    for column, kind, parameters in (("id", "BTREE", {}), ("vec", "IVF_FLAT", {"num_partitions": 2})):
        spec = IndexSpec(column, kind, parameters=parameters, segment_rows=100)
        assert build(table, spec).segments == 2
    lance.write_dataset(rows(200, 50), uri, storage_options=options, mode="append")
    report = maintain(table, IndexPolicy(max_spare_fragments=1))
    assert (report.optimised, report.fragments_added) == (("id_idx", "vec_idx"), 1)
    assert needs(table) == ()
    assert table.dataset().to_table(filter="id = 220")["id"].to_pylist() == [220]
