"""Preparation of statements for calls: at once where a plan is kept, else under the limits of a statement."""

from gateway.execution.cancellation import Kill, parse_kill
from gateway.execution.running_queries import Queries
from gateway.protocol.commands import Call
from memwal.errors import PreconditionError
from planner.engine import PreparedQuery, PreparedWrite, QueryEngine, SessionSettings, first_word


class Preparation:
    """Prepares statements. What takes time is listed in `system.queries`, and ends when it is stopped.

    Args:
        engine: prepares them.
        queries: the statements of the server.
    """

    def __init__(self, engine: QueryEngine, queries: Queries) -> None:
        self._engine = engine
        self._queries = queries

    def prepare(
        self, sql: str, settings: SessionSettings, call: Call, promised: bytes | None = None
    ) -> PreparedQuery | PreparedWrite | Kill:
        """Return the plan of a statement: a `Kill`, or the engine's.

        Raises:
            LanceGatewayError: see `QueryEngine.prepare_statement`; or it was stopped.
        """
        engine, access = self._engine, call.access
        kept = engine.find_kept(sql, settings, access, promised)
        if kept is not None:
            return kept
        if first_word(sql) == "kill":
            kill = parse_kill(sql)
            if promised is not None and promised != kill.digest:
                raise PreconditionError(f"{sql!r} has another result than was promised: prepare it again")
            return kill
        return self._queries.plan(
            sql, settings, call, lambda: engine.prepare_statement(sql, settings, access, promised=promised)
        )

    def prepare_plan(
        self, plan: bytes, settings: SessionSettings, call: Call, promised: bytes | None = None
    ) -> PreparedQuery:
        """Return the plan of a serialized substrait.Plan.

        Raises:
            LanceGatewayError: see `QueryEngine.prepare_plan`; or it was stopped.
        """
        engine, access = self._engine, call.access
        kept = engine.find_kept(plan, settings, access, promised)
        if kept is not None:
            return kept
        return self._queries.plan(
            f"substrait.Plan of {len(plan)} bytes",
            settings,
            call,
            lambda: engine.prepare_plan(plan, settings, access, promised=promised),
        )
