"""What DataFusion 55 plans wrongly: each kind has a module, and all are looked for here.

Most statements can be told by their words, or by the columns of their tables, to have none of them: no module
is entered for these. The words are those of the text for DataFusion, with views expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa
from datafusion import DataFrame

from lance_gateway.planner.bridge.plan_reading import subquery_plans
from lance_gateway.planner.plans.checks.coarse_instants import (
    instants_of,
    may_lose_fractions,
    refuse_lost_fractions,
)
from lance_gateway.planner.plans.checks.hidden_operands import show_hidden_operands
from lance_gateway.planner.plans.checks.joins import refuse_constant_sides, refuse_memberships_of_rows
from lance_gateway.planner.plans.checks.misleading_names import refuse_misleading_names


def _refuse_memberships(frame: DataFrame) -> None:
    plan = frame.optimized_logical_plan()
    refuse_memberships_of_rows(plan)
    for one in subquery_plans(plan):  # each beside a row
        refuse_memberships_of_rows(one.inputs()[0].inputs()[1])


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_CHECKS: Final[tuple[tuple[re.Pattern[str], Callable[[DataFrame], None]], ...]] = (
    (_words(r"\bnullif\b.*\bselect\b"), _refuse_memberships),
    (_words(r"\bjoin\b"), lambda frame: refuse_constant_sides(frame.logical_plan())),
    (
        _words(r'\A(?:[^"]*"[^"(]*")*[^"]*"[^"(]*\('),
        lambda frame: refuse_misleading_names(frame.logical_plan()),
    ),
)
"""What stands in a text that may be planned wrongly, and what looks whether it is."""
SUSPECT: Final = _words("|".join(f"(?:{words.pattern})" for words, _ in _CHECKS))
"""What a text has that may be planned wrongly, unless there are timestamps in its tables."""


def check_plan(
    frame: DataFrame,
    sql: str | None,
    schemas: Iterable[pa.Schema],
    replan: Callable[[str], DataFrame],
) -> None:
    """Refuse a statement that would be answered wrongly.

    Args:
        frame: the planned statement.
        sql: its text; None if there is none, and everything is looked for.
        schemas: of the tables that it reads.
        replan: plans another text in its place.

    Raises:
        UnsupportedError: it would be; the text tells what to write in its place.
    """
    for words, check in _CHECKS:
        if sql is None or words.search(sql):
            check(frame)
    instants = instants_of(schemas)
    if instants and may_lose_fractions(sql, instants):
        refuse_lost_fractions(frame)
        shown = show_hidden_operands(sql or "")
        if sql is not None and shown != sql:
            refuse_lost_fractions(replan(shown))
