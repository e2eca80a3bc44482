"""Forwards rows over Flight from the gateway that received them to the one that owns their region.

`Forwarding` sends: `memwal.writing` calls it under the ownership policy "forward". `ForwardedRows` receives:
it handles a DoPut command that only other gateways may send. See `protos/forwarding.proto`.

The owner writes nothing before it has read every announced row, so an attempt that fails before the last row
was sent has written nothing. After that, the same request is sent again under the same id, and the owner
writes it once. If the owner can't be reached any more, or was restarted, the outcome is unknown
(`OutcomeUnknownError`).
"""

import logging
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

import pyarrow as pa
from pyarrow import flight

from lance_gateway.gateway.execution.batches import align_batch, decode_rows, encode_rows
from lance_gateway.gateway.execution.query import current_statement
from lance_gateway.gateway.peers.peer_identity import PEER, Trust
from lance_gateway.gateway.protocol.commands import Call, Exchange, Handler
from lance_gateway.gateway.protocol.wire import decode
from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.memwal.writing import (
    Changes,
    FencedError,
    NotOwnerError,
    OutcomeUnknownError,
    WriteReceipt,
)
from lance_gateway.memwal.writing.options import UnreachableError
from lance_gateway.planner.bridge.types.plain_types import check_types
from lance_gateway.planner.bridge.types.value_sizes import is_expanding, measure
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import forwarding_pb2 as wire
from lance_gateway.protos.flight_sql import format_error, pack

T = TypeVar("T")


class OnceExecutor(Generic[T]):
    """Executes requests at most once, by id, and remembers outcomes for a while; thread-safe.

    No outcome is evicted early: a repeated request would be executed again.

    Args:
        seconds: how long an outcome is remembered.
        clock: seconds, never going back.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        if seconds <= 0:
            raise InvalidInputError(f"outcomes are remembered for {seconds} s: choose more than 0")
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._outcomes: OrderedDict[bytes, tuple[float, Future[T]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._outcomes)

    def execute(self, request_id: bytes, work: Callable[[], T], patience: float) -> T:
        """Execute a request, or wait for the outcome of another call of the same request.

        Args:
            request_id: of the request.
            work: returns its outcome; what it raises is the outcome, too.
            patience: seconds to wait for the other call.

        Raises:
            TimeoutError: the other call takes longer.
        """
        with self._lock:
            now = self._clock()
            while self._outcomes and next(iter(self._outcomes.values()))[0] < now - self._seconds:
                self._outcomes.popitem(last=False)
            outcome = self._outcomes.get(request_id)
            mine: Future[T] = Future()
            if outcome is None:
                self._outcomes[request_id] = now, mine
        if outcome is not None:
            return outcome[1].result(patience)
        try:
            mine.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the outcome of whoever asks
            mine.set_exception(error)
        return mine.result()


logger = logging.getLogger(__name__)

_INSTANCE = secrets.token_bytes(16)
"""Id of this process: a restarted gateway remembers no earlier request."""
# Longer than any sender goes on trying.
_REMEMBERED_SECONDS = 600.0
# How long a sender retries after the connection to the owner broke.
_RETRY_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 1.0
# What a column may stand for that takes less, such as one of nulls.
_MAX_EXPANDED_BYTES = 64 << 20
# pyarrow's prefix of gRPC messages.
_PREFIX = re.compile(r"^Flight returned .*?, with message: ")
# Errors in an owner's answer that are more specific than the gRPC status.
_ERRORS: Mapping[str, type[LanceGatewayError]] = {
    kind.__name__: kind for kind in (FencedError, NotOwnerError, OutcomeUnknownError, NotFoundError)
}
_STATUSES: Mapping[str, type[LanceGatewayError]] = {
    kind.status: kind
    for kind in (InvalidInputError, NotFoundError, UnsupportedError, UnavailableError, PreconditionError)
}


class Forwarding:
    """Sends rows to the owners of their regions; safe to share between threads.

    Args:
        trust: how gateways know each other.
        timeout_seconds: for one request, all its attempts together.
    """

    def __init__(self, trust: Trust, timeout_seconds: float) -> None:
        if timeout_seconds <= 0:
            raise InvalidInputError(f"forwarding may take {timeout_seconds} s: choose more than 0")
        self._trust = trust
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._clients: dict[str, flight.FlightClient] = {}

    def forward(self, url: str, table: str, region_id: str, changes: Changes) -> WriteReceipt:
        """Forward rows to the owner of a region, and wait until they are durable.

        Raises:
            UnreachableError: nothing was written: no gateway answers there, or it refuses rows from this one.
            OutcomeUnknownError: the owner went away while it had the rows.
            LanceGatewayError: what the owner answered; NotOwnerError where it owns the region no longer.
        """
        if self._trust.encrypted and not url.startswith("grpc+tls:"):
            raise UnreachableError(
                f"the owner of region {region_id} of table {table!r} is at {url}, and rows go to "
                "gateways with TLS only"
            )
        query = current_statement()
        upserts, deletes = (
            0 if part is None else part.num_rows for part in (changes.upserts, changes.deletes)
        )
        message = wire.ForwardChanges(
            request_id=secrets.token_bytes(16),
            table=table,
            region_id=region_id,
            upserts=upserts,
            deletes=deletes,
            user="" if query is None else query.user,
            query_id="" if query is None else query.id,
        )
        until = time.monotonic() + self._timeout_seconds
        given_up_at = until
        pause = _PAUSE_SECONDS
        while True:
            seconds = max(until - time.monotonic(), 0.001)
            attempt = _Attempt(self._get_client(url), self._trust.build_options(url, seconds))
            try:
                outcome = attempt.run(message, changes)
            except (pa.ArrowException, flight.FlightError, OSError, StopIteration) as error:
                self._forget(url, attempt.client)
                reason = _PREFIX.sub("", format_error(error)) or "the connection broke"
                if not message.instance and not attempt.is_complete:
                    raise UnreachableError(
                        f"the owner of region {region_id} of table {table!r} takes no rows at {url}: {reason}"
                    ) from None
                if not message.instance:
                    message.instance = attempt.instance
                    given_up_at = min(until, time.monotonic() + _RETRY_SECONDS)
                if time.monotonic() + pause >= given_up_at:
                    raise OutcomeUnknownError(
                        f"rows for region {region_id} of table {table!r} were on their way to its owner at "
                        f"{url}, which can't be asked any more ({reason}): whether they were written is "
                        "unknown"
                    ) from None
                logger.info("asking %s again about rows of table %r: %s", url, table, reason)
                time.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE_SECONDS)
                continue
            if outcome.error:
                raise _decode_error(outcome)
            return WriteReceipt({region_id: outcome.rows})

    def flush(self, url: str, table: str, region_id: str) -> int:
        """Ask the owner of a region to flush it; return how many rows it flushed.

        Raises:
            UnreachableError: no gateway answers there, or it does not know this request.
            LanceGatewayError: what the owner answered; NotOwnerError where it owns the region no longer.
        """
        query = current_statement()
        message = wire.FlushRegion(
            table=table,
            region_id=region_id,
            user="" if query is None else query.user,
            query_id="" if query is None else query.id,
        )
        client = self._get_client(url)
        descriptor = flight.FlightDescriptor.for_command(pack(message))
        options = self._trust.build_options(url, self._timeout_seconds)
        try:
            writer, answers = client.do_put(descriptor, pa.schema([]), options)
            with writer:
                writer.done_writing()
                outcome = decode(
                    wire.ForwardOutcome, _encode_schema(answers), "the answer of another gateway"
                )
        except (pa.ArrowException, flight.FlightError, OSError, StopIteration) as error:
            self._forget(url, client)
            reason = _PREFIX.sub("", format_error(error)) or "the connection broke"
            raise UnreachableError(
                f"the owner of region {region_id} of table {table!r} was not asked to flush it at {url}: "
                f"{reason}"
            ) from None
        if outcome.error:
            raise _decode_error(outcome)
        return int(outcome.rows)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _get_client(self, url: str) -> flight.FlightClient:
        with self._lock:
            client = self._clients.get(url)
            if client is None:
                client = self._clients[url] = self._trust.connect(url)
            return client

    def _forget(self, url: str, client: flight.FlightClient) -> None:
        # Others may still use it: it is closed when the last of them lets go.
        with self._lock:
            if self._clients.get(url) is client:
                del self._clients[url]


class _Attempt:
    """One call of one request.

    Attributes:
        client: that it goes through.
        instance: the process that answered; empty where none did.
        is_complete: whether all rows may have arrived.
    """

    def __init__(self, client: flight.FlightClient, options: flight.FlightCallOptions) -> None:
        self.client = client
        self.instance = b""
        self.is_complete = False
        self._options = options

    def run(self, message: wire.ForwardChanges, changes: Changes) -> wire.ForwardOutcome:
        rows = changes.deletes if changes.upserts is None else changes.upserts
        assert rows is not None  # noqa: S101 - changes have one or the other
        descriptor = flight.FlightDescriptor.for_command(pack(message))
        writer, answers = self.client.do_put(descriptor, rows.schema, self._options)
        try:
            ready = decode(wire.ForwardReady, _encode_schema(answers), "the first answer of another gateway")
            self.instance = ready.instance
            if changes.upserts is not None and changes.deletes is not None:
                writer.write_metadata(encode_rows(changes.deletes))
            writer.write_table(rows)
            self.is_complete = True
            writer.done_writing()
            return decode(wire.ForwardOutcome, _encode_schema(answers), "the answer of another gateway")
        finally:
            # Where the call failed, this tells why.
            writer.close()


class ForwardedRows:
    """Writes rows that other gateways forward, for regions that this one owns.

    Args:
        catalog: of the gateway.
        patience_seconds: how long a request that comes again waits for what its first attempt does.
        once: the requests that came.
    """

    def __init__(
        self, catalog: Catalog, patience_seconds: float = 30.0, once: OnceExecutor[WriteReceipt] | None = None
    ) -> None:
        self._catalog = catalog
        self._patience_seconds = patience_seconds
        self._once = once or OnceExecutor(_REMEMBERED_SECONDS)

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (Exchange(wire.ForwardChanges, self._accept), Exchange(wire.FlushRegion, self._flush))

    def _flush(
        self,
        message: wire.FlushRegion,
        _reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
        call: Call,
    ) -> None:
        _check_is_peer(call)
        writer.write(self._flush_region(message).SerializeToString())

    def _flush_region(self, message: wire.FlushRegion) -> wire.ForwardOutcome:
        try:
            rows = self._catalog.table(message.table).writer().flush_forwarded(message.region_id)
        except LanceGatewayError as error:
            return _encode_error(error)
        logger.info(
            "flushed %d rows of table %r for another gateway",
            rows,
            message.table,
            extra={"query_id": message.query_id, "user": message.user, "table": message.table},
        )
        return wire.ForwardOutcome(rows=rows)

    def _accept(
        self,
        message: wire.ForwardChanges,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
        call: Call,
    ) -> None:
        _check_is_peer(call)
        if len(message.request_id) != 16:
            raise InvalidInputError("rows were forwarded without a request id: all gateways need one version")
        writer.write(wire.ForwardReady(instance=_INSTANCE).SerializeToString())
        changes = _read_changes(message, reader)
        writer.write(self._execute_once(message, changes).SerializeToString())

    def _execute_once(self, message: wire.ForwardChanges, changes: Changes) -> wire.ForwardOutcome:
        try:
            if message.instance and message.instance != _INSTANCE:
                raise OutcomeUnknownError(
                    f"the owner of region {message.region_id} of table {message.table!r} was started again "
                    "while rows were on their way: whether they were written is unknown"
                )
            receipt = self._once.execute(
                message.request_id, lambda: self._write(message, changes), self._patience_seconds
            )
        except TimeoutError:
            return _encode_error(
                OutcomeUnknownError("the owner still writes the rows: whether it succeeds is unknown")
            )
        except LanceGatewayError as error:
            return _encode_error(error)
        return wire.ForwardOutcome(rows=receipt.num_rows)

    def _write(self, message: wire.ForwardChanges, changes: Changes) -> WriteReceipt:
        receipt = self._catalog.table(message.table).writer().write_forwarded(message.region_id, changes)
        logger.info(
            "wrote %d rows of table %r that another gateway forwarded",
            receipt.num_rows,
            message.table,
            extra={"query_id": message.query_id, "user": message.user, "table": message.table},
        )
        return receipt


def _check_is_peer(call: Call) -> None:
    if call.identity != PEER:
        raise PermissionDeniedError(
            "only other gateways may forward rows: their writes.peer_token is not that of this gateway"
        )


def _read_changes(message: wire.ForwardChanges, reader: flight.MetadataRecordBatchReader) -> Changes:
    """Read the changes of a stream.

    Raises:
        InvalidInputError: it broke off; what came of it is dropped.
    """
    batches: list[pa.RecordBatch] = []
    deletes: pa.Table | None = None
    count, most = 0, message.upserts or message.deletes
    try:
        schema = reader.schema
        check_types(schema)
        for chunk in reader:
            if chunk.app_metadata is not None:
                deletes = _check_rows(decode_rows(chunk.app_metadata, "forwarded keys"))
            if chunk.data is not None:
                chunk.data.validate(full=True)
                batches.append(chunk.data)
                count += chunk.data.num_rows
            if count > most:
                raise InvalidInputError(f"more rows were forwarded than the {most} that were announced")
        rows: pa.Table | None = _check_rows(pa.Table.from_batches(batches, schema))
    except (pa.ArrowException, flight.FlightError, OSError) as error:
        raise InvalidInputError(f"forwarded rows cannot be read: {error}") from None
    if not message.upserts:
        rows, deletes = None, rows
    counts = tuple(0 if part is None else part.num_rows for part in (rows, deletes))
    if counts != (message.upserts, message.deletes) or not sum(counts):
        raise InvalidInputError(
            f"forwarded rows broke off: {counts[0]} of {message.upserts} rows and {counts[1]} of "
            f"{message.deletes} keys came"
        )
    return Changes(rows, deletes)


def _check_rows(rows: pa.Table) -> pa.Table:
    """Check that rows don't stand for much more than came; dictionaries stay as they are."""
    for batch in rows.to_batches():
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if pa.types.is_dictionary(field.type) or not is_expanding(field.type):
                continue
            size, most = measure(column), max(_MAX_EXPANDED_BYTES, column.nbytes)
            if size > most:
                raise InvalidInputError(
                    f"column {field.name!r} of forwarded rows stands for {size} bytes, and may for {most}"
                )
    return pa.Table.from_batches([align_batch(batch) for batch in rows.to_batches()], rows.schema)


def _encode_schema(answers: flight.FlightMetadataReader) -> bytes:
    answer = answers.read()
    if answer is None:
        raise pa.ArrowIOError("the connection ended without an answer")
    return bytes(answer)


def _encode_error(error: LanceGatewayError) -> wire.ForwardOutcome:
    return wire.ForwardOutcome(error=type(error).__name__, status=error.status, message=str(error))


def _decode_error(outcome: wire.ForwardOutcome) -> LanceGatewayError:
    kind = _ERRORS.get(outcome.error) or _STATUSES.get(outcome.status) or LanceGatewayError
    return kind(outcome.message)
