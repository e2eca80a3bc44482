"""SQL over the catalog's tables, each read in its newest state."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from planner import compatibility
from planner.access import FULL_ACCESS, Access
from planner.binding import bind
from planner.catalog import Catalog
from planner.frames import Frames
from planner.prepared_query import PreparedQuery
from planner.settings import DEFAULT_SETTINGS, SessionSettings

__all__ = ["DEFAULT_SETTINGS", "PreparedQuery", "QueryEngine", "SessionSettings"]


class QueryEngine:
    """Prepares and runs statements; safe to share between threads.

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
        compatibility.check()
        self.catalog = catalog
        self._frames = Frames(catalog, partitions, memory_bytes)

    def prepare(
        self,
        sql: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        access: Access = FULL_ACCESS,
    ) -> PreparedQuery:
        """Check syntax, names and types of a statement.

        Args:
            sql: the statement.
            settings: of the session that asks.
            access: what the principal who asks may see.

        Raises:
            InvalidInputError: what is wrong, and where.
            NotFoundError: a table or view that doesn't exist.
            UnsupportedError: a statement that is not a query.
        """
        bound = bind(sql, self.catalog, catalog=settings.catalog, schema=settings.schema)
        return PreparedQuery(self._frames, bound, settings)

    def execute(
        self,
        sql: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        parameters: Sequence[pa.Scalar] = (),
    ) -> pa.RecordBatchReader:
        """Prepare and run a statement; see `PreparedQuery.execute`."""
        return self.prepare(sql, settings).execute(parameters)

    def close(self) -> None:
        """Stop background threads."""
        self.catalog.close()
