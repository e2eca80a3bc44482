"""SQL over the catalog's tables: queries, each in its newest state, and statements that change something."""

from __future__ import annotations

from planner.access import FULL_ACCESS, Access
from planner.catalog import Catalog
from planner.dml.cache import WriteCache
from planner.dml.prepared import PreparedWrite, WriteResult
from planner.plan_cache import PreparedFor
from planner.prepared_query import Constant, PreparedQuery
from planner.query_planner import MAX_PLANS, QueryPlanner
from planner.results import altered
from planner.settings import DEFAULT_SETTINGS, SessionSettings
from planner.shortcuts import Shortcut
from planner.writes import prepare_write

__all__ = [
    "DEFAULT_SETTINGS",
    "Constant",
    "PreparedQuery",
    "PreparedWrite",
    "QueryEngine",
    "SessionSettings",
    "WriteResult",
]


class QueryEngine(QueryPlanner):
    """Prepares and runs statements of all kinds; safe to share between threads.

    Args:
        catalog: tables and views.
        partitions: of every scan, by default one per core.
        memory_bytes: what one statement may use before it spills to disk; None for no limit.

    Raises:
        PreconditionError: the installed pylance and datafusion don't match.
    """

    def __init__(
        self, catalog: Catalog, *, partitions: int | None = None, memory_bytes: int | None = None
    ) -> None:
        super().__init__(catalog, partitions=partitions, memory_bytes=memory_bytes)
        self._writes = WriteCache(MAX_PLANS)

    def prepare_statement(
        self,
        sql: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        access: Access = FULL_ACCESS,
        *,
        promised: bytes | None = None,
    ) -> PreparedQuery | PreparedWrite:
        """Check a query as `prepare` does, or a statement that changes something.

        Raises:
            LanceGatewayError: what is wrong with it.
        """
        found = self._plans.get(PreparedFor(sql, settings, access), promised)
        if found is not None:
            return found
        write = self._writes.get(self, sql, settings, access)
        if write is None:
            write = prepare_write(self, sql, settings, access)
            if write is None:
                return self._planned(sql, settings, access, promised)
            if Shortcut.KEPT_WRITES in settings.shortcuts:
                self._writes.put(sql, settings, access, write)
        if promised is not None and promised != write.digest:
            raise altered(sql)
        return write

    def close(self) -> None:
        """Flush what is written, and stop background threads."""
        self.catalog.close()
