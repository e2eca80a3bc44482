"""Statements without preparation: queries and updates.

`KILL QUERY 'id'`, with an id of `system.queries`, returns one row like a query, so that every client can send
it, but it does not wait in the queue of statements. It takes effect when it is executed, not when it is
prepared.
"""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import pyarrow as pa
from google.protobuf.message import DecodeError
from pyarrow import flight

from lance_gateway.gateway.execution.endpoints import Endpoints
from lance_gateway.gateway.execution.own_statement import OwnStatement
from lance_gateway.gateway.execution.preparation import Preparation
from lance_gateway.gateway.execution.streams import Streams
from lance_gateway.gateway.execution.updates import (
    Updates,
    check_redeemable,
    encode_update_result,
    execute_write,
    query_as_update_error,
    run_own_update,
)
from lance_gateway.gateway.protocol.commands import (
    STATEMENT_ID_BYTES,
    UNNAMED,
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
from lance_gateway.gateway.protocol.errors import QueryCancelledError
from lance_gateway.gateway.protocol.sql_types import describe_result_schema
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError
from lance_gateway.planner.engine import PreparedQuery
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from lance_gateway.protos.flight_sql import pack


class Statements:
    """Plans a query for GetFlightInfo and runs it for DoGet; runs a write at once.

    The ticket of a query carries the statement itself, so it can be redeemed by any gateway over the same
    root; the engine keeps plans for a while, so that the usual DoGet does not plan a second time.
    """

    def __init__(
        self, preparation: Preparation, streams: Streams, endpoints: Endpoints, updates: Updates
    ) -> None:
        self._preparation = preparation
        self._streams = streams
        self._endpoints = endpoints
        self._updates = updates

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (
            Command(sql.CommandStatementQuery, self._schema, self._plan),
            Ticket(sql.TicketStatementQuery, self._stream),
            Upload(sql.CommandStatementUpdate, self._update),
        )

    def _schema(self, command: sql.CommandStatementQuery, call: Call) -> pa.Schema:
        return describe_result_schema(self._preparation.prepare(command.query, call.settings, call))

    def _plan(self, command: sql.CommandStatementQuery, call: Call) -> PlannedStream:
        plan = self._preparation.prepare(command.query, call.settings, call)
        if isinstance(plan, PreparedQuery):
            divided = self._endpoints.divide_result(command.query, plan, call.settings, call)
            if divided is not None:
                return divided
        elif not isinstance(plan, OwnStatement):
            return self._updates.plan_update(plan, call.settings, call)
        elif plan.is_update:
            return self._updates.plan_own(plan, call)
        handle = own.StatementHandle(
            query=command.query,
            settings=encode_settings(call.settings, call.transaction_id, call.temporary),
            statement_id=new_statement_id(),
            schema_digest=plan.digest,
        )
        ticket = pack(sql.TicketStatementQuery(statement_handle=handle.SerializeToString()))
        return PlannedStream(describe_result_schema(plan), ticket)

    def _stream(self, ticket: sql.TicketStatementQuery, call: Call) -> flight.FlightDataStream:
        try:
            handle = own.StatementHandle.FromString(ticket.statement_handle)
        except DecodeError:
            handle = own.StatementHandle()
        if len(handle.statement_id) != STATEMENT_ID_BYTES:
            raise NotFoundError(UNNAMED)
        settings = decode_settings(handle.settings)
        plan = self._preparation.prepare(handle.query, settings, call, handle.schema_digest)
        return self._streams.run(check_redeemable(plan), handle.statement_id, settings, call)

    def _update(
        self, command: sql.CommandStatementUpdate, _reader: flight.MetadataRecordBatchReader, call: Call
    ) -> bytes | None:
        plan = self._preparation.prepare(command.query, call.settings, call)
        if isinstance(plan, OwnStatement):
            return run_own_update(plan, call)
        if isinstance(plan, PreparedQuery):
            raise query_as_update_error(plan.sql)
        result = self._updates.run(
            plan.sql, plan.target, call.settings, call, lambda query: execute_write(plan, None, query.control)
        )
        return encode_update_result(result.affected)


logger = logging.getLogger(__name__)

Cancel: TypeAlias = Callable[[str, LanceGatewayError, str | None], bool]
"""Stops the statement of an id, of one user or of all; returns whether there was one."""

# Atomic and possessive: many comments in a row have one reading, and trying others takes forever.
_COMMENTS = r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*+"
_KILL = re.compile(
    rf"{_COMMENTS}KILL\s+QUERY\s+'(?P<id>[^']*)'{_COMMENTS};?{_COMMENTS}", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class Kill(OwnStatement):
    """A parsed KILL statement.

    Attributes:
        sql: its text.
        query_id: what it stops.
        cancel: see `Queries.cancel`.
    """

    sql: str
    query_id: str
    cancel: Cancel

    schema = pa.schema([pa.field("query_id", pa.string()), pa.field("killed", pa.bool_())])
    changes: ClassVar[bool] = True

    def run(self, call: Call) -> pa.RecordBatch:
        """Cancel the statement; return one row.

        Raises:
            NotFoundError: there is no such statement under way that the caller may stop.
        """
        user = None if call.access.is_admin else call.identity.name
        error = QueryCancelledError(f"the statement was killed by user {call.identity.name!r}")
        if not self.cancel(self.query_id, error, user):
            whose = "" if user is None else f" of user {user!r}"
            raise NotFoundError(
                f"no query {self.query_id!r}{whose} waits or runs on this gateway: "
                "system.queries shows those that do"
            )
        logger.info("user %r killed query %s", call.identity.name, self.query_id)
        return pa.RecordBatch.from_pylist([{"query_id": self.query_id, "killed": True}], self.schema)


def parse_kill(sql: str, cancel: Cancel) -> Kill:
    """Return a statement whose first word is KILL.

    >>> parse_kill("kill query '0af1' ;", cancel=lambda *_: True).query_id
    '0af1'

    Raises:
        InvalidInputError: it does not go on like one.
    """
    match = _KILL.fullmatch(sql)
    if match is None:
        raise InvalidInputError("KILL is written KILL QUERY '<query_id>', with an id of system.queries")
    return Kill(sql, match["id"], cancel)
