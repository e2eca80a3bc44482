"""Substrait plans in place of queries: CommandStatementSubstraitPlan.

What a plan calls a table is a name like any other: it means what it means to the caller, with the caller's
rows and columns. Plans that are prepared first are `prepared`'s.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import flight

from gateway.execution.running_queries import Queries, Query
from gateway.execution.streams import Streams
from gateway.protocol.commands import Call, Command, Planned, Ticket, Upload
from gateway.protocol.sql_types import described
from gateway.protocol.tickets import check_statement_id, decode_settings, encode_settings, new_statement_id
from gateway.protocol.wire import pack, refuse_transaction
from memwal.errors import UnsupportedError
from planner.engine import PreparedQuery, QueryEngine
from protos import flight_sql_pb2 as sql
from protos import gateway_pb2 as own


class SubstraitPlans:
    """Checks a plan for GetFlightInfo and runs it for DoGet; the ticket carries the plan."""

    def __init__(self, engine: QueryEngine, queries: Queries, streams: Streams) -> None:
        self._engine = engine
        self._queries = queries
        self._streams = streams

    def commands(self) -> tuple[Command[sql.CommandStatementSubstraitPlan], ...]:
        """Returns the descriptor commands of this family."""
        return (Command(sql.CommandStatementSubstraitPlan, self._schema, self._plan),)

    def tickets(self) -> tuple[Ticket[own.PlanTicket], ...]:
        """Returns the tickets of this family."""
        return (Ticket(own.PlanTicket, self._stream),)

    def uploads(self) -> tuple[Upload[sql.CommandStatementSubstraitPlan], ...]:
        """Returns the DoPut commands of this family."""
        return (Upload(sql.CommandStatementSubstraitPlan, self._update),)

    def _schema(self, command: sql.CommandStatementSubstraitPlan, call: Call) -> pa.Schema:
        return described(self._prepared(command, call))

    def _plan(self, command: sql.CommandStatementSubstraitPlan, call: Call) -> Planned:
        plan = self._prepared(command, call)
        ticket = own.PlanTicket(
            plan=command.plan.plan,
            settings=encode_settings(call.settings),
            statement_id=new_statement_id(),
            schema_digest=plan.digest,
        )
        return Planned(described(plan), pack(ticket))

    def _prepared(self, command: sql.CommandStatementSubstraitPlan, call: Call) -> PreparedQuery:
        refuse_transaction(command)
        return self._engine.prepare_plan(command.plan.plan, call.settings, call.access)

    def _stream(self, ticket: own.PlanTicket, call: Call) -> flight.FlightDataStream:
        check_statement_id(ticket.statement_id)
        settings = decode_settings(ticket.settings)
        plan = self._engine.prepare_plan(ticket.plan, settings, call.access, promised=ticket.schema_digest)
        query = self._queries.redeem(ticket.statement_id, plan.sql, settings, call)

        def readers(query: Query) -> Iterator[pa.RecordBatchReader]:
            yield plan.execute((), settings, query.control)

        return self._streams.send(described(plan), query, readers)

    def _update(
        self,
        command: sql.CommandStatementSubstraitPlan,
        _reader: flight.MetadataRecordBatchReader,
        _call: Call,
    ) -> bytes | None:
        refuse_transaction(command)
        raise UnsupportedError(
            "a Substrait plan cannot be an update: execute it as a query, and write with SQL or an ingestion"
        )
