"""Subqueries that are left in a plan, which DataFusion 55 does not run.

    SELECT id, (SELECT count(*) FROM items WHERE items.n < orders.n) FROM orders

Optimizing makes joins of the others. A subquery that stands for a value, and reads no columns of the query
around it, is run as it is: with another option, the optimizer makes a join of it, too, and it is not left.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from datafusion import DataFrame
from datafusion.expr import Subquery, SubqueryAlias
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge import plan_reading
from lance_gateway.planner.bridge.plan_reading import every_node

NESTED: Final = re.compile(r"\bselect\b.*\bselect\b", re.IGNORECASE | re.DOTALL)
"""A text that may have subqueries."""
INVOLVED: Final = re.compile(
    r"\b(?:join|group|over|filter|union|except|intersect)\b|\bselect\b.*\bselect\b.*\bselect\b",
    re.IGNORECASE | re.DOTALL,
)
"""A text whose subqueries may read columns that are out of their reach in a plan."""
_VALUES: Final = frozenset({"ScalarSubquery"})
_UNPLANNED: Final = frozenset({"Exists", "InSubquery", "SetComparison", "Outer"})
_JOINED: Final = ("__correlated_sq_", "__scalar_sq_")
"""How DataFusion calls the relations that it makes of subqueries."""
UNPLANNED: Final = (
    "the statement has subqueries that DataFusion does not run: join their rows, grouped by what they are "
    "compared with, in their place"
)


class UnplannedSubqueryError(UnsupportedError):
    """DataFusion does not run a subquery of the statement."""


def refuse_unplanned_subqueries(frame: DataFrame, with_values_joined: Callable[[], LogicalPlan]) -> None:
    """Refuse a plan with subqueries that can't be run.

    Args:
        frame: the plan.
        with_values_joined: optimizes it with joins for all subqueries that stand for values.

    Raises:
        UnplannedSubqueryError: there is one.
        Exception: it can't be optimized.
    """
    plan = frame.optimized_logical_plan()
    if any(isinstance(node.to_variant(), Subquery) for node in every_node(plan)):
        raise UnplannedSubqueryError(UNPLANNED)
    if _has_any(plan, _UNPLANNED) or (_has_any(plan, _VALUES) and _has_any(with_values_joined(), _VALUES)):
        raise UnplannedSubqueryError(UNPLANNED)


def has_subqueries(frame: DataFrame) -> bool:
    """Return whether the plan of a statement has subqueries, as it is before it is optimized."""
    plan = frame.logical_plan()
    is_lateral = any(isinstance(node.to_variant(), Subquery) for node in every_node(plan))
    return is_lateral or _has_any(plan, _UNPLANNED | _VALUES)


def has_joined_subqueries(frame: DataFrame) -> bool:
    """Return whether optimizing has made a join of a subquery, or left one that stands for a value.

    If one reads columns of several queries around it, DataFusion finds out that there is no plan too late.
    """
    plan = frame.optimized_logical_plan()
    nodes = (node.to_variant() for node in every_node(plan))
    is_joined = any(isinstance(node, SubqueryAlias) and node.alias().startswith(_JOINED) for node in nodes)
    return is_joined or _has_any(plan, _VALUES)


def _has_any(plan: LogicalPlan, kinds: frozenset[str]) -> bool:
    return any(plan_reading.has_subqueries(node, kinds) for node in every_node(plan))
