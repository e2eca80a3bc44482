"""The values that clients bind to prepared statements: reading, casting, and storing in bounded memory.

The stream of DoPut is read batch by batch and validated. Nothing is read ahead: gRPC blocks a client whose
batches are not taken. Buffers from the network may be unaligned; Lance and DataFusion need aligned ones.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import flight

from gateway.execution.query import Query
from gateway.protocol.commands import Call
from gateway.protocol.errors import QueryCancelledError
from gateway.protocol.limits import ExpiringCache
from memwal.errors import InvalidInputError, NotFoundError
from planner.bridge.distance_functions import is_vector_type
from planner.bridge.plain_types import TypeSet, are_comparable, bindable_type, normalize_layout
from planner.sql.vector_text import read_vector

# Of one statement: clients that share it bind at the same time.
_MAX_SETS = 8
# What a set costs besides its values.
_SET_BYTES = 1024


@dataclass(eq=False)
class _Statement:
    newest: int = 0
    numbers: list[int] = field(default_factory=list)


class Bindings:
    """The parameters bound to the statements of a server; safe to share between threads.

    The sets of one statement are numbered from 1, and the newest is current.

    Args:
        max_statements: how many are kept; the one unused longest leaves first.
        idle_seconds: after which a statement is forgotten.
        max_bytes: of all sets together; the oldest leave first, but never the newest of all.
    """

    def __init__(self, max_statements: int, idle_seconds: float, max_bytes: int) -> None:
        self._statements: ExpiringCache[bytes, _Statement] = ExpiringCache(max_statements, idle_seconds)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._sets: OrderedDict[tuple[bytes, int], pa.Table] = OrderedDict()
        self._nbytes = 0

    def __len__(self) -> int:
        """Return the number of statements."""
        return len(self._statements)

    @property
    def nbytes(self) -> int:
        """Bytes of all sets."""
        return self._nbytes

    def open(self, statement: bytes) -> None:
        """Add a statement without parameters."""
        self._statements.put(statement, _Statement())

    def close(self, statement: bytes) -> None:
        """Remove a statement and its parameters, if it is there."""
        entry = self._statements.pop(statement)
        if entry is not None:
            with self._lock:
                for number in entry.numbers:
                    self._drop((statement, number))

    def add(self, statement: bytes, parameters: pa.Table) -> bool:
        """Make `parameters` the current set of a statement; return False if it is not kept."""
        entry = self._statements.get(statement)
        if entry is None:
            return False
        with self._lock:
            entry.newest += 1
            entry.numbers.append(entry.newest)
            if len(entry.numbers) > _MAX_SETS:
                self._drop((statement, entry.numbers.pop(0)))
            self._sets[statement, entry.newest] = parameters
            self._nbytes += parameters.nbytes + _SET_BYTES
            while self._nbytes > self._max_bytes and len(self._sets) > 1:
                self._drop(next(iter(self._sets)))
        return True

    def current_number(self, statement: bytes) -> int:
        """Return the number of the current set; 0 if there is none."""
        entry = self._statements.get(statement)
        return 0 if entry is None else entry.newest

    def get(self, statement: bytes, number: int) -> pa.Table:
        """Return a set of parameters of a statement.

        Raises:
            NotFoundError: the statement is not kept, or this set no longer.
        """
        if self._statements.get(statement) is None:
            raise NotFoundError(
                f"the parameters of prepared statement {statement.hex()} are not known here: it was "
                "closed, was idle too long, or the gateway restarted; bind and execute it again"
            )
        with self._lock:
            parameters = self._sets.get((statement, number))
        if parameters is None:
            raise NotFoundError(
                "the parameters of this ticket are gone: others were bound since, to this statement or, with "
                f"more than {self._max_bytes} bytes, to others; bind and execute it again"
            )
        return parameters

    def _drop(self, key: tuple[bytes, int]) -> None:
        dropped = self._sets.pop(key, None)
        if dropped is not None:
            self._nbytes -= dropped.nbytes + _SET_BYTES


# Of the widest values that there are.
_ALIGNMENT = 16


def read_batches(
    reader: flight.MetadataRecordBatchReader, call: Call, query: Query | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that have rows, validated and aligned.

    Args:
        reader: of the stream.
        call: that it belongs to.
        query: which waits for it, if one does: others take its place while its client is slow.

    Raises:
        InvalidInputError: what came is no Arrow data.
        QueryCancelledError: the client went away before the end.
    """
    schema = read_schema(reader, call)
    number = 0
    while True:
        try:
            if query is not None:
                query.sending_since = time.monotonic()
            with call.wait_for_client():
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
                raise _client_left_error() from None
            return
        except (pa.ArrowException, flight.FlightError, OSError) as error:
            if call.is_cancelled():
                raise _client_left_error() from None
            raise InvalidInputError(f"batch {number} of the stream cannot be read: {error}") from None
        if batch.num_rows or not len(schema):
            yield align_batch(batch)


def _client_left_error() -> QueryCancelledError:
    return QueryCancelledError("the client cancelled the call, or went away, before it had sent everything")


def align_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows in aligned buffers; only unaligned ones are copied."""
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
        InvalidInputError: it begins with something else, or there is no stream.
        QueryCancelledError: the client went away before.
    """
    try:
        with call.wait_for_client():
            return reader.schema
    except (pa.ArrowException, flight.FlightError, OSError) as error:
        if call.is_cancelled():
            raise _client_left_error() from None
        raise InvalidInputError(f"the stream must begin with an Arrow schema: {error}") from None


def read_parameters(reader: flight.MetadataRecordBatchReader, call: Call, limit: int) -> pa.Table:
    """Read bound parameters: one column for each parameter, one row for each execution.

    Raises:
        InvalidInputError: it has more than `limit` bytes.
    """
    schema = read_schema(reader, call)
    batches = []
    size = 0
    for batch in read_batches(reader, call):
        size += batch.nbytes
        if size > limit:
            raise InvalidInputError(
                f"the bound parameters exceed {limit} bytes: bind and execute them in parts"
            )
        batches.append(batch)
    return pa.Table.from_batches(batches, schema)


# Of bound values that are written at once: enough to be fast, and no burden.
_PART_ROWS = 65_536
_PART_BYTES = 16 << 20


def encode_parameter_schema(schema: pa.Schema, types: TypeSet) -> bytes:
    """Return the parameter schema for the client, in the types of the session, as an IPC message."""
    fields = [pa.field(field.name, bindable_type(field.type, types)) for field in schema]
    return bytes(pa.schema(fields).serialize())


def refuse_rows(reader: flight.MetadataRecordBatchReader, call: Call, query: Query) -> None:
    """Read the stream of a statement without parameters, which may have at most one row and no values.

    Raises:
        InvalidInputError: there are values, or it is not clear how often the statement is to be executed.
    """
    cast_parameters(read_schema(reader, call).empty_table(), pa.schema([]))
    rows = sum(batch.num_rows for batch in read_batches(reader, call, query))
    if rows > 1:
        raise InvalidInputError(
            f"{rows} rows were bound to a statement without parameters: execute it as often as it is meant"
        )


def read_typed_parts(
    reader: flight.MetadataRecordBatchReader, call: Call, query: Query, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Read bound parameters in parts, cast to the types of the statement; every part has rows.

    The next part is read from the network when the one before it is done with.

    Raises:
        InvalidInputError: see `typed`.
    """
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for chunk in read_batches(reader, call, query):
        for start in range(0, chunk.num_rows, _PART_ROWS):
            batch = chunk.slice(start, _PART_ROWS)
            if pending and (rows + batch.num_rows > _PART_ROWS or size + batch.nbytes > _PART_BYTES):
                yield cast_parameters(pa.Table.from_batches(pending, reader.schema), schema)
                pending, rows, size = [], 0, 0
            pending.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
    if pending or len(reader.schema) != len(schema):
        yield cast_parameters(pa.Table.from_batches(pending, reader.schema), schema)


def cast_parameters(parameters: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast bound values to the types of the parameters, so that a wrong one is refused when it is bound.

    Args:
        parameters: as they were bound.
        schema: one field for each parameter.

    Raises:
        InvalidInputError: a parameter is missing or superfluous, or a value cannot be of its type.
    """
    if parameters.num_columns != len(schema):
        raise InvalidInputError(
            f"the statement has {len(schema)} parameters and {parameters.num_columns} were bound: "
            f"bind {len(schema)} values"
        )
    if parameters.schema.types == schema.types:
        return parameters
    columns = [_cast_column(column, field) for column, field in zip(parameters.columns, schema, strict=True)]
    return pa.table(columns, names=schema.names)


def iterate_rows(parameters: pa.Table | None) -> Iterator[tuple[pa.Scalar, ...]]:
    """Yield the parameters of each execution; a statement without parameters is executed once."""
    if parameters is None:
        yield ()
        return
    columns = parameters.columns
    for row in range(parameters.num_rows):
        yield tuple(column[row] for column in columns)


def encode_parameters(parameters: pa.Table) -> bytes:
    """Return the rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, parameters.schema) as writer:
        writer.write_table(parameters)
    return bytes(sink.getvalue())


def decode_parameters(data: bytes) -> pa.Table:
    """Return the rows of an Arrow IPC stream.

    Raises:
        InvalidInputError: the bytes are something else.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"the parameters in the handle cannot be read: {error}") from None
    return table


def _cast_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if is_vector_type(field.type) and pa.types.is_string(column.type):
        return pa.chunked_array([[_parse_vector(text, field) for text in column.to_pylist()]], field.type)
    try:
        if pa.types.is_union(column.type):
            # Some clients bind every value as a union, whose rows have types of their own.
            values = [row.value.cast(field.type) for row in column]
            return pa.chunked_array([pa.array(values, field.type)])
        return pa.chunked_array(
            [normalize_layout(chunk).cast(field.type) for chunk in column.chunks], field.type
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if are_comparable(column.type, field.type):
            return column
        raise InvalidInputError(
            f"parameter {field.name} is of type {field.type}, and a value of type {column.type} was bound "
            f"that cannot become one: {error}"
        ) from error


def _parse_vector(text: str | None, field: pa.Field) -> list[float] | None:
    """Parse a vector that was bound as text, as clients of pgvector do."""
    numbers = None if text is None else read_vector(text)
    if text is not None and numbers is None:
        raise InvalidInputError(
            f"parameter {field.name} is a list of numbers, and the text {text[:80]!r} is none: write [0.1, 2]"
        )
    return numbers
