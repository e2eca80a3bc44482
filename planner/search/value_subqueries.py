"""The plans of subqueries that stand for a value, which DataFusion keeps inside of expressions.

    SELECT id FROM items WHERE id = (SELECT max(id) FROM lance_vector_search('items', ..) WHERE n % 2 = 1)

    Filter: items.id = (<subquery>)
      TableScan: items

The bindings show no plan of a subquery. But an optimizer rule makes joins of subqueries, and the inputs of a
join are shown. So such an expression is selected from a table of one row, in a context in which that rule
applies, and others that would move filters and joins don't:

    Projection: __scalar_sq_1.max(items.id)
      Left Join: true
        TableScan: one_row
        SubqueryAlias: __scalar_sq_1
          Aggregate: max(items.id)
            Filter: items.n % 2 = 1
              TableScan: items

The rule takes subqueries inside of the subquery in the same go, those in filters and projections: see
`filtered_by_a_subquery`.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionConfig, SessionContext
from datafusion.expr import Aggregate, Filter, Join, Projection, Sort, TableScan
from datafusion.plan import LogicalPlan

from planner.search.plan_reading import Chain, Expression, chain_from, every_node, literal_value

__all__ = ["compared_with_a_subquery", "filtered_by_a_subquery", "subquery_plans"]

_KEEPS_SUBQUERIES = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery"
_OF_VALUES = frozenset({"ScalarSubquery"})
_SUBQUERIES = _OF_VALUES | {"InSubquery", "Exists", "SetComparison"}
_MOVING_RULES = (
    "push_down_filter",
    "eliminate_outer_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
)


def subquery_plans(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """The plans of the subqueries that stand for values in a plan, each with those inside of it.

    Not among them are those that the bindings don't show at all: in the FILTER and ORDER BY of an aggregate,
    for example.

    Args:
        plan: optimised.
    """
    for node in every_node(plan):
        for expression in _expressions(node):
            for subquery in _subqueries(expression, _OF_VALUES):
                shown = _one_row().select(Expr(subquery).alias("value")).optimized_logical_plan()
                yield shown
                yield from subquery_plans(shown)


def filtered_by_a_subquery(plan: LogicalPlan) -> Iterator[Chain]:
    """The chains of `subquery_plans` whose rows are compared with the value of a subquery further inside.

    Such a comparison has become a filter above a left join without a condition, with the value on its right.
    """
    for node in every_node(plan):
        if not isinstance(node.to_variant(), Filter):
            continue
        (below,) = node.inputs()
        is_joined = False
        while _joins_a_value(below.to_variant()):
            below, is_joined = below.inputs()[0], True
        chain = chain_from(below) if is_joined else None
        if chain is not None:
            yield chain


def compared_with_a_subquery(plan: LogicalPlan) -> Iterator[Chain]:
    """The chains of a plan whose rows are compared with what a subquery gives.

    Args:
        plan: not optimised: optimizing makes joins of most subqueries, like those that a statement asks for.
    """
    for node in every_node(plan):
        condition = node.to_variant()
        if isinstance(condition, Filter) and any(_subqueries(condition.predicate(), _SUBQUERIES)):
            chain = chain_from(node.inputs()[0])
            if chain is not None:
                yield chain


def _joins_a_value(node: object) -> bool:
    if not isinstance(node, Join) or node.on():
        return False
    condition = node.filter()
    return condition is None or (condition.variant_name() == "Literal" and literal_value(condition) is True)


def _subqueries(expression: Expression, wanted: AbstractSet[str]) -> Iterator[Expression]:
    kind = expression.variant_name()
    if kind in wanted:
        yield expression
    elif kind not in {"Column", "Literal", "ScalarVariable", "LambdaVariable"}:
        try:
            operands = expression.rex_call_operands()
        except Exception:  # noqa: BLE001 - of some variants the bindings show none, and raise nothing special
            return
        for operand in operands:
            yield from _subqueries(operand, wanted)


def _expressions(plan: LogicalPlan) -> Iterator[Expression]:
    """The expressions of a node, as far as the bindings show them."""
    match plan.to_variant():
        case Projection() as node:
            yield from node.projections()
        case Filter() as node:
            yield node.predicate()
        case Sort() as node:
            yield from (key.expr() for key in node.sort_exprs())
        case Aggregate() as node:
            yield from node.group_by_exprs()
            yield from node.aggregate_exprs()
        case TableScan() as node:
            yield from node.filters()
        case Join() as node:
            for pair in node.on():
                yield from pair
            if (condition := node.filter()) is not None:
                yield condition


@cache
def _one_row() -> DataFrame:
    context = SessionContext(SessionConfig().set(_KEEPS_SUBQUERIES, "false"))
    for rule in _MOVING_RULES:
        context.remove_optimizer_rule(rule)
    return context.from_arrow(pa.table({"one": [1]}), name="one_row")
