"""What DataFusion 54 plans wrongly: each kind has a module, and all are looked for here.

Most statements can be told by their words to have none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from datafusion import DataFrame
from datafusion.expr import Join
from datafusion.plan import LogicalPlan

from memwal.errors import UnsupportedError
from planner.bridge.plan_reading import every_node
from planner.plans.checks.coarse_instants import may_lose_fractions, refuse_lost_fractions
from planner.plans.checks.dropped_keys import may_drop_keys, refuse_dropped_keys
from planner.plans.checks.emptied_aggregates import EMPTIED, empties_aggregates, may_empty_aggregates
from planner.plans.checks.grouping_sets import may_have_totals, refuse_constant_keys
from planner.plans.checks.misplanned_joins import may_have_such_joins, refuse_misplanned_joins

__all__ = ["MOVING_RULE", "must_not_move", "refuse_mistaken_plan"]

MOVING_RULE = "push_down_filter"
"""The rule that moves conditions below other operators."""

Without = Callable[[str], LogicalPlan]
"""Gives the optimised plan of a statement, made without a rule."""


def refuse_mistaken_plan(
    frame: DataFrame, sql: str | None, schemas: Iterable[pa.Schema], without: Without
) -> None:
    """Look whether a statement would be answered wrongly.

    Args:
        frame: the planned statement.
        sql: its text; None if there is none, and everything is looked for.
        schemas: of the tables that it reads.
        without: plans it otherwise.

    Raises:
        UnsupportedError: it would be; the text tells what to write in its place.
    """
    if sql is None or may_have_such_joins(sql):
        refuse_misplanned_joins(frame.optimized_logical_plan())
    if sql is None or may_have_totals(sql):
        refuse_constant_keys(frame.optimized_logical_plan())
    if sql is None or may_drop_keys(sql):
        refuse_dropped_keys(frame, sql, lambda: without("optimize_projections"))
    if may_lose_fractions(sql, schemas):
        refuse_lost_fractions(frame)


def must_not_move(frame: DataFrame, sql: str | None, without: Without, *, is_fixed: bool) -> bool:
    """Whether a statement is answered rightly only where conditions stay where they are.

    Args:
        frame: the planned statement.
        sql: its text; None if there is none.
        without: plans it otherwise.
        is_fixed: whether it can be planned in no other way.

    Raises:
        UnsupportedError: it is not answered rightly there, either: DataFusion then takes columns of one side
            of a join for those of the other.
    """
    if sql is not None and not may_empty_aggregates(sql, frame.logical_plan()):
        return False
    plan = frame.optimized_logical_plan()
    if not empties_aggregates(plan, sql, lambda: without(MOVING_RULE)):
        return False
    if is_fixed or any(isinstance(one.to_variant(), Join) for one in every_node(plan)):
        raise UnsupportedError(EMPTIED)
    return True
