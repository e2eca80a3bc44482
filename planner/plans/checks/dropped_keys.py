"""DISTINCT, and keys of GROUP BY, that DataFusion 55 leaves out although they make a difference.

    SELECT DISTINCT a FROM (SELECT q.a, u.b FROM (SELECT DISTINCT a FROM t) q CROSS JOIN u GROUP BY q.a, u.b)

What is unique in one input of a join, the keys of a GROUP BY or a row_number(), is taken for unique in the
groups of its result, where it is one of several keys. Such statements are refused, with what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from datafusion import DataFrame, SessionContext
from datafusion.expr import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Projection,
    Sort,
    SubqueryAlias,
    Union,
    WindowExpr,
)
from datafusion.plan import LogicalPlan
from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.plan_reading import every_node, output_name, strip_aliases
from lance_gateway.planner.sql.tree.dialect import find_query, parse_query

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
_UNIQUE: Final = (Aggregate, Distinct, WindowExpr)
_DISTINCT: Final = (
    "SELECT DISTINCT of what is unique in one input of a join, and one of the groups of its result, is not "
    "supported, since DataFusion would leave DISTINCT out: write GROUP BY with the same columns in its place"
)
_KEYS: Final = (
    "GROUP BY of what is unique in one input of a join, and a key of the groups of its result, is not "
    "supported, since DataFusion would leave other keys out: group the result of the join once, or by an "
    "expression, as in GROUP BY a + 0, b"
)


def refuse_dropped_keys(frame: DataFrame, sql: str | None, unpruned: Callable[[], LogicalPlan]) -> None:
    """Look whether a DISTINCT, or a key of GROUP BY, has become nothing.

    Args:
        frame: the statement's.
        sql: its text, which tells keys that DataFusion has added to those that stand there; None if there is
            none, and the plan has no others.
        unpruned: gives the same plan optimised without the rule that leaves keys out, together with columns
            that nobody reads.

    Raises:
        UnsupportedError: one has.
    """
    nodes = [(one, one.to_variant()) for one in every_node(frame.logical_plan())]
    suspects = [(one, node) for one, node in nodes if any(map(_groups_a_join, one.inputs()))]
    if any(isinstance(node, Distinct) and _is_dropped_wrongly(one) for one, node in suspects):
        raise UnsupportedError(_DISTINCT)
    if not any(isinstance(node, Aggregate) and len(node.group_by_exprs()) > 1 for _, node in suspects):
        return
    groups = _groups(frame.optimized_logical_plan())
    if sum(map(len, groups)) >= sum(map(len, _groups(unpruned()))):
        return
    # Those of subqueries come first in the text, and last in a plan.
    written = [keys for _, node in nodes if isinstance(node, Aggregate) and (keys := _key_names(node))]
    counts = [] if sql is None else _key_counts(sql)[::-1]
    for place, keys in enumerate(written):
        own = set(keys[: counts[place] if len(counts) == len(written) else len(keys)])
        found = next((group for group in groups if own <= set(group)), None)
        if found is not None:
            groups.remove(found)
        elif len(own) > 1:
            raise UnsupportedError(_KEYS)


def _groups_a_join(plan: LogicalPlan) -> bool:
    """Whether a plan has groups of a join with an input whose rows are known to be unique."""
    return any(
        isinstance(node.to_variant(), Aggregate | Distinct) and any(map(_joins_unique, every_node(node)))
        for node in every_node(plan)
    )


def _joins_unique(plan: LogicalPlan) -> bool:
    return isinstance(plan.to_variant(), Join) and any(
        isinstance(node.to_variant(), _UNIQUE) for node in every_node(plan)
    )


def _groups(plan: LogicalPlan) -> list[list[str]]:
    """The names of the keys of aggregates that have any, as a DISTINCT has that is not left out."""
    nodes = (node.to_variant() for node in every_node(plan))
    keys = (_key_names(node) for node in nodes if isinstance(node, Aggregate))
    return [names for names in keys if names]


def _key_names(node: Aggregate) -> list[str]:
    return [output_name(strip_aliases(key)) for key in node.group_by_exprs()]


def _is_dropped_wrongly(distinct: LogicalPlan) -> bool:
    (source,) = distinct.inputs()
    if isinstance(source.to_variant(), Union):
        return False  # the rows of a UNION never count as unique
    return _aggregates(distinct) == _aggregates(source) and not _is_unique(source, distinct)


def _is_unique(plan: LogicalPlan, distinct: LogicalPlan) -> bool:
    """Whether the rows have all keys of a GROUP BY or DISTINCT, all of which a dropped DISTINCT has."""
    node = plan.to_variant()
    if isinstance(node, _KEEPS_UNIQUE):
        return _is_unique(plan.inputs()[0], distinct)
    if isinstance(node, Distinct):
        return _count_columns(plan) == _count_columns(distinct)
    if not isinstance(node, Aggregate):
        return False
    keys = node.group_by_exprs()
    is_plain = all(key.variant_name() != "GroupingSet" for key in keys)
    return is_plain and len(keys) == _count_columns(distinct)


def _count_columns(plan: LogicalPlan) -> int:
    return len(_planner().create_dataframe_from_logical_plan(plan).schema())


def _aggregates(plan: LogicalPlan) -> int:
    """How many aggregates there are, as a DISTINCT becomes one that is not left out."""
    planned = _planner().create_dataframe_from_logical_plan(plan).optimized_logical_plan()
    return sum(isinstance(node.to_variant(), Aggregate) for node in every_node(planned))


@cache
def _planner() -> SessionContext:
    """Plans as far as to the decision about DISTINCT."""
    context = SessionContext()
    for rule in _LATER_RULES:
        context.remove_optimizer_rule(rule)
    return context


def _key_counts(sql: str) -> list[int]:
    """Return how many keys the GROUP BY clauses of a text have; DataFusion adds others behind them."""
    root = parse_query(sql[find_query(sql) :])
    groups = [] if root is None else list(root.find_all(exp.Group))
    return [len(group.expressions) for group in sorted(groups, key=_find_place)]


def _find_place(node: exp.Expr) -> int:
    return min((one.meta["start"] for one in node.walk() if "start" in one.meta), default=0)
