"""Plans bound statements with DataFusion, with a leaf of ours behind each private table name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bind import bind
from lance_gateway.planner.binding.bound_statement import (
    BoundStatement,
    StatementKind,
    TableReference,
    check_vectors,
    read_query_vectors,
)
from lance_gateway.planner.bridge.json.functions import WRITERS, register_writer
from lance_gateway.planner.bridge.machine import count_cores
from lance_gateway.planner.bridge.row_expressions import mark_uuids
from lance_gateway.planner.bridge.run_control import stream_batches
from lance_gateway.planner.bridge.types.plain_types import normalize_schema
from lance_gateway.planner.plans.checks.mistaken_plans import SUSPECT, check_plan
from lance_gateway.planner.plans.checks.null_equal_joins import NULL_SAFE, find_mixing_rules
from lance_gateway.planner.plans.checks.unplanned_subqueries import refuse_unplanned_subqueries
from lance_gateway.planner.plans.contexts import ContextOptions, Contexts
from lance_gateway.planner.plans.errors import is_unimplemented, translate_error
from lance_gateway.planner.plans.forms.corrected_texts import plan_text
from lance_gateway.planner.plans.forms.json_types import mark_json, type_json
from lance_gateway.planner.plans.forms.multisets import MULTISETS, number_equal_rows
from lance_gateway.planner.plans.forms.planned_frame import (
    IdlePlans,
    PlannedFrame,
    number_names,
    plan_unique,
)
from lance_gateway.planner.plans.leaves.registering import make_leaf, register_tables
from lance_gateway.planner.plans.leaves.resident_tables import NO_RESIDENTS, RESIDENT_ROWS, Residents
from lance_gateway.planner.scans.pruning.region_values import restricts_rows
from lance_gateway.planner.scans.pruning.statement_predicates import NO_PREDICATES, StatementPredicates
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.settings import Shortcut
from lance_gateway.planner.scans.table_leaf import TableLeaf
from lance_gateway.planner.search.nearest_leaf import configure_leaves
from lance_gateway.planner.search.search_call import SearchCall
from lance_gateway.planner.search.search_scan import build_search_leaf
from lance_gateway.planner.sql.rules import KeptTexts, Rewritten, apply_rules
from lance_gateway.planner.sql.subqueries.rewriting import JoinedStatement, join_subqueries
from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.text.tokens import format_place
from lance_gateway.planner.sql.tree.dialect import read_query
from lance_gateway.planner.sql.tree.predicates import find_predicates
from lance_gateway.planner.sql.tree.types import Operations
from lance_gateway.planner.system.catalogs.tables import LEAVES
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.visibility.visibility import Visibility

_CONDITIONS = re.compile(
    r"\b(?:where|having|qualify|on|using|natural)\b|\bselect\b.*\bselect\b", re.IGNORECASE | re.DOTALL
)
"""Texts that may have conditions on the rows of a search."""
SMALL_ROWS: Final = 8192
"""Rows of a batch of DataFusion."""
_FULL_JOIN = re.compile(r"\bfull\b.*\bjoin\b", re.IGNORECASE | re.DOTALL)
_UNITED_ORDER = re.compile(r"\bunion\b.*\border\b", re.IGNORECASE | re.DOTALL)
"""Texts that may sort a UNION.

DataFusion 55 sorts the parts of a UNION without the keys that are constant in each part, and then merges them
by the other keys with a wrong limit.
"""


class Frames:
    """Plans statements with DataFusion; safe to share between threads.

    Args:
        catalog: tables and views.
        partitions: of every plan; by default one per core, and one for small tables.
        memory_bytes: memory of one statement before it spills to disk; None for no limit.
        resident_rows: statements over tables with fewer rows have no resident tables.

    Attributes:
        resident_rows: see above.
        idle_plans: plans kept for the next executions.
    """

    def __init__(
        self,
        catalog: Catalog,
        partitions: int | None = None,
        memory_bytes: int | None = None,
        *,
        resident_rows: int = RESIDENT_ROWS,
    ) -> None:
        self.catalog = catalog
        self.resident_rows = resident_rows
        self.partitions = partitions or count_cores()
        self._small_rows = SMALL_ROWS if partitions is None else 0
        self._contexts = Contexts(memory_bytes)
        self._options = ContextOptions(self.partitions)
        self.visibility = Visibility(catalog.cache, catalog.executor, catalog.shared)
        self._rewritten: KeptTexts[Rewritten] = KeptTexts()
        self._joined: KeptTexts[JoinedStatement] = KeptTexts()
        self._predicates: KeptTexts[StatementPredicates] = KeptTexts()
        self._operations: Mapping[bool, Operations] = {True: {}, False: {}}
        """Types by whether parameters have none: such plans are not simplified, and have other types."""
        self.idle_plans = IdlePlans()
        self._schema_reader = SessionContext()
        """Only used to read the schemas of plans."""

    def schema(self, frame: DataFrame) -> pa.Schema:
        """Return the schema of a plan's result.

        In `DataFrame.schema`, a CASE has the type of its first THEN, and a union that of its first query. The
        optimizer decides on the types that the values have.
        """
        try:
            optimized = frame.optimized_logical_plan()
        except Exception:  # noqa: BLE001 - the run raises the error
            schema = frame.schema()
        else:
            schema = self._schema_reader.create_dataframe_from_logical_plan(optimized).schema()
        return frame.show_names(schema) if isinstance(frame, PlannedFrame) else schema

    def plan(
        self,
        bound: BoundStatement,
        run: QueryRun,
        parameters: Sequence[pa.Scalar] | None,
        catalog: VisibleCatalog,
        *,
        pushdown: bool = True,
        typing: bool = False,
        is_checked: bool = False,
        mixing: tuple[str, ...] | None = None,
        residents: Residents = NO_RESIDENTS,
    ) -> PlannedFrame:
        """Plan a statement.

        Args:
            bound: the statement.
            run: its execution.
            parameters: their values; None leaves placeholders in place.
            catalog: with which the statement's names were resolved.
            pushdown: whether conjuncts are pushed into leaves.
            typing: whether the plan is only used for its types; values then represent their types.
            is_checked: whether the same plan was found before to be answered rightly.
            mixing: rules of the optimizer that would mix joins up; None to find out.
            residents: tables in place of leaves.

        Raises:
            LanceGatewayError: DataFusion refuses the statement.
        """
        run.partitions = self._choose_partitions(bound, catalog)
        untyped = parameters is None and bound.parameter_count > 0
        text, values = _render(bound, parameters)
        leaf_parameters = None if typing or untyped else parameters or ()
        leaves = {
            reference.private_name: self._make_leaf(bound, reference, run, leaf_parameters, catalog)
            for reference in bound.references
        }
        register = partial(
            register_tables,
            bound=bound,
            run=run,
            catalog=catalog,
            leaves=leaves,
            residents=residents,
            infer_view=self._infer_view_schema,
            pushdown=pushdown,
        )
        columns = {name: leaf.schema for name, leaf in leaves.items()}
        try:
            text, names = self._join_subqueries(bound, values, register, columns, text)
            # It makes RIGHT joins of FULL ones, whose sides no rule exchanges: see `right_joins`.
            rules = ["eliminate_outer_join"] if _FULL_JOIN.search(text) else []
            sorts_whole = _UNITED_ORDER.search(text) is not None
            options = ContextOptions(run.partitions, sorts_whole, residents.reorders_joins)
            context = self._contexts.make(options, typing=untyped, without=[*rules, *(mixing or ())])
            register(context)
            nulls = () if typing else tuple(name for name, value in values.items() if not value.is_valid)
            replan = partial(plan_text, context, bound.kind, values=values)
            writes_json = not WRITERS.isdisjoint(bound.json_functions)
            plan_part = partial(self._plan_part, context, values, {}, marks=writes_json)
            types = {name: value.type for name, value in values.items()}
            typed = _type_columns(bound, catalog, columns)
            rewrite = partial(
                apply_rules, text, typed, types, plan_part, self._operations[untyped], nulls, read=bound.read
            )
            rewritten = self._rewritten.make(f"{nulls} {text}", typed, types, rewrite)
            text, written = rewritten.text, rewritten.text if rewritten.keeps_names else text
            if writes_json:
                text, written = (
                    (mark_json(text), mark_json(written))
                    if untyped
                    else type_json(text, written, plan_part, partial(register_writer, context, run))
                )
            frame = _plan_named(bound, names, replan, text, written, plan_part)
            text = frame.text
            if not typing and not untyped:
                frame.predicates = self._find_predicates(bound, run, catalog, text, columns, values)
                run.predicates = frame.predicates
            frame.mixing, frame.is_checked = mixing, is_checked
            if untyped:
                return frame
            if mixing is None and not typing and NULL_SAFE.search(text):
                mixing = self._find_mixing_rules(frame, rules)
                if mixing:
                    return self.plan(
                        bound,
                        run,
                        parameters,
                        catalog,
                        pushdown=pushdown,
                        is_checked=is_checked,
                        mixing=mixing,
                        residents=residents,
                    )
                frame.mixing = mixing
            searches = any(reference.search is not None for reference in bound.references)
            if not is_checked and _is_suspect(text, columns):
                check_plan(frame, text, list(columns.values()), lambda shown: replan(shown, shown))
            if not typing and (bound.distances or (searches and _CONDITIONS.search(text))):
                handing = None if pushdown else lambda: self.plan(bound, run, parameters, catalog)
                configure_leaves(frame, leaves, handing)
            # DataFusion's list of functions is that of the context that runs the plan.
            if bound.kind is StatementKind.QUERY and not typing and not bound.reads_lists:
                frame.options = options
                if pushdown and bound.has_fixed_text and bound.reads_only_tables and not residents.tables:
                    frame.leaves = [(one, leaves[one.private_name]) for one in bound.references]
        except Exception as error:
            raise translate_error(error, bound, run.failure) from error
        return frame

    def settle(self, frame: PlannedFrame) -> None:
        """Make a plan run in its optimised form, so that DataFusion does not optimise it again."""
        if frame.options is not None and frame.context is None:
            with suppress(Exception):  # of a rule, which the run raises
                frame.optimized_logical_plan()
                frame.run_in(self._contexts.take(frame.options))

    def reopen(
        self, frame: PlannedFrame, bound: BoundStatement, run: QueryRun, catalog: VisibleCatalog
    ) -> bool:
        """Bind a kept plan to another run and the newest versions of its tables.

        Returns False if it must be made again: columns, or the number of partitions, have changed.

        Args:
            frame: that was kept.
            bound: the statement.
            run: its next execution.
            catalog: with which the tables are found.
        """
        if frame.options is None or self._choose_partitions(bound, catalog) != frame.options.partitions:
            return False
        if not all(
            leaf.reopen(run, catalog.table(reference.table, reference.as_of))
            for reference, leaf in frame.leaves
        ):
            return False
        run.partitions, run.predicates = frame.options.partitions, frame.predicates
        frame.run_in(self._contexts.take(frame.options))
        return True

    def keep(self, statement: object, frame: PlannedFrame, run: QueryRun | None = None) -> None:
        """Keep a plan for the next execution of its statement, if it can be used then.

        Args:
            statement: whose plan it is.
            frame: the plan.
            run: for which it was planned; None if it has run.
        """
        if frame.leaves and frame.is_optimized:
            self._release(frame)
            self.idle_plans.put(statement, frame, None)
        elif run is not None:
            self.idle_plans.put(statement, frame, run)
        else:
            self._release(frame)

    def _release(self, frame: PlannedFrame) -> None:
        context = frame.release()
        if context is not None and frame.options is not None:
            self._contexts.give_back(frame.options, context)

    def _choose_partitions(self, bound: BoundStatement, catalog: VisibleCatalog) -> int:
        """Return one partition where each table fits into a batch: to divide it costs more than it saves."""
        tables = [catalog.table(one.table, one.as_of) for one in bound.references]
        is_small = bool(tables) and all(one.known_rows <= self._small_rows for one in tables)
        return 1 if is_small and not bound.makes_rows else self.partitions

    def _find_predicates(
        self,
        bound: BoundStatement,
        run: QueryRun,
        catalog: VisibleCatalog,
        text: str,
        columns: Mapping[str, pa.Schema],
        values: Mapping[str, pa.Scalar],
    ) -> StatementPredicates:
        """Return the predicates of the tables of a text, if they may exclude regions of one."""
        settings = run.settings
        if not settings.region_pruning or Shortcut.REGION_PRUNING not in settings.shortcuts:
            return NO_PREDICATES
        details = (catalog.table(one.table, one.as_of).base.details for one in bound.references)
        if not any(any(map(restricts_rows, one.region_specs)) for one in details if one is not None):
            return NO_PREDICATES

        def find() -> StatementPredicates:
            root = bound.root if text == bound.text else read_query(text)
            return NO_PREDICATES if root is None else StatementPredicates(find_predicates(root, columns))

        found = self._predicates.make(text, columns, {}, find)
        if bound.kind.explains and text == bound.text:
            found = replace(found, format_place=partial(format_place, bound.sql))
        if not values and not bound.is_volatile:
            return found
        return replace(found, values=values, began=run.began)

    def _join_subqueries(
        self,
        bound: BoundStatement,
        values: Mapping[str, pa.Scalar],
        register_tables: Callable[[SessionContext], None],
        columns: Mapping[str, pa.Schema],
        text: str,
    ) -> tuple[str, Mapping[str, str]]:
        """Return a text with joins in place of subqueries, and names of results that have others there."""

        def find_schema(sql: str) -> pa.Schema:
            context = self._contexts.make(self._options, typing=not values)
            register_tables(context)
            try:
                return self._plan_part(context, values, {}, sql)
            except Exception as error:
                if is_unimplemented(error):
                    raise RewritingError(str(error)) from error
                raise

        once = [one.private_name for one in bound.references if one.search or one.compared]
        make = partial(
            join_subqueries,
            text,
            columns,
            find_schema,
            joins_all=bound.joins_all,
            read_once=once,
            read=bound.read,
        )
        joined = self._joined.make(f"{bound.joins_all} {text}", columns, {}, make)
        return joined.sql, joined.names

    def _plan_part(
        self,
        context: SessionContext,
        values: Mapping[str, pa.Scalar],
        known: dict[str, pa.Schema | Exception],
        sql: str,
        *,
        marks: bool = False,
    ) -> pa.Schema:
        """Plan a query that is a part of a statement; return the schema of its result.

        Parts have parts in common. Each is planned once: otherwise nested ones take exponential time.
        Functions that write values as JSON, whose types are not known yet, are marked if there may be some.
        """

        def plan(text: str, _: str) -> DataFrame:
            return context.sql(text, param_values=dict(values) or None)

        if sql not in known:
            try:
                part = mark_json(sql) if marks else sql
                known[sql] = self.schema(plan_unique(StatementKind.QUERY, plan, part, part))
            except Exception as error:  # noqa: BLE001 - raised below, each time that the part is asked for
                known[sql] = error
        found = known[sql]
        if isinstance(found, Exception):
            raise found
        return found

    def refuse_unplanned(self, frame: DataFrame, bound: BoundStatement, run: QueryRun) -> None:
        """Refuse a plan with subqueries that DataFusion does not run.

        Raises:
            LanceGatewayError: there is one.
        """
        try:
            refuse_unplanned_subqueries(frame, lambda: self._optimize_with_values_joined(frame))
        except Exception as error:
            raise translate_error(error, bound, run.failure) from error

    def try_optimizing(self, frame: DataFrame) -> Exception | None:
        """Optimise a plan for types with the rules of a plan that runs; return what a rule fails with."""
        try:
            self._optimize_without(frame)
        except Exception as error:  # noqa: BLE001 - the bindings have no types of errors
            return error
        return None

    def _optimize_with_values_joined(self, frame: DataFrame) -> LogicalPlan:
        context = self._contexts.make(self._options, joins_values=True)
        return context.create_dataframe_from_logical_plan(frame.logical_plan()).optimized_logical_plan()

    def _make_leaf(
        self,
        bound: BoundStatement,
        reference: TableReference,
        run: QueryRun,
        parameters: Sequence[pa.Scalar] | None,
        catalog: VisibleCatalog,
    ) -> TableLeaf:
        """Make the leaf of a table reference; without parameters, it does not search."""
        if reference.search is not None:
            call = self._run_vector_subquery(reference, run, parameters, catalog)
            return build_search_leaf(run, call, parameters, catalog)
        return make_leaf(bound, reference, run, catalog, run.partitions)

    def _run_vector_subquery(
        self,
        reference: TableReference,
        run: QueryRun,
        parameters: Sequence[pa.Scalar] | None,
        catalog: VisibleCatalog,
    ) -> SearchCall:
        """Run the subquery of a search call and put its vectors in its place.

        Without parameters, only the type of the subquery is checked. It runs before the statement around it,
        since DataFusion must not be called from one of its own threads.
        """
        call, vectors = reference.search, reference.vectors
        assert call is not None  # noqa: S101 - the reference is a search call
        if vectors is None:
            return call
        subquery = vectors.statement
        inner = QueryRun(run.settings, self.visibility, run.control)
        inner.columns = run.columns
        try:
            if parameters is None:
                frame = self.plan(subquery, inner, None, catalog, typing=True)
                check_vectors(call.function.value, self.schema(frame))
                return call
            frame = self.plan(subquery, inner, [parameters[ordinal] for ordinal in vectors.ordinals], catalog)
            batches = list(stream_batches(frame, run.control))
        except Exception as error:
            raise translate_error(error, subquery, run.control.error or inner.failure) from error
        table = pa.Table.from_batches(batches, batches[0].schema if batches else self.schema(frame))
        return call.with_vectors(read_query_vectors(call.function.value, table))

    def _find_mixing_rules(self, frame: PlannedFrame, without: Sequence[str]) -> tuple[str, ...] | None:
        """Return the rules that confuse joins; None if the plan fails, which its execution reports."""
        with suppress(Exception):
            optimize = partial(self._optimize_without, frame, *without)
            return find_mixing_rules(frame.optimized_logical_plan(), optimize)
        return None

    def _optimize_without(self, frame: DataFrame, *rules: str) -> LogicalPlan:
        """Return the optimised plan of a statement, made without some rules."""
        context = self._contexts.make(self._options, without=rules)
        return context.create_dataframe_from_logical_plan(frame.logical_plan()).optimized_logical_plan()

    def _infer_view_schema(self, view: TableName, run: QueryRun, catalog: VisibleCatalog) -> pa.Schema:
        bound = bind(f"SELECT * FROM {view.sql}", catalog)  # noqa: S608 - a quoted name
        inner = QueryRun(run.settings, self.visibility, run.control)
        inner.lists_views = False  # The view may read the list of views, which would be made again for it.
        schema = normalize_schema(self.schema(self.plan(bound, inner, None, catalog)))
        return number_names(schema)


def _is_suspect(text: str, columns: Mapping[str, pa.Schema]) -> bool:
    """Return whether DataFusion might answer a text wrongly, over tables with these columns."""
    has_instants = any(pa.types.is_timestamp(field.type) for schema in columns.values() for field in schema)
    return has_instants or SUSPECT.search(text) is not None


def _type_columns(
    bound: BoundStatement, catalog: VisibleCatalog, columns: Mapping[str, pa.Schema]
) -> Mapping[str, pa.Schema]:
    """Return the columns of all tables in the text of a statement, by name, with their types for rules."""
    typed = {
        one.private_name: mark_uuids(
            columns[one.private_name], catalog.table(one.table, one.as_of).base.uuid_columns
        )
        for one in bound.references
    }
    return typed | {name: LEAVES[name].schema for name in bound.catalog_tables}


def _plan_named(
    bound: BoundStatement,
    names: Mapping[str, str],
    replan: Callable[[str, str], DataFrame],
    text: str,
    written: str,
    plan_part: Callable[[str], pa.Schema],
) -> PlannedFrame:
    """Plan a text, and give its results the names that clients expect of what was written."""
    shown: Mapping[str, str] = {}
    if MULTISETS.search(text):
        text, shown = number_equal_rows(text, plan_part)
        uncorrected, written = written, text
        with suppress(Exception):  # What was written may have types that only the corrections bring together.
            written, shown = number_equal_rows(uncorrected, plan_part)
    frame = plan_unique(bound.kind, replan, text, written)
    shown = {name: names.get(old, old) for name, old in {**shown, **frame.shown}.items()}
    frame.shown = {**names, **shown}
    return frame


def _render(
    bound: BoundStatement, parameters: Sequence[pa.Scalar] | None
) -> tuple[str, Mapping[str, pa.Scalar]]:
    """Return the text of a statement, and the values of the placeholders in it."""
    if parameters is None and bound.parameter_count > 0:
        return bound.write_placeholders(), {}
    return bound.with_values(parameters or ())
