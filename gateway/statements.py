"""Queries without preparation: CommandStatementQuery."""

import itertools
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import flight

from gateway.commands import Call, Command, Planned, Ticket, Upload
from gateway.keeping import Keeping
from gateway.streams import Streams
from gateway.tickets import decode_settings, statement_ticket
from gateway.wire import decode
from memwal.errors import UnsupportedError
from planner.engine import PreparedQuery, QueryEngine, SessionSettings
from protos import flight_sql_pb2 as sql
from protos import gateway_pb2 as own

_MAX_PLANS = 256
# A client fetches what it planned at once, or never.
_PLAN_IDLE_SECONDS = 60.0


class Statements:
    """Plans a query for GetFlightInfo and runs it for DoGet.

    The ticket carries the statement itself, so it can be redeemed by any gateway over the same root; the
    plan is kept for a moment, so that the usual DoGet does not plan a second time.
    """

    def __init__(self, engine: QueryEngine, streams: Streams) -> None:
        self._engine = engine
        self._streams = streams
        self._plans: Keeping[int, PreparedQuery] = Keeping(_MAX_PLANS, _PLAN_IDLE_SECONDS)
        self._ids = itertools.count(1)

    def commands(self) -> tuple[Command[sql.CommandStatementQuery], ...]:
        """Returns the descriptor commands of this family."""
        return (Command(sql.CommandStatementQuery, self._schema, self._plan),)

    def tickets(self) -> tuple[Ticket[sql.TicketStatementQuery], ...]:
        """Returns the tickets of this family."""
        return (Ticket(sql.TicketStatementQuery, self._stream),)

    def uploads(self) -> tuple[Upload[sql.CommandStatementUpdate], ...]:
        """Returns the DoPut commands of this family."""
        return (Upload(sql.CommandStatementUpdate, self._update),)

    def _schema(self, command: sql.CommandStatementQuery, call: Call) -> pa.Schema:
        return self._engine.prepare(command.query, call.settings).schema

    def _plan(self, command: sql.CommandStatementQuery, call: Call) -> Planned:
        plan = self._engine.prepare(command.query, call.settings)
        plan_id = next(self._ids)
        self._plans.put(plan_id, plan)
        return Planned(plan.schema, statement_ticket(command.query, call.settings, plan_id))

    def _stream(self, ticket: sql.TicketStatementQuery) -> flight.FlightDataStream:
        handle = decode(own.StatementHandle, ticket.statement_handle, "the ticket")
        settings = decode_settings(handle.settings)
        plan = self._plans.get(handle.plan_id)
        if plan is None or plan.sql != handle.query:
            plan = self._engine.prepare(handle.query, settings)
        return self._streams.send(plan.schema, _once(plan, settings))

    def _update(self, command: sql.CommandStatementUpdate, _reader: flight.MetadataRecordBatchReader) -> None:
        raise UnsupportedError(
            f"the gateway only reads; it cannot run {command.query!r}: write through a MemWAL writer or Lance"
        )


def _once(plan: PreparedQuery, settings: SessionSettings) -> Iterator[pa.RecordBatchReader]:
    yield plan.execute((), settings)
