"""DataFusion's contexts, with the options and without the rules that would make answers wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

from lance_gateway.memwal.storage.table_names import CATALOG, MAIN_SCHEMA
from lance_gateway.planner.bridge.plan_reading import KEEPS_SUBQUERIES, WRONG_RULES

_LOSING_RULES: Final = (
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
"""Rules that remove unused expressions, and with them the parameters whose types are to be inferred."""


MAX_IDLE: Final = 8
"""The number of contexts of each kind that wait for a plan."""


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """How a plan is made and run.

    Attributes:
        partitions: of the plan.
        sorts_whole: whether rows are sorted in one partition.
        reorders_joins: whether the sides of joins are exchanged by their numbers of rows.
    """

    partitions: int
    sorts_whole: bool = False
    reorders_joins: bool = False


class Contexts:
    """Makes contexts, one for each statement that is planned, and one for each that runs; thread-safe.

    Args:
        memory_bytes: memory of one statement before it spills to disk; None for no limit.
    """

    def __init__(self, memory_bytes: int | None) -> None:
        self._memory_bytes = memory_bytes
        self._idle: defaultdict[ContextOptions, list[SessionContext]] = defaultdict(list)

    def take(self, options: ContextOptions) -> SessionContext:
        """Return a context that runs one optimised plan, and does not optimise it again."""
        # Another thread may take the last one.
        with suppress(IndexError):
            return self._idle[options].pop()
        return self._make(options, {"datafusion.optimizer.max_passes": "0"})

    def give_back(self, options: ContextOptions, context: SessionContext) -> None:
        """Keep a context that was taken, whose plan has ended, for another plan."""
        idle = self._idle[options]
        if len(idle) < MAX_IDLE:
            idle.append(context)

    def make(
        self,
        options: ContextOptions,
        *,
        typing: bool = False,
        without: Sequence[str] = (),
        joins_values: bool = False,
    ) -> SessionContext:
        """Make the context that plans one statement.

        Args:
            options: of the plan.
            typing: whether the plan is for the types of parameters, those in subqueries too.
            without: rules of the optimiser to remove, besides those with wrong answers.
            joins_values: whether all subqueries that stand for values become joins.
        """
        # Comparisons of constants that are not folded would be evaluated by leaves, by Python's rules.
        more = {"datafusion.optimizer.max_passes": "16"}
        if typing or joins_values:
            # Subqueries become joins, which the bindings show, with their parameters.
            more[KEEPS_SUBQUERIES] = "false"
        context = self._make(options, more)
        for rule in (*WRONG_RULES, *(_LOSING_RULES if typing else ()), *without):
            context.remove_optimizer_rule(rule)
        return context

    def _make(self, options: ContextOptions, more: Mapping[str, str]) -> SessionContext:
        config = (
            SessionConfig()
            .with_target_partitions(options.partitions)
            .with_information_schema(enabled=True)
            .with_default_catalog_and_schema(CATALOG, MAIN_SCHEMA)
            .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
            # DataFusion 55 is not consistent about whether `x IS TRUE` is nullable.
            .set("datafusion.execution.skip_physical_aggregate_schema_check", "true")
            # Without it, now() and zoned literals have no zone, and comparisons with zoned columns are wrong.
            .set("datafusion.execution.time_zone", "+00:00")
            # Reordering applies filters above an outer join to the other input.
            .set("datafusion.optimizer.join_reordering", str(options.reorders_joins).lower())
            # It loses fields of structs in keys of joins.
            .set("datafusion.optimizer.enable_leaf_expression_pushdown", "false")
        )
        if options.sorts_whole:
            config = config.set("datafusion.optimizer.repartition_sorts", "false")
        for name, value in more.items():
            config = config.set(name, value)
        runtime = None
        if self._memory_bytes is not None:
            runtime = RuntimeEnvBuilder().with_fair_spill_pool(self._memory_bytes)
        return SessionContext(config, runtime)
