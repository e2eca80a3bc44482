"""Flight streams of results, in batches that every client can read.

Batches are sliced below 4 MiB, the limit of some gRPC clients. They pass through a Python generator: it does
not copy batches and costs nothing measurable beside a stream in C++, errors in the middle of a stream are
translated like others, and the stream ends as soon as its client has gone.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeAlias

import pyarrow as pa
from pyarrow import flight

from lance_gateway.gateway.execution.own_statement import EndlessStatement, OwnStatement
from lance_gateway.gateway.execution.parameters import iterate_rows
from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.execution.running_queries import Queries
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.errors import ResultTooLargeError, find_status, keep_text, translate_error
from lance_gateway.gateway.protocol.sql_types import describe_result_schema
from lance_gateway.planner.engine import Constant, PreparedQuery, SessionSettings

Readers: TypeAlias = Callable[[Query], Iterable[pa.RecordBatchReader]]
"""Starts a statement: readers whose batches follow one another in one stream."""


def slice_batch(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield `batch` in slices of at most `limit` bytes on the wire; a single row is never divided.

    A batch without rows yields nothing.
    """
    rows = batch.num_rows
    if rows == 0:
        return
    # The size in memory is quick to know and, padding and header aside, the size on the wire.
    if rows == 1 or batch.nbytes < limit // 2:
        yield batch
        return
    size = pa.ipc.get_record_batch_size(batch)
    if size <= limit:
        yield batch
        return
    # Rows may differ in width: what is still too wide is divided again.
    step = max(1, min(rows - 1, rows * limit // size))
    for start in range(0, rows, step):
        yield from slice_batch(batch.slice(start, step), limit)


CallObserver: TypeAlias = Callable[[str, str, float], None]
"""Observes a call that has ended: its Flight method, its gRPC status, its seconds."""


def ignore_call(method: str, status: str, seconds: float) -> None:
    """Do nothing: the default observer."""


# Passed along, since pyarrow reads the environment wherever it has to make them.
_OPTIONS = pa.ipc.IpcWriteOptions()
_MAX_CONSTANTS = 256


class Streams:
    """Sends results.

    Args:
        queries: the statements whose results these are.
        on_call_finished: observes the calls of the streams.
        conceal: takes out of messages what clients may not see.

    Attributes:
        queries: as given.
    """

    def __init__(
        self,
        queries: Queries,
        on_call_finished: CallObserver = ignore_call,
        conceal: Callable[[str], str] = keep_text,
    ) -> None:
        self.queries = queries
        self._conceal = conceal
        self._on_call_finished = on_call_finished
        self._constants: dict[Constant, flight.RecordBatchStream] = {}
        """Streams that can be sent any number of times: one sends all rows of a table in memory."""

    def run(
        self,
        plan: PreparedQuery | OwnStatement,
        statement_id: bytes,
        settings: SessionSettings,
        call: Call,
        parameters: pa.Table | None = None,
    ) -> flight.FlightDataStream:
        """Redeem the ticket of a query, and return the stream of its results.

        Args:
            plan: the query; a statement of the gateway's own is run at once.
            statement_id: 16 bytes, of the ticket.
            settings: of the session that asked.
            call: that brings the ticket.
            parameters: one row for each execution, whose results follow one another; None for one without.

        Raises:
            NotFoundError: the ticket was used, or its statement was cancelled.
        """
        query = self.queries.redeem(statement_id, plan.sql, settings, call)
        if isinstance(plan, EndlessStatement):
            return self._send_endless(plan, query, call)
        if isinstance(plan, OwnStatement):
            return self.send_listing(plan.run(call))
        query.is_exempt = plan.reads_only_system

        def readers(query: Query) -> Iterator[pa.RecordBatchReader]:
            for row in ((),) if parameters is None else iterate_rows(parameters):
                yield plan.execute(row, settings, query.control)

        return self.send(describe_result_schema(plan), query, readers, plan.constant)

    def send(
        self, schema: pa.Schema, query: Query, readers: Readers, constant: Constant | None = None
    ) -> flight.FlightDataStream:
        """Return the stream of a statement, which starts when its first batch is requested.

        Each reader is taken when the one before it is exhausted, and closed before the next is taken and when
        the client goes away.

        Args:
            schema: of the result.
            query: the execution.
            readers: start it.
            constant: the whole result, small, where no execution is needed: it is sent without Python's help.
        """
        started = time.perf_counter()
        if constant is None:
            return flight.GeneratorStream(schema, self._read_batches(query, readers, started), _OPTIONS)
        with self.queries.run(query):
            self._count(query, constant.table.num_rows, constant.nbytes)
        stream = self._constants.get(constant)
        if stream is None:
            rows = pa.Table.from_batches(constant.table.to_batches(), schema)
            stream = flight.RecordBatchStream(rows, _OPTIONS)
            if len(self._constants) >= _MAX_CONSTANTS:
                self._constants.clear()
            self._constants[constant] = stream
        self._on_call_finished("DoGet", "OK", time.perf_counter() - started)
        return stream

    def send_listing(self, *rows: pa.RecordBatch, schema: pa.Schema | None = None) -> flight.FlightDataStream:
        """Return the stream of rows that no statement computes, such as metadata.

        Args:
            rows: batches of one schema.
            schema: the same under which they are sent, where there may be none, or it says more.
        """
        self._on_call_finished("DoGet", "OK", 0.0)
        limit = self.queries.limits.max_batch_bytes
        parts = (part for batch in rows for part in slice_batch(batch, limit))
        return flight.GeneratorStream(rows[0].schema if schema is None else schema, parts, _OPTIONS)

    def _send_endless(self, plan: EndlessStatement, query: Query, call: Call) -> flight.FlightDataStream:
        """Return the stream of a statement without an end; its limits are those of each batch."""
        query.is_endless = True
        batches = self._read_endless(plan, query, call, time.perf_counter())
        return flight.GeneratorStream(describe_result_schema(plan), batches, _OPTIONS)

    def _read_endless(
        self, plan: EndlessStatement, query: Query, call: Call, started: float
    ) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        with self._observe(started), self.queries.run(query):
            for batch, metadata in self.queries.work_for_each(query, plan.follow(query, call)):
                if batch.num_rows and query.first_batch_at is None:
                    query.first_batch_at = datetime.now(UTC)
                query.rows += batch.num_rows
                query.bytes += batch.nbytes
                query.sending_since = time.monotonic()
                yield batch, metadata
                query.sending_since = None

    def _read_batches(self, query: Query, readers: Readers, started: float) -> Iterator[pa.RecordBatch]:
        limit = self.queries.limits.max_batch_bytes
        with self._observe(started), self.queries.run(query):
            for batch in self.queries.work_for_each(query, _iterate_batches(readers, query)):
                self._count(query, batch.num_rows, batch.nbytes)
                for part in slice_batch(batch, limit):
                    query.sending_since = time.monotonic()
                    yield part
                    query.sending_since = None

    @contextmanager
    def _observe(self, started: float) -> Iterator[None]:
        """Translate the error that ends a stream for its client, and count the call."""
        status = "CANCELLED"  # unless it ends otherwise
        try:
            yield
            status = "OK"
        except BaseException as error:  # noqa: BLE001 - the boundary: nothing passes it unexamined
            failure = translate_error(error, "DoGet", self._conceal)
            if isinstance(failure, Exception):
                status = find_status(failure)
            try:
                raise failure from None
            finally:
                # Its traceback has this frame: the cycle would keep the reader, and the execution running.
                del failure
        finally:
            self._on_call_finished("DoGet", status, time.perf_counter() - started)

    def _count(self, query: Query, rows: int, nbytes: int) -> None:
        """Add a batch to the statement's counts; fail if the statement was stopped.

        Raises:
            ResultTooLargeError: the result is larger than it may be.
        """
        if query.control.error is not None:
            raise query.control.error
        if query.first_batch_at is None:
            query.first_batch_at = datetime.now(UTC)
        query.rows += rows
        query.bytes += nbytes
        limits = self.queries.limits
        if 0 < limits.max_result_rows < query.rows:
            raise ResultTooLargeError(
                f"the result has more than {limits.max_result_rows} rows: add a LIMIT or a condition, or ask "
                "the operator to raise max_result_rows"
            )
        if 0 < limits.max_result_bytes < query.bytes:
            raise ResultTooLargeError(
                f"the result has more than {limits.max_result_bytes} bytes: select fewer columns or rows, or "
                "ask the operator to raise max_result_bytes"
            )


def _iterate_batches(readers: Readers, query: Query) -> Generator[pa.RecordBatch]:
    for reader in readers(query):
        with reader:
            yield from reader
