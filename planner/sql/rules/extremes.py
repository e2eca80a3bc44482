"""min() and max() of groups, and counts of frames."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from planner.sql.rules.dialect import parse_expression, write_sql
from planner.sql.rules.queries import whole_call
from planner.sql.rules.tree import Tree, find_family, for_texts, is_unstable

_LEAST: Final = "CAST('-inf' AS DOUBLE)"
_GREATEST: Final = "CAST('inf' AS DOUBLE)"


@for_texts(r"\b(?:min|max|count)\b", r"\bgroup\b|\bover\b.*\b(?:rows|range|groups)\b")
def extremes(tree: Tree) -> None:
    """Compute the extremes of numbers in groups from those without NaN, and hide what counts a frame.

        SELECT k, max(f) FROM t GROUP BY k
    ->  SELECT k, coalesce(max(CASE WHEN isnan(f) THEN f END),
            max(CASE WHEN f > CAST('-inf' AS DOUBLE) THEN f END),
            min(CASE WHEN NOT isnan(f) THEN f END)) FROM t GROUP BY k
        SELECT count(*) OVER (PARTITION BY k ORDER BY id ROWS 2 PRECEDING) AS n FROM t ORDER BY n
    ->  SELECT nullif(count(*) OVER (PARTITION BY k ORDER BY id ROWS 2 PRECEDING), NULL) AS n FROM t
        ORDER BY n

    In DataFusion, NaN replaces every extreme of a group and is replaced by everything, so that they depend on
    the order of the rows. It is the greatest number here, as in comparisons and in sorting. An extreme of a
    group begins with the greatest or smallest finite number, which stays where nothing but infinity follows;
    the other extreme is right there. What counts the rows of a frame that leaves rows behind is taken for
    what only grows, and not sorted: of a call, nothing is known.
    """
    for node in list(tree.root.find_all(exp.Anonymous, exp.Window))[::-1]:
        if isinstance(node, exp.Window):
            call = node.this.this if isinstance(node.this, exp.Filter) else node.this
            if call.name.lower() == "count" and _leaves_rows(node):
                tree.replace(node, parse_expression(f"nullif({write_sql(node)}, NULL)"))
            continue
        select = node.parent_select
        if node.name.lower() not in {"min", "max"} or not isinstance(select, exp.Select):
            continue
        whole = whole_call(node)
        if (
            len(node.expressions) == 1
            and select.args.get("group")
            and not isinstance(whole.parent, exp.Window)
        ):
            (argument,) = node.expressions
            if isinstance(argument, exp.Distinct):
                (argument,) = argument.expressions
            guess = tree.guess_families(argument)
            if guess is not None and "floating" not in guess:
                continue
            kind = tree.find_type(argument)
            if kind is not None and find_family(kind) == "floating":
                tree.replace(whole, _write_extreme(node.name.lower(), argument, whole))


def _write_extreme(name: str, argument: exp.Expr, whole: exp.Expr) -> exp.Expr:
    """Return an extreme of a group in which NaN is the greatest number."""
    value = write_sql(argument)
    rows = f" FILTER ({write_sql(whole.expression).strip()})" if isinstance(whole, exp.Filter) else ""
    if is_unstable(argument) or argument.find(exp.Query):
        direction = " DESC" if name == "max" else ""
        return parse_expression(f"first_value({value} ORDER BY {value}{direction} NULLS LAST){rows}")
    is_nan, is_number = f"isnan({value})", f"NOT isnan({value})"
    if name == "max":
        parts = [("max", is_nan), ("max", f"({value}) > {_LEAST}"), ("min", is_number)]
    else:
        parts = [("min", f"({value}) < {_GREATEST}"), ("max", is_number), ("min", is_nan)]
    calls = (f"{function}(CASE WHEN {when} THEN {value} END){rows}" for function, when in parts)
    return parse_expression(f"coalesce({', '.join(calls)})")


def _leaves_rows(window: exp.Window) -> bool:
    """Return whether the beginning of a frame leaves rows behind."""
    frame, select = window.args.get("spec"), window.parent_select
    if frame is None and window.alias and select is not None:
        named = select.args.get("windows") or ()
        frame = next((one.args.get("spec") for one in named if one.this.name == window.alias), None)
    return frame is not None and frame.args.get("start") != "UNBOUNDED"
