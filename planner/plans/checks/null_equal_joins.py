"""Joins by `IS NOT DISTINCT FROM` to which DataFusion 54 adds keys of `=`, for which NULL then equals NULL.

    SELECT * FROM t JOIN u ON t.n IS NOT DISTINCT FROM u.n WHERE t.s = u.s

A condition above the join moves into it, and is made a key by a rule that does not look how the join compares
its keys. Without the rule, both are conditions on pairs of rows.
"""

from __future__ import annotations

import re
from typing import Final

from datafusion.expr import Join
from datafusion.plan import LogicalPlan

from planner.bridge.plan_reading import every_node, subquery_plans

NULL_SAFE: Final = re.compile(r"\bdistinct\s+from\b", re.IGNORECASE)
"""Texts that may have such joins."""
KEY_RULE: Final = "extract_equijoin_predicate"
"""The rule that makes keys of conditions."""


def has_null_equal_keys(plan: LogicalPlan, at_least: int = 2) -> bool:
    """Return whether a join takes NULL for equal, and has so many keys: of several, one may come from `=`."""
    nodes = (node.to_variant() for one in (plan, *subquery_plans(plan)) for node in every_node(one))
    return any(
        isinstance(node, Join) and node.null_equals_null() and len(node.on()) >= at_least for node in nodes
    )
