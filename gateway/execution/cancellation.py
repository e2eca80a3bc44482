"""Cancellation of statements: CancelFlightInfo, and CancelQuery for older clients.

A client sends back a FlightInfo, whose tickets name their statement. A ticket that was not redeemed yet
becomes invalid; a running statement is stopped within about a second. CancelFlightInfo's messages are bare,
those of CancelQuery packed in Any.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, get_args

from google.protobuf.any_pb2 import Any

from lance_gateway.gateway.execution.query import QueryState
from lance_gateway.gateway.execution.running_queries import Queries
from lance_gateway.gateway.protocol.commands import Action, Call, Handler
from lance_gateway.gateway.protocol.errors import QueryCancelledError
from lance_gateway.gateway.protocol.wire import decode
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from lance_gateway.protos.flight_sql import pack

logger = logging.getLogger(__name__)

_Named: TypeAlias = own.PreparedTicket | own.PartTicket | own.WriteTicket
"""Tickets that name their statement."""
_CANCELLED = flight_pb2.CANCEL_STATUS_CANCELLED
_CANCELLING = flight_pb2.CANCEL_STATUS_CANCELLING
_NOT_CANCELLABLE = flight_pb2.CANCEL_STATUS_NOT_CANCELLABLE


class Cancellation:
    """The two actions that stop a statement."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (
            Action(
                "CancelFlightInfo",
                "Stop the statement of a FlightInfo.",
                flight_pb2.CancelFlightInfoRequest,
                self._cancel_flight_info,
                is_bare=True,
            ),
            Action(
                "CancelQuery",
                "Deprecated form of CancelFlightInfo.",
                sql.ActionCancelQueryRequest,
                self._cancel_query,
            ),
        )

    def _cancel_flight_info(self, request: flight_pb2.CancelFlightInfoRequest, call: Call) -> bytes:
        return flight_pb2.CancelFlightInfoResult(status=self._cancel(request.info, call)).SerializeToString()

    def _cancel_query(self, request: sql.ActionCancelQueryRequest, call: Call) -> bytes:
        info = decode(flight_pb2.FlightInfo, request.info, "the info of CancelQuery")
        # The two enumerations have the same numbers.
        result = sql.ActionCancelQueryResult.CancelResult.ValueType(self._cancel(info, call))
        return pack(sql.ActionCancelQueryResult(result=result))

    def _cancel(self, info: flight_pb2.FlightInfo, call: Call) -> flight_pb2.CancelStatus.ValueType:
        if not info.endpoint:
            raise InvalidInputError(
                "the FlightInfo has no endpoints: send the one that GetFlightInfo answered with"
            )
        # The parts of a divided result are one statement.
        statements = {read_statement_id(endpoint.ticket.ticket) for endpoint in info.endpoint}
        statuses = {self._cancel_statement(statement_id, call) for statement_id in statements}
        # What is still being stopped decides, and then what could be stopped at all.
        return next(status for status in (_CANCELLING, _CANCELLED, _NOT_CANCELLABLE) if status in statuses)

    def _cancel_statement(self, statement_id: bytes | None, call: Call) -> flight_pb2.CancelStatus.ValueType:
        if statement_id is None:
            return _NOT_CANCELLABLE
        if not statement_id:
            raise InvalidInputError("a ticket of the FlightInfo names no statement: send it back unchanged")
        withdrawn = self._queries.withdraw(statement_id)
        name = statement_id.hex()
        error = QueryCancelledError(f"statement {name} was cancelled on request")
        user = None if call.access.is_admin else call.identity.name
        if self._queries.cancel(name, error, user):
            return _CANCELLING
        if withdrawn:
            return _CANCELLED
        for query in self._queries.list_finished():
            if query.statement_id == name:
                return _CANCELLED if query.state is QueryState.CANCELLED else _NOT_CANCELLABLE
        raise NotFoundError(
            f"statement {name} is not known: it ended long ago, was cancelled before it ran, or runs on "
            "another gateway"
        )


def read_statement_id(ticket: bytes) -> bytes | None:
    """Return the statement that a ticket names; None for the ticket of a metadata command, which is none.

    Raises:
        InvalidInputError: the bytes are no ticket.
    """
    packed = decode(Any, ticket, "the ticket")
    kind = _TICKETS.get(packed.TypeName())
    if kind is None:
        return None
    ticket_of_kind = decode(kind, packed.value, "the ticket")
    if isinstance(ticket_of_kind, sql.TicketStatementQuery):
        return decode(own.StatementHandle, ticket_of_kind.statement_handle, "the ticket").statement_id
    return ticket_of_kind.statement_id


_TICKETS: Mapping[str, type[_Named | sql.TicketStatementQuery]] = MappingProxyType(
    {kind.DESCRIPTOR.full_name: kind for kind in (sql.TicketStatementQuery, *get_args(_Named))}
)
