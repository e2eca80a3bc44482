"""What clients send along with DoPut: batches that are read one after another, and checked.

Nothing is read ahead: gRPC holds a client up whose batches are not taken. A batch lies in memory as it came
from the network, where values begin anywhere; Lance and DataFusion want them at multiples of their width.
"""

import time
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import flight

from gateway.commands import Call
from gateway.queries import Query, QueryCancelledError
from memwal.errors import InvalidInputError

# Of the widest values that there are.
_ALIGNMENT = 16


def uploaded(
    reader: flight.MetadataRecordBatchReader, call: Call, query: Query | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the batches that have rows, each valid through and through.

    Args:
        reader: of the stream.
        call: that it belongs to.
        query: which waits for it, if one does: others take its place while its client is slow.

    Raises:
        InvalidInputError: what came is no Arrow data.
        QueryCancelledError: the client went away before the end.
    """
    schema = schema_of(reader, call)
    number = 0
    while True:
        try:
            if query is not None:
                query.sending_since = time.monotonic()
            batch = reader.read_chunk().data
            if query is not None:
                query.sending_since = None
            if batch is None:
                continue  # metadata alone, which means nothing here
            number += 1
            # Offsets that lead out of a buffer, or text that is none, would take the process down later.
            batch.validate(full=True)
        except StopIteration:
            # A stream that its client breaks off ends like one that is complete.
            if call.is_cancelled():
                raise _left() from None
            return
        except (pa.ArrowException, flight.FlightError, OSError) as error:
            if call.is_cancelled():
                raise _left() from None
            raise InvalidInputError(f"batch {number} of the stream cannot be read: {error}") from None
        if batch.num_rows or not len(schema):
            yield aligned(batch)


def _left() -> QueryCancelledError:
    return QueryCancelledError("the client cancelled the call, or went away, before it had sent everything")


def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the same rows in buffers that others than Arrow C++ can read, copied where need be."""
    columns = [_aligned(column) for column in batch.columns]
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _aligned(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(
            _aligned(column.indices), _aligned(column.dictionary), ordered=column.type.ordered
        )
    if all(buffer is None or buffer.address % _ALIGNMENT == 0 for buffer in column.buffers()):
        return column
    return pa.concat_arrays([column, column.slice(0, 0)])


def schema_of(reader: flight.MetadataRecordBatchReader, call: Call) -> pa.Schema:
    """Returns the schema with which the stream begins.

    Raises:
        InvalidInputError: it begins with something else, or there is no stream.
        QueryCancelledError: the client went away before.
    """
    try:
        return reader.schema
    except (pa.ArrowException, flight.FlightError, OSError) as error:
        if call.is_cancelled():
            raise _left() from None
        raise InvalidInputError(f"the stream must begin with an Arrow schema: {error}") from None
