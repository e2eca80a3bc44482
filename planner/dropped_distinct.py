"""DISTINCT that DataFusion 54 leaves out although there are duplicates.

    SELECT DISTINCT q.a FROM (SELECT a, count(*) FROM t GROUP BY a) q CROSS JOIN u

What is unique in one input of a join, the keys of a GROUP BY or a row_number(), is taken for unique in the
result, and in groups of the result. GROUP BY in place of DISTINCT is right, so the statement is refused with
this advice.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from datafusion import DataFrame, SessionContext
from datafusion.expr import Aggregate, Distinct, Filter, Join, Limit, Projection, Sort, SubqueryAlias, Union
from datafusion.plan import LogicalPlan

from memwal.errors import UnsupportedError
from planner.search.plan_reading import every_node

__all__ = ["may_drop_distinct", "refuse_dropped_distinct"]

_WORD: Final = re.compile(r"\bdistinct\b", re.IGNORECASE)
# DataFusion decides about DISTINCT before it applies these, and in its first pass.
_LATER_RULES: Final = (
    "eliminate_join",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_duplicated_expr",
    "eliminate_filter",
    "eliminate_cross_join",
    "eliminate_limit",
    "propagate_empty_relation",
    "filter_null_join_keys",
    "eliminate_outer_join",
    "push_down_limit",
    "push_down_filter",
    "single_distinct_aggregation_to_group_by",
    "eliminate_group_by_constant",
    "common_sub_expression_eliminate",
    "extract_leaf_expressions",
    "push_down_leaf_projections",
    "optimize_projections",
    "unions_to_filter",
)
# What keeps rows unique that are unique below.
_KEEPS_UNIQUE: Final = (Filter, Limit, Projection, Sort, SubqueryAlias)


def may_drop_distinct(sql: str) -> bool:
    """Whether a text can have a DISTINCT at all."""
    return _WORD.search(sql) is not None


def refuse_dropped_distinct(frame: DataFrame) -> None:
    """Look whether a DISTINCT of a join becomes nothing.

    Raises:
        UnsupportedError: one does.
    """
    for node in every_node(frame.logical_plan()):
        if isinstance(node.to_variant(), Distinct) and _is_dropped_wrongly(node):
            msg = (
                "SELECT DISTINCT of what is unique in one input of a join is not offered, since DataFusion "
                "would leave DISTINCT out: write GROUP BY with the same columns in its place"
            )
            raise UnsupportedError(msg)


def _is_dropped_wrongly(distinct: LogicalPlan) -> bool:
    (source,) = distinct.inputs()
    if isinstance(source.to_variant(), Union):
        return False  # the rows of a UNION never count as unique
    if not any(isinstance(one.to_variant(), Join) for one in every_node(source)):
        return False
    return _aggregates(distinct) == _aggregates(source) and not _is_unique(source, distinct)


def _is_unique(plan: LogicalPlan, distinct: LogicalPlan) -> bool:
    """Whether the rows have all keys of a GROUP BY, of which a dropped DISTINCT has no fewer columns."""
    node = plan.to_variant()
    if isinstance(node, _KEEPS_UNIQUE):
        return _is_unique(plan.inputs()[0], distinct)
    if not isinstance(node, Aggregate):
        return False
    keys = node.group_by_exprs()
    columns = _planner().create_dataframe_from_logical_plan(distinct).schema()
    return len(keys) == len(columns) and all(one.variant_name() != "GroupingSet" for one in keys)


def _aggregates(plan: LogicalPlan) -> int:
    """How many aggregates there are, as a DISTINCT becomes one that is not left out."""
    planned = _planner().create_dataframe_from_logical_plan(plan).optimized_logical_plan()
    return sum(isinstance(one.to_variant(), Aggregate) for one in every_node(planned))


@cache
def _planner() -> SessionContext:
    """Plans as far as to the decision about DISTINCT."""
    context = SessionContext()
    for rule in _LATER_RULES:
        context.remove_optimizer_rule(rule)
    return context
