"""Prepares and runs queries over the tables of a catalog, also for statements that write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from lance_gateway.execnodes import KeySet
from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnsupportedError,
    is_panic,
)
from lance_gateway.planner.access.rights import FULL_ACCESS, Access
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.visible_catalog import SystemTable, VisibleCatalog
from lance_gateway.planner.binding.bind import bind
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.binding.value_types import settle_types
from lance_gateway.planner.bridge.run_control import RunControl, describe_panics
from lance_gateway.planner.plans.checks.unplanned_subqueries import NESTED, UNPLANNED, UnplannedSubqueryError
from lance_gateway.planner.plans.dataframes import Frames
from lance_gateway.planner.plans.errors import NotAggregatedError, QueryFailedError, schema_changed_error
from lance_gateway.planner.plans.leaves.resident_tables import RESIDENT_ROWS
from lance_gateway.planner.plans.plan_cache import MAX_PLANS, PlanCache, StatementKey, find_typed
from lance_gateway.planner.plans.prepared_query import PreparedQuery
from lance_gateway.planner.scans.failures import retry_if_files_vanish
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS, SessionSettings, Shortcut
from lance_gateway.planner.sql.dialects.translate import NATIVE, note_translation, to_native
from lance_gateway.planner.sql.subqueries.rewriting import MistakenSubqueryError
from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.system.catalog import list_system_tables
from lance_gateway.planner.tables.state.catalog import Catalog

_REFUSALS = (InvalidInputError, UnsupportedError, PreconditionError, QueryFailedError)
"""Errors of statements that may be planned otherwise."""
CreateQuery: TypeAlias = Callable[[Frames, BoundStatement, SessionSettings, VisibleCatalog], PreparedQuery]
"""Checks a bound statement."""
CreateUnbound: TypeAlias = Callable[
    [Frames, str, SessionSettings, VisibleCatalog, tuple[pa.DataType, ...]], PreparedQuery
]
"""Binds a text, and checks it with the types of bound values."""
LONG_STATEMENT = 8192
"""A text of more characters is bound where it is planned: that takes a while."""


def bind_and_create(
    create_query: CreateQuery,
    frames: Frames,
    statement: str,
    settings: SessionSettings,
    visible: VisibleCatalog,
    value_types: tuple[pa.DataType, ...] = (),
) -> PreparedQuery:
    """Bind a statement, a text being translated from the dialect of its session first, and check it.

    Args:
        create_query: checks the bound statement.
        frames: plans it.
        statement: SQL.
        settings: of the session.
        visible: the tables of the principal.
        value_types: of the parameters; empty where the text, or a guess, decides.

    Raises:
        LanceGatewayError: the statement is not valid.
    """
    telling: AbstractContextManager[None] = nullcontext()
    if settings.dialect != NATIVE:
        statement = to_native(statement, settings.dialect, visible, settings.schema)
        telling = note_translation(settings.dialect)
    with telling:
        create = partial(_bind_and_create, create_query, frames, settings, visible, value_types, statement)
        try:
            return create()
        except MistakenSubqueryError:
            raise
        except _REFUSALS as error:
            refusal: LanceGatewayError = error
        except BaseException as error:
            if not (is_panic(error) and NESTED.search(statement)):
                raise
            # DataFusion loses count of columns while it makes joins of some subqueries.
            refusal = UnplannedSubqueryError(UNPLANNED)
        # Outside of the handlers, since what is raised here is no consequence of the refusal.
        if not (isinstance(refusal, UnplannedSubqueryError) or NESTED.search(statement)):
            raise refusal
        try:
            return create(joins_all=True)
        except _REFUSALS as error:
            if isinstance(refusal, UnplannedSubqueryError):
                raise UnsupportedError(f"{refusal}; they are not joined here: {error}") from None
            if isinstance(refusal, NotAggregatedError) and not isinstance(error, RewritingError):
                raise  # what is wrong with the joined rows
            raise refusal from None


def _bind_and_create(
    create_query: CreateQuery,
    frames: Frames,
    settings: SessionSettings,
    visible: VisibleCatalog,
    value_types: tuple[pa.DataType, ...],
    statement: str,
    *,
    joins_all: bool = False,
) -> PreparedQuery:
    bound = bind(statement, visible, schema=settings.schema, user=visible.access.user)
    bound = replace(bound, joins_all=joins_all, value_types=value_types)
    return _create(create_query, frames, bound, settings, visible)


def _create(
    create_query: CreateQuery,
    frames: Frames,
    bound: BoundStatement,
    settings: SessionSettings,
    visible: VisibleCatalog,
) -> PreparedQuery:
    with describe_panics(bound.sql):
        return create_query(frames, bound, settings, visible)


class QueryPlanner:
    """Prepares and runs queries; safe to share between threads.

    Args:
        catalog: tables and views.
        partitions: of every scan, by default one per core.
        memory_bytes: memory of one statement before it spills to disk; None for no limit.
        resident_rows: statements over tables with fewer rows have no resident tables.
        create_query: plans statements; by default in this process.
        create_unbound: binds and plans long statements; None binds all of them in this process.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        partitions: int | None = None,
        memory_bytes: int | None = None,
        resident_rows: int = RESIDENT_ROWS,
        create_query: CreateQuery = PreparedQuery,
        create_unbound: CreateUnbound | None = None,
    ) -> None:
        self.catalog = catalog
        self._is_remote = not catalog.storage.is_local
        self._create_query = create_query
        self._create_unbound = create_unbound
        self._frames = Frames(catalog, partitions, memory_bytes, resident_rows=resident_rows)
        self._plans = PlanCache(MAX_PLANS)
        self._system_tables = {table.name: table for table in list_system_tables(catalog)}

    @property
    def is_remote(self) -> bool:
        """Whether the tables are in an object store, which is asked over a network."""
        return self._is_remote

    def find_kept(
        self,
        statement: str,
        settings: SessionSettings,
        access: Access,
        promised: bytes | None,
        bound: Sequence[pa.DataType] = (),
    ) -> PreparedQuery | None:
        """Return the plan of a query if it is kept and still valid; None leaves the question open.

        Nothing is asked of an object store, which may keep the caller waiting.

        Args:
            statement: SQL.
            settings: of the session.
            access: rights of the principal.
            promised: digest of the result schema that a client has.
            bound: types of the values that are bound to its parameters.
        """
        key = StatementKey(statement, settings, access)
        find = self._plans.get_at_once if self.is_remote else self._plans.get
        return find_typed(find, key, promised, bound) if bound else find(key, promised)

    def prepare(
        self,
        statement: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        access: Access = FULL_ACCESS,
        *,
        promised: bytes | None = None,
        bound: Sequence[pa.DataType] = (),
    ) -> PreparedQuery:
        """Check syntax, names and types of a statement, or return a plan that is kept.

        Args:
            statement: SQL.
            settings: of the session.
            access: what the principal may see.
            promised: `PreparedQuery.digest` of the schema that the client got when it prepared the statement,
                or when it bound values.
            bound: types of the values that are bound to its parameters; empty if none are.

        Raises:
            InvalidInputError: the statement is not valid; the message has the place.
            NotFoundError: a table or view doesn't exist.
            UnsupportedError: the statement is not a query, or its plan uses what DataFusion does not support.
            PreconditionError: the result has other columns than were promised.
        """
        key = StatementKey(statement, settings, access)
        if bound:
            return self._prepare_typed(key, promised, bound)
        return self._plans.get(key, promised) or self._prepare_and_keep(key, promised)

    def _prepare_typed(
        self, key: StatementKey, promised: bytes | None, bound: Sequence[pa.DataType]
    ) -> PreparedQuery:
        """Return the plan of a statement for bound values, whose types may decide on those of its result."""
        kept = find_typed(self._plans.get, key, promised, bound)
        if kept is not None:
            return kept
        try:
            plain = self._plans.get(key, None) or self._prepare_and_keep(key, None)
        except InvalidInputError:
            # Types may follow from the values alone.
            with suppress(InvalidInputError):
                return self._prepare_and_keep(replace(key, value_types=tuple(bound)), promised)
            raise
        types = settle_types(plain.parameter_schema, bound)
        plan = plain
        if types != tuple(plain.parameter_schema.types):
            typed = replace(key, value_types=types)
            plan = self._plans.get(typed, None) or self._prepare_and_keep(typed, None)
        if promised is not None and promised not in (plain.digest, plan.digest):
            raise schema_changed_error(plan.sql)
        return plan

    def _prepare_and_keep(self, key: StatementKey, promised: bytes | None) -> PreparedQuery:
        statement, settings = key.statement, key.settings
        visible = self.visible_catalog(key.access)

        def create(
            frames: Frames, bound: BoundStatement, settings: SessionSettings, visible: VisibleCatalog
        ) -> PreparedQuery:
            try:
                return self._create_query(frames, bound, settings, visible)
            except InvalidInputError as error:
                if promised is None:
                    raise
                # The statement was valid when the client prepared it, so a table has changed.
                raise schema_changed_error(bound.sql) from error

        if self._create_unbound is not None and len(statement) > LONG_STATEMENT:
            try:
                plan = self._create_unbound(self._frames, statement, settings, visible, key.value_types)
            except InvalidInputError as error:
                if promised is None:
                    raise
                raise schema_changed_error(statement) from error
        else:
            plan = bind_and_create(create, self._frames, statement, settings, visible, key.value_types)
        if Shortcut.KEPT_PLANS in settings.shortcuts:  # Settings are part of the key.
            self._plans.put(key, plan)
        if promised is not None and promised != plan.digest:
            raise schema_changed_error(plan.sql)
        return plan

    def execute(
        self,
        sql: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        parameters: Sequence[pa.Scalar] = (),
    ) -> pa.RecordBatchReader:
        """Prepare and run a statement, as `PreparedQuery.execute` does."""
        return self.prepare(sql, settings, bound=[value.type for value in parameters]).execute(parameters)

    def look_up_rows(
        self,
        table: SecuredTable,
        keys: KeySet,
        columns: Sequence[str],
        settings: SessionSettings,
        control: RunControl,
    ) -> Sequence[pa.RecordBatch]:
        """Look up the rows of some keys, without a plan.

        Args:
            table: as the principal sees it.
            keys: of the rows.
            columns: of the rows.
            settings: how the table is read.
            control: stops the execution, and reports what it reads.

        Raises:
            LanceGatewayError: the table can't be read.
        """

        def look_up() -> Iterator[pa.RecordBatch]:
            newest = replace(table)  # a handle keeps its version
            run = QueryRun(settings, self._frames.visibility, control)
            return run.add_scan(newest, newest.base, list(columns), keys=keys).batches(0)

        return list(retry_if_files_vanish(look_up(), look_up))

    def add_system_tables(self, *tables: SystemTable) -> None:
        """Add tables to the schema `system`, besides those that describe the catalog."""
        self._system_tables |= {table.name: table for table in tables}

    def visible_catalog(self, access: Access) -> VisibleCatalog:
        """Return the catalog as a principal sees it."""
        return VisibleCatalog(self.catalog, access, self._system_tables)
