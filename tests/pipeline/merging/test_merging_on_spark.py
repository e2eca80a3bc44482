"""Newest rows that are found by Spark's executors."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import CorruptDataError
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.spark.runner import OnSpark
from tests.support.lake.merged import MergedTable
from tests.support.lake.tables import key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])


@pytest.mark.slow
@pytest.mark.soak
def test_executors_find_what_threads_would(root: Path, writers: WriterProcess, spark: "SparkSession"):
    base = [{"id": one, "v": "base"} for one in range(10)]
    kept = MergedTable.create(root, writers, unpartitioned(("id",), 1), SCHEMA, base)
    for value in ("first", "second"):
        kept.put(*({"id": one, "v": value} for one in range(5, 15)))
        kept.delete({"id": 7}, {"id": 2})
        kept.flush()
    merge(kept.lake_table, runner=OnSpark(spark))
    kept.check()

    kept.put({"id": 1, "v": "lost"})
    kept.flush()
    (region,) = kept.table.regions.values()
    kept.table.generation_directory(region, 3).rename(root / "aside")
    with pytest.raises(CorruptDataError, match=f"generation 3 of region {region} is missing"):
        merge(kept.lake_table, runner=OnSpark(spark))
