"""A checked statement: the schema of its result, and its plan over the current tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final

import pyarrow as pa
from datafusion import DataFrame

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.bridge.types.plain_types import (
    bind_values,
    bindable_schema,
    normalize_schema,
    refuse_untyped,
)
from lance_gateway.planner.plans.checks.unplanned_subqueries import (
    INVOLVED,
    NESTED,
    UNPLANNED,
    UnplannedSubqueryError,
    has_joined_subqueries,
    has_subqueries,
)
from lance_gateway.planner.plans.dataframes import Frames
from lance_gateway.planner.plans.errors import misses_columns, result_differs_error, schema_changed_error
from lance_gateway.planner.plans.forms.parameters import NO_PARAMETERS, plan_with_types
from lance_gateway.planner.plans.forms.planned_frame import PlannedFrame
from lance_gateway.planner.plans.leaves.resident_tables import NO_RESIDENTS, Residents, ResidentsKey
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.settings import SessionSettings, Shortcut

KEY_QUERY_SHORTCUTS: Final = frozenset({Shortcut.KEY_QUERIES, Shortcut.KEY_LOOKUPS})
"""Shortcuts of a session in which lookups of keys are not planned."""
_NO_PARAMETERS: Final = pa.schema([])


@dataclass(frozen=True, slots=True)
class Task:
    """The parameters, settings and catalog of one run.

    `ran` gets the plans that run, where they are asked for.
    """

    parameters: tuple[pa.Scalar, ...]
    settings: SessionSettings
    control: RunControl
    catalog: VisibleCatalog
    ran: list[DataFrame] | None = None


class CheckedQuery:
    """A statement whose names and types fit its tables.

    Attributes:
        sql: the text, or the name of the plan.
        schema: of the result, without view types and dictionaries, exactly as a run streams it.
        catalog: the tables and views that the statement was checked against.
        parameter_schema: one nullable field per parameter, "$1", "$2", ..., with metadata of
            `planner.binding.value_types`.

    Args:
        frames: plans the statement.
        bound: the statement.
        settings: of its session.
        catalog: with which its names were resolved.

    Raises:
        LanceGatewayError: DataFusion refuses the statement.
    """

    def __init__(
        self, frames: Frames, bound: BoundStatement, settings: SessionSettings, catalog: VisibleCatalog
    ) -> None:
        self.sql = bound.sql
        self._frames = frames
        self._bound = bound
        self._settings = settings
        self.catalog = catalog
        self.reads_only_system = (
            bool(bound.system_tables) and not bound.references and catalog.access.is_admin
        )
        """Whether an administrator reads tables of the schema `system` and no others."""
        self._types = settings.type_set
        self._columns: dict[tuple[str, str], pa.Schema] = {}
        """Schemas of the tables that the statement was checked against."""
        self._answerable: dict[ResidentsKey, tuple[str, ...]] = {}
        """Plans that were found to be answered rightly, and to give what was promised, by the resident tables
        that they are over; which rules the optimizer goes without."""
        self.schema, self.parameter_schema = self._check()

    def _check(self) -> tuple[pa.Schema, pa.Schema]:
        """Plan the statement, if need be; return the schemas of its result and of its parameters."""
        looked_up = self._describe_key_query()
        if looked_up is not None:
            return looked_up, _NO_PARAMETERS
        frames, bound, catalog = self._frames, self._bound, self.catalog
        run = QueryRun(self._settings, frames.visibility, RunControl())
        parameters, planned_for = NO_PARAMETERS, None
        if bound.parameter_count:
            frame, parameters, self._bound = plan_with_types(frames, bound, run, catalog)
            self._columns = dict(run.columns)
        else:
            asks_first = bound.has_vector_subqueries
            frame = frames.plan(bound, run, None, catalog, typing=asks_first)
            self._columns = dict(run.columns)
            if not bound.kind.analyzes and not asks_first:
                planned_for = run
                if self._has_one_plan:
                    self._answerable[NO_RESIDENTS.key] = frame.mixing or ()
        self._refuse_unplanned(frame, run, parameters.types)
        schema = normalize_schema(frames.schema(frame), self._types)
        if planned_for is not None:
            frames.keep(self, frame, run)
        return schema, parameters

    def _describe_key_query(self) -> pa.Schema | None:
        """Return the schema of a lookup of constant keys, which needs no plan; None for other statements."""
        query = self._bound.key_query
        if (
            query is None
            or self._bound.parameter_count
            or not self._settings.shortcuts >= KEY_QUERY_SHORTCUTS
        ):
            return None
        schema = self.catalog.table(query.table).base.schema
        return (
            None
            if query.find_keys((), schema) is None
            else normalize_schema(query.output(schema), self._types)
        )

    def _refuse_unplanned(self, frame: PlannedFrame, run: QueryRun, types: Sequence[pa.DataType]) -> None:
        """Refuse a statement with subqueries that DataFusion does not run, or can't make a physical plan of.

        Raises:
            UnplannedSubqueryError: it has some.
        """
        frames, bound, catalog = self._frames, self._bound, self.catalog
        if not NESTED.search(text := bound.text):
            return
        if types:
            # A condition on NULL, which stands for the parameters in the other plan, leaves no subquery.
            with suppress(InvalidInputError):  # of types that are not known without values
                with_placeholders = frames.plan(bound, run, None, catalog, typing=True)
                with suppress(InvalidInputError):
                    frames.refuse_unplanned(with_placeholders, bound, run)
                # It has no type of a parameter in a branch of a set operation either.
                failure = frames.try_optimizing(with_placeholders)
                if has_subqueries(with_placeholders) and misses_columns(failure):
                    raise UnplannedSubqueryError(UNPLANNED)
        frames.refuse_unplanned(frame, bound, run)
        if not (INVOLVED.search(text) and has_joined_subqueries(frame)):
            return
        if frame.leaves:  # The plan that runs.
            frames.settle(frame)
            with suppress(Exception):  # which the plans below raise, too
                run.control.run_uninterrupted(frame.execution_plan)
                return
        values = bound.represent_values(types)
        failure = None
        for pushdown in (True, False):
            attempt = QueryRun(self._settings, frames.visibility, RunControl())
            try:
                planned = frames.plan(bound, attempt, values, catalog, pushdown=pushdown)
                attempt.control.run_uninterrupted(planned.execution_plan)
            except Exception as error:  # noqa: BLE001 - a run, which has the values, raises what else fails
                failure = error
            else:
                return
        if misses_columns(failure):
            raise UnplannedSubqueryError(UNPLANNED) from failure

    @cached_property
    def serialized_schema(self) -> bytes:
        """Return `schema` as an encapsulated IPC message."""
        return bytes(self.schema.serialize())

    @cached_property
    def serialized_parameter_schema(self) -> bytes:
        """Return `parameter_schema` as an encapsulated IPC message, in the types in which clients bind."""
        return bytes(bindable_schema(self.parameter_schema, self._types).serialize())

    @cached_property
    def digest(self) -> bytes:
        """Return 8 bytes that identify `schema`."""
        return blake2b(self.serialized_schema, digest_size=8).digest()

    @property
    def access(self) -> Access:
        """Return the access of the principal for whom the statement was prepared; no other may run it."""
        return self.catalog.access

    @property
    def is_repeatable(self) -> bool:
        """Return whether the plan depends only on the tables and views that the statement names."""
        return not self._bound.reads_lists

    def _make_task(
        self, parameters: Sequence[pa.Scalar], settings: SessionSettings | None, control: RunControl | None
    ) -> Task:
        takes_none = not parameters and not len(self.parameter_schema)
        values = () if takes_none else bind_values(parameters, self.parameter_schema)
        return Task(values, settings or self._settings, control or RunControl(), self.catalog.reopen())

    def _look_ahead(self, task: Task) -> None:
        """Look up all tables of the statement in parallel.

        Raises:
            LanceGatewayError: one was dropped, or can't be read.
        """
        settings = task.settings
        confirms = settings.consistency == "strong" and not settings.max_staleness_ms
        task.catalog.look_ahead(self.catalog, confirms=confirms)

    def _plan_again(
        self,
        run: QueryRun,
        parameters: Sequence[pa.Scalar],
        catalog: VisibleCatalog,
        *,
        pushdown: bool = True,
        residents: Residents = NO_RESIDENTS,
    ) -> PlannedFrame:
        """Plan the statement over the current tables.

        Raises:
            PreconditionError: the result has other columns than when the statement was prepared.
        """
        answerable = self._answerable.get(residents.key) if pushdown else None
        try:
            frame = self._frames.plan(
                self._bound,
                run,
                parameters,
                catalog,
                pushdown=pushdown,
                is_checked=answerable is not None,
                mixing=answerable,
                residents=residents,
            )
        except InvalidInputError as error:
            if self._has_same_columns(run):
                raise
            raise schema_changed_error(self.sql) from error
        has_same_columns = self._has_same_columns(run)
        if answerable is not None:
            if has_same_columns:
                return frame
            self._answerable.clear()
            return self._plan_again(run, parameters, catalog, residents=residents)
        schema = self._frames.schema(frame)
        if not self._is_promised(schema):
            if not parameters or not has_same_columns:
                raise schema_changed_error(self.sql)
            found = normalize_schema(schema, self._types)
            # A value that became a literal may be part of a name, which is the promised one all the same.
            if found.types != self.schema.types:
                # A parameter that kept its own type may have changed the type of the result.
                refuse_untyped(parameters, self.parameter_schema)
                raise result_differs_error(self.sql, self.schema, found)
        if pushdown and has_same_columns and self._has_one_plan:
            self._answerable[residents.key] = frame.mixing or ()
        return frame

    @property
    def _has_one_plan(self) -> bool:
        """Return whether the plan over the same columns is the same in each run."""
        return isinstance(self._bound, BoundStatement) and self._bound.has_fixed_text

    def _check_promise(self, schema: pa.Schema) -> None:
        if not self._is_promised(schema):
            raise schema_changed_error(self.sql)

    def _is_promised(self, schema: pa.Schema) -> bool:
        return bool(normalize_schema(schema, self._types).equals(self.schema))

    def _has_same_columns(self, run: QueryRun) -> bool:
        """Return whether the tables have the columns that the statement was checked against."""
        return all(schema == self._columns.get(key, schema) for key, schema in run.columns.items())
