"""The Flight SQL server: each RPC decodes its message and passes it to the handler of its type."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar, TypeVarTuple

import pyarrow as pa
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.gateway.auth.calls import NO_HEADERS, CallHeaders, CallMiddleware, RpcObserver, Security
from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.execution.cancellation import Cancellation
from lance_gateway.gateway.execution.endpoints import Endpoints
from lance_gateway.gateway.execution.preparation import Preparation
from lance_gateway.gateway.execution.running_queries import Queries, QueryObserver
from lance_gateway.gateway.execution.streams import CallObserver, Streams, ignore_call
from lance_gateway.gateway.execution.updates import Updates
from lance_gateway.gateway.metadata.keys import Keys
from lance_gateway.gateway.metadata.listings import XdbcTypes
from lance_gateway.gateway.metadata.sql_info import SqlInfo
from lance_gateway.gateway.metadata.tables import Metadata
from lance_gateway.gateway.observability.system_tables import SystemQueries, SystemSessions
from lance_gateway.gateway.peers.forwarding import ForwardedRows
from lance_gateway.gateway.peers.peer_identity import NO_ACCESS, PEER
from lance_gateway.gateway.protocol.commands import Action, Call, Command, Exchange, Family, Ticket, Upload
from lance_gateway.gateway.protocol.errors import find_status, translate_error
from lance_gateway.gateway.protocol.identity import ANONYMOUS
from lance_gateway.gateway.protocol.open_uploads import (
    CrowdWatch,
    OpenUploads,
    Peer,
    UploadWatch,
    list_connected_peers,
    parse_peer,
)
from lance_gateway.gateway.protocol.places import Places
from lance_gateway.gateway.protocol.registry import Registry, check_size
from lance_gateway.gateway.protocol.wire import decode, unpack
from lance_gateway.gateway.sessions import DEFAULTS, Sessions
from lance_gateway.gateway.statements.following import Followers
from lance_gateway.gateway.statements.ingest import Ingestion
from lance_gateway.gateway.statements.open_transactions import OpenTransactions
from lance_gateway.gateway.statements.prepared_statements import PreparedStatements
from lance_gateway.gateway.statements.session.statements import SessionStatements
from lance_gateway.gateway.statements.session.temporary import SessionTables, check_session
from lance_gateway.gateway.statements.statements import Statements, parse_kill
from lance_gateway.gateway.statements.transactions import (
    TransactionActions,
    TransactionCommands,
    join_transaction,
)
from lance_gateway.memwal.errors import (
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.planner.engine import QueryEngine

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class GatewayServer(flight.FlightServerBase):
    """Serves the tables of an engine. Accepts connections as soon as it is constructed.

    Args:
        engine: plans and runs the queries; the server does not close it.
        host: address to listen on.
        port: port to listen on; 0 takes any free one, see `port`.
        security: authentication and access; by default every caller sees everything.
        limits: how much is done at once, remembered and sent.
        query_history: how many statements that have ended are remembered.
        observers: of every statement.
        on_call_finished: observes every call but handshakes, its stream included.
        rpc_observers: of calls while their headers are read, by method.
        forwarded: takes rows from other gateways; None where they send none.

    Attributes:
        queries: the statements that run and ran.
        sessions: of the clients.
        transactions: that are open.
        prepared: statements that are kept for clients.
    """

    def __init__(
        self,
        engine: QueryEngine,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        security: Security | None = None,
        limits: LimitsSection | None = None,
        query_history: int = 1000,
        observers: Sequence[QueryObserver] = (),
        on_call_finished: CallObserver = ignore_call,
        rpc_observers: Mapping[flight.FlightMethod, Sequence[RpcObserver]] = MappingProxyType({}),
        forwarded: ForwardedRows | None = None,
    ) -> None:
        limits = limits or LimitsSection()
        self._max_message_bytes = max_bytes = limits.max_message_bytes
        self._security = security or Security()
        self.queries = Queries(limits, observers, is_remote=engine.is_remote, history=query_history)
        self.sessions = Sessions(
            limits,
            lambda schema, call: engine.visible_catalog(call.access).has_schema(schema),
        )
        self._conceal = conceal = Places(engine.storage, local=engine.catalog.temporary.options.path).conceal
        engine.add_system_tables(SystemQueries(self.queries, conceal), SystemSessions(self.sessions))
        self._on_call_finished = on_call_finished
        streams = Streams(self.queries, on_call_finished, conceal)
        self.transactions = OpenTransactions(
            engine, limits, self.queries.has_transaction, lambda: list_connected_peers(self.port)
        )
        self.temporary = SessionTables(engine.catalog, self.sessions)
        self.sessions.on_closed = self._end_session
        self.sessions.watch(self.temporary.end_session)
        commands = TransactionCommands(self.transactions, self.sessions.open)
        preparation = Preparation(
            engine,
            self.queries,
            {
                **SessionStatements(self.sessions, self.temporary.end_session).readers,
                "kill": lambda sql, _call: parse_kill(sql, self.queries.cancel),
                "select": Followers(engine, self.queries, self._security.access).read,
            },
            commands.read,
            self.temporary.open,
        )
        endpoints = Endpoints(preparation, streams)
        updates = Updates(streams)
        self.prepared = PreparedStatements(preparation, streams, endpoints, updates)
        families: list[Family] = [
            Statements(preparation, streams, endpoints, updates),
            self.prepared,
            Ingestion(engine, updates, limits, self.temporary),
            endpoints,
            updates,
            Metadata(engine, streams),
            Keys(engine, streams),
            XdbcTypes(streams),
            SqlInfo(
                streams,
                writes=engine.catalog.writing is not None,
                transaction_seconds=limits.transaction_idle,
                on_asked=self.sessions.offer,
            ),
            self.sessions,
            TransactionActions(self.transactions, updates),
            Cancellation(self.queries),
        ]
        if forwarded is not None:
            families.append(forwarded)
        handlers = [handler for family in families for handler in family.list_handlers()]
        self._commands = Registry("command", [h for h in handlers if isinstance(h, Command)], max_bytes)
        self._tickets = Registry(
            "ticket", [h for h in handlers if isinstance(h, Ticket)], max_bytes, unknown=NotFoundError
        )
        self._uploads = Registry(
            "DoPut command", [h for h in handlers if isinstance(h, Upload | Exchange)], max_bytes
        )
        self._actions = {handler.name: handler for handler in handlers if isinstance(handler, Action)}
        uploads = OpenUploads(limits)
        calls = CallMiddleware(self._security, rpc_observers, uploads, on_call_finished)
        address = f"[{host}]" if ":" in host else host
        super().__init__(
            f"grpc{'+tls' if self._security.tls else ''}://{address}:{port}",
            auth_handler=calls.auth_handler,
            middleware={calls.name: calls},
            **self._security.tls,
        )
        self._watch = UploadWatch(uploads, limits.upload_timeout, self.port, self._list_busy_peers)
        self._crowd = CrowdWatch(
            self.port,
            lambda: self._list_busy_peers() | uploads.list_busy_peers() | self.transactions.list_peers(),
        )

    def shutdown(self) -> None:
        """Refuse new calls and return when the running ones have ended."""
        self.queries.cancel_endless(
            UnavailableError("the gateway is stopping: follow the table elsewhere, from the last token on")
        )
        super().shutdown()
        self._watch.close()
        self._crowd.close()
        self.transactions.close()
        self.temporary.close()
        self.queries.close()

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """Plan a command and return the ticket of its stream, or of each of its parts."""
        return self._serve("GetFlightInfo", context, self._plan, descriptor)

    def get_schema(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.SchemaResult:
        """Return the schema that the stream of a command will have."""
        return self._serve("GetSchema", context, self._schema, descriptor)

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Return the stream of a ticket."""
        return self._serve("DoGet", context, self._stream, ticket)

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Take what the client sends: parameters, or rows."""
        self._serve("DoPut", context, self._accept, descriptor, reader, writer)

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """Run an action and return the body of its result."""
        return self._serve("DoAction", context, self._run_action, action)

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        """Return the name and description of each action."""
        actions = [(action.name, action.description) for action in self._actions.values()]
        return self._serve("ListActions", context, lambda _: actions)

    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> Iterator[flight.FlightInfo]:  # noqa: ARG002
        """Return nothing: Flight SQL lists tables with GetTables."""
        return self._serve("ListFlights", context, lambda _: iter(()))

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Do nothing: the middleware refuses the call before its stream is opened."""

    def _plan(self, call: Call, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        command, message = self._commands.find(_read_command(descriptor))
        planned = command.plan(message, self._join(message, call))
        # No location: a client comes back the way it came, whatever this host is called from there.
        expires_at = None if planned.expires_at is None else pa.scalar(planned.expires_at)
        endpoints = [
            flight.FlightEndpoint(ticket, [], expires_at) for ticket in (planned.ticket, *planned.others)
        ]
        return flight.FlightInfo(planned.schema, descriptor, endpoints, planned.records, -1)

    def _schema(self, call: Call, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        command, message = self._commands.find(_read_command(descriptor))
        return flight.SchemaResult(command.schema(message, self._join(message, call)))

    def _stream(self, call: Call, ticket: flight.Ticket) -> flight.FlightDataStream:
        entry, message = self._tickets.find(ticket.ticket)
        return entry.stream(message, self._join(message, call))

    def _accept(
        self,
        call: Call,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        upload, message = self._uploads.find(_read_command(descriptor))
        if isinstance(upload, Exchange):
            upload.run(message, reader, writer, call)
            return
        if call.identity == PEER:
            raise PermissionDeniedError("other gateways may forward rows, and nothing else")
        answer = upload.accept(message, reader, self._join(message, call))
        if answer is not None:
            writer.write(answer)

    def _run_action(self, call: Call, action: flight.Action) -> Iterator[bytes]:
        entry = self._actions.get(action.type)
        if entry is None:
            raise UnsupportedError(
                f"the gateway has no action {action.type!r}; it has " + ", ".join(sorted(self._actions))
            )
        body, what = action.body.to_pybytes(), f"the body of {action.type}"
        check_size(body, what, self._max_message_bytes)
        request = (decode if entry.is_bare else unpack)(entry.message, body, what)
        result = entry.run(request, self._join(request, call))
        return iter(() if result is None else (result,))

    def _join(self, message: Message, call: Call) -> Call:
        check_session(message, call)
        return join_transaction(self.transactions, message, call)

    def _serve(
        self,
        method: str,
        context: flight.ServerCallContext,
        handle: Callable[[Call, *Arguments], T],
        *arguments: *Arguments,
    ) -> T:
        """Authenticate the caller, serve the call, translate its error for the client, and count the call."""
        started = time.perf_counter()
        try:
            answer = handle(self._create_call(context), *arguments)
        except BaseException as error:  # noqa: BLE001 - the boundary: nothing passes it unexamined
            failure = translate_error(error, _describe_operation(method, *arguments), self._conceal)
            self._on_call_finished(method, find_status(failure), time.perf_counter() - started)
            try:
                raise failure from None
            finally:
                del failure  # its traceback has this frame, and would keep what the call holds
        # A stream goes on behind the call, and is counted when it ends.
        if not isinstance(answer, flight.FlightDataStream):
            self._on_call_finished(method, "OK", time.perf_counter() - started)
        return answer

    def _create_call(self, context: flight.ServerCallContext) -> Call:
        headers: CallHeaders = context.get_middleware(CallMiddleware.name) or NO_HEADERS
        security, session = self._security, headers.session
        if headers.is_peer:
            identity, access = PEER, NO_ACCESS
        else:
            identity = ANONYMOUS
            if security.authenticator is not None:
                identity = security.authenticator.identify(
                    headers.credentials, context.peer(), context.peer_identity()
                )
            access = security.access(identity)
        session_id, settings = None, DEFAULTS
        if session is not None:
            session_id = session.session_id or self.sessions.find_offered(session.offered, identity.name)
            settings = session.apply_to(self.sessions.find_settings(session_id, identity.name))
            access = self.temporary.extend(access, session_id)
        if headers.upload is not None:
            headers.upload.begin(context.peer())
        return Call(
            context.peer(),
            identity,
            access,
            session_id,
            settings,
            context.add_header,
            context.is_cancelled,
            headers.upload,
            frozenset() if session is None else frozenset(session.chosen),
            offered=None if session is None else session.offered,
            request="" if session is None else session.request,
        )

    def _end_session(self, session_id: str) -> None:
        self.transactions.end_session(session_id)
        self.temporary.end_session(session_id)

    def _list_busy_peers(self) -> set[Peer]:
        """Return where the clients are for whom statements run; see `OpenUploads` for others."""
        peers = (parse_peer(query.peer) for query in self.queries.list_active() if not query.is_upload)
        return {peer for peer in peers if peer is not None}


def _describe_operation(method: str, *arguments: object) -> str:
    """Return the name of an operation for error messages: for DoAction, that of the action."""
    first = arguments[0] if arguments else None
    return f"the action {first.type}" if isinstance(first, flight.Action) else method


def _read_command(descriptor: flight.FlightDescriptor) -> bytes:
    if descriptor.descriptor_type != flight.DescriptorType.CMD:
        raise InvalidInputError(f"descriptor {descriptor!r} is a path; Flight SQL uses commands")
    return bytes(descriptor.command)
