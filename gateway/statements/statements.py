"""Statements without preparation: CommandStatementQuery and CommandStatementUpdate."""

from collections.abc import Iterator

import pyarrow as pa
from google.protobuf.message import DecodeError
from pyarrow import flight

from gateway.execution.cancellation import Kill
from gateway.execution.endpoints import Endpoints
from gateway.execution.running_queries import Queries, Query
from gateway.execution.streams import Streams
from gateway.execution.updates import Updates, not_an_update, not_by_ticket, update_result
from gateway.protocol.commands import Call, Command, Planned, Ticket, Upload
from gateway.protocol.sql_types import described
from gateway.protocol.tickets import check_statement_id, decode_settings, statement_ticket
from gateway.protocol.wire import refuse_transaction
from gateway.statements.prepared_statements import prepare
from planner.engine import PreparedQuery, QueryEngine
from protos import flight_sql_pb2 as sql
from protos import gateway_pb2 as own


class Statements:
    """Plans a query for GetFlightInfo and runs it for DoGet; runs at once what changes something.

    The ticket of a query carries the statement itself, so it can be redeemed by any gateway over the same
    root; the engine keeps plans for a while, so that the usual DoGet does not plan a second time.

    Args:
        engine: plans and runs them.
        queries: the statements that run.
        streams: sends results.
        endpoints: divides results.
        updates: executes what changes something.
    """

    def __init__(
        self, engine: QueryEngine, queries: Queries, streams: Streams, endpoints: Endpoints, updates: Updates
    ) -> None:
        self._engine = engine
        self._queries = queries
        self._streams = streams
        self._endpoints = endpoints
        self._updates = updates

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
        refuse_transaction(command)
        return described(prepare(self._engine, command.query, call.settings, call))

    def _plan(self, command: sql.CommandStatementQuery, call: Call) -> Planned:
        refuse_transaction(command)
        plan = prepare(self._engine, command.query, call.settings, call)
        if isinstance(plan, PreparedQuery):
            divided = self._endpoints.divided(command.query, plan, call.settings, call)
            if divided is not None:
                return divided
        elif not isinstance(plan, Kill):
            return self._updates.planned(plan, call.settings, call)
        return Planned(described(plan), statement_ticket(command.query, call.settings, plan.digest))

    def _stream(self, ticket: sql.TicketStatementQuery, call: Call) -> flight.FlightDataStream:
        try:
            handle = own.StatementHandle.FromString(ticket.statement_handle)
        except DecodeError:
            handle = own.StatementHandle()
        check_statement_id(handle.statement_id)
        settings = decode_settings(handle.settings)
        plan = prepare(self._engine, handle.query, settings, call, promised=handle.schema_digest)
        if not isinstance(plan, PreparedQuery | Kill):
            raise not_by_ticket(plan.sql)
        query = self._queries.redeem(handle.statement_id, plan.sql, settings, call)
        if isinstance(plan, Kill):
            return self._streams.listing(plan.run(self._queries, call))
        query.is_exempt = plan.reads_only_system

        def readers(query: Query) -> Iterator[pa.RecordBatchReader]:
            yield plan.execute((), settings, query.control)

        return self._streams.send(described(plan), query, readers, plan.constant)

    def _update(
        self, command: sql.CommandStatementUpdate, _reader: flight.MetadataRecordBatchReader, call: Call
    ) -> bytes | None:
        refuse_transaction(command)
        plan = prepare(self._engine, command.query, call.settings, call)
        if isinstance(plan, Kill):
            return update_result(plan.run(self._queries, call).num_rows)
        if isinstance(plan, PreparedQuery):
            raise not_an_update(plan.sql)
        result = self._updates.run(
            plan.sql, plan.target, call.settings, call, lambda query: plan.execute((), query.control)
        )
        return update_result(result.affected)
