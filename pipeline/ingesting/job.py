"""Writes a DataFrame to the regions of a table, and watches the progress of its Spark job."""

from __future__ import annotations

import threading
import uuid
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.memwal.writing import OpenTable
from lance_gateway.pipeline.ingesting.columns import REGION, Columns, Router
from lance_gateway.pipeline.ingesting.options import IngestOptions, IngestReport, RegionReport
from lance_gateway.pipeline.ingesting.writing import WRITTEN, BatchMarkers, RegionsWriter
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import Progress, ignore_progress
from lance_gateway.pipeline.spark.runner import translate_error, versions

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_SECONDS = 0.5


@contextmanager
def watch_tasks(context: SparkContext, title: str, tasks: int, progress: Progress) -> Iterator[None]:
    """Report the completed tasks of the last stage while a block runs Spark jobs in this thread.

    Jobs of a thread that has a group stay in it: that of a streaming query is cancelled when the query stops.

    Args:
        context: context of Spark.
        title: title of the job.
        tasks: number of tasks of the last stage.
        progress: shows the progress; `ignore_progress` avoids asking Spark.
    """
    if progress is ignore_progress:
        yield
        return
    known = context.getLocalProperty("spark.jobGroup.id")
    group = known or f"lance-gateway-{uuid.uuid4()}"
    if known is None:
        context.setJobGroup(group, title)
    before = frozenset(context.statusTracker().getJobIdsForGroup(group))
    ended = threading.Event()
    reported = 0
    with progress(title, tasks, "task") as advance:

        def watch() -> None:
            nonlocal reported
            while not ended.wait(_SECONDS):
                done = _count_done_tasks(context, group, before, tasks)
                if done > reported:  # An earlier stage may have as many tasks as the last one.
                    advance(done - reported)
                    reported = done

        thread = threading.Thread(target=watch, name="watch-spark", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            if known is None:
                context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # as Spark clears it
                context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
        advance(tasks - reported)


def _count_done_tasks(context: SparkContext, group: str, before: Collection[int], tasks: int) -> int:
    """Return the number of completed tasks of the last stage; 0 while an earlier one runs.

    Args:
        context: context of Spark.
        group: of the jobs.
        before: jobs of the group that ran before.
        tasks: number of tasks of the last stage.
    """
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(one) for one in tracker.getJobIdsForGroup(group) if one not in before)
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
    progress: Progress = ignore_progress,
) -> IngestReport:
    """Upsert the rows of a DataFrame.

    When this returns, all rows are durable and visible to readers of the table's regions. If rows don't fit,
    no row is written. After other errors some rows may have been written; the call can be repeated, since a
    row that is written twice is the newest of its key both times.

    Args:
        rows: rows with the table's columns by name; nullable columns may be missing.
        table: table with a MemWAL and a primary key.
        options: options of the job.
        job: name that stays the same over restarts; a complete batch of this name is not written again. None
            for a job that is not repeated.
        batch: number of the batch in its job, ascending.
        progress: counts tasks.

    Raises:
        PreconditionError: the table does not take such writes, or executors have other versions.
        InvalidInputError: the rows don't fit the table; names table, column and the row's key.
        UnavailableError: storage failed, or another writer held a region, in all attempts of a task.
    """
    options = options or IngestOptions()
    markers = BatchMarkers.one_shot(table.storage) if job is None else BatchMarkers(table.storage, job)
    if job is not None and markers.is_complete(batch):
        return IngestReport(table.name, markers.job, batch, is_skipped=True)
    plan = _Plan.of(rows, table, options)
    written = plan.build_frame(rows, markers.job, batch)
    title = f"ingest {table.name}" if job is None else f"ingest {table.name}, batch {batch}"
    with watch_tasks(written.sparkSession.sparkContext, title, plan.tasks, progress):
        try:
            found = written.collect()
        except Exception as error:
            if job is None:
                _end_job(markers, batch)
            raise translate_error(error, title) from error
    markers.mark_complete(batch)
    regions = sorted((RegionReport(*row) for row in found), key=lambda one: one.region_id)
    return IngestReport(table.name, markers.job, batch, tuple(regions))


def _end_job(markers: BatchMarkers, batch: int) -> None:
    """Stop attempts that still run for a failed job that is not repeated."""
    with suppress(LanceGatewayError):
        markers.mark_complete(batch)


@dataclass(frozen=True)
class _Plan:
    """The plan of writing a DataFrame to regions.

    Attributes:
        table: table that is written.
        options: options of the job.
        columns: mapping of the rows' columns to the table's.
        given: Arrow schema of the rows.
        numbers: region id -> number, of existing regions.
        tasks: number of writing tasks.
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
        columns = Columns.match_schema(given, opened, options)
        numbers = {one: at for at, one in enumerate(opened.regions.list_existing())}
        cores = rows.sparkSession.sparkContext.defaultParallelism
        tasks = options.tasks or min(len(numbers) or 2 * cores, _MOST_TASKS)
        return _Plan(table, options, columns, given, numbers, tasks)

    def build_frame(self, rows: DataFrame, job: str, batch: int) -> DataFrame:
        """Build the DataFrame that writes the rows when it is collected, and returns rows of `WRITTEN`."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - optional
        from pyspark.sql.types import LongType, StringType, StructField, StructType  # noqa: PLC0415

        kept = [*self.columns.given, *self._list_extra_columns()]
        fields, output = [], []
        for name in kept:
            casted = (
                find_sort_types(self.columns.schema.field(name).type) if name in self.columns.given else None
            )
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
        by_key = [quote_name(one) for one in (*self.columns.key, *self.options.order_by)]
        order = [REGION, *(by_key if self.options.keeps_last else ())]
        result = StructType(
            [
                StructField(one.name, StringType() if kinds.is_string(one.type) else LongType())
                for one in WRITTEN
            ]
        )
        routed = convert_local_times(rows, self.columns).select(*map(quote_name, kept))
        with warnings.catch_warnings():
            # Spark checks the version of pandas, which it does not use for Arrow.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
            return (
                routed.mapInArrow(router, StructType(fields))
                .repartitionById(self.tasks, f.expr(f"cast({REGION} % {self.tasks} as int)"))
                .sortWithinPartitions(*order)
                .mapInArrow(writer, result)
            )

    def _list_extra_columns(self) -> list[str]:
        named = (*self.options.order_by, self.options.deleted_column)
        return [one for one in named if one is not None and one not in self.columns.given]


def arrow_schema(rows: DataFrame, table: str) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's rows.

    Raises:
        InvalidInputError: a type has no counterpart in Arrow.
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


def find_sort_types(kind: pa.DataType) -> tuple[pa.DataType, type[DataType]] | None:
    """Return the Arrow and Spark types in which a column is sorted; None if it is not converted."""
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


def convert_local_times(rows: DataFrame, columns: Columns) -> DataFrame:
    """Convert between timestamps with and without time zone by the session's zone, as Spark does."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - optional
    from pyspark.sql.types import TimestampNTZType, TimestampType  # noqa: PLC0415

    changed = {}
    for name in columns.given:
        wanted, given = columns.schema.field(name).type, rows.schema[name].dataType
        if kinds.is_timestamp(wanted):
            if isinstance(given, TimestampType) and wanted.tz is None:
                changed[name] = f.col(quote_name(name)).cast("timestamp_ntz")
            elif isinstance(given, TimestampNTZType) and wanted.tz is not None:
                changed[name] = f.col(quote_name(name)).cast("timestamp_ltz")
    return rows.withColumns(changed) if changed else rows


def quote_name(name: str) -> str:
    """Quote a column's name for Spark's expressions."""
    return "`" + name.replace("`", "``") + "`"
