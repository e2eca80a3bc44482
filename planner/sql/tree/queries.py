"""Questions about the queries in a tree: which are values, what they aggregate, and where conditions are."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from sqlglot import exp

AGGREGATES: Final = frozenset(
    {"count", "sum", "min", "max", "avg", "mean", "bool_and", "bool_or", "array_agg", "string_agg", "median"}
    | {"stddev", "stddev_pop", "stddev_samp", "var", "var_pop", "var_population", "var_samp", "var_sample"}
    | {"variance", "bit_and", "bit_or", "bit_xor", "corr", "covar", "covar_pop", "covar_samp", "first_value"}
    | {"last_value", "nth_value", "approx_distinct", "approx_median", "approx_percentile_cont", "grouping"}
    | {"approx_percentile_cont_with_weight", "percentile_cont", "quantile_cont", "regr_avgx", "regr_avgy"}
    | {"regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy"}
)
_OF_ROWS: Final = (exp.Exists, exp.Any, exp.All, exp.From, exp.Join, exp.Lateral, exp.CTE, exp.Unnest)
"""Around subqueries that are not values."""
_ROWS_OF: Final = frozenset({"exists", "any", "some", "all", "unnest"})
_OUTPUTS: Final = (exp.Select, exp.Group, exp.Ordered, exp.Distinct, exp.Alias, exp.Window)


TOTALS: Final = (exp.Rollup, exp.Cube, exp.GroupingSets)


class Truth(Enum):
    """Which values of a condition matter."""

    CONJUNCT = "rows stay where it is true, whatever else holds"
    DENIED_CONJUNCT = "rows stay where it is false, whatever else holds"
    TRUE = "NULL counts as false"
    FALSE = "NULL counts as true"
    VALUE = "true, false and NULL differ"
    OUTPUT = "a result, a group or an order"


def find_truth(condition: exp.Expr) -> Truth:
    """Return which values of a condition matter."""
    is_conjunct, is_denied, is_connected = True, False, False
    node = condition
    while True:
        parent = node.parent
        if isinstance(parent, exp.Not):
            is_denied = not is_denied
            is_conjunct &= not is_connected
        elif isinstance(parent, exp.Connector):
            is_connected = True
            is_conjunct &= isinstance(parent, exp.And)
        elif isinstance(parent, exp.Where | exp.Having | exp.Qualify) or (
            isinstance(parent, exp.Join) and node.arg_key == "on"
        ):
            break
        elif (
            isinstance(parent, exp.If)
            and node.arg_key == "this"
            and isinstance(parent.parent, exp.Case)
            and parent.parent.this is None
        ):
            is_conjunct = False
            break
        elif not isinstance(parent, exp.Paren):
            return Truth.OUTPUT if isinstance(parent, _OUTPUTS) else Truth.VALUE
        node = parent
    if is_conjunct:
        return Truth.DENIED_CONJUNCT if is_denied else Truth.CONJUNCT
    return Truth.FALSE if is_denied else Truth.TRUE


def is_value(query: exp.Expr) -> bool:
    """Return whether a node is a subquery that is a value."""
    if not isinstance(query, exp.Subquery):
        return False
    parent = query.parent
    if isinstance(parent, exp.In) and query.arg_key == "query":
        return False
    if isinstance(parent, exp.Query):
        return query.arg_key == "expressions" and isinstance(parent, exp.Select)
    is_call = isinstance(parent, exp.Anonymous) and parent.name.lower() in _ROWS_OF
    return parent is not None and not is_call and not isinstance(parent, _OF_ROWS)


def bare(query: exp.Expr) -> exp.Expr:
    """Return a query without brackets around it, unless they have clauses of their own."""
    while isinstance(query, exp.Subquery) and query.is_wrapper:
        query = query.this
    return query


def is_outermost(query: exp.Expr) -> bool:
    """Return whether the outputs of a query are those of the statement."""
    parent = query.parent
    while isinstance(parent, exp.SetOperation) or (isinstance(parent, exp.Subquery) and parent.is_wrapper):
        query, parent = parent, parent.parent
    return parent is None


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is a call of an aggregate that is not a window."""
    if not (isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES):
        return False
    outer = whole_call(node)
    return not (isinstance(outer.parent, exp.Window) and outer.arg_key == "this")


def whole_call(node: exp.Expr) -> exp.Expr:
    """Return the call of an aggregate with FILTER and WITHIN GROUP."""
    while isinstance(node.parent, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        if node.arg_key != "this":
            break
        node = node.parent
    return node


def without_subqueries(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression, each before its operands, without those of queries in it."""
    yield node
    if not isinstance(node, exp.Query):
        for child in node.iter_expressions():
            yield from without_subqueries(child)


def find_aggregates(node: exp.Expr) -> list[exp.Expr]:
    """Return the calls of aggregates in an expression, with FILTER, without those in subqueries."""
    return [whole_call(one) for one in without_subqueries(node) if is_aggregate(one)]


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the conjuncts of a condition."""
    if condition is None:
        return []
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    if isinstance(condition, exp.Paren):
        inner = conjuncts(condition.this)
        return inner if len(inner) > 1 else [condition]
    return [condition]


def equates_columns(condition: exp.Expr) -> bool:
    """Return whether a condition is that two expressions of columns are equal, so that no value is told."""
    compared = condition.unnest()
    is_equal = isinstance(compared, exp.EQ | exp.NullSafeEQ)
    return bool(is_equal and compared.this.find(exp.Column) and compared.expression.find(exp.Column))


def sources(select: exp.Select) -> list[exp.Expr]:
    """Return the relations of a SELECT."""
    parts = [select.args.get("from_"), *(select.args.get("joins") or ())]
    return [part.this for part in parts if part is not None]


def has_totals(select: exp.Select) -> bool:
    """Return whether the groups of a SELECT may have totals among them."""
    group = select.args.get("group")
    return group is not None and any(isinstance(key, TOTALS) for key in group.expressions)


def has_one_row(query: exp.Expr) -> bool:
    """Return whether a query has one row or, by HAVING, none: it aggregates all rows of a relation."""
    select = bare(query)
    if not isinstance(select, exp.Select) or not select.args.get("from_"):
        return False
    kept = {"expressions", "from_", "joins", "where", "having"}
    if any(value for key, value in select.args.items() if key not in kept):
        return False
    return bool(select.args.get("having") or any(map(find_aggregates, select.expressions)))


def list_visible(node: exp.Expr) -> Iterator[exp.CTE]:
    """Yield the common table expressions that are visible at a node, those that hide others first."""
    inner, around = node, node.parent
    while around is not None:
        if isinstance(around, exp.With) and isinstance(inner, exp.CTE):
            at = next(i for i, one in enumerate(around.expressions) if one is inner)
            if around.args.get("recursive") and _is_in_recursion(node, inner):
                yield inner
            yield from reversed(around.expressions[:at])
        elif (own := around.args.get("with_")) is not None and own is not inner:
            yield from reversed(own.expressions)
        inner, around = around, around.parent


def _is_in_recursion(node: exp.Expr, table: exp.CTE) -> bool:
    """Return whether a node is in the branch of a recursive CTE that may read the CTE itself."""
    query, inner = table.this, node
    while inner.parent is not None and inner.parent is not query:
        inner = inner.parent
    return isinstance(query, exp.SetOperation) and inner is query.expression
