"""DISTINCT that DataFusion 54 leaves out although there are duplicates.

    SELECT DISTINCT q.a FROM (SELECT a, count(*) FROM t GROUP BY a) q CROSS JOIN u

What is unique in one input of a join, the keys of a GROUP BY or a row_number(), is taken for unique in the
result. GROUP BY in place of DISTINCT is right, so the statement is refused with this advice.
"""

from __future__ import annotations

import re
from typing import Final

from datafusion import DataFrame
from datafusion.expr import Aggregate, Distinct, Join
from datafusion.plan import LogicalPlan

from memwal.errors import UnsupportedError
from planner.search.plan_reading import every_node

__all__ = ["may_drop_distinct", "refuse_dropped_distinct"]

_WORD: Final = re.compile(r"\bdistinct\b", re.IGNORECASE)


def may_drop_distinct(sql: str) -> bool:
    """Whether a text can have a DISTINCT at all."""
    return _WORD.search(sql) is not None


def refuse_dropped_distinct(frame: DataFrame) -> None:
    """Look whether a DISTINCT of a join has become nothing.

    Raises:
        UnsupportedError: one has.
    """
    written = [one for one in every_node(frame.logical_plan()) if isinstance(one.to_variant(), Distinct)]
    joined = sum(any(isinstance(one.to_variant(), Join) for one in every_node(each)) for each in written)
    if not joined:
        return
    needed = _groupings(frame.logical_plan()) + joined
    if _groupings(frame.optimized_logical_plan()) < needed:
        msg = (
            "SELECT DISTINCT of what is unique in one input of a join is not offered, since DataFusion would "
            "leave DISTINCT out: write GROUP BY with the same columns in its place"
        )
        raise UnsupportedError(msg)


def _groupings(plan: LogicalPlan) -> int:
    """How many aggregates have groups, as a DISTINCT has that is not left out."""
    nodes = (one.to_variant() for one in every_node(plan))
    return sum(isinstance(one, Aggregate) and bool(one.group_by_exprs()) for one in nodes)
