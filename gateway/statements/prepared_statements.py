"""Prepared statements: create, bind with DoPut, execute, close.

A handle contains the statement and its bound parameters, so that any gateway over the same root can execute
it: binding returns a new handle. This gateway stores parameters for clients that go on using the old handle,
and parameters too large for a handle. Several rows of parameters run the statement once for each row, and
the results follow one another in one stream.

Values whose type the text does not tell keep their own (`planner.binding.value_types`), and so may change the
types of the result: FlightInfo tells those of the values that are bound then, and its ticket promises them.
"""

import contextlib
import dataclasses
import secrets
from collections.abc import Iterator, Sequence

import pyarrow as pa
from google.protobuf.message import DecodeError
from pyarrow import flight

from lance_gateway.gateway.execution.batches import (
    OptionalStream,
    decode_rows,
    encode_rows,
    read_batches,
    read_schema,
)
from lance_gateway.gateway.execution.endpoints import Endpoints
from lance_gateway.gateway.execution.own_statement import OwnStatement
from lance_gateway.gateway.execution.parameters import (
    Bindings,
    read_parameters,
    read_typed_parts,
    restore_parameters,
)
from lance_gateway.gateway.execution.preparation import Preparation
from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.execution.streams import Streams
from lance_gateway.gateway.execution.updates import (
    Updates,
    check_redeemable,
    encode_update_result,
    execute_write,
    query_as_update_error,
    run_own_update,
    update_by_ticket_error,
)
from lance_gateway.gateway.protocol.commands import (
    STATEMENT_ID_BYTES,
    UNNAMED,
    Action,
    Call,
    Command,
    Handler,
    PlannedStream,
    Ticket,
    Upload,
    decode_settings,
    encode_settings,
    new_statement_id,
)
from lance_gateway.gateway.protocol.sql_types import describe_result_schema, encode_result_schema
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.planner.bridge.types.plain_types import bindable_schema
from lance_gateway.planner.engine import PreparedQuery, PreparedWrite, SessionSettings, WriteResult
from lance_gateway.planner.scans.settings import Shortcuts
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from lance_gateway.protos.flight_sql import pack

IDLE_SECONDS = 12 * 3600.0
# How many sets of parameters of the largest allowed size are stored for all statements together.
_MAX_KEPT_SETS = 4
# Id of statements without parameters: nothing is stored for them.
_NOTHING_KEPT = bytes(16)
# Clients send a handle back in a descriptor and in a ticket, which gRPC does not stream.
_MAX_HANDLE_BYTES = 64 * 1024


class PreparedStatements:
    """The prepared statements of a server."""

    def __init__(
        self, preparation: Preparation, streams: Streams, endpoints: Endpoints, updates: Updates
    ) -> None:
        limits = streams.queries.limits
        self._preparation = preparation
        self._streams = streams
        self._endpoints = endpoints
        self._updates = updates
        self._limits = limits
        self._bindings = Bindings(
            limits.max_prepared_statements, IDLE_SECONDS, _MAX_KEPT_SETS * limits.max_bound_bytes
        )

    def __len__(self) -> int:
        """Return the number of statements."""
        return len(self._bindings)

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (
            Command(sql.CommandPreparedStatementQuery, self._schema, self._plan),
            Ticket(own.PreparedTicket, self._stream),
            Upload(sql.CommandPreparedStatementQuery, self._bind),
            Upload(sql.CommandPreparedStatementUpdate, self._update),
            Action(
                "CreatePreparedStatement",
                "Plan a statement and return its handle.",
                sql.ActionCreatePreparedStatementRequest,
                self._create,
            ),
            Action(
                "ClosePreparedStatement",
                "Forget what is kept of a prepared statement.",
                sql.ActionClosePreparedStatementRequest,
                self._close,
            ),
        )

    def _create(self, request: sql.ActionCreatePreparedStatementRequest, call: Call) -> bytes:
        query = self._preparation.prepare(request.query, call.settings, call)
        return self._encode_created(own.PreparedHandle(query=request.query), query, call)

    def _encode_created(
        self, handle: own.PreparedHandle, query: PreparedQuery | PreparedWrite | OwnStatement, call: Call
    ) -> bytes:
        handle.id = _NOTHING_KEPT
        if len(query.parameter_schema):
            handle.id = secrets.token_bytes(16)
            self._bindings.open(handle.id)
        handle.settings = encode_settings(call.settings, call.transaction_id, call.temporary)
        handle.schema_digest = query.digest
        created = sql.ActionCreatePreparedStatementResult(
            prepared_statement_handle=handle.SerializeToString()
        )
        if isinstance(query, PreparedQuery | OwnStatement):
            created.parameter_schema = query.serialized_parameter_schema
        else:
            parameters = bindable_schema(query.parameter_schema, call.settings.type_set)
            created.parameter_schema = bytes(parameters.serialize())
        created.is_update = not len(query.schema)
        if not created.is_update:
            created.dataset_schema = encode_result_schema(query)
        return pack(created)

    def _close(self, request: sql.ActionClosePreparedStatementRequest, _call: Call) -> None:
        handle = _decode_handle(request.prepared_statement_handle)
        if handle.id != _NOTHING_KEPT:
            # Another gateway may have made it.
            self._bindings.close(handle.id)

    def _schema(self, command: sql.CommandPreparedStatementQuery, call: Call) -> pa.Schema:
        handle = _decode_handle(command.prepared_statement_handle)
        bound = self._find_bound(handle, self._find_number(handle))
        return describe_result_schema(self._prepare_query(handle, call, _list_types(bound)))

    def _plan(self, command: sql.CommandPreparedStatementQuery, call: Call) -> PlannedStream:
        handle = _decode_handle(command.prepared_statement_handle)
        binding_id = self._find_number(handle)
        bound = self._find_bound(handle, binding_id)
        query = self._prepare_query(handle, call, _list_types(bound))
        needed = len(query.parameter_schema)
        if needed and bound is None:
            raise InvalidInputError(
                f"the statement has {needed} parameters and none are bound: bind {needed} values"
            )
        if isinstance(query, PreparedQuery) and call.settings.endpoints > 1:
            parameters = self._restore(handle, bound, query)
            if parameters is None or parameters.nbytes <= _MAX_HANDLE_BYTES:
                chosen = _restore_settings(handle, call.settings.shortcuts)
                divided = self._endpoints.divide_result(handle.query, query, chosen, call, parameters)
                if divided is not None:
                    return divided
        if isinstance(query, OwnStatement) and query.is_update:
            return self._updates.plan_own(query, call)
        if not isinstance(query, PreparedQuery | OwnStatement):
            parameters = self._restore(handle, bound, query)
            settings, write = self._prepare_write(handle, query, call)
            return self._updates.plan_update(write, settings, call, parameters)
        handle.schema_digest = query.digest
        ticket = own.PreparedTicket(
            handle=handle,
            settings=encode_settings(call.settings, call.transaction_id, call.temporary),
            binding_id=binding_id,
            statement_id=new_statement_id(),
        )
        return PlannedStream(describe_result_schema(query), pack(ticket))

    def _stream(self, ticket: own.PreparedTicket, call: Call) -> flight.FlightDataStream:
        if len(ticket.statement_id) != STATEMENT_ID_BYTES:
            raise NotFoundError(UNNAMED)
        settings = decode_settings(ticket.settings)
        handle = ticket.handle
        bound = self._find_bound(handle, ticket.binding_id)
        plan = self._prepare_query(handle, call, _list_types(bound), settings.shortcuts)
        parameters = self._restore(handle, bound, plan)
        return self._streams.run(check_redeemable(plan), ticket.statement_id, settings, call, parameters)

    def _find_number(self, handle: own.PreparedHandle) -> int:
        """Return the number of the parameters that are kept here for a handle without any; 0 if none are."""
        return 0 if handle.parameters else self._bindings.current_number(handle.id)

    def _find_bound(self, handle: own.PreparedHandle, number: int) -> pa.Table | None:
        """Return the parameters that were bound, in the types in which they were kept; None if none were.

        Raises:
            LanceGatewayError: those of the handle can't be read, or those of the number are not kept.
        """
        if handle.parameters:
            return decode_rows(handle.parameters, "the parameters in the handle")
        return self._bindings.get(handle.id, number) if number else None

    def _restore(
        self,
        handle: own.PreparedHandle,
        bound: pa.Table | None,
        plan: PreparedQuery | PreparedWrite | OwnStatement,
    ) -> pa.Table | None:
        """Return bound parameters in the types of the statement; None if it has none."""
        if bound is None or not len(plan.parameter_schema):
            return None
        # What is kept here was read with these types; a handle comes from a client.
        return restore_parameters(bound, plan.parameter_schema, self._limits) if handle.parameters else bound

    def _bind(
        self, command: sql.CommandPreparedStatementQuery, reader: flight.MetadataRecordBatchReader, call: Call
    ) -> bytes:
        handle = _decode_handle(command.prepared_statement_handle)
        bound = read_schema(reader, call)
        plan = self._prepare_query(handle, call, bound.types)
        parameters = read_parameters(reader, bound, call, plan.parameter_schema, self._limits)
        is_kept = self._bindings.add(handle.id, parameters)
        handle.parameters = b""
        if parameters.nbytes <= _MAX_HANDLE_BYTES:
            encoded = encode_rows(parameters)
            if len(encoded) <= _MAX_HANDLE_BYTES:
                handle.parameters = encoded
        if not is_kept and not handle.parameters:
            raise NotFoundError(
                f"{parameters.nbytes} bytes of parameters do not fit into a handle, and prepared statement "
                f"{handle.id.hex()} is not kept here: it was closed, was idle too long, or the gateway "
                "restarted; prepare it again"
            )
        return sql.DoPutPreparedStatementResult(
            prepared_statement_handle=handle.SerializeToString()
        ).SerializeToString()

    def _update(
        self,
        command: sql.CommandPreparedStatementUpdate,
        reader: flight.MetadataRecordBatchReader,
        call: Call,
    ) -> bytes | None:
        handle = _decode_handle(command.prepared_statement_handle)
        plan = self._prepare_query(handle, call)
        if isinstance(plan, OwnStatement):
            return run_own_update(plan, call)
        if isinstance(plan, PreparedQuery):
            raise query_as_update_error(plan.sql)
        settings, write = self._prepare_write(handle, plan, call)

        def step(query: Query) -> WriteResult:
            parts = query.relay(lambda: self._read_bound_parts(handle, write, reader, call, query))
            return execute_write(write, None if parts is None else query.relay_each(parts), query.control)

        return encode_update_result(self._updates.run(write.sql, write.target, settings, call, step).affected)

    def _read_bound_parts(
        self,
        handle: own.PreparedHandle,
        write: PreparedWrite,
        reader: flight.MetadataRecordBatchReader,
        call: Call,
        query: Query,
    ) -> Iterator[pa.Table] | None:
        """Return the parameters of the executions of an update; None where there are none.

        Raises:
            InvalidInputError: it is not clear how often a statement without parameters is to be executed.
        """
        stream, needed = OptionalStream(reader, call, query), write.parameter_schema
        bound = stream.schema
        if len(needed) and not len(bound):
            # Nothing comes along: what was bound before counts.
            before = self._restore(handle, self._find_bound(handle, self._find_number(handle)), write)
            if before is not None:
                return iter((before,))
        if len(needed) or len(bound):
            return read_typed_parts(stream, bound, call, query, needed, self._limits)
        rows = sum(batch.num_rows for batch in read_batches(stream, call, query))
        if rows > 1:
            raise InvalidInputError(
                f"{rows} rows were bound to a statement without parameters: execute it as often as it is "
                "meant"
            )
        return None

    def _prepare_write(
        self, handle: own.PreparedHandle, write: PreparedWrite, call: Call
    ) -> tuple[SessionSettings, PreparedWrite]:
        """Return the settings and the plan of an execution: names as when prepared, the rest as now."""
        prepared, now = decode_settings(handle.settings), call.settings
        if prepared == now:
            return prepared, write
        settings = dataclasses.replace(
            prepared,
            consistency=now.consistency,
            max_staleness_ms=now.max_staleness_ms,
            query_timeout_ms=now.query_timeout_ms,
            durable_writes=now.durable_writes,
            shortcuts=now.shortcuts,
        )
        if settings != prepared:
            again = self._preparation.prepare(handle.query, settings, call, handle.schema_digest)
            if isinstance(again, PreparedQuery | OwnStatement):
                raise update_by_ticket_error(handle.query)
            write = again
        return settings, write

    def _prepare_query(
        self,
        handle: own.PreparedHandle,
        call: Call,
        bound: Sequence[pa.DataType] = (),
        shortcuts: Shortcuts | None = None,
    ) -> PreparedQuery | PreparedWrite | OwnStatement:
        """Return the plan of a statement, for the types of the parameters that were bound."""
        settings = _restore_settings(handle, call.settings.shortcuts if shortcuts is None else shortcuts)
        promised = handle.schema_digest
        return self._preparation.prepare(handle.query, settings, call, promised, bound)


def _list_types(bound: pa.Table | None) -> Sequence[pa.DataType]:
    """Return the types of bound parameters; none where none are bound."""
    return () if bound is None else tuple(bound.schema.types)


def _restore_settings(handle: own.PreparedHandle, shortcuts: Shortcuts) -> SessionSettings:
    """Return the settings that a statement was prepared with, and the shortcuts of the present session."""
    settings = decode_settings(handle.settings)
    if settings.shortcuts == shortcuts:
        return settings
    return dataclasses.replace(settings, shortcuts=shortcuts)


def _decode_handle(data: bytes) -> own.PreparedHandle:
    with contextlib.suppress(DecodeError):
        handle = own.PreparedHandle.FromString(data)
        if len(handle.id) == 16 and len(handle.schema_digest) == 8:
            return handle
    raise NotFoundError(
        f"prepared statement {data[:16].hex()!r} is not known: prepare it on this gateway, or on one over "
        "the same root"
    )
