"""Rows to the gateway: each task is one ingestion, which appends to a table that is there.

With a primary key the rows are upserts, so that a task that Spark repeats changes nothing. A job has no
commit of its own: rows are visible as they arrive, and stay when the job fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructField, StructType

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError, UnsupportedError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.pipeline.source.client import Gateway, call_first_available, raise_first
from lance_gateway.pipeline.source.options import Options, build_select
from lance_gateway.pipeline.source.types import cast, check_given


@dataclass(frozen=True)
class WrittenRows(WriterCommitMessage):
    """The result of a task."""

    rows: int


@dataclass(frozen=True)
class Target:
    """The target of a write, checked before a task runs.

    Attributes:
        options: gateway and table.
        table: its name.
        schema: of the columns that are written, as the table stores them.
    """

    options: Options
    table: TableName
    schema: pa.Schema

    @staticmethod
    def of(options: Options, schema: StructType, *, overwrite: bool) -> Target:
        """Check that rows of a schema can be written.

        Raises:
            UnsupportedError: the table is to be overwritten.
            NotFoundError: there is no such table.
            InvalidInputError: a column that the table does not have, or of another type.
            PreconditionError: the table has no primary key.
        """
        if options.table is None:
            raise InvalidInputError("option table says where rows go, and is not given")
        table = TableName.parse(options.table)
        if overwrite:
            raise UnsupportedError(
                f"table {table!r} can't be overwritten by a job, whose tasks write while others read: "
                "empty it or replace it through the gateway, and write with mode('append')"
            )

        def look(gateway: Gateway) -> tuple[pa.Schema, tuple[str, ...]]:
            found = gateway.prepare(build_select(options, (), ())).schema
            return found, gateway.primary_key(table)

        found, key = call_first_available(options, look)
        nullable = pa.schema([one.with_nullable(nullable=True) for one in found])
        check_given(StructType([_nullable(field) for field in schema.fields]), nullable)
        missing = [name for name in key if name not in schema.names]
        if missing:
            raise InvalidInputError(
                f"the rows lack {', '.join(missing)} of the primary key of table {table!r}"
            )
        if not key and not options.at_least_once:
            raise PreconditionError(
                f"table {table!r} has no primary key: a task that Spark repeats would write its rows twice; "
                "create it with a PRIMARY KEY, or accept that with the option at_least_once = true"
            )
        return Target(options, table, pa.schema([nullable.field(name) for name in schema.names]))

    def append(self, batches: Iterator[pa.RecordBatch], start: int = 0) -> WrittenRows:
        """Send the rows of one task.

        Raises:
            LanceGatewayError: some of them may have been written.
        """
        first = next(batches, None)
        if first is None:
            return WrittenRows(0)
        rows = (self._convert(batch) for batch in chain([first], batches))
        urls = self.options.urls
        with Gateway(urls[start % len(urls)], self.options) as gateway:
            return WrittenRows(gateway.append(self.table, self.schema, rows))

    def _convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [cast(values, field) for values, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class _Appending:
    """Appends the rows of a task; base of both writers."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """Send the rows of one task."""
        with raise_first():
            return self.target.append(iterator, _task_number())


class GatewayWriter(_Appending, DataSourceArrowWriter):
    """Writes a DataFrame."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is left to do: rows are durable when their task is done."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing can be taken back; the same job may be run again."""


class GatewayStreamWriter(_Appending, DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: rows are durable when their task is done."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing can be taken back; Spark sends the same batch again."""


def _nullable(field: StructField) -> StructField:
    """Whether NULL may be in a column, the gateway says when it meets one."""
    return StructField(field.name, field.dataType, nullable=True)


def _task_number() -> int:
    from pyspark import TaskContext  # noqa: PLC0415 - known in a task only

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
