"""Segments of an index, and files that are put together, on executors of Spark."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lance_gateway.pipeline.indexing import IndexPolicy, IndexSpec, build, maintain
from lance_gateway.pipeline.spark.runner import OnSpark
from lance_gateway.planner.engine import QueryEngine
from tests.pipeline.indexed_table import IndexedTable, check_lance, rows
from tests.planner.search.sources.replayed import asking
from tests.support.processes.writer_process import WriterProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.soak
def test_builds_and_upkeep_on_spark(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine], spark: "SparkSession"
):
    runner = OnSpark(spark)
    table = IndexedTable(root, writers, rows(range(200)), indexes=False)
    table.turn(range(150, 300), 1, deleted=range(20, 30))
    for column, kind, parameters in (
        ("n", "BTREE", {}),
        ("txt", "INVERTED", {"with_position": True}),
        ("vec", "IVF_FLAT", {"num_partitions": 2}),
    ):
        spec = IndexSpec(column, kind, f"{column}_index", parameters, segment_rows=100)
        assert build(table.lake_table, spec, runner=runner).segments == 2
    ask = asking(open_engine(root))
    table.check(ask)
    table.turn(range(250, 400), 2, deleted=range(40, 50))
    report = maintain(table.lake_table, IndexPolicy(max_spare_fragments=1), runner=runner)
    assert report.fragments_added == 1
    assert report.lagging == ()
    table.check(ask)
    check_lance(table.table.path)
