"""Batches from outside: the streams of DoPut, and rows that handles, tickets and other gateways carry.

The stream of DoPut is read batch by batch and validated. Nothing is read ahead: gRPC blocks a client whose
batches are not taken. Buffers from the network may be unaligned; Lance and DataFusion need aligned ones.

pyarrow decompresses a batch of DoPut before it hands it over, and shows nothing of it before. Rows that a
gateway wrote itself are never compressed, so those that are get refused before anything is decompressed.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import flight

from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.errors import QueryCancelledError
from lance_gateway.gateway.protocol.open_uploads import wait_for_client
from lance_gateway.memwal.columns.nested_nulls import push_nulls_down
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.planner.bridge.types.plain_types import check_types

# Of the widest values that there are.
_ALIGNMENT = 16


class OptionalStream:
    """The stream of a client that may send its descriptor alone, without a schema; `read_batches` reads it.

    pyarrow fails alike where no schema came and where what came is none. Its chunks end in the first case
    only, so the stream is read until its first batch.

    Attributes:
        schema: of the stream; without columns where none came.

    Raises:
        InvalidInputError: it begins with something else than a schema; or see `check_types`.
        QueryCancelledError: the client went away before.
    """

    def __init__(self, reader: flight.MetadataRecordBatchReader, call: Call, query: Query) -> None:
        self._reader = reader
        self._first: flight.FlightStreamChunk | None = None
        self._failure: Exception | None = None
        ends = 0
        # A message with the descriptor alone reads like an end; the true one comes again.
        while self._first is None and self._failure is None and ends < 2:
            try:
                with _waiting(call, query):
                    chunk = reader.read_chunk()
                if chunk.data is not None:
                    self._first = chunk
            except StopIteration:
                ends += 1
            except (pa.ArrowException, flight.FlightError, OSError) as error:
                self._failure = error
        try:
            self.schema = reader.schema
        except (pa.ArrowException, flight.FlightError, OSError) as error:
            if self._failure is not None or call.is_cancelled():
                raise _no_schema_error(self._failure or error, call) from None
            self.schema = pa.schema([])
        check_types(self.schema)

    def read_chunk(self) -> flight.FlightStreamChunk:
        """Return what comes next; StopIteration says that nothing does."""
        if self._failure is not None:
            raise self._failure
        first, self._first = self._first, None
        return self._reader.read_chunk() if first is None else first


def read_batches(
    reader: flight.MetadataRecordBatchReader | OptionalStream, call: Call, query: Query | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that have rows, validated, but not aligned yet: see `align_batch`.

    Args:
        reader: of the stream, whose schema was read before.
        call: that it belongs to.
        query: which waits for it, if one does: others take its place while its client is slow.

    Raises:
        InvalidInputError: what came is not Arrow data.
        QueryCancelledError: the client went away before the end.
    """
    number = 1
    while True:
        try:
            with _waiting(call, query):
                batch = reader.read_chunk().data
            if batch is None:
                continue  # metadata alone, which means nothing here
            # Offsets that lead out of a buffer, or text that is none, would take the process down later.
            batch.validate(full=True)
            number += 1
        except StopIteration:
            # A stream that its client breaks off ends like one that is complete.
            if call.is_cancelled():
                raise _client_left_error() from None
            return
        except pa.ArrowMemoryError as error:
            raise InvalidInputError(
                f"batch {number} of the stream is larger than the memory that is left ({error}): send "
                "smaller ones"
            ) from None
        except (pa.ArrowException, flight.FlightError, OSError) as error:
            if call.is_cancelled():
                raise _client_left_error() from None
            raise InvalidInputError(f"batch {number} of the stream cannot be read: {error}") from None
        if batch.num_rows or not batch.num_columns:
            yield batch


@contextmanager
def _waiting(call: Call, query: Query | None) -> Iterator[None]:
    """Wait in this block for what a client sends next; other queries take the place of one that waits."""
    if query is not None:
        query.sending_since = time.monotonic()
    try:
        with wait_for_client(call.upload):
            yield
    finally:
        if query is not None:
            query.sending_since = None


def _client_left_error() -> QueryCancelledError:
    return QueryCancelledError("the client cancelled the call, or went away, before it had sent everything")


def align_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows as the engine reads them: in aligned buffers, with NULLs below NULL structs.

    Only what must change is copied.
    """
    batch = push_nulls_down(batch)
    columns = [_align_array(column) for column in batch.columns]
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _align_array(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(
            _align_array(column.indices), _align_array(column.dictionary), ordered=column.type.ordered
        )
    if all(buffer is None or buffer.address % _ALIGNMENT == 0 for buffer in column.buffers()):
        return column
    return pa.concat_arrays([column, column.slice(0, 0)])


def read_schema(reader: flight.MetadataRecordBatchReader, call: Call) -> pa.Schema:
    """Return the schema with which the stream begins.

    Raises:
        InvalidInputError: it begins with something else, or there is no stream; or see `check_types`.
        QueryCancelledError: the client went away before.
    """
    try:
        with wait_for_client(call.upload):
            schema = reader.schema
    except (pa.ArrowException, flight.FlightError, OSError) as error:
        raise _no_schema_error(error, call) from None
    check_types(schema)
    return schema


def _no_schema_error(error: Exception, call: Call) -> LanceGatewayError:
    if call.is_cancelled():
        return _client_left_error()
    return InvalidInputError(f"the stream must begin with an Arrow schema: {error}")


def encode_rows(rows: pa.Table) -> bytes:
    """Return the rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def decode_rows(data: bytes | pa.Buffer, what: str) -> pa.Table:
    """Return the rows of an Arrow IPC stream that a gateway wrote, validated.

    Args:
        data: the stream; its rows may point into it.
        what: name of the rows, for error messages.

    Raises:
        InvalidInputError: the bytes are something else, or are compressed; or see `check_types`.
    """
    try:
        for message in pa.ipc.MessageReader.open_stream(data):
            if _is_compressed(message):
                raise InvalidInputError(
                    f"{what} are compressed, which no gateway does: send them back unchanged"
                )
        with pa.ipc.open_stream(data) as reader:
            check_types(reader.schema)
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, struct.error) as error:
        raise InvalidInputError(f"{what} cannot be read: {error}") from None
    return table


def _is_compressed(message: pa.ipc.Message) -> bool:
    """Return whether buffers of a message are compressed, by its header (format/Message.fbs of Arrow)."""
    header = bytes(message.metadata)
    table = _follow(header, 0)
    if message.type == "dictionary":
        body = _find_field(header, _follow(header, _find_field(header, table, 2)), 1)
    elif message.type == "record batch":
        body = _find_field(header, table, 2)
    else:
        return False
    return bool(_find_field(header, _follow(header, body), 3))


def _follow(header: bytes, place: int) -> int:
    """Return the place that a reference of FlatBuffers at `place` leads to."""
    return place + int(struct.unpack_from("<I", header, place)[0])


def _find_field(header: bytes, table: int, number: int) -> int:
    """Return the place of a field of a table; 0 if the table lacks it."""
    entries = table - int(struct.unpack_from("<i", header, table)[0])
    size = int(struct.unpack_from("<H", header, entries)[0])
    at = 4 + 2 * number
    if at + 2 > size:
        return 0
    offset = int(struct.unpack_from("<H", header, entries + at)[0])
    return table + offset if offset else 0
