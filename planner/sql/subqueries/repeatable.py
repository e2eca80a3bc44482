"""Tells whether relations give the same rows whenever they are read, so that they may be read twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from sqlglot import exp

from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.subqueries.trees import is_series, is_volatile, key_of

REPEATABLE: Final = "repeatable"
"""Of a relation that gives the same rows whenever it is read, though it has LIMIT."""
READ_ONCE: Final = "read once"
"""Of a table whose rows are computed whenever they are read, as those of a search."""
_INEXACT: Final = frozenset(
    {"sum", "avg", "mean", "array_agg", "string_agg", "median", "stddev", "stddev_pop", "stddev_samp", "var"}
    | {"var_pop", "var_population", "var_samp", "var_sample", "variance", "corr", "covar", "covar_pop"}
    | {"covar_samp", "first_value", "last_value", "nth_value", "approx_distinct", "approx_median"}
    | {"approx_percentile_cont", "approx_percentile_cont_with_weight", "percentile_cont", "quantile_cont"}
    | {
        "regr_avgx",
        "regr_avgy",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
    }
)
"""Aggregates that may depend on the order in which rows come."""


def check_repeatable(
    relations: Collection[exp.Expr], columns: Collection[str], commons: Mapping[str, exp.Query]
) -> None:
    """Check relations whose columns are read twice, and compared.

    Args:
        relations: of a FROM clause.
        columns: names of the columns.
        commons: the common table expressions of the statement.

    Raises:
        RewritingError: rows or values may differ.
    """
    seen: set[str] = set()
    waiting = list(relations)
    while waiting:
        relation = waiting.pop()
        if relation.meta.get(REPEATABLE) or (
            isinstance(relation, exp.Join) and relation.this.meta.get(REPEATABLE)
        ):
            continue
        for table in relation.find_all(exp.Table):
            is_call = isinstance(table.this, exp.Anonymous) and not is_series(table)
            if is_call or table.meta.get(READ_ONCE):
                msg = f"the rows of {table.alias_or_name} would be read twice: write them into a table first"
                raise RewritingError(msg)
            if table.name in commons and not table.db and table.name not in seen:
                seen.add(table.name)
                waiting.append(commons[table.name])
        if is_volatile(relation):
            msg = "a relation whose rows change whenever it is read would be read twice"
            raise RewritingError(msg)
        limits = relation.find_all(exp.Limit, exp.Offset, exp.Fetch)
        if (
            not all(_is_determined(one.parent) for one in limits)
            or relation.find(exp.Window)
            or any(one.args.get("on") for one in relation.find_all(exp.Distinct))
        ):
            msg = (
                "a relation with DISTINCT ON, OVER, or LIMIT without an order by all of its columns would be "
                "read twice"
            )
            raise RewritingError(msg)
        _check_values(relation, columns)


def _is_determined(query: exp.Expr | None) -> bool:
    """Return whether a query with LIMIT is ordered by all of its outputs, so that it leaves no choice."""
    if not isinstance(query, exp.Query) or not query.args.get("order"):
        return False
    first: exp.Expr = query
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    keys = [one.this for one in query.args["order"].expressions]
    places = {one.this for one in keys if isinstance(one, exp.Literal)}
    texts = {key_of(one) for one in keys} | {one.name for one in keys if isinstance(one, exp.Column)}
    items = first.expressions if isinstance(first, exp.Select) else []
    return bool(items) and all(
        str(place) in places
        or item.alias_or_name in texts
        or key_of(item.this if isinstance(item, exp.Alias) else item) in texts
        for place, item in enumerate(items, start=1)
    )


def _check_values(relation: exp.Expr, columns: Collection[str]) -> None:
    for item in relation.find_all(exp.Alias):
        if item.alias in columns:
            for call in item.find_all(exp.Anonymous):
                name = call.name.lower()
                if name in _INEXACT:
                    msg = f"{name} may differ in its last digits where it is computed twice"
                    raise RewritingError(msg)
