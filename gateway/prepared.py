"""Prepared statements: create, bind with DoPut, execute, close.

A statement is planned once, when it is created. Binding stores a set of parameter rows under a new number
and plans nothing; the ticket of an execution names the number, so that a stream that is still being read
keeps its own parameters when the client binds others. A set of several rows runs the statement once for
each, and the results follow one another in one stream.
"""

import itertools
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import flight

from gateway.commands import Action, Call, Command, Planned, Ticket, Upload
from gateway.keeping import Keeping
from gateway.streams import Streams
from gateway.tickets import decode_settings, prepared_ticket
from gateway.wire import pack, unpack
from memwal.errors import InvalidInputError, NotFoundError, UnsupportedError
from planner.engine import PreparedQuery, QueryEngine, SessionSettings
from protos import flight_sql_pb2 as sql
from protos import gateway_pb2 as own

_MAX_STATEMENTS = 4096
_IDLE_SECONDS = 12 * 3600.0
_MAX_BINDINGS = 8
_MAX_BINDING_BYTES = 64 * 1024 * 1024
_NOTHING_BOUND = 0


class Statement:
    """A statement that was prepared, and the parameter sets last bound to it.

    Args:
        query: the plan.
    """

    def __init__(self, query: PreparedQuery) -> None:
        self.query = query
        self._lock = threading.Lock()
        self._numbers = itertools.count(_NOTHING_BOUND + 1)
        self._bindings: OrderedDict[int, pa.Table] = OrderedDict()

    def bind(self, parameters: pa.Table) -> None:
        """Makes `parameters`, one column for each parameter and one row for each execution, the current set.

        Raises:
            InvalidInputError: a parameter is missing or superfluous, or a value cannot be of its type.
        """
        needed, given = len(self.query.parameter_schema), parameters.num_columns
        if given != needed:
            raise InvalidInputError(
                f"the statement has {needed} parameters and {given} were bound: bind {needed} values"
            )
        bound = _typed(parameters, self.query.parameter_schema)
        with self._lock:
            self._bindings[next(self._numbers)] = bound
            while len(self._bindings) > _MAX_BINDINGS:
                self._bindings.popitem(last=False)

    def current(self) -> int:
        """Returns the number of the current set, 0 when the statement has no parameters.

        Raises:
            InvalidInputError: the statement has parameters and none were bound.
        """
        with self._lock:
            newest: int | None = next(reversed(self._bindings), None)
        if newest is not None:
            return newest
        needed = len(self.query.parameter_schema)
        if needed:
            raise InvalidInputError(
                f"the statement has {needed} parameters and none are bound: bind {needed} values"
            )
        return _NOTHING_BOUND

    def rows(self, number: int) -> Iterator[tuple[pa.Scalar, ...]]:
        """Yields the parameters of each execution of the set `number`.

        Raises:
            NotFoundError: other sets were bound since, and this one is no longer kept.
        """
        if number == _NOTHING_BOUND:
            yield ()
            return
        with self._lock:
            table = self._bindings.get(number)
        if table is None:
            raise NotFoundError(
                f"the parameters of this ticket are gone: {_MAX_BINDINGS} other sets were bound since; "
                "execute the statement again"
            )
        columns = table.columns
        for row in range(table.num_rows):
            yield tuple(column[row] for column in columns)


class PreparedStatements:
    """The prepared statements of a server, bounded in number."""

    def __init__(
        self, engine: QueryEngine, streams: Streams, kept: Keeping[bytes, Statement] | None = None
    ) -> None:
        self._engine = engine
        self._streams = streams
        self._kept = kept if kept is not None else Keeping(_MAX_STATEMENTS, _IDLE_SECONDS)

    def commands(self) -> tuple[Command[sql.CommandPreparedStatementQuery], ...]:
        """Returns the descriptor commands of this family."""
        return (Command(sql.CommandPreparedStatementQuery, self._schema, self._plan),)

    def tickets(self) -> tuple[Ticket[own.PreparedTicket], ...]:
        """Returns the tickets of this family."""
        return (Ticket(own.PreparedTicket, self._stream),)

    def uploads(
        self,
    ) -> tuple[Upload[sql.CommandPreparedStatementQuery], Upload[sql.CommandPreparedStatementUpdate]]:
        """Returns the DoPut commands of this family."""
        return (
            Upload(sql.CommandPreparedStatementQuery, self._bind),
            Upload(sql.CommandPreparedStatementUpdate, self._update),
        )

    def actions(self) -> tuple[Action, ...]:
        """Returns the actions of this family."""
        return (
            Action("CreatePreparedStatement", "Plan a statement and keep it under a handle.", self._create),
            Action("ClosePreparedStatement", "Forget a prepared statement.", self._close),
        )

    def _create(self, body: bytes, call: Call) -> bytes:
        request = unpack(
            sql.ActionCreatePreparedStatementRequest, body, "the body of CreatePreparedStatement"
        )
        query = self._engine.prepare(request.query, call.settings)
        handle = secrets.token_bytes(16)
        self._kept.put(handle, Statement(query))
        return pack(
            sql.ActionCreatePreparedStatementResult(
                prepared_statement_handle=handle,
                dataset_schema=query.schema.serialize().to_pybytes(),
                parameter_schema=query.parameter_schema.serialize().to_pybytes(),
            )
        )

    def _close(self, body: bytes, _call: Call) -> None:
        request = unpack(sql.ActionClosePreparedStatementRequest, body, "the body of ClosePreparedStatement")
        if self._kept.pop(request.prepared_statement_handle) is None:
            raise _unknown(request.prepared_statement_handle)

    def _find(self, handle: bytes) -> Statement:
        statement = self._kept.get(handle)
        if statement is None:
            raise _unknown(handle)
        return statement

    def _schema(self, command: sql.CommandPreparedStatementQuery, _call: Call) -> pa.Schema:
        return self._find(command.prepared_statement_handle).query.schema

    def _plan(self, command: sql.CommandPreparedStatementQuery, call: Call) -> Planned:
        statement = self._find(command.prepared_statement_handle)
        ticket = prepared_ticket(command.prepared_statement_handle, call.settings, statement.current())
        return Planned(statement.query.schema, ticket)

    def _stream(self, ticket: own.PreparedTicket) -> flight.FlightDataStream:
        statement = self._find(ticket.prepared_statement_handle)
        settings = decode_settings(ticket.settings)
        return self._streams.send(statement.query.schema, _executions(statement, ticket.binding_id, settings))

    def _bind(
        self, command: sql.CommandPreparedStatementQuery, reader: flight.MetadataRecordBatchReader
    ) -> None:
        self._find(command.prepared_statement_handle).bind(_received(reader))

    def _update(
        self, command: sql.CommandPreparedStatementUpdate, _reader: flight.MetadataRecordBatchReader
    ) -> None:
        statement = self._find(command.prepared_statement_handle)
        raise UnsupportedError(
            f"the gateway only reads; {statement.query.sql!r} cannot be an update: execute it as a query"
        )


def _executions(
    statement: Statement, number: int, settings: SessionSettings
) -> Iterator[pa.RecordBatchReader]:
    for parameters in statement.rows(number):
        yield statement.query.execute(parameters, settings)


def _received(reader: flight.MetadataRecordBatchReader) -> pa.Table:
    batches = []
    size = 0
    for chunk in reader:
        size += chunk.data.nbytes
        if size > _MAX_BINDING_BYTES:
            raise InvalidInputError(
                f"the bound parameters exceed {_MAX_BINDING_BYTES} bytes: bind and execute them in parts"
            )
        batches.append(chunk.data)
    return pa.Table.from_batches(batches, reader.schema)


def _typed(parameters: pa.Table, schema: pa.Schema) -> pa.Table:
    """Gives bound values the types of their parameters, so that a wrong one is refused when it is bound."""
    if parameters.schema.types == schema.types:
        return parameters
    columns = [_converted(column, field) for column, field in zip(parameters.columns, schema, strict=True)]
    return pa.table(columns, names=schema.names)


def _converted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if _is_number(column.type) and _is_number(field.type):
            # 1.5 is no int64, yet it can be compared with one.
            return column
        raise InvalidInputError(
            f"parameter {field.name} is of type {field.type}, and a value of type {column.type} was bound "
            f"that cannot become one: {error}"
        ) from error


def _is_number(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type)
    )


def _unknown(handle: bytes) -> NotFoundError:
    return NotFoundError(
        f"prepared statement {handle.hex()!r} is not known: it was closed, was idle too long, or the gateway "
        "restarted; prepare it again"
    )
