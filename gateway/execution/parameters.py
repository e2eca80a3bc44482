"""The values that clients bind to prepared statements: reading, casting, and storing in bounded memory.

What they take is computed before they are cast, since a few bytes can stand for many (`value_sizes`).
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

import pyarrow as pa
from pyarrow import flight

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.execution.batches import OptionalStream, align_batch, read_batches
from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.expiring_cache import ExpiringCache
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.planner.bridge.distance_functions import is_vector_type
from lance_gateway.planner.bridge.types.plain_types import (
    are_comparable,
    cast_values,
    normalize_layout,
    plain_type,
)
from lance_gateway.planner.bridge.types.value_sizes import (
    MAX_MEASURED,
    PIECE_ROWS,
    check_rows,
    is_expanding,
    measure,
    shorten_type,
    split_batch,
)
from lance_gateway.planner.sql.value_texts import read_vector

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


def read_parameters(
    reader: flight.MetadataRecordBatchReader,
    bound: pa.Schema,
    call: Call,
    schema: pa.Schema,
    limits: LimitsSection,
) -> pa.Table:
    """Read bound parameters, in the types of the statement: a column for each, one row for each execution.

    Args:
        reader: of the stream.
        bound: schema of the stream.
        call: that it belongs to.
        schema: one field for each parameter.
        limits: of the server.

    Raises:
        InvalidInputError: see `cast_parameters`; or there are more rows, or bytes, than may be bound.
    """
    check_count(bound, schema)
    size = _Size(schema, limits)
    batches = []
    for batch in read_batches(reader, call):
        size.add(batch)
        batches.append(batch)
    return _align(cast_parameters(pa.Table.from_batches(batches, bound), schema))


class _Size:
    """Counts bound rows, and the bytes that they take when they are cast."""

    def __init__(self, schema: pa.Schema, limits: LimitsSection) -> None:
        self._schema = schema
        self._limits = limits
        self._rows = 0
        self._sizes = [0] * len(schema)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch, which has a column for each parameter.

        Raises:
            InvalidInputError: there are too many now; the message names the largest parameter.
        """
        rows, most = self._limits.max_bound_rows, min(self._limits.max_bound_bytes, MAX_MEASURED)
        self._rows += batch.num_rows
        if self._rows > rows:
            raise InvalidInputError(
                f"more than {rows} rows of parameters are bound, each of which executes the statement: bind "
                "and execute them in parts, or ask the operator to raise max_bound_rows"
            )
        for number, (column, kind) in enumerate(zip(batch.columns, self._schema.types, strict=True)):
            size = column.nbytes
            if not column.type.equals(kind) or is_expanding(kind):
                size = max(size, measure(column, kind))
            self._sizes[number] += size
            if sum(self._sizes) > most:
                size = max(self._sizes)
                field = batch.schema.field(self._sizes.index(size))
                least = "at least " if size > MAX_MEASURED else ""
                raise InvalidInputError(
                    f"the bound parameters exceed {most} bytes: parameter {self._sizes.index(size) + 1} "
                    f"({shorten_type(field.type)}) stands for {least}{size}; bind and execute them in parts, "
                    "or ask the operator to raise max_bound_bytes"
                )


def _align(table: pa.Table) -> pa.Table:
    return pa.Table.from_batches([align_batch(batch) for batch in table.to_batches()], table.schema)


# Of bound values that are written at once: enough to be fast, and no burden.
_PART_ROWS = PIECE_ROWS
_PART_BYTES = 16 << 20


def read_typed_parts(
    reader: flight.MetadataRecordBatchReader | OptionalStream,
    bound: pa.Schema,
    call: Call,
    query: Query,
    schema: pa.Schema,
    limits: LimitsSection,
) -> Iterator[pa.Table]:
    """Read bound parameters in parts, cast to the types of the statement; every part has rows.

    The next part is read from the network when the one before it is done with. A batch that is too large for
    a part is cut.

    Args:
        reader: of the stream.
        bound: schema of the stream.
        call: that it belongs to.
        query: which waits for it.
        schema: one field for each parameter.
        limits: of the server.

    Raises:
        InvalidInputError: see `cast_parameters`; or one row is larger than all that may be bound at once.
    """
    check_count(bound, schema)
    pending: list[pa.Table] = []
    rows = size = 0
    for batch in read_batches(reader, call, query):
        check_rows(batch, limits.max_bound_rows)
        for piece in split_batch(batch, schema.types, _PART_BYTES, row_bytes=limits.max_bound_bytes):
            part = _align(cast_parameters(pa.Table.from_batches([piece]), schema))
            if pending and (rows + part.num_rows > _PART_ROWS or size + part.nbytes > _PART_BYTES):
                yield pa.concat_tables(pending)
                pending, rows, size = [], 0, 0
            pending.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if pending:
        yield pa.concat_tables(pending)


def check_count(bound: pa.Schema, schema: pa.Schema) -> None:
    """Check that as many columns are bound as there are parameters.

    Raises:
        InvalidInputError: they are more, or fewer.
    """
    if len(bound) != len(schema):
        raise InvalidInputError(
            f"the statement has {len(schema)} parameters and {len(bound)} were bound: "
            f"bind {len(schema)} values"
        )


def cast_parameters(parameters: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast bound values to the types of the parameters, so that a wrong one is refused when it is bound.

    Args:
        parameters: as they were bound.
        schema: one field for each parameter.

    Raises:
        InvalidInputError: a parameter is missing or superfluous, or a value cannot be of its type.
    """
    check_count(parameters.schema, schema)
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


def restore_parameters(table: pa.Table, schema: pa.Schema, limits: LimitsSection) -> pa.Table:
    """Return the bound parameters of a handle or a ticket, in the types of the statement.

    Args:
        table: as it was decoded.
        schema: one field for each parameter.
        limits: of the server.

    Raises:
        InvalidInputError: see `read_parameters`.
    """
    check_count(table.schema, schema)
    size = _Size(schema, limits)
    for batch in table.to_batches():
        size.add(batch)
    return cast_parameters(table, schema)


# Of values that become Python objects at once.
_OBJECT_ROWS = 4096


def _cast_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        if is_vector_type(field.type) and pa.types.is_string(plain_type(column.type)):
            return _cast_by_row(column, field, lambda row: _parse_vector(row.as_py(), field))
        if field.type.equals(pa.uuid()) and pa.types.is_string(plain_type(column.type)):
            return _cast_by_row(column, field, lambda row: _parse_uuid(row.as_py(), field))
        if pa.types.is_union(column.type):
            # Some clients bind every value as a union, whose rows have types of their own.
            return _cast_by_row(column, field, lambda row: row.value.cast(field.type))
        return pa.chunked_array(
            [cast_values(normalize_layout(chunk), field.type) for chunk in column.chunks], field.type
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        if are_comparable(column.type, field.type):
            return column
        raise InvalidInputError(
            f"parameter {field.name} is of type {field.type}, and a value of type {column.type} was bound "
            f"that cannot become one: {error}"
        ) from error


def _cast_by_row(
    column: pa.ChunkedArray, field: pa.Field, convert: Callable[[pa.Scalar], object]
) -> pa.ChunkedArray:
    chunks = []
    for chunk in column.chunks:
        for start in range(0, len(chunk), _OBJECT_ROWS):
            rows = chunk.slice(start, _OBJECT_ROWS)
            chunks.append(pa.array([convert(row) for row in rows], field.type))
    return pa.chunked_array(chunks, field.type)


def _parse_uuid(text: str | None, field: pa.Field) -> bytes | None:
    """Parse a UUID that was bound as text, as which JDBC's driver reads it."""
    try:
        return None if text is None else UUID(text).bytes
    except ValueError as error:
        msg = (
            f"parameter {field.name} is a UUID, such as '00000000-0000-0000-0000-000000000000', not {text!r}"
        )
        raise InvalidInputError(msg) from error


def _parse_vector(text: str | None, field: pa.Field) -> list[float] | None:
    """Parse a vector that was bound as text, as clients of pgvector do."""
    numbers = None if text is None else read_vector(text)
    if text is not None and numbers is None:
        raise InvalidInputError(
            f"parameter {field.name} is a list of numbers, and the text {text[:80]!r} is none: write [0.1, 2]"
        )
    return numbers
