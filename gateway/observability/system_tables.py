"""`system.queries`, `system.sessions`, `system.workers`, `system.settings`: what a gateway does and how.

Users see their own statements and sessions; administrators see all of them, the workers and
the settings.
"""

import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lance_gateway.gateway.config.effective_values import list_settings
from lance_gateway.gateway.config.loader import Loaded
from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.execution.running_queries import Queries
from lance_gateway.gateway.execution.workers.pool import WorkerPool
from lance_gateway.gateway.observability.statements import shorten_session_id
from lance_gateway.gateway.sessions import Sessions, list_options
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.visible_catalog import MOMENT
from lance_gateway.planner.engine import SessionSettings

# There is one catalog, with one schema.
_OPTIONS = tuple(
    field for field in dataclasses.fields(SessionSettings) if field.name not in {"catalog", "schema"}
)
_TYPES: Mapping[type, pa.DataType] = MappingProxyType(
    {bool: pa.bool_(), int: pa.int64(), str: pa.string(), frozenset: pa.string()}
)


class SystemQueries:
    """The statements that wait or run, and the history; the newest last."""

    name = "queries"
    schema = pa.schema(
        [
            ("query_id", pa.string()),
            ("user", pa.string()),
            ("session", pa.string()),
            ("peer", pa.string()),
            ("state", pa.string()),
            ("phase", pa.string()),
            ("statement", pa.string()),
            ("created_at", MOMENT),
            ("started_at", MOMENT),
            ("first_batch_at", MOMENT),
            ("finished_at", MOMENT),
            ("duration_ms", pa.float64()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("rows_affected", pa.int64()),
            ("memory_bytes", pa.int64()),
            ("spilled_bytes", pa.int64()),
            ("tables", pa.list_(pa.string())),
            ("regions_kept", pa.int64()),
            ("regions_pruned", pa.int64()),
            ("error", pa.string()),
        ]
    )

    def __init__(self, queries: Queries, conceal: Callable[[str], str]) -> None:
        self._queries = queries
        self._conceal = conceal

    def read(self, access: Access) -> pa.Table:
        """Return the statements of the principal; an administrator sees all."""
        # A statement that ends in between is found in both places.
        queries = {
            one.id: one for one in (*reversed(self._queries.list_finished()), *self._queries.list_active())
        }
        rows = [
            _build_row(query, access, self._conceal)
            for query in queries.values()
            if access.is_admin or query.user == access.user
        ]
        return pa.Table.from_pylist(rows, self.schema)


class SystemSessions:
    """The sessions of the server."""

    name = "sessions"
    schema = pa.schema(
        [
            ("session", pa.string()),
            ("user", pa.string()),
            ("peer", pa.string()),
            ("created_at", MOMENT),
            ("last_used_at", MOMENT),
            *((one.name, _TYPES[type(one.default)]) for one in _OPTIONS),
        ]
    )

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def read(self, access: Access) -> pa.Table:
        """Return the sessions of the principal; an administrator sees all."""
        now = datetime.now(UTC)
        rows = [
            {
                "session": shorten_session_id(session_id),
                "user": session.user,
                "peer": session.peer,
                "created_at": session.created_at,
                "last_used_at": now - timedelta(seconds=idle_seconds),
                **list_options(session.settings),
            }
            for session_id, idle_seconds, session in self._sessions.list_all()
            if access.is_admin or session.user == access.user
        ]
        return pa.Table.from_pylist(rows, self.schema)


class SystemWorkers:
    """The worker processes that plan and run statements; for administrators."""

    name = "workers"
    schema = pa.schema(
        [
            ("pid", pa.int64()),
            ("state", pa.string()),
            ("statements", pa.int64()),
            ("memory_bytes", pa.int64()),
            ("max_memory_bytes", pa.int64()),
        ]
    )

    def __init__(self, pool: WorkerPool | None) -> None:
        self._pool = pool

    def read(self, access: Access) -> pa.Table:
        """Return all workers to an administrator, and nothing to others."""
        if self._pool is None or not access.is_admin:
            return self.schema.empty_table()
        rows = [
            {
                "pid": worker.pid,
                "state": worker.state,
                "statements": len(worker.running),
                "memory_bytes": worker.read_memory_bytes(),
                "max_memory_bytes": self._pool.options.memory_bytes,
            }
            for worker in self._pool.list_workers()
        ]
        return pa.Table.from_pylist(rows, self.schema)


class SystemSettings:
    """The configuration in effect, without credentials; for administrators."""

    name = "settings"
    schema = pa.schema([("name", pa.string()), ("value", pa.string()), ("source", pa.string())])

    def __init__(self, loaded: Loaded) -> None:
        self._rows = [
            {"name": setting.key, "value": setting.toml_value, "source": setting.source}
            for setting in list_settings(loaded)
        ]

    def read(self, access: Access) -> pa.Table:
        """Return all settings to an administrator, and nothing to others."""
        return pa.Table.from_pylist(self._rows if access.is_admin else [], self.schema)


def _build_row(query: Query, access: Access, conceal: Callable[[str], str]) -> dict[str, Any]:
    reads = query.reads or query.control.reads
    memory = query.control.memory.measure()
    started, ended = query.started_at, query.finished_at or datetime.now(UTC)
    # Which regions a policy excludes is not for those whom it restricts.
    visible_reads = [read for read in reads if access.is_admin or not read.is_restricted]
    regions_kept = sum(read.regions_kept for read in visible_reads)
    return {
        "query_id": query.id,
        "user": query.user,
        "session": shorten_session_id(query.session_id),
        "peer": query.peer,
        "state": query.state.value,
        "phase": query.phase.value,
        "statement": query.sql,
        "created_at": query.created_at,
        "started_at": started,
        "first_batch_at": query.first_batch_at,
        "finished_at": query.finished_at,
        "duration_ms": None if started is None else (ended - started).total_seconds() * 1000,
        "rows": query.rows,
        "bytes": query.bytes,
        "rows_affected": query.affected,
        "memory_bytes": memory and memory.held_bytes,
        "spilled_bytes": memory and memory.spilled_bytes,
        "tables": list(dict.fromkeys(read.table for read in reads)),
        "regions_kept": regions_kept,
        "regions_pruned": sum(read.regions for read in visible_reads) - regions_kept,
        "error": conceal(query.error) if query.error is not None and query.names_files else query.error,
    }
