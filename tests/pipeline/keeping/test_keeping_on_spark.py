"""A root kept healthy by one Spark job, a streaming query."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from lance_gateway.pipeline.jobs.runners import Progress, Runner
from lance_gateway.pipeline.keeping import Keeper, Policies
from lance_gateway.pipeline.keeping.keeper import STEPS, StepResult
from lance_gateway.pipeline.keeping.running import QUERY, stream_until
from lance_gateway.pipeline.status import read_status
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])


@pytest.mark.soak
def test_each_trigger_is_a_look_at_all_tables(root: Path, writers: WriterProcess, spark: "SparkSession"):
    base = pa.Table.from_pylist([{"id": one, "v": "base"} for one in range(10)], schema=SCHEMA)
    written = LsmTable.create(root, "t", base, bucketed("id", 2, recorded=True), writers)
    stop = threading.Event()
    looks: list[int] = []

    def last(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> StepResult:
        del policies, runner, progress
        looks.append(read_status(table).pending_generations)
        if len(looks) == 2:
            stop.set()
        return StepResult("looked")

    written.put([{"id": 1, "v": "new"}, {"id": 2, "v": "new"}, {"id": 3, "v": "new"}])
    written.close_writers()
    steps = {"merge": STEPS["merge"], "index": last}
    keeper = Keeper(Lake.open(str(root)), Policies(), steps=steps, stop=stop)

    stream_until(keeper, spark, stop, 0.01)

    assert looks == [0, 0]
    assert {row["v"] for row in written.dataset().to_table(filter="id in (1, 2, 3)").to_pylist()} == {"new"}
    assert spark.streams.active == []


def test_a_query_that_ends_by_itself_is_told(root: Path, spark: "SparkSession"):
    keeper = Keeper(Lake.open(str(root)), Policies())
    stop = threading.Event()

    def end() -> None:
        while not (found := [one for one in spark.streams.active if one.name == QUERY]):
            stop.wait(0.01)
        found[0].stop()

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(UnavailableError, match="lance-pipeline ended by itself"):
        stream_until(keeper, spark, stop, 0.01)
    thread.join()
