"""Aggregates below which DataFusion 54 moves a condition that was to take away their row.

    SELECT x.id, s.n FROM x LEFT JOIN (SELECT count(*) AS n FROM t) s ON FALSE
    SELECT count(*) FROM t HAVING (SELECT max(id) FROM u) < 0

A condition goes below an aggregate if all columns that it reads are among the groups. Where it reads none,
that holds without groups as well; the aggregate then counts nothing, in a row that stays. Where nothing moves
conditions, it is right: so the plan is compared with one that is made without that rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from datafusion.expr import Aggregate, EmptyRelation, Filter, Join, TableScan
from datafusion.plan import LogicalPlan

from planner.search.plan_reading import (
    Expression,
    conjuncts_of,
    every_node,
    literal_value,
    operands,
    output_name,
)
from planner.search.value_subqueries import subquery_plans

__all__ = ["EMPTIED", "empties_aggregates", "may_empty_aggregates"]

EMPTIED: Final = (
    "A condition that reads no columns, above an aggregate without GROUP BY, is not offered beside joins and "
    "searches, as in LEFT JOIN (SELECT count(*) ..) ON FALSE: leave it out, or add GROUP BY"
)
"""What is said where such a statement is refused."""
# A condition on an aggregate follows it, or stands around it.
_WORDS: Final = re.compile(r"\bhaving\b|\bselect\b.*\bselect\b", re.IGNORECASE | re.DOTALL)


@dataclass(slots=True)
class _Below:
    """What takes rows away from aggregates of one name, whatever the rows are."""

    conditions: int = 0
    nothing: int = 0


def may_empty_aggregates(sql: str) -> bool:
    """Whether a text can have a condition above an aggregate at all."""
    return _WORDS.search(sql) is not None


def empties_aggregates(plan: LogicalPlan, unmoved: Callable[[], LogicalPlan]) -> bool:
    """Whether conditions that read no columns have come below an aggregate without groups.

    Args:
        plan: optimised.
        unmoved: gives the same plan optimised without the rule that moves conditions.
    """
    found = _conditions_below(plan)
    if not found:
        return False
    own = _conditions_below(unmoved())
    return any(
        below.conditions > own[name].conditions or below.nothing > own[name].nothing if name in own else True
        for name, below in found.items()
    )


def _conditions_below(plan: LogicalPlan) -> Mapping[tuple[str, ...], _Below]:
    """By the names of aggregates without groups, what is below those that have anything such below them."""
    found: defaultdict[tuple[str, ...], _Below] = defaultdict(_Below)
    for part in (plan, *subquery_plans(plan)):
        for one in every_node(part):
            node = one.to_variant()
            if not isinstance(node, Aggregate) or node.group_by_exprs():
                continue
            name = tuple(map(output_name, node.aggregate_exprs()))
            for below in every_node(one.inputs()[0]):
                inner = below.to_variant()
                if isinstance(inner, EmptyRelation):
                    found[name].nothing += 1
                found[name].conditions += sum(map(_reads_nothing, _conditions(inner)))
    return {name: below for name, below in found.items() if below.conditions or below.nothing}


def _conditions(node: object) -> Iterator[Expression]:
    match node:
        case Filter():
            yield from conjuncts_of(node.predicate())
        case Join() if node.filter() is not None:
            yield from conjuncts_of(node.filter())
        case TableScan():
            yield from node.filters()


def _reads_nothing(expression: Expression) -> bool:
    """Whether a condition reads no column, as far as can be told, and is not TRUE."""
    if expression.variant_name() == "Literal":
        return literal_value(expression) is not True
    return not _reads_columns(expression)


def _reads_columns(expression: Expression) -> bool:
    try:
        return expression.variant_name() == "Column" or any(map(_reads_columns, operands(expression)))
    except ValueError:
        return False  # a subquery: one that read columns of the row around it would be a join by now
