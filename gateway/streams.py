"""From a reader of record batches to a Flight stream that every client can read.

What is streamed has exactly the schema that was advertised: plain types (no views, no dictionaries), the
advertised nullability, and batches that stay below 4 MiB, where some gRPC clients stop. The batches pass
through a Python
generator: it costs nothing measurable beside a stream in C++ (a batch is handed over, not copied), errors
    in the
middle of a stream reach the client as clean as any other, and the stream ends as soon as its client has gone.
"""

import itertools
import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

from gateway.errors import answering
from memwal.errors import LanceGatewayError, UnavailableError

# A gRPC message of 4 MiB also holds the header of the batch.
MAX_BATCH_BYTES = 4 * 1024 * 1024 - 64 * 1024


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Returns the type that every Arrow client can read for values of `data_type`."""
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type)
    if pa.types.is_nested(data_type):
        return _plain_nested(data_type)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(data_type, data_type)


def _plain_nested(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(plain_field(data_type.value_field), data_type.list_size)
    if pa.types.is_large_list(data_type) or pa.types.is_large_list_view(data_type):
        return pa.large_list(plain_field(data_type.value_field))
    if pa.types.is_list(data_type) or pa.types.is_list_view(data_type):
        return pa.list_(plain_field(data_type.value_field))
    if pa.types.is_map(data_type):
        return pa.map_(plain_type(data_type.key_type), plain_field(data_type.item_field))
    if pa.types.is_struct(data_type):
        return pa.struct([plain_field(field) for field in data_type])
    return data_type


def plain_field(field: pa.Field) -> pa.Field:
    """Returns `field` with its plain type."""
    return pa.field(field.name, plain_type(field.type), field.nullable)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Returns `schema` with plain types and without metadata, as it is advertised."""
    return pa.schema([plain_field(field) for field in schema])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows of `batch` under exactly `schema`.

    Raises:
        LanceGatewayError: the batch has other columns, values that the advertised type cannot hold, or NULLs
            where none were advertised.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names != schema.names:
        raise LanceGatewayError(
            f"a batch has the columns {batch.schema.names}, advertised were {schema.names}: "
            "run the query again"
        )
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if column.null_count and not field.nullable:
            raise LanceGatewayError(
                f"column {field.name!r} was advertised without NULLs and holds {column.null_count}"
            )
        columns.append(_cast(column, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def slices(batch: pa.RecordBatch, limit: int = MAX_BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yields `batch` in slices of at most `limit` bytes on the wire; a single row is never divided.

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
        yield from slices(batch.slice(start, step), limit)


class Streams:
    """The streams that a server is sending: they can be counted, and told to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._ended = threading.Event()

    @property
    def running(self) -> int:
        """How many streams are being read by clients."""
        return self._running

    def end(self) -> None:
        """Lets every stream fail before its next batch."""
        self._ended.set()

    def send(self, schema: pa.Schema, readers: Iterable[pa.RecordBatchReader]) -> flight.FlightDataStream:
        """Returns the stream of all batches of `readers`, one reader after the other.

        The first reader is taken at once, so that what it refuses is refused before the stream begins; each
        other when the one before it is exhausted. A reader is closed before the next is taken, and when the
        client goes away.
        """
        remaining = iter(readers)
        first = next(remaining, None)
        started = remaining if first is None else itertools.chain((first,), remaining)
        return flight.GeneratorStream(schema, self._batches(schema, started))

    def _batches(
        self, schema: pa.Schema, readers: Iterable[pa.RecordBatchReader]
    ) -> Iterator[pa.RecordBatch]:
        with answering("DoGet"):
            self._count(1)
            try:
                for reader in readers:
                    with reader:
                        for batch in reader:
                            if self._ended.is_set():
                                raise UnavailableError(
                                    "the gateway is stopping; run the query again elsewhere"
                                )
                            yield from slices(conform(batch, schema))
            finally:
                self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self._running += change


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if column.type.equals(data_type):
        return column
    if pa.types.is_dictionary(column.type):
        return _cast(column.dictionary_decode(), data_type)
    if pa.types.is_run_end_encoded(column.type):
        return _cast(pc.run_end_decode(column), data_type)
    try:
        return column.cast(data_type)
    except pa.ArrowInvalid as error:
        raise LanceGatewayError(
            f"a column of {column.type} does not fit the advertised {data_type}: {error}"
        ) from error
