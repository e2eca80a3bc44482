"""Statements whose order DataFusion 54 loses: by what is no output, beside a subquery that is a value.

    SELECT id FROM t WHERE id > (SELECT min(id) FROM t) ORDER BY b

The plan of the subquery stands beside that of the statement, which then counts as one whose order nobody
asked for. A limit that no result reaches keeps it. Such a sort does not spill to disk.
"""

from __future__ import annotations

import re
from typing import Final

from datafusion.expr import Analyze, Explain, Limit, Projection, Sort, SubqueryAlias
from datafusion.plan import LogicalPlan

from planner.bridge.plan_reading import has_values

ORDERED_VALUES: Final = re.compile(
    r"\A(?=.*\(\s*(?:select|with|values)\b).*\border\s+by\b", re.IGNORECASE | re.DOTALL
)
"""What a text with subqueries and an order has."""
EVERY_ROW: Final = "\nLIMIT 4611686018427387903"
"""What a statement ends with to keep its order; there may be an OFFSET before it, which is added to it."""


_HIDDEN: Final = re.compile(r"\bfilter\b", re.IGNORECASE)
"""What a text with subqueries has that plans do not show."""


def loses_order(optimized: LogicalPlan, text: str) -> bool:
    """Whether a statement sorts by what is no output, and has subqueries that are values.

    Args:
        optimized: its plan.
        text: it has an order and subqueries.
    """
    node, projects = optimized, False
    if isinstance(node.to_variant(), Explain | Analyze):
        (node,) = node.inputs()
    while isinstance(variant := node.to_variant(), Limit | Projection | SubqueryAlias):
        projects = projects or isinstance(variant, Projection)
        (node,) = node.inputs()
    if not (projects and isinstance(variant, Sort)) or variant.get_fetch_val() is not None:
        return False
    return _HIDDEN.search(text) is not None or has_values(optimized)
