"""DataFusion's contexts, with the options and without the rules that would make answers wrong."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True)
class Contexts:
    """Makes contexts, one for each statement.

    Attributes:
        partitions: of a plan, by default.
        memory_bytes: memory of one statement before it spills to disk; None for no limit.
    """

    partitions: int
    memory_bytes: int | None

    def make(
        self,
        *,
        typing: bool,
        sorts_whole: bool,
        partitions: int | None = None,
        without: Sequence[str] = (),
        reorders_joins: bool = False,
        joins_values: bool = False,
    ) -> SessionContext:
        """Make the context of one statement.

        Args:
            typing: whether the plan is for the types of parameters, those in subqueries too.
            sorts_whole: whether rows are sorted in one partition.
            partitions: of the plan.
            without: rules of the optimiser to remove, besides those with wrong answers.
            reorders_joins: whether the sides of joins are exchanged by their numbers of rows.
            joins_values: whether all subqueries that stand for values become joins.
        """
        config = (
            SessionConfig()
            .with_target_partitions(partitions or self.partitions)
            .with_information_schema(enabled=True)
            .with_default_catalog_and_schema(CATALOG, MAIN_SCHEMA)
            .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
            # DataFusion 55 is not consistent about whether `x IS TRUE` is nullable.
            .set("datafusion.execution.skip_physical_aggregate_schema_check", "true")
            # Without it, now() and zoned literals have no zone, and comparisons with zoned columns are wrong.
            .set("datafusion.execution.time_zone", "+00:00")
            # Reordering applies filters above an outer join to the other input.
            .set("datafusion.optimizer.join_reordering", str(reorders_joins).lower())
            # It loses fields of structs in keys of joins.
            .set("datafusion.optimizer.enable_leaf_expression_pushdown", "false")
            # Comparisons of constants that are not folded would be evaluated by leaves, by Python's rules.
            .set("datafusion.optimizer.max_passes", "16")
        )
        if sorts_whole:
            config = config.set("datafusion.optimizer.repartition_sorts", "false")
        if typing or joins_values:
            # Subqueries become joins, which the bindings show, with their parameters.
            config = config.set(KEEPS_SUBQUERIES, "false")
        runtime = None
        if self.memory_bytes is not None:
            runtime = RuntimeEnvBuilder().with_fair_spill_pool(self.memory_bytes)
        context = SessionContext(config, runtime)
        for rule in (*WRONG_RULES, *(_LOSING_RULES if typing else ()), *without):
            context.remove_optimizer_rule(rule)
        return context
