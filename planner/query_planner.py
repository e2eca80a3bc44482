"""Queries over the catalog's tables, each read in its newest state; statements that write read with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from execnodes import KeySet
from memwal.errors import InvalidInputError
from planner import compatibility
from planner.access import FULL_ACCESS, Access
from planner.binding import bind
from planner.catalog import Catalog
from planner.catalog_tables import catalog_tables
from planner.control import RunControl
from planner.dialects import telling_of_translation, to_native
from planner.frames import Frames
from planner.plan_cache import Dependencies, PlanCache, PreparedFor
from planner.prepared_query import PreparedQuery
from planner.results import altered
from planner.running import again_if_files_vanish
from planner.settings import DEFAULT_SETTINGS, SessionSettings
from planner.shortcuts import Shortcut
from planner.substrait import Bound, bind_plan
from planner.system_tables import SystemTable
from planner.visible_catalog import VisibleCatalog

__all__ = ["MAX_PLANS", "QueryPlanner"]

MAX_PLANS = 1024
"""Statements whose plans are kept."""


class QueryPlanner:
    """Prepares and runs queries; safe to share between threads.

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
        self._plans = PlanCache(MAX_PLANS)
        self._system_tables = {table.name: table for table in catalog_tables(catalog)}

    def prepare(
        self,
        sql: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        access: Access = FULL_ACCESS,
        *,
        promised: bytes | None = None,
    ) -> PreparedQuery:
        """Check syntax, names and types of a statement, or find it among those that were checked before.

        Args:
            sql: the statement.
            settings: of the session that asks.
            access: what the principal who asks may see.
            promised: `PreparedQuery.digest` of what the client was told when it prepared the statement.

        Raises:
            InvalidInputError: what is wrong, and where.
            NotFoundError: a table or view that doesn't exist.
            UnsupportedError: a statement that is not a query.
            PreconditionError: the result has other columns than were promised.
        """
        found = self._plans.get(PreparedFor(sql, settings, access), promised)
        return self._planned(sql, settings, access, promised) if found is None else found

    def prepare_plan(
        self,
        plan: bytes,
        settings: SessionSettings = DEFAULT_SETTINGS,
        access: Access = FULL_ACCESS,
        *,
        promised: bytes | None = None,
    ) -> PreparedQuery:
        """Check a Substrait plan, or find it among those that were checked before.

        Args:
            plan: a serialized substrait.Plan.
            settings: of the session that asks.
            access: what the principal who asks may see.
            promised: `PreparedQuery.digest` of what the client was told when it prepared the plan.

        Raises:
            InvalidInputError: the bytes are no plan, or the plan does not fit its tables.
            NotFoundError: a table or view that doesn't exist.
            UnsupportedError: the plan has something in it that DataFusion does not know.
            PreconditionError: the result has other columns than were promised.
        """
        found = self._plans.get(PreparedFor(plan, settings, access), promised)
        return self._planned(plan, settings, access, promised) if found is None else found

    def _planned(
        self, statement: str | bytes, settings: SessionSettings, access: Access, promised: bytes | None
    ) -> PreparedQuery:
        visible = self.visible(access)
        dependencies = Dependencies(self.catalog, visible)
        bound: Bound
        if isinstance(statement, bytes):
            bound = bind_plan(statement, dependencies)
        else:
            text = to_native(statement, settings.dialect, dependencies)
            with telling_of_translation(settings.dialect):
                bound = bind(text, dependencies, catalog=settings.catalog, schema=settings.schema)
        try:
            with telling_of_translation(settings.dialect):
                plan = PreparedQuery(self._frames, bound, settings, visible)
        except InvalidInputError as error:
            if promised is None:
                raise
            # It fitted its tables when the promise was made.
            raise altered(bound.sql) from error
        if Shortcut.KEPT_PLANS in settings.shortcuts:  # They are part of the key: without it none is found.
            self._plans.put(PreparedFor(statement, settings, access), plan, dependencies, len(statement))
        if promised is not None and promised != plan.digest:
            raise altered(plan.sql)
        return plan

    def execute(
        self,
        sql: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        parameters: Sequence[pa.Scalar] = (),
    ) -> pa.RecordBatchReader:
        """Prepare and run a statement; see `PreparedQuery.execute`."""
        return self.prepare(sql, settings).execute(parameters)

    def rows_of_keys(
        self,
        table: str,
        keys: KeySet,
        columns: Sequence[str],
        settings: SessionSettings,
        access: Access,
        control: RunControl,
    ) -> Sequence[pa.RecordBatch]:
        """The rows that have some keys, looked up without a plan.

        Args:
            table: its name.
            keys: that are wanted.
            columns: of the rows.
            settings: how the table is read.
            access: what the principal may see.
            control: stops the execution, and tells what it reads.

        Raises:
            LanceGatewayError: the table can't be read.
        """
        secured = self.visible(access).table(table)

        def looked_up() -> Iterator[pa.RecordBatch]:
            run = self._frames.run(settings, control)
            return run.add_scan(secured, secured.base(), list(columns), keys=keys).batches(0)

        return list(again_if_files_vanish(looked_up(), looked_up))

    def add_system_tables(self, *tables: SystemTable) -> None:
        """Offer more tables in the schema `system`, besides those that describe the catalog."""
        self._system_tables |= {table.name: table for table in tables}

    def visible(self, access: Access) -> VisibleCatalog:
        """The catalog as a principal sees it, for everything that names or describes tables."""
        return VisibleCatalog(self.catalog, access, self._system_tables)
