"""Preparation of statements: the gateway's own, and the engine's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa

from lance_gateway.gateway.execution.own_statement import OwnStatement, ReadOwnStatement
from lance_gateway.gateway.execution.running_queries import Queries
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.engine import (
    PreparedQuery,
    PreparedWrite,
    QueryEngine,
    SessionSettings,
    first_word,
)
from lance_gateway.planner.writes.ddl.create import makes_temporary, refuse_temporary


class Preparation:
    """Prepares statements. What takes time is listed in `system.queries`, and ends when it is stopped.

    Args:
        engine: prepares them.
        queries: the statements of the server.
        own: first word in lower case -> what reads statements of the gateway's own that begin with it.
        read_command: reads statements about transactions, for a call; returns None for others.
        open_temporary: returns the call with the right to make temporary tables; None without a session.
    """

    def __init__(
        self,
        engine: QueryEngine,
        queries: Queries,
        own: Mapping[str, ReadOwnStatement] = MappingProxyType({}),
        read_command: Callable[[str, Call], PreparedWrite | None] = lambda _sql, _call: None,
        open_temporary: Callable[[Call], Call | None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._queries = queries
        self._own = own
        self._read_command = read_command
        self._open_temporary = open_temporary

    def prepare(
        self,
        sql: str,
        settings: SessionSettings,
        call: Call,
        promised: bytes | None = None,
        bound: Sequence[pa.DataType] = (),
    ) -> PreparedQuery | PreparedWrite | OwnStatement:
        """Return the plan of a statement: the gateway's own, or the engine's.

        Args:
            sql: the statement.
            settings: of the session that asks.
            call: that waits.
            promised: digest of the result schema that the client has.
            bound: types of the values that are bound to its parameters.

        Raises:
            PermissionDeniedError: it changes something, and the session of the call is read-only.
            LanceGatewayError: see `QueryEngine.prepare_statement`; or it was stopped.
        """
        asking = call
        if first_word(sql) == "create" and makes_temporary(sql):
            extended = self._open_temporary(call)
            if extended is None:
                return refuse_temporary(sql)
            asking = extended
        plan = self._prepare(sql, asking.find_path(settings), asking, promised, bound)
        changes = (
            plan.changes
            if isinstance(plan, OwnStatement)
            else isinstance(plan, PreparedWrite) and plan.changes_something
        )
        if changes and not (isinstance(plan, PreparedWrite) and _is_temporary(plan.target)):
            call.check_may_change(sql)
        return plan

    def _prepare(
        self,
        sql: str,
        settings: SessionSettings,
        call: Call,
        promised: bytes | None,
        bound: Sequence[pa.DataType],
    ) -> PreparedQuery | PreparedWrite | OwnStatement:
        engine, access = self._engine, call.access
        kept = engine.find_kept(sql, settings, access, promised, bound)
        if kept is not None:
            return kept
        command = self._read_command(sql, call)
        if command is not None:
            return command
        read = self._own.get(first_word(sql))
        if read is not None and settings is not call.settings:
            call = replace(call, settings=settings)  # Of the session that asked for the ticket.
        own = None if read is None else read(sql, call)
        if own is not None:
            if promised is not None and promised != own.digest:
                raise PreconditionError(f"{sql!r} has another result than was promised: prepare it again")
            return own
        return self._queries.plan(
            sql,
            settings,
            call,
            lambda: engine.prepare_statement(sql, settings, access, promised=promised, bound=bound),
        )


def _is_temporary(target: str) -> bool:
    return isinstance(target, TableName) and target.is_temporary
