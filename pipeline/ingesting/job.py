"""One DataFrame into the regions of a table, and how far Spark is with it."""

from __future__ import annotations

import threading
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from memwal.errors import InvalidInputError, LanceGatewayError
from memwal.writing import OpenTable
from pipeline.ingesting.columns import REGION, Columns, Router
from pipeline.ingesting.options import IngestOptions, IngestReport, RegionReport
from pipeline.ingesting.writing import WRITTEN, BatchMarkers, RegionsWriter
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.runners import Progress, silent
from pipeline.spark.runner import told, versions

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_SECONDS = 0.5


@contextmanager
def watched(context: SparkContext, title: str, tasks: int, progress: Progress) -> Iterator[None]:
    """Tell how many tasks of the last stage are done while a block runs Spark jobs in this thread.

    Args:
        context: of Spark.
        title: of the job.
        tasks: of its last stage.
        progress: is told; nobody asks Spark where it is `silent`.
    """
    if progress is silent:
        yield
        return
    group = f"lance-gateway-{uuid.uuid4()}"
    context.setJobGroup(group, title)
    ended = threading.Event()
    with progress(title, tasks) as advance:

        def watch() -> None:
            told = 0
            while not ended.wait(_SECONDS):
                done = min(_done(context, group, tasks), tasks)
                advance(done - told)
                told = max(told, done)

        thread = threading.Thread(target=watch, name="watch-spark", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # as Spark clears it
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def _done(context: SparkContext, group: str, tasks: int) -> int:
    """Tasks of the newest stage that are done; 0 while that is another than the last."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(one) for one in tracker.getJobIdsForGroup(group))
    stages = [stage for job in jobs if job is not None for stage in job.stageIds]
    newest = tracker.getStageInfo(max(stages)) if stages else None
    return newest.numCompletedTasks if newest is not None and newest.numTasks == tasks else 0


_MOST_TASKS = 1024


def ingest(
    rows: DataFrame,
    table: LakeTable,
    options: IngestOptions | None = None,
    *,
    job: str | None = None,
    batch: int = 0,
    progress: Progress = silent,
) -> IngestReport:
    """Upsert the rows of a DataFrame.

    When this returns, all rows are durable, and whoever reads the table's regions sees them. When it raises
    because rows don't fit, none was written; when it raises for another reason, some may have been, and to
    call it again is safe: each row is the newest of its key, however often it is written.

    Args:
        rows: with the table's columns by name; columns that may be NULL can be missing.
        table: has MemWAL and a primary key.
        options: of the job.
        job: a name that is kept over restarts, under which a batch that is complete is not written again;
            None for a job of its own.
        batch: number of the batch in its job; batches count upwards.
        progress: is told of tasks.

    Raises:
        PreconditionError: the table takes no such writes, or executors have other versions.
        InvalidInputError: the rows don't fit the table; names table, column and the row's key.
        UnavailableError: storage failed, or another writer kept a region, in all tries of a task.
    """
    options = options or IngestOptions()
    markers = BatchMarkers.one_shot(table.storage) if job is None else BatchMarkers(table.storage, job)
    if job is not None and markers.is_complete(batch):
        return IngestReport(table.name, markers.job, batch, is_skipped=True)
    plan = _Plan.of(rows, table, options)
    written = plan.frame(rows, markers.job, batch)
    title = f"ingest {table.name}"
    with watched(written.sparkSession.sparkContext, title, plan.tasks, progress):
        try:
            found = written.collect()
        except Exception as error:
            if job is None:
                _end(markers, batch)
            raise told(error, title) from error
    markers.complete(batch)
    regions = sorted((RegionReport(*row) for row in found), key=lambda one: one.region_id)
    return IngestReport(table.name, markers.job, batch, tuple(regions))


def _end(markers: BatchMarkers, batch: int) -> None:
    """Have attempts that still run somewhere write nothing more for a job that nobody repeats."""
    with suppress(LanceGatewayError):
        markers.complete(batch)


@dataclass(frozen=True)
class _Plan:
    """How the rows of a DataFrame get to their regions.

    Attributes:
        table: where they go.
        options: of the job.
        columns: how rows fit the table.
        given: schema of the rows, as Arrow has it.
        numbers: of regions that are there.
        tasks: how many write.
    """

    table: LakeTable
    options: IngestOptions
    columns: Columns
    given: pa.Schema
    numbers: dict[str, int] = field(hash=False)
    tasks: int

    @staticmethod
    def of(rows: DataFrame, table: LakeTable, options: IngestOptions) -> _Plan:
        opened = OpenTable.open(table.name, table.storage)
        given = arrow_schema(rows, table.name)
        columns = Columns.fitting(given, opened, options)
        numbers = {one: at for at, one in enumerate(opened.regions.list_existing())}
        cores = rows.sparkSession.sparkContext.defaultParallelism
        tasks = options.tasks or min(len(numbers) or 2 * cores, _MOST_TASKS)
        return _Plan(table, options, columns, given, numbers, tasks)

    def frame(self, rows: DataFrame, job: str, batch: int) -> DataFrame:
        """Rows of `WRITTEN`, when it is collected."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - optional
        from pyspark.sql.types import LongType, StringType, StructField, StructType  # noqa: PLC0415

        kept = [*self.columns.given, *self._extras()]
        fields, output = [], []
        for name in kept:
            casted = sortable(self.columns.schema.field(name).type) if name in self.columns.given else None
            kind = rows.schema[name].dataType
            if casted is not None and casted[0] != self.given.field(name).type:
                arrow, kind = casted[0], casted[1]()
            else:
                arrow = self.given.field(name).type
            fields.append(StructField(name, kind))
            output.append(pa.field(name, arrow))
        fields.append(StructField(REGION, LongType()))
        output.append(pa.field(REGION, pa.int64()))
        here = versions()
        router = Router(self.table, self.columns, pa.schema(output), self.numbers, here)
        writer = RegionsWriter(self.table, self.columns, job, batch, self.options, here)
        by_key = [quoted(one) for one in (*self.columns.key, *self.options.order_by)]
        order = [REGION, *(by_key if self.options.keeps_last else ())]
        result = StructType(
            [
                StructField(one.name, StringType() if kinds.is_string(one.type) else LongType())
                for one in WRITTEN
            ]
        )
        routed = local_times(rows, self.columns).select(*map(quoted, kept))
        with warnings.catch_warnings():
            # Spark warns of pandas where it looks for its version; for Arrow it uses none of it.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
            return (
                routed.mapInArrow(router, StructType(fields))
                .repartitionById(self.tasks, f.expr(f"cast({REGION} % {self.tasks} as int)"))
                .sortWithinPartitions(*order)
                .mapInArrow(writer, result)
            )

    def _extras(self) -> list[str]:
        named = (*self.options.order_by, self.options.deleted_column)
        return [one for one in named if one is not None and one not in self.columns.given]


def arrow_schema(rows: DataFrame, table: str) -> pa.Schema:
    """Schema of a DataFrame's rows as they reach Python.

    Raises:
        InvalidInputError: a type has no counterpart.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - optional
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415

    zone = rows.sparkSession.conf.get("spark.sql.session.timeZone")
    fields = []
    for one in rows.schema.fields:
        try:
            fields.append(pa.field(one.name, to_arrow_type(one.dataType, timezone=zone)))
        except PySparkException as error:
            kind = one.dataType.simpleString()
            raise InvalidInputError(
                f"table {table!r}: column {one.name!r} of the rows is {kind}, which Arrow has not: cast it"
            ) from error
    return pa.schema(fields)


def sortable(kind: pa.DataType) -> tuple[pa.DataType, type[DataType]] | None:
    """The Arrow and Spark types in which a column's values are sorted; None where they stay as they came."""
    from pyspark.sql import types  # noqa: PLC0415 - optional

    table: tuple[tuple[pa.DataType, pa.DataType, type[DataType]], ...] = (
        (pa.bool_(), pa.bool_(), types.BooleanType),
        (pa.int8(), pa.int8(), types.ByteType),
        (pa.int16(), pa.int16(), types.ShortType),
        (pa.int32(), pa.int32(), types.IntegerType),
        (pa.int64(), pa.int64(), types.LongType),
        (pa.uint8(), pa.int16(), types.ShortType),
        (pa.uint16(), pa.int32(), types.IntegerType),
        (pa.uint32(), pa.int64(), types.LongType),
        (pa.float32(), pa.float32(), types.FloatType),
        (pa.float64(), pa.float64(), types.DoubleType),
        (pa.string(), pa.string(), types.StringType),
        (pa.large_string(), pa.string(), types.StringType),
        (pa.binary(), pa.binary(), types.BinaryType),
        (pa.large_binary(), pa.binary(), types.BinaryType),
        (pa.date32(), pa.date32(), types.DateType),
        (pa.timestamp("us"), pa.timestamp("us"), types.TimestampNTZType),
    )
    return next(((arrow, spark) for stored, arrow, spark in table if stored == kind), None)


def local_times(rows: DataFrame, columns: Columns) -> DataFrame:
    """Timestamps with and without zone, one from the other as Spark does it: by the session's zone."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - optional
    from pyspark.sql.types import TimestampNTZType, TimestampType  # noqa: PLC0415

    changed = {}
    for name in columns.given:
        wanted, given = columns.schema.field(name).type, rows.schema[name].dataType
        if kinds.is_timestamp(wanted):
            if isinstance(given, TimestampType) and wanted.tz is None:
                changed[name] = f.col(quoted(name)).cast("timestamp_ntz")
            elif isinstance(given, TimestampNTZType) and wanted.tz is not None:
                changed[name] = f.col(quoted(name)).cast("timestamp_ltz")
    return rows.withColumns(changed) if changed else rows


def quoted(name: str) -> str:
    """A column's name as Spark's expressions take it."""
    return "`" + name.replace("`", "``") + "`"
