"""Shows the operands that DataFusion's bindings hide: of FILTER, of orders in aggregates, of frames.

    SELECT count(*) FILTER (WHERE at > '2024-02-29') FROM t
->  SELECT count(CASE WHEN (at > '2024-02-29') THEN 1 END) FILTER(WHERE at > '2024-02-29') FROM t
    SELECT array_agg(id ORDER BY at DESC) FROM t
->  SELECT array_agg(CASE WHEN NOT at IS NULL THEN id END ORDER BY at DESC) FROM t
    sum(n) OVER (ORDER BY at RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)
->  sum(n) OVER (ORDER BY at + INTERVAL '1 day' RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)

The statement has the same types then, and is planned to look at what it computes. It is not run.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from lance_gateway.planner.sql.tree.dialect import find_query, parse_expression, parse_query, write_sql

_HIDING: Final = re.compile(r"\b(?:filter|within|range)\b|\border\s+by\b", re.IGNORECASE)
"""What a text has that may hide operands."""
_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def show_hidden_operands(sql: str) -> str:
    """Return a statement whose plan shows all that it computes; the same where nothing is hidden."""
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
