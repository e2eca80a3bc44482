"""Extremes of groups that DataFusion 55 finds without an order: NaN and infinity make them wrong.

    SELECT k, max(abs(f)) FROM t GROUP BY k

Those that certainly are of numbers have been mended in the text (`planner.sql.rewrites.extremes`). Of the
others, plans tell the types. Subqueries that stand for values aren't looked at.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from datafusion.expr import Aggregate
from datafusion.plan import LogicalPlan

from planner.bridge.plan_reading import Expression, every_node, schema_of, strip_aliases

_EXTREMES: Final = frozenset({"min", "max"})
EXTREMES_OF_GROUPS: Final = re.compile(r"\A(?=.*\bgroup\b).*\b(?:min|max)\b", re.IGNORECASE | re.DOTALL)
"""What a text with extremes of groups has."""


def has_unordered_extremes(written: LogicalPlan) -> bool:
    """Whether a statement has extremes of groups that may be NaN.

    Args:
        written: its plan, not optimised.
    """
    return any(map(_has_any, every_node(written)))


def _has_any(plan: LogicalPlan) -> bool:
    node = plan.to_variant()
    if not isinstance(node, Aggregate) or not node.group_by_exprs():
        return False
    calls = list(node.aggregate_exprs())
    types = schema_of(plan).types[-len(calls) :] if calls else []
    return any(
        pa.types.is_floating(kind) and _is_extreme(strip_aliases(call))
        for kind, call in zip(types, calls, strict=True)
    )


def _is_extreme(call: Expression) -> bool:
    if call.variant_name() != "AggregateFunction":
        return False
    function = call.to_variant()
    name: str = function.aggregate_type()
    return name in _EXTREMES and not _is_mended(function.args()[0])


def _is_mended(argument: Expression) -> bool:
    """Whether it is CASE WHEN isnan(..), or compared with infinity, as mended ones are, or a constant."""
    if argument.variant_name() == "Literal":
        return True
    if argument.variant_name() != "Case":
        return False
    condition = argument.rex_call_operands()[0]
    if condition.variant_name() == "BinaryExpr":
        bound: Expression = condition.to_variant().right()
        return bool(bound.variant_name() == "Cast")
    if condition.variant_name() == "Not":
        (condition,) = condition.rex_call_operands()
    return bool(condition.variant_name() == "ScalarFunction" and condition.rex_call_operator() == "isnan")
