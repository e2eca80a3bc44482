"""What DataFusion 55 plans wrongly, and no rule rewrites, is refused here.

Rules rewrite statements. These checks cover what a rule cannot decide before the statement is planned:
columns that are named without their relation, names of windows, and fractions of seconds that are lost. Each
check is skipped for statements whose words, or whose columns, show that it does not apply. The words are
those of the text for DataFusion, with views expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa
from datafusion import DataFrame
from datafusion.expr import Join, Projection, WindowExpr
from datafusion.plan import LogicalPlan
from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.plan_reading import (
    Expression,
    every_node,
    literal_value,
    output_name,
    strip_aliases,
    subquery_plans,
)
from lance_gateway.planner.plans.checks.coarse_instants import (
    instants_of,
    may_lose_fractions,
    refuse_lost_fractions,
)
from lance_gateway.planner.sql.tree.dialect import find_query, parse_expression, parse_query, write_sql


def refuse_misleading_names(written: LogicalPlan) -> None:
    """Look for names of columns that DataFusion takes for a window of the statement.

        SELECT count(1) OVER (PARTITION BY k), n AS "count(Int64(1)) PARTITION BY [t.k] ROWS .." FROM t
        ORDER BY 2

    It refers to what a window computes by the text of its expression. A column that is called so is mistaken
    for it, in orders by its number for example.

    Args:
        written: the plan, not optimised.

    Raises:
        UnsupportedError: there is one.
    """
    nodes = [node.to_variant() for node in every_node(written)]
    windows = {
        output_name(call) for node in nodes if isinstance(node, WindowExpr) for call in node.get_window_expr()
    }
    for node in nodes:
        for expression in node.projections() if windows and isinstance(node, Projection) else ():
            name, inner = output_name(expression), strip_aliases(expression)
            if name in windows and output_name(inner) != name:
                msg = (
                    f"A column can't be called {name!r} beside another that DataFusion calls so: choose "
                    "another name"
                )
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


_HIDING: Final = re.compile(r"\b(?:filter|within|range)\b|\border\s+by\b", re.IGNORECASE)
"""What a text has that may hide operands."""
_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def show_hidden_operands(sql: str) -> str:
    """Show the operands that DataFusion's bindings hide: of FILTER, of orders in aggregates, of frames.

        SELECT count(*) FILTER (WHERE at > '2024-02-29') FROM t
    ->  SELECT count(CASE WHEN (at > '2024-02-29') THEN 1 END) FILTER(WHERE at > '2024-02-29') FROM t
        SELECT array_agg(id ORDER BY at DESC) FROM t
    ->  SELECT array_agg(CASE WHEN NOT at IS NULL THEN id END ORDER BY at DESC) FROM t
        sum(n) OVER (ORDER BY at RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)
    ->  sum(n) OVER (ORDER BY at + INTERVAL '1 day' RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)

    Returns:
        A statement of the same types, which is planned to look at what it computes, and not run; the same one
        where nothing is hidden.
    """
    if not _HIDING.search(sql):
        return sql  # without parsing it
    start = find_query(sql)
    root = parse_query(sql[start:])
    if root is None:
        return sql
    found = [_show_operands(call) for call in list(root.find_all(exp.Anonymous))[::-1]]
    found += [_show_bounds(window) for window in root.find_all(exp.Window)]
    return sql[:start] + write_sql(root) if any(found) else sql


def _show_operands(call: exp.Anonymous) -> bool:
    """Let the first argument of an aggregate depend on what is beside it; return whether there is any."""
    orders = [one for one in call.expressions if isinstance(one, exp.Order)]
    conditions, argument, node = [], next(iter(call.expressions), None), call.parent
    while isinstance(node, _AROUND):
        if isinstance(node, exp.Filter):
            conditions.append(f"({write_sql(node.expression.this)})")
        elif isinstance(node, exp.WithinGroup):
            orders.append(node.expression)
            argument = node.expression.expressions[0].this
        node = node.parent
    conditions += [f"({write_sql(key.this)}) IS NOT NULL" for order in orders for key in order.expressions]
    while isinstance(argument, exp.Order | exp.Distinct):
        argument = argument.this or argument.expressions[0]
    if not conditions or argument is None:
        return False
    value = "1" if isinstance(argument, exp.Star) else write_sql(argument)
    argument.replace(parse_expression(f"CASE WHEN {' AND '.join(conditions)} THEN {value} END"))
    return True


def _show_bounds(window: exp.Window) -> bool:
    """Add the intervals of RANGE to the order of a window; return whether there are any."""
    frame, order = window.args.get("spec"), window.args.get("order")
    if frame is None or order is None or frame.args.get("kind") != "RANGE":
        return False
    bounds = [frame.args.get(end) for end in ("start", "end")]
    intervals = [write_sql(bound) for bound in bounds if isinstance(bound, exp.Interval)]
    key = order.expressions[0].this
    if intervals:
        key.replace(parse_expression(" + ".join((write_sql(key), *intervals))))
    return bool(intervals)


def _refuse_memberships(frame: DataFrame) -> None:
    plan = frame.optimized_logical_plan()
    refuse_memberships_of_rows(plan)
    for one in subquery_plans(plan):  # each beside a row
        refuse_memberships_of_rows(one.inputs()[0].inputs()[1])


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_CHECKS: Final[tuple[tuple[re.Pattern[str], Callable[[DataFrame], None]], ...]] = (
    (_words(r"\bnullif\b.*\bselect\b"), _refuse_memberships),
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
    sql: str,
    schemas: Iterable[pa.Schema],
    replan: Callable[[str], DataFrame],
) -> None:
    """Refuse a statement that would be answered wrongly.

    Args:
        frame: the planned statement.
        sql: its text.
        schemas: of the tables that it reads.
        replan: plans another text in its place.

    Raises:
        UnsupportedError: it would be; the text tells what to write in its place.
    """
    for words, check in _CHECKS:
        if words.search(sql):
            check(frame)
    instants = instants_of(schemas)
    if instants and may_lose_fractions(sql, instants):
        refuse_lost_fractions(frame)
        shown = show_hidden_operands(sql)
        if shown != sql:
            refuse_lost_fractions(replan(shown))
