"""The Flight SQL server: each RPC decodes its message, finds the family that answers it, and passes it on."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, TypeVarTuple

import pyarrow as pa
from pyarrow import flight

from gateway.auth.security import OpenSecurity, Security
from gateway.execution.cancellation import Cancellation
from gateway.execution.endpoints import Endpoints
from gateway.execution.running_queries import Queries, QueryObserver
from gateway.execution.streams import CallObserver, Streams, unobserved
from gateway.execution.updates import Updates
from gateway.metadata.keys import Keys
from gateway.metadata.sql_info import SqlInfo
from gateway.metadata.tables import Metadata
from gateway.metadata.xdbc_types import XdbcTypes
from gateway.observability.system_tables import SystemQueries, SystemSessions
from gateway.peers.forwarding import ForwardedRows
from gateway.peers.peer_identity import PEER
from gateway.protocol.commands import (
    Action,
    Call,
    Command,
    Exchange,
    Ticket,
    Transactions,
    Upload,
)
from gateway.protocol.errors import answer_to, status_of
from gateway.protocol.limits import Limits
from gateway.protocol.middleware import CALLS, NO_PARTS, CallMiddlewareFactory, JoinedMiddleware, joined
from gateway.protocol.wire import Registry, read_body
from gateway.sessions import DEFAULTS, SessionMiddleware, SessionMiddlewareFactory, Sessions
from gateway.statements.ingest import Ingestion
from gateway.statements.prepared_statements import PreparedStatements
from gateway.statements.statements import Statements
from gateway.statements.substrait import SubstraitPlans
from memwal.errors import InvalidInputError, NotFoundError, PermissionDeniedError, UnsupportedError
from planner.engine import QueryEngine

_SESSION = "session"
T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class GatewayServer(flight.FlightServerBase):
    """Serves the tables of an engine. Accepts connections as soon as it is constructed.

    Args:
        engine: plans and runs the queries; the server does not close it.
        host: address to listen on.
        port: port to listen on; 0 takes any free one, which `port` then tells.
        security: who may call, and what each caller sees; by default everybody, and everything.
        limits: how much is done at once, remembered and sent.
        observers: hear of every statement.
        on_call_finished: hears of every call but handshakes, its stream included.
        middleware: looks at every call, besides what security and sessions need.
        forwarded: takes rows from other gateways; None where they send none.

    Attributes:
        queries: the statements that run and ran.
        sessions: of the clients.
        prepared: statements that are kept for clients.
    """

    def __init__(
        self,
        engine: QueryEngine,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        security: Security | None = None,
        limits: Limits | None = None,
        observers: Sequence[QueryObserver] = (),
        on_call_finished: CallObserver = unobserved,
        middleware: Mapping[str, CallMiddlewareFactory] = MappingProxyType({}),
        forwarded: ForwardedRows | None = None,
    ) -> None:
        limits = limits or Limits()
        self._max_message_bytes = max_bytes = limits.max_message_bytes
        self._security = security or OpenSecurity()
        self.queries = Queries(limits, observers)
        self.sessions = Sessions(limits)
        engine.add_system_tables(SystemQueries(self.queries), SystemSessions(self.sessions))
        self._on_call_finished = on_call_finished
        streams = Streams(self.queries, on_call_finished)
        endpoints = Endpoints(engine, self.queries, streams)
        updates = Updates(self.queries, streams)
        statements = Statements(engine, self.queries, streams, endpoints, updates)
        plans = SubstraitPlans(engine, self.queries, streams)
        self.prepared = prepared = PreparedStatements(
            engine, self.queries, streams, limits, endpoints, updates
        )
        families = (
            statements,
            plans,
            prepared,
            Metadata(engine, streams),
            Keys(engine, streams),
            XdbcTypes(streams),
            SqlInfo(streams, writes=engine.catalog.writing is not None),
        )
        self._commands: Registry[Command[Any]] = Registry(
            "command", [command for family in families for command in family.commands()], max_bytes
        )
        self._tickets: Registry[Ticket[Any]] = Registry(
            "ticket",
            [ticket for family in (*families, endpoints, updates) for ticket in family.tickets()],
            max_bytes,
            unknown=NotFoundError,
        )
        exchanges = () if forwarded is None else forwarded.exchanges()
        self._uploads: Registry[Upload[Any] | Exchange[Any]] = Registry(
            "DoPut command",
            [
                *statements.uploads(),
                *plans.uploads(),
                *prepared.uploads(),
                *Ingestion(engine, updates).uploads(),
                *exchanges,
            ],
            max_bytes,
        )
        acting = (prepared, endpoints, self.sessions, Transactions(), Cancellation(self.queries))
        self._actions: dict[str, Action[Any]] = {
            action.name: action for family in acting for action in family.actions()
        }
        address = f"[{host}]" if ":" in host else host
        super().__init__(
            f"grpc{'+tls' if self._security.tls else ''}://{address}:{port}",
            auth_handler=self._security.auth_handler,
            middleware=joined(
                {**self._security.middleware(), _SESSION: SessionMiddlewareFactory(), **middleware}
            ),
            **self._security.tls,
        )

    def shutdown(self) -> None:
        """Refuses new calls and returns when the running ones have ended."""
        super().shutdown()
        self.queries.close()

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """Plans a command and returns the ticket of its stream, or of each of its parts."""
        return self._answer("GetFlightInfo", context, self._flight_info, descriptor)

    def get_schema(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.SchemaResult:
        """Returns the schema that the stream of a command will have."""
        return self._answer("GetSchema", context, self._schema, descriptor)

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Returns the stream of a ticket."""
        return self._answer("DoGet", context, self._stream, ticket)

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Takes what the client sends: parameters, or rows."""
        self._answer("DoPut", context, self._take, descriptor, reader, writer)

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """Runs an action and returns the body of its result."""
        return self._answer("DoAction", context, self._act, action)

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        """Returns the name and description of each action."""
        return self._answer("ListActions", context, self._known_actions)

    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> Iterator[flight.FlightInfo]:  # noqa: ARG002
        """Returns nothing: tables are found with GetTables, and streams begin with a statement."""
        return self._answer("ListFlights", context, lambda _: iter(()))

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,  # noqa: ARG002
        reader: flight.MetadataRecordBatchReader,  # noqa: ARG002
        writer: flight.MetadataRecordBatchWriter,  # noqa: ARG002
    ) -> None:
        """Refuses: Flight SQL has no use for it."""
        self._answer("DoExchange", context, _refuse_exchange)

    def _flight_info(self, call: Call, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        command, message = self._commands.find(_command_of(descriptor))
        planned = command.plan(message, call)
        # No location: a client comes back the way it came, whatever this host is called from there.
        expires_at = None if planned.expires_at is None else pa.scalar(planned.expires_at)
        endpoints = [
            flight.FlightEndpoint(ticket, [], expires_at) for ticket in (planned.ticket, *planned.others)
        ]
        return flight.FlightInfo(planned.schema, descriptor, endpoints, planned.records, -1)

    def _schema(self, call: Call, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        command, message = self._commands.find(_command_of(descriptor))
        return flight.SchemaResult(command.schema(message, call))

    def _stream(self, call: Call, ticket: flight.Ticket) -> flight.FlightDataStream:
        entry, message = self._tickets.find(ticket.ticket)
        return entry.stream(message, call)

    def _take(
        self,
        call: Call,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        upload, message = self._uploads.find(_command_of(descriptor))
        if isinstance(upload, Exchange):
            upload.run(message, reader, writer, call)
            return
        if call.identity == PEER:
            raise PermissionDeniedError("other gateways may forward rows, and nothing else")
        answer = upload.accept(message, reader, call)
        if answer is not None:
            writer.write(answer)

    def _act(self, call: Call, action: flight.Action) -> Iterator[bytes]:
        entry = self._actions.get(action.type)
        if entry is None:
            raise UnsupportedError(
                f"the gateway has no action {action.type!r}; it has " + ", ".join(sorted(self._actions))
            )
        request = read_body(
            entry.message,
            action.body.to_pybytes(),
            f"the body of {action.type}",
            self._max_message_bytes,
            is_bare=entry.is_bare,
        )
        body = entry.run(request, call)
        return iter(() if body is None else (body,))

    def _known_actions(self, _call: Call) -> list[tuple[str, str]]:
        return [(action.name, action.description) for action in self._actions.values()]

    def _answer(
        self,
        method: str,
        context: flight.ServerCallContext,
        handle: Callable[[Call, *Arguments], T],
        *arguments: *Arguments,
    ) -> T:
        """Serves a call: finds out who calls, turns errors into answers, and counts the call.

        Args:
            method: of Flight.
            context: of the call.
            handle: serves it.
            arguments: of `handle`, behind the call.
        """
        started = time.perf_counter()
        try:
            answer = handle(self._call(context), *arguments)
        except BaseException as error:  # noqa: BLE001 - the boundary: nothing passes it unexamined
            told = answer_to(error, _operation(method, *arguments))
            self._on_call_finished(method, status_of(told), time.perf_counter() - started)
            raise told from None
        # A stream goes on behind the call, and is counted when it ends.
        if not isinstance(answer, flight.FlightDataStream):
            self._on_call_finished(method, "OK", time.perf_counter() - started)
        return answer

    def _call(self, context: flight.ServerCallContext) -> Call:
        looked: JoinedMiddleware | None = context.get_middleware(CALLS)
        middleware = NO_PARTS if looked is None else looked.parts
        identity = self._security.identify(context, middleware)
        session: SessionMiddleware | None = middleware.get(_SESSION)
        session_id, settings = None, DEFAULTS
        if session is not None:
            session_id = session.session_id
            settings = session.settings(self.sessions.settings(session_id, identity.name))
        return Call(
            context.peer(),
            identity,
            self._security.access(identity),
            session_id,
            settings,
            context.add_header,
            context.is_cancelled,
        )


def _operation(method: str, *arguments: object) -> str:
    """What errors call an operation: the name of an action says more than that it was one."""
    first = arguments[0] if arguments else None
    return f"the action {first.type}" if isinstance(first, flight.Action) else method


def _refuse_exchange(_call: Call) -> None:
    raise UnsupportedError("Flight SQL does not use DoExchange: send statements to GetFlightInfo")


def _command_of(descriptor: flight.FlightDescriptor) -> bytes:
    if descriptor.descriptor_type != flight.DescriptorType.CMD:
        raise InvalidInputError(f"descriptor {descriptor!r} is a path; Flight SQL uses commands")
    return bytes(descriptor.command)
