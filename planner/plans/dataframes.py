"""A bound statement as DataFusion plans it, with our leaves under its private table names."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext
from datafusion.catalog import Schema
from datafusion.plan import LogicalPlan

from memwal.errors import LanceGatewayError
from planner.access.visible_catalog import SYSTEM_SCHEMA, VisibleCatalog
from planner.binding.bind import StatementKind, bind
from planner.binding.bound_statement import BoundStatement, TableReference, check_vectors, query_vectors
from planner.binding.substrait import Bound, BoundPlan
from planner.bridge.distance_functions import register_distances
from planner.bridge.parameter_types import parameter_types
from planner.bridge.plan_shape import OptimizedOnce
from planner.bridge.run_control import RunControl
from planner.plans.checks.mistaken_plans import MOVING_RULE, SUSPECT, TOTALS, check_plan
from planner.plans.results import normalised, streamed, translated
from planner.plans.system_leaf import SystemLeaf
from planner.plans.text_plan import plan_text
from planner.scans.query_run import QueryRun, ReadOptions
from planner.scans.settings import SessionSettings, Shortcut
from planner.scans.table_leaf import DeclaredLeaf, TableLeaf
from planner.search.nearest_leaf import NearestLeaf, configure_leaves
from planner.search.search_scan import build_search_leaf
from planner.sql.search_call import SearchCall
from planner.sql.tokens import quote
from planner.tables.state.catalog import CATALOG, SCHEMA, Catalog
from planner.tables.visibility.visibility import Visibility

logger = logging.getLogger(__name__)

_WRONG_RULES = ("eliminate_duplicated_expr", "eliminate_group_by_constant")
"""Rules of DataFusion 54 that give wrong answers.

The first drops sort keys that follow from others in one input of an outer join, but not in its result, and
takes the wrong columns for keys of a GROUP BY behind computed columns. The second makes an aggregate without
groups, which has a row when there are no rows, of one whose groups are constants.
"""

_LOSING_RULES = (
    "simplify_expressions",
    "eliminate_filter",
    "eliminate_join",
    "eliminate_limit",
    "eliminate_outer_join",
    "propagate_empty_relation",
    "push_down_filter",
    "push_down_leaf_projections",
    "optimize_projections",
    "common_sub_expression_eliminate",
    "single_distinct_aggregation_to_group_by",
)
"""Rules that leave out what no row needs, and with it parameters, whose types would not be known."""
_EVERY_ROW = (1 << 63) - 1
"""A LIMIT that DataFusion keeps in its plans; no table has more rows."""
_EMPTYING_RULE = "eliminate_filter"
"""Without it, physical plans can't tell from a condition that is never true that there are no rows.

They take it that there are no groups either then, not even the grand total, and count them without a look.
Where conditions stay where they are, it is needed: physical plans would move such a condition all the same.
"""
_UNITED_ORDER = re.compile(r"\bunion\b.*\border\b", re.IGNORECASE | re.DOTALL)
"""What may sort a UNION.

DataFusion 54 sorts its parts without the keys that are constant in each, and the first rows of one part by
the other keys keep out those of another.
"""


class Frames:
    """Makes DataFusion's plans of statements; safe to share between threads.

    Args:
        catalog: tables and views.
        partitions: of every scan, by default one per core.
        memory_bytes: what one statement may use before it spills to disk; None for no limit.
    """

    def __init__(
        self, catalog: Catalog, partitions: int | None = None, memory_bytes: int | None = None
    ) -> None:
        self.catalog = catalog
        self._memory_bytes = memory_bytes
        self.partitions = partitions or os.cpu_count() or 1
        self._visibility = Visibility(catalog.cache, catalog.executor)
        self._schema_reader = SessionContext()
        """Plans nothing; tells the schemas of plans."""

    def run(self, settings: SessionSettings, control: RunControl) -> QueryRun:
        """A new execution: what it reads is decided when its first batch is wanted."""
        shortcuts = settings.shortcuts
        pruning = settings.region_pruning and Shortcut.REGION_PRUNING in shortcuts
        options = ReadOptions(settings.consistency, settings.max_staleness_ms, pruning, shortcuts)
        run = QueryRun(options, self._visibility, control)
        control.runs.append(run)
        return run

    def schema(self, frame: DataFrame) -> pa.Schema:
        """The schema of a plan's result.

        `DataFrame.schema` goes by the statement as it is written, where a CASE has the type of its first THEN
        and a union that of its first query. What values have in the end is decided in optimizing the plan.
        """
        try:
            optimized = frame.optimized_logical_plan()
        except Exception:  # noqa: BLE001 - the run tells what is wrong, to whom it concerns
            return frame.schema()
        return self._schema_reader.create_dataframe_from_logical_plan(optimized).schema()

    def plan(
        self,
        bound: Bound,
        run: QueryRun,
        parameters: Sequence[pa.Scalar] | None,
        catalog: VisibleCatalog,
        *,
        pushdown: bool = True,
        moving: bool = True,
        typing: bool = False,
    ) -> DataFrame:
        """The statement as DataFusion plans it.

        Args:
            bound: the statement.
            run: its execution.
            parameters: their values; None leaves placeholders in place.
            catalog: with which the statement's names were resolved.
            pushdown: whether leaves are handed their conjuncts.
            moving: whether conditions go below other operators.
            typing: whether the plan is for its types alone, and the values stand for their types.

        Raises:
            LanceGatewayError: DataFusion refuses it.
        """
        if isinstance(bound, BoundPlan):
            return self._plan_of_relations(bound, run, catalog, pushdown=pushdown)
        untyped = parameters is None and bound.parameter_count > 0
        text, values = (bound.render(), {}) if untyped else bound.with_values(parameters or ())
        rules = [] if moving else [MOVING_RULE]
        if moving and TOTALS.search(text):
            rules = [_EMPTYING_RULE]
        united = _UNITED_ORDER.search(text) is not None
        context = self._context(typing=untyped, sorts_whole=united, without=rules)
        leaves: dict[str, TableLeaf] = {}
        schemas: list[pa.Schema] = []
        for reference in bound.references:
            known = None if typing or untyped else parameters or ()
            leaf = self._leaf(bound, reference, run, known, catalog)
            _register(context, reference.private_name, leaf, pushdown=pushdown)
            leaves[reference.private_name] = leaf
            schemas.append(leaf.schema)
            run.columns[bound.sql, reference.private_name] = schemas[-1]
        if bound.system_tables or bound.lists_tables:
            self._add_system_tables(context, run, catalog, pushdown=pushdown)
        if bound.lists_tables:
            self._describe_everything(context, run, catalog)
        if bound.distances:
            register_distances(context, bound.distances, run)
        try:
            nulls = () if typing else [name for name, value in values.items() if not value.is_valid]
            frame: DataFrame = OptimizedOnce(
                plan_text(context, bound, None if untyped else parameters or (), text, values, nulls).df
            )
            if untyped:
                return frame
            searches = any(reference.search is not None for reference in bound.references)
            may_move, without = moving and not typing, partial(self._without, frame)
            has_instants = any(pa.types.is_timestamp(one.type) for schema in schemas for one in schema)
            if (has_instants or SUSPECT.search(text)) and check_plan(
                frame, text, schemas, without, may_move=may_move, is_fixed=searches
            ):
                return self.plan(bound, run, parameters, catalog, pushdown=pushdown, moving=False)
            if not typing and (searches or bound.distances):
                handing = None if pushdown else lambda: self.plan(bound, run, parameters, catalog)
                configure_leaves(frame, leaves, handing)
        except Exception as error:
            raise translated(error, bound, run.failure) from error
        return frame

    def subquery_types(
        self, bound: BoundStatement, run: QueryRun, catalog: VisibleCatalog
    ) -> Mapping[int, pa.DataType]:
        """Ordinal -> type of the parameters in subqueries that give vectors."""
        types: dict[int, pa.DataType] = {}
        for vectors in (reference.vectors for reference in bound.references):
            if vectors is not None and vectors.ordinals:
                frame = self.plan(vectors.statement, run, None, catalog)
                count = vectors.statement.parameter_count
                told = parameter_types(frame.logical_plan(), count, frame.optimized_logical_plan)
                types |= dict(zip(vectors.ordinals, told, strict=True))
        return types

    def _leaf(
        self,
        bound: BoundStatement,
        reference: TableReference,
        run: QueryRun,
        parameters: Sequence[pa.Scalar] | None,
        catalog: VisibleCatalog,
    ) -> TableLeaf:
        """What stands for one of a statement's references; nothing is searched without parameters."""
        if reference.search is not None:
            call = self._answered(reference, run, parameters, catalog)
            return build_search_leaf(run, call, parameters, catalog)
        named = (reference.table, reference.as_of)
        # EXPLAIN prints no table name at a leaf; the number of fragments tells tables apart there.
        marker = 0
        if bound.kind is not StatementKind.QUERY:
            marker = list(dict.fromkeys((one.table, one.as_of) for one in bound.references)).index(named)
        ranks = bound.distances and Shortcut.NEAREST_ORDER in run.options.shortcuts
        kind = NearestLeaf if ranks and reference.as_of is None else TableLeaf
        if bound.kind is StatementKind.DESCRIBE:
            kind = DeclaredLeaf
        return kind(run, catalog.table(*named), self.partitions + marker)

    def _answered(
        self,
        reference: TableReference,
        run: QueryRun,
        parameters: Sequence[pa.Scalar] | None,
        catalog: VisibleCatalog,
    ) -> SearchCall:
        """A call with the vectors that its subquery gives; without parameters, only its type is checked.

        It runs here, before anything of the statement around it does: DataFusion must not be entered from
        one of its own threads.
        """
        call, vectors = reference.search, reference.vectors
        assert call is not None  # noqa: S101 (it stands in place of a call)
        if vectors is None:
            return call
        asked = vectors.statement
        inner = QueryRun(run.options, self._visibility, run.control)
        inner.columns = run.columns
        run.control.runs.append(inner)
        try:
            if parameters is None:
                frame = self.plan(asked, inner, None, catalog, typing=True)
                check_vectors(call.function.value, self.schema(frame))
                return call
            frame = self.plan(asked, inner, [parameters[ordinal] for ordinal in vectors.ordinals], catalog)
            batches = list(streamed(frame, run.control))
        except Exception as error:
            raise translated(error, asked, run.control.error or inner.failure) from error
        found = pa.Table.from_batches(batches, batches[0].schema if batches else self.schema(frame))
        return call.answered(query_vectors(call.function.value, found))

    def _plan_of_relations(
        self, bound: BoundPlan, run: QueryRun, catalog: VisibleCatalog, *, pushdown: bool
    ) -> DataFrame:
        """A Substrait plan, over the plans of what it reads."""
        relations = {
            name: self.plan(statement, run, None, catalog, pushdown=pushdown)
            for name, statement in bound.relations.items()
        }
        context = self._context(typing=False, sorts_whole=True)
        frame = OptimizedOnce(bound.frame(context, relations).df)
        schemas = [relation.schema() for relation in relations.values()]
        check_plan(frame, None, schemas, partial(self._without, frame), may_move=True, is_fixed=True)
        return frame

    def _without(self, frame: DataFrame, rule: str) -> LogicalPlan:
        """The optimised plan of a statement, without a rule."""
        context = self._context(typing=False, sorts_whole=False, without=(rule,))
        return context.create_dataframe_from_logical_plan(frame.logical_plan()).optimized_logical_plan()

    def _add_system_tables(
        self, context: SessionContext, run: QueryRun, catalog: VisibleCatalog, *, pushdown: bool
    ) -> None:
        context.catalog(CATALOG).register_schema(SYSTEM_SCHEMA, Schema.memory_schema())
        for name in catalog.system_tables():
            leaf = SystemLeaf(run, catalog.system_table(name), catalog.access)
            _register(context, f"{SYSTEM_SCHEMA}.{quote(name)}", leaf, pushdown=pushdown)

    def _describe_everything(self, context: SessionContext, run: QueryRun, catalog: VisibleCatalog) -> None:
        """Let DataFusion's information_schema list all tables and views that can be read."""
        catalog = catalog.anew()  # What is only listed is not kept.
        for name in catalog.table_names():
            try:
                context.register_dataset(quote(name), DeclaredLeaf(run, catalog.table(name), 1))
            except LanceGatewayError as error:
                logger.warning("table %r is not listed: %s", name, error)
        for name in catalog.view_names():
            try:
                bound = bind(f"SELECT * FROM {quote(name)}", catalog)  # noqa: S608 (a quoted name)
                schema = normalised(self.schema(self.plan(bound, run, None, catalog)))
            except LanceGatewayError as error:
                logger.warning("view %r is not listed: %s", name, error)
                continue
            frame = context.from_arrow(schema.empty_table(), name=f"{name}#view")
            context.register_view(quote(name), frame)
            context.deregister_table(f"{name}#view")

    def _context(self, *, typing: bool, sorts_whole: bool, without: Sequence[str] = ()) -> SessionContext:
        """A context of the statement's own.

        Args:
            typing: whether the plan is to tell the types of parameters, those in subqueries too.
            sorts_whole: whether rows are sorted in one partition.
            without: rules of the optimiser to leave out, besides those that are wrong.
        """
        config = (
            SessionConfig()
            .with_target_partitions(self.partitions)
            .with_information_schema(enabled=True)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
            # DataFusion 54 takes `x IS TRUE` for what may be NULL in one place and not in another.
            .set("datafusion.execution.skip_physical_aggregate_schema_check", "true")
            # Without it, now() and zoned literals have no zone, and zoned columns read them as times of day.
            .set("datafusion.execution.time_zone", "+00:00")
            # Swapped inputs take filters above an outer join for filters of the other side.
            .set("datafusion.optimizer.join_reordering", "false")
            # The first groups by an extreme lack those that have none but NULL.
            .set("datafusion.optimizer.enable_topk_aggregation", "false")
            # As many as change something: comparisons of constants that are left go to leaves as Python's.
            .set("datafusion.optimizer.max_passes", "16")
        )
        if sorts_whole:
            config = config.set("datafusion.optimizer.repartition_sorts", "false")
        if typing:
            # Plans subqueries as joins, where parameters show.
            config = config.set("datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery", "false")
        runtime = None
        if self._memory_bytes is not None:
            runtime = RuntimeEnvBuilder().with_fair_spill_pool(self._memory_bytes)
        context = SessionContext(config, runtime)
        for rule in (*_WRONG_RULES, *(_LOSING_RULES if typing else ()), *without):
            context.remove_optimizer_rule(rule)
        return context


def _register(context: SessionContext, name: str, leaf: pads.Dataset, *, pushdown: bool) -> None:
    """Give a leaf its name in a context.

    DataFusion's bindings hand a leaf all conditions that can be said in Arrow's language, and no condition
    goes below a LIMIT. Without the rule that moves conditions they would stay above joins, whose inputs may
    have columns of the same name, and physical plans take one for the other.

    Args:
        context: of the statement.
        name: as it stands in the statement.
        leaf: what is read.
        pushdown: whether the leaf is handed its conjuncts; otherwise they are applied just above it.
    """
    context.register_dataset(name, leaf)
    if pushdown:
        return
    rows = context.sql(f"SELECT * FROM {name} LIMIT {_EVERY_ROW}")  # noqa: S608 (a name of our own)
    context.deregister_table(name)
    context.register_view(name, rows)
