"""Execution of statements that write: once each, in DoPut or in GetFlightInfo.

A write is executed in DoPut of an update, or in GetFlightInfo if it is sent like a query, as ADBC's `execute`
does. Preparing, binding and GetSchema execute nothing. The ticket of GetFlightInfo contains or names the rows
of RETURNING, so DoGet executes nothing either, and may be repeated or left out. Rows in a ticket are
encrypted for the user who executed the statement: whoever else holds it learns nothing of them. Like a query,
an execution waits for a slot, is listed in `system.queries`, and can be stopped until it begins to write.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyarrow import flight

from lance_gateway.gateway.execution.batches import decode_rows, encode_rows
from lance_gateway.gateway.execution.own_statement import OwnStatement
from lance_gateway.gateway.execution.parameters import iterate_rows
from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.execution.streams import Streams
from lance_gateway.gateway.protocol.commands import (
    STATEMENT_ID_BYTES,
    UNNAMED,
    Call,
    Handler,
    PlannedStream,
    Ticket,
    new_statement_id,
)
from lance_gateway.gateway.protocol.sql_types import describe_result_schema
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError
from lance_gateway.planner.bridge.run_control import RunControl, describe_panics
from lance_gateway.planner.engine import PreparedQuery, PreparedWrite, SessionSettings, WriteResult
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from lance_gateway.protos.flight_sql import pack

DURABLE_HEADER = "x-lance-gateway-durable"
"""Says "false" where what was acknowledged may still be lost with the gateway's process."""
RESULT_SECONDS = 600.0
"""How long rows that do not fit into a ticket are kept for it."""
# Clients send a ticket back in one message, which gRPC does not stream.
_MAX_TICKET_BYTES = 64 * 1024
_MAX_KEPT_BYTES = 64 << 20
_NONCE_BYTES = 12


@dataclass(frozen=True, eq=False)
class _StoredResult:
    user: str
    rows: pa.Table
    expires_at: float


class Results:
    """Keeps the rows that statements returned, for a while, up to a number of bytes; the newest always.

    Args:
        capacity: bytes; older results leave when newer ones need the room.
        clock: seconds since 1970.
    """

    def __init__(self, capacity: int = _MAX_KEPT_BYTES, *, clock: Callable[[], float] = time.time) -> None:
        self._capacity = capacity
        self._clock = clock
        self._lock = threading.Lock()
        self._results: OrderedDict[bytes, _StoredResult] = OrderedDict()

    def put(self, statement_id: bytes, user: str, rows: pa.Table) -> datetime:
        """Store the rows of a statement; return when they expire."""
        expires_at = float(int(self._clock() + RESULT_SECONDS))
        with self._lock:
            self._results[statement_id] = _StoredResult(user, rows, expires_at)
            self._evict()
        return datetime.fromtimestamp(expires_at, UTC)

    def get(self, statement_id: bytes, user: str) -> pa.Table:
        """Return the rows that a statement of this user returned.

        Raises:
            NotFoundError: it is not, or no longer, kept.
        """
        with self._lock:
            self._evict()
            result = self._results.get(statement_id)
        if result is None or result.user != user:
            raise _create_unknown_error(statement_id)
        return result.rows

    def _evict(self) -> None:
        now = self._clock()
        for statement_id in [one for one, result in self._results.items() if result.expires_at <= now]:
            del self._results[statement_id]
        while (
            len(self._results) > 1
            and sum(result.rows.nbytes for result in self._results.values()) > self._capacity
        ):
            self._results.popitem(last=False)


class SealedRows:
    """Encrypts rows for one user, with a key that no other process has."""

    def __init__(self) -> None:
        self._cipher = AESGCM(AESGCM.generate_key(256))

    def seal(self, statement_id: bytes, user: str, rows: bytes) -> bytes:
        """Return the rows of a statement, encrypted."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, rows, statement_id + user.encode())

    def open(self, statement_id: bytes, user: str, sealed: bytes) -> bytes:
        """Return the rows that a statement of this user returned.

        Raises:
            NotFoundError: they were not sealed here, or for somebody else.
        """
        nonce, encrypted = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, encrypted, statement_id + user.encode())
        except (InvalidTag, ValueError):
            raise _create_unknown_error(statement_id) from None


def _create_unknown_error(statement_id: bytes) -> NotFoundError:
    return NotFoundError(
        f"the rows that statement {statement_id.hex()} returned are not known here: the gateway that "
        f"executed it has them for {RESULT_SECONDS:g} s or longer, for the same user; what was changed stays "
        "changed: read it with a query"
    )


def encode_update_result(affected: int) -> bytes:
    """Return the result message of DoPut: 0 rows for a statement such as CREATE TABLE.

    Not -1, the protocol's word for a number that is not known: the JDBC driver takes it for a result that is
    still to be had, and executes the statement a second time to have it.
    """
    return sql.DoPutUpdateResult(record_count=max(affected, 0)).SerializeToString()


def query_as_update_error(statement: str) -> InvalidInputError:
    """Return the error for a query that came as an update."""
    return InvalidInputError(
        f"{statement!r} changes nothing, so it cannot be an update: execute it as a query"
    )


def update_by_ticket_error(statement: str) -> InvalidInputError:
    """Return the error for a ticket that would execute a write: no gateway made it."""
    return InvalidInputError(f"a ticket cannot execute {statement!r}: send the statement to GetFlightInfo")


def check_redeemable(
    plan: PreparedQuery | PreparedWrite | OwnStatement,
) -> PreparedQuery | OwnStatement:
    """Return the statement of a ticket, which returns rows when the ticket is redeemed.

    Raises:
        InvalidInputError: it changes something instead.
    """
    if isinstance(plan, PreparedQuery) or (isinstance(plan, OwnStatement) and not plan.is_update):
        return plan
    raise update_by_ticket_error(plan.sql)


def run_own_update(statement: OwnStatement, call: Call) -> bytes:
    """Execute a statement of the gateway's own that came as an update; return the answer of DoPut.

    Raises:
        InvalidInputError: it changes nothing.
        LanceGatewayError: see `OwnStatement.run`.
    """
    if not (statement.is_update or statement.changes):
        raise query_as_update_error(statement.sql)
    return encode_update_result(statement.run(call).num_rows)


def execute_write(write: PreparedWrite, parts: Iterator[pa.Table] | None, control: RunControl) -> WriteResult:
    """Execute a statement once for each row of its parameters.

    Args:
        write: the statement.
        parts: rows, in order; None where it has no parameters. One part if rows are returned.
        control: may stop it between two parts.
    """
    if control.transaction is not None and not write.is_transactional:
        control.transaction.commit_before()
    with describe_panics(write.sql):
        if parts is None:
            return write.execute((), control)
        done, affected, is_durable, returned = 0, 0, True, None
        try:
            for part in parts:
                control.check()
                if part.num_rows == 1:
                    (values,) = iterate_rows(part)
                    result = write.execute(values, control)
                else:
                    result = write.execute_many(part, control)
                done += part.num_rows
                affected += max(result.affected, 0)
                is_durable &= result.is_durable
                returned = result.rows
        except LanceGatewayError as error:
            if done and control.transaction is None:
                error.args = (f"{error}; the {done} rows of parameters before these were executed",)
            raise
        return WriteResult(affected, returned, is_durable)


def _run_step(step: Callable[[Query], WriteResult], query: Query) -> WriteResult:
    """Run a step; one that fails in a transaction leaves nothing there."""
    if query.control.transaction is None:
        return step(query)
    with query.control.transaction.statement():
        return step(query)


class Updates:
    """Executes statements that write, and serves the rows that they returned."""

    def __init__(self, streams: Streams, results: Results | None = None) -> None:
        self._streams = streams
        self._results = results or Results()
        self._sealed = SealedRows()

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (Ticket(own.WriteTicket, self._stream),)

    def run(
        self,
        statement: str,
        target: str,
        settings: SessionSettings,
        call: Call,
        step: Callable[[Query], WriteResult],
        statement_id: bytes | None = None,
    ) -> WriteResult:
        """Execute a write once, as a statement of the server.

        Args:
            statement: its text in `system.queries`.
            target: the table that it changes.
            settings: of the session.
            call: whose client waits for it.
            step: does it.
            statement_id: 16 bytes; by default new ones.

        Raises:
            LanceGatewayError: see `PreparedWrite.execute`; or it was stopped before it began.
        """
        query = Query((statement_id or new_statement_id()).hex(), statement, settings, call)
        query.target = target or None
        queries = self._streams.queries
        with queries.run(query):
            result = queries.work(query, partial(_run_step, step, query))
            query.affected = None if result.affected < 0 else result.affected
        if not result.is_durable:
            call.add_header(DURABLE_HEADER, "false")
        return result

    def plan_update(
        self, write: PreparedWrite, settings: SessionSettings, call: Call, parameters: pa.Table | None = None
    ) -> PlannedStream:
        """Execute a write that came to GetFlightInfo; return the ticket of the rows that it returned.

        Args:
            write: the statement.
            settings: of the session.
            call: GetFlightInfo.
            parameters: one column for each parameter, one row for each execution; None where there are none.
        """
        if parameters is not None and parameters.num_rows != 1 and len(write.schema):
            raise InvalidInputError(
                f"{parameters.num_rows} sets of parameters are bound to a statement with RETURNING: bind one"
            )
        statement_id = new_statement_id()

        def step(query: Query) -> WriteResult:
            return execute_write(write, None if parameters is None else iter((parameters,)), query.control)

        result = self.run(write.sql, write.target, settings, call, step, statement_id)
        schema = describe_result_schema(write)
        ticket = own.WriteTicket(statement_id=statement_id, schema=bytes(schema.serialize()))
        expires_at = None
        if result.rows is not None and result.rows.num_rows:
            encoded = encode_rows(result.rows) if result.rows.nbytes <= _MAX_TICKET_BYTES else b""
            if 0 < len(encoded) <= _MAX_TICKET_BYTES:
                ticket.rows = self._sealed.seal(statement_id, call.identity.name, encoded)
            else:
                ticket.is_kept = True
                expires_at = self._results.put(statement_id, call.identity.name, result.rows)
        records = result.affected if result.rows is None else result.rows.num_rows
        return PlannedStream(schema, pack(ticket), (), expires_at, records)

    def plan_own(self, statement: OwnStatement, call: Call) -> PlannedStream:
        """Execute a statement of the gateway's own that returns no rows, and came to GetFlightInfo.

        Raises:
            LanceGatewayError: see `OwnStatement.run`.
        """
        statement.run(call)
        ticket = own.WriteTicket(statement_id=new_statement_id(), schema=bytes(statement.schema.serialize()))
        return PlannedStream(statement.schema, pack(ticket), records=0)

    def _stream(self, ticket: own.WriteTicket, call: Call) -> flight.FlightDataStream:
        if len(ticket.statement_id) != STATEMENT_ID_BYTES:
            raise NotFoundError(UNNAMED)
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(ticket.schema))
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(f"the ticket cannot be read: {error}") from None
        rows = schema.empty_table()
        if ticket.is_kept:
            rows = self._results.get(ticket.statement_id, call.identity.name)
        elif ticket.rows:
            encoded = self._sealed.open(ticket.statement_id, call.identity.name, ticket.rows)
            rows = decode_rows(encoded, "the rows in the ticket")
        if rows.schema.types != schema.types:
            raise InvalidInputError(
                "the ticket cannot be read: its rows are not of its schema; send it back unchanged"
            )
        return self._streams.send_listing(*rows.rename_columns(schema.names).to_batches(), schema=schema)
