"""Files as Spark reads them, and a streaming query into the regions of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, PreconditionError
from lance_gateway.pipeline.ingesting.job import ingest
from lance_gateway.pipeline.ingesting.options import IngestOptions, IngestReport
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import Progress, ignore_progress
from lance_gateway.pipeline.spark.runner import carry_errors, translate_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Read = TypeVar("Read")

_FILES = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    # Values are read as text and become what the table's columns are.
    "csv": {"header": "true", "enforceSchema": "false"},
    "json": {"mode": "FAILFAST"},
}
_NOW = frozenset({"available-now", "once"})


@dataclass(frozen=True, slots=True)
class Source:
    """A source of rows that Spark reads.

    Attributes:
        path: of a file or directory; None for a source without, such as Kafka.
        format: as Spark calls it.
        options: of Spark's reader, over what is usual here: CSV has a header.
        schema: of the rows, as SQL writes columns; None for what the files say.
    """

    path: str | None
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None

    def batch(self, spark: SparkSession) -> DataFrame:
        """All rows that are there.

        Raises:
            NotFoundError: there is nothing at the path.
            InvalidInputError: Spark does not read it.
        """
        reader = spark.read.format(self.format).options(**self._options())
        if self.schema is not None:
            reader = self._call_spark(lambda: reader.schema(str(self.schema)))
        return self._call_spark(lambda: reader.load(self.path))

    def stream(self, spark: SparkSession) -> DataFrame:
        """All rows that are there and that come.

        Raises:
            NotFoundError: there is nothing at the path.
            InvalidInputError: Spark does not read it, or no file tells its columns yet.
        """
        reader = spark.readStream.format(self.format).options(**self._options())
        if self.schema is not None:
            reader = self._call_spark(lambda: reader.schema(str(self.schema)))
        elif self.format in _FILES:
            # Spark wants to be told the columns of files that are yet to come.
            columns = self.batch(spark).schema
            if not columns.fields:
                raise InvalidInputError(
                    f"no file in {self.path!r} tells its columns yet: give --schema 'id BIGINT, ..'"
                )
            reader = reader.schema(columns)
        return self._call_spark(lambda: reader.load(self.path))

    def _options(self) -> dict[str, str]:
        return {**_DEFAULTS.get(self.format, {}), **self.options}

    def _call_spark(self, read: Callable[[], Read]) -> Read:
        where = f"{self.path or 'the source'} as {self.format}"
        try:
            return read()
        except Exception as error:
            text = str(error)
            if "PATH_NOT_FOUND" in text:
                raise NotFoundError(f"there is nothing at {self.path!r} to read") from error
            if "DATA_SOURCE_NOT_FOUND" in text:
                raise InvalidInputError(
                    f"Spark knows no format {self.format!r}: parquet, orc, csv and json need nothing, others "
                    "a package (--conf spark.jars.packages=..)"
                ) from error
            if "UNABLE_TO_INFER_SCHEMA" in text:
                raise InvalidInputError(
                    f"no file in {self.path!r} tells its columns: give --schema 'id BIGINT, ..'"
                ) from error
            raise InvalidInputError(str(translate_error(error, f"reading {where}"))) from error


def parse_trigger(text: str | None) -> dict[str, object] | None:
    """Parse `--trigger` to arguments of `DataStreamWriter.trigger`."""
    if text is None:
        return None
    return {"availableNow": True} if text in _NOW else {"processingTime": text}


@dataclass(frozen=True)
class IngestStream:
    """A streaming query that writes to a table."""

    table: LakeTable
    query: StreamingQuery

    def await_end(self, timeout_seconds: int | None = None) -> bool:
        """Wait until the query ends; False where it still runs by then."""
        try:
            if timeout_seconds is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(timeout_seconds))
        except Exception as error:
            raise translate_error(error, f"stream into {self.table.name}") from error

    def stop(self) -> None:
        """End the query; a batch that is under way is written again by the next start."""
        self.query.stop()


def stream(
    rows: DataFrame,
    table: LakeTable,
    *,
    checkpoint: str,
    stream_id: str | None = None,
    trigger: Mapping[str, object] | None = None,
    options: IngestOptions | None = None,
    on_batch: Callable[[IngestReport], object] | None = None,
    progress: Progress = ignore_progress,
) -> IngestStream:
    """Start to upsert the rows of a streaming DataFrame, each batch of it exactly once in effect.

    A batch of which Spark can't tell whether it was written comes again after a restart: it is skipped where
    it is known to be complete, and written again else.

    Args:
        rows: a streaming DataFrame, with columns as `ingest` takes them.
        table: has MemWAL and a primary key.
        checkpoint: directory in which Spark keeps how far the query is; of this query alone.
        stream_id: under which the table knows the stream's batches; None for the id that Spark keeps in the
            checkpoint. That is right after a restart as well as after a fresh start with a new checkpoint,
            whose batches count from 0 again; a name of one's own must be another for a new checkpoint.
        trigger: what `DataStreamWriter.trigger` takes, such as `{"processingTime": "10 seconds"}` or
            `{"availableNow": True}`; None for one batch after another.
        options: of each batch.
        on_batch: is told what became of each batch, in a thread of Spark's.
        progress: counts the tasks of each batch.

    Raises:
        PreconditionError: the rows are no stream.
        InvalidInputError: there is no checkpoint, or Spark does not take the trigger.
        LanceGatewayError: the query does not start.
    """
    if not rows.isStreaming:
        raise PreconditionError(
            f"the rows for table {table.name!r} are no stream: read them with spark.readStream, or ingest()"
        )
    if not checkpoint:
        raise InvalidInputError(
            f"the stream into table {table.name!r} needs a checkpoint: a directory for Spark's notes"
        )
    query_id: Future[str] = Future()

    def write(batch: DataFrame, number: int) -> None:
        with carry_errors():
            job = stream_id or f"stream-{query_id.result()}"
            report = ingest(batch, table, options, job=job, batch=number, progress=progress)
            if on_batch is not None:
                on_batch(report)

    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    try:
        if trigger:
            writer = writer.trigger(**trigger)  # type: ignore[call-overload]  # checked by Spark
        query = writer.queryName(f"ingest {table.name}").start()
    except LanceGatewayError:
        raise
    except Exception as error:
        query_id.cancel()
        raise translate_error(error, f"stream into {table.name}") from error
    query_id.set_result(str(query.id))
    return IngestStream(table, query)
