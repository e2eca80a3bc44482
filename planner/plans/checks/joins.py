"""Conditions of joins that DataFusion 55 plans wrongly, and that no rule can rewrite.

Rules rewrite statements. Conditions of Substrait plans, and columns that are named without their relation,
are left to these checks.
"""

from __future__ import annotations

from typing import Final

from datafusion.expr import Join
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.plan_reading import (
    Expression,
    every_node,
    literal_value,
    split_conjuncts,
)

_COMPARISONS: Final = frozenset({"=", "<", ">", "<=", ">="})


def refuse_constant_sides(plan: LogicalPlan) -> None:
    """Look for conditions of joins with a constant on the left, which `constant_sides` has left or not seen.

    Args:
        plan: as it is written.

    Raises:
        UnsupportedError: there is one.
    """
    for one in every_node(plan):
        node = one.to_variant()
        condition = node.filter() if isinstance(node, Join) else None
        for conjunct in [] if condition is None else split_conjuncts(condition):
            if conjunct.variant_name() != "BinaryExpr":
                continue
            comparison = conjunct.to_variant()
            sides = comparison.left().variant_name(), comparison.right().variant_name()
            if sides == ("Literal", "Column") and comparison.op() in _COMPARISONS:
                msg = "A comparison in a condition of a join has a constant on the left: exchange its sides"
                raise UnsupportedError(msg)


def refuse_memberships_of_rows(plan: LogicalPlan) -> None:
    """Look for a NOT IN that `quantified_comparisons` has marked, and that reads columns of the outer query.

        SELECT id FROM t WHERE id NOT IN (SELECT k FROM u WHERE g < n)

    DataFusion counts the NULLs of all rows of the subquery, and not only of those that belong to the row.

    Args:
        plan: optimised.

    Raises:
        UnsupportedError: there is one.
    """
    for one in every_node(plan):
        node = one.to_variant()
        if not isinstance(node, Join) or node.filter() is None:
            continue
        for key, _ in node.on():
            if _is_kept(key) and _is_kept(key.rex_call_operands()[0]):
                msg = (
                    "NOT IN with a subquery that reads columns of the outer query is not supported unless "
                    "they are qualified: write the name of their relation, as in "
                    "NOT IN (SELECT k FROM u WHERE g < t.n)"
                )
                raise UnsupportedError(msg)


def _is_kept(expression: Expression) -> bool:
    """Whether it is nullif(.., NULL)."""
    if expression.variant_name() != "ScalarFunction" or expression.rex_call_operator() != "nullif":
        return False
    second = expression.rex_call_operands()[-1]
    return second.variant_name() == "Literal" and literal_value(second) is None
