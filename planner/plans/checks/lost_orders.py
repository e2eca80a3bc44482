"""Statements whose order DataFusion 54 loses: by what is no output, beside a subquery that is a value.

    SELECT id FROM t WHERE id > (SELECT min(id) FROM t) ORDER BY b

The plan of the subquery stands beside that of the statement, which then counts as one whose order nobody
asked for. A limit that no result reaches keeps it. Such a sort does not spill to disk.
"""

from __future__ import annotations

import re
from typing import Final

from datafusion import DataFrame
from datafusion.expr import Analyze, Explain, Limit, Projection, Sort, SubqueryAlias

from planner.bridge.plan_reading import has_values
from planner.sql.edits import Edit, apply_edits
from planner.sql.references import QUERY_STARTS
from planner.sql.tokens import tokenize

_ORDERED_VALUES: Final = re.compile(
    r"\A(?=.*\(\s*(?:select|with|values)\b).*\border\s+by\b", re.IGNORECASE | re.DOTALL
)
"""What a text with subqueries and an order has."""
_EVERY_ROW: Final = 1 << 62
"""More rows than there are; an OFFSET, which is added to it, keeps it in 64 bits."""
_HIDDEN: Final = re.compile(r"\bfilter\b", re.IGNORECASE)
"""What a text with subqueries has that plans do not show."""


def loses_order(frame: DataFrame, text: str) -> bool:
    """Whether a statement sorts by what is no output, and has subqueries that are values.

    Args:
        frame: its plan.
        text: of it.
    """
    if not _ORDERED_VALUES.search(text):
        return False
    try:
        optimized = frame.optimized_logical_plan()
    except Exception:  # noqa: BLE001 - the run raises the error
        return False
    node, projects = optimized, False
    if isinstance(node.to_variant(), Explain | Analyze):
        (node,) = node.inputs()
    while isinstance(variant := node.to_variant(), Limit | Projection | SubqueryAlias):
        projects = projects or isinstance(variant, Projection)
        (node,) = node.inputs()
    if not (projects and isinstance(variant, Sort)) or variant.get_fetch_val() is not None:
        return False
    return _HIDDEN.search(text) is not None or has_values(optimized)


def keep_order(sql: str) -> str:
    """Return a statement whose query has a limit of its own; it may have another one, such as LIMIT ALL."""
    text = tokenize(sql)
    # EXPLAIN and its options come before the query.
    first = next(i for i, word in enumerate(text.words) if word in QUERY_STARTS or word == "(")
    begin, end = text.start(first), text.end(len(text.tokens) - 1)
    return apply_edits(sql, Edit.wrap(begin, end, "(", f") LIMIT {_EVERY_ROW}"))
