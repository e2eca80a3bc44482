"""A streaming query into the regions of a table."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError
from pipeline.ingesting.job import ingest
from pipeline.ingesting.options import IngestOptions
from pipeline.ingesting.report import IngestReport
from pipeline.jobs.lake import LakeTable
from pipeline.spark.carrying import carrying, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True)
class IngestStream:
    """A streaming query that writes to a table.

    Attributes:
        table: where it writes.
        query: as Spark has it.
    """

    table: LakeTable
    query: StreamingQuery

    def await_end(self, timeout_seconds: int | None = None) -> bool:
        """Wait until the query ends; False where it still runs by then.

        Raises:
            LanceGatewayError: why it failed; started again from its checkpoint, it goes on where it was.
        """
        try:
            if timeout_seconds is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(timeout_seconds))
        except Exception as error:
            raise told(error, f"stream into {self.table.name}") from error

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

    Raises:
        PreconditionError: the rows are no stream.
        InvalidInputError: there is no checkpoint, or Spark does not take the trigger.
        LanceGatewayError: the query does not start.
    """
    if not rows.isStreaming:
        msg = f"the rows for table {table.name!r} are no stream: read them with spark.readStream, or ingest()"
        raise PreconditionError(msg)
    if not checkpoint:
        msg = f"the stream into table {table.name!r} needs a checkpoint: a directory for Spark's notes"
        raise InvalidInputError(msg)
    query_id: Future[str] = Future()

    def write(batch: DataFrame, number: int) -> None:
        with carrying():
            job = stream_id or f"stream-{query_id.result()}"
            report = ingest(batch, table, options, job=job, batch=number)
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
        raise told(error, f"stream into {table.name}") from error
    query_id.set_result(str(query.id))
    return IngestStream(table, query)
