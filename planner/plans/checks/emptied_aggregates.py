"""Aggregates below which DataFusion 55 moves a condition that was to take away their row.

    SELECT x.id, s.n FROM x LEFT JOIN (SELECT count(*) AS n FROM t) s ON FALSE
    SELECT count(*) FROM t HAVING (SELECT max(id) FROM u) < 0

A condition goes below an aggregate if all columns that it reads are among the groups. Where it reads none,
that holds without groups as well; the aggregate then counts nothing, in a row that stays. Where nothing moves
conditions, it is right: so the plan is compared with one that is made without that rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import Final

from datafusion.expr import (
    Aggregate,
    EmptyRelation,
    Filter,
    Join,
    Limit,
    Projection,
    Sort,
    SubqueryAlias,
    TableScan,
    Union,
    WindowExpr,
)
from datafusion.plan import LogicalPlan

from lance_gateway.planner.bridge.plan_reading import (
    Expression,
    columns_of,
    every_node,
    literal_value,
    operands,
    output_name,
    split_conjuncts,
    strip_aliases,
    subquery_plans,
)

EMPTIED: Final = (
    "A condition that reads no columns, above an aggregate without GROUP BY, is not offered beside joins and "
    "searches, as in LEFT JOIN (SELECT count(*) ..) ON FALSE: leave it out, or add GROUP BY"
)
"""What is said where such a statement is refused."""
_SELECT: Final = re.compile(r"\bselect\b", re.IGNORECASE)
_HAVING: Final = re.compile(r"\bhaving\b", re.IGNORECASE)


@dataclass(slots=True)
class _Below:
    """What is below the aggregates of one name.

    Attributes:
        empty: how many of them certainly get no rows.
        conditions: that read no columns, below the others.
    """

    empty: int = 0
    conditions: int = 0


def may_empty_aggregates(sql: str, written: LogicalPlan) -> bool:
    """Whether a statement can have a condition above an aggregate without groups at all.

    Args:
        sql: its text.
        written: its plan as it is written, without the plans of subqueries.
    """
    if len(_SELECT.findall(sql)) > 1:
        return True
    return _HAVING.search(sql) is not None and any(map(_is_whole, every_node(written)))


def empties_aggregates(
    written: LogicalPlan, plan: LogicalPlan, sql: str | None, unmoved: Callable[[], LogicalPlan]
) -> bool:
    """Whether conditions that read no columns have come below an aggregate without groups.

    Args:
        written: the plan as it is written.
        plan: optimised.
        sql: its text; None if there is none.
        unmoved: gives the same plan optimised without the rule that moves conditions.
    """
    # In a subquery, the condition follows the aggregate, or stands around a subquery of its own.
    is_deep = sql is None or _HAVING.search(sql) is not None or len(_SELECT.findall(sql)) > 2
    found = _aggregates(plan, is_deep=is_deep)
    rows = _one_rows(plan, is_deep=is_deep)
    if not rows and not any(below.empty or below.conditions for below in found.values()):
        return False
    stayed = unmoved()
    own = _aggregates(stayed, is_deep=is_deep)
    none = _Below()
    # Below an aggregate of no rows, or one whose values nobody needs, a condition leaves no trace.
    if (_is_empty(stayed) and not _is_empty(plan)) or any(map(_stands_above_a_row, every_node(stayed))):
        return True
    if rows > _one_rows(stayed, is_deep=is_deep):
        return True
    if _lost_aggregates(written, plan) and (
        _compares_constants(stayed) or _empty_relations(stayed) > _empty_relations(plan)
    ):
        return True
    return any(
        below.empty > own.get(name, none).empty or below.conditions > own.get(name, none).conditions
        for name, below in found.items()
    )


def _one_rows(plan: LogicalPlan, *, is_deep: bool = False) -> int:
    """How many rows of no table are read: what aggregates become if nothing that they count is wanted.

    Args:
        plan: optimised.
        is_deep: whether those in subqueries count as well.
    """
    plans = [plan, *subquery_plans(plan)] if is_deep else [plan]
    nodes = (one.to_variant() for one in chain.from_iterable(map(every_node, plans)))
    return sum(isinstance(node, EmptyRelation) and node.produce_one_row() for node in nodes)


def _empty_relations(plan: LogicalPlan) -> int:
    nodes = (node.to_variant() for node in every_node(plan))
    return sum(isinstance(node, EmptyRelation) and not node.produce_one_row() for node in nodes)


def _lost_aggregates(written: LogicalPlan, plan: LogicalPlan) -> bool:
    """Whether an aggregate without groups became such a row."""
    before, after = (sum(map(_is_whole, every_node(one))) for one in (written, plan))
    return before > after and _one_rows(plan) > 0


def _stands_above_a_row(plan: LogicalPlan) -> bool:
    """Whether a filter or a join, on literals alone, stands above the row of an aggregate."""
    literals: AbstractSet[str | None] = frozenset()
    match node := plan.to_variant():
        case Filter():
            condition, literals = node.predicate(), _literal_columns(list(_list_chain(plan)))
        case Join() if node.filter() is not None:
            condition = node.filter()
        case _:
            return False
    if not any(_is_constant(conjunct, literals) for conjunct in split_conjuncts(condition)):
        return False
    return any(_one_rows(child) or any(map(_is_whole, every_node(child))) for child in plan.inputs())


def _list_chain(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """A node and those below it, down to a join or a union."""
    yield plan
    while len(plan.inputs()) == 1:
        (plan,) = plan.inputs()
        yield plan


def _literal_columns(nodes: Sequence[LogicalPlan]) -> AbstractSet[str | None]:
    """The columns that are, as far as names tell, made of no columns; of nodes from the top down."""
    literals: set[str | None] = set()
    for one in reversed(nodes):
        node = one.to_variant()
        for output in node.projections() if isinstance(node, Projection) else ():
            source = strip_aliases(output)
            if not _reads_columns(source) or output_name(source) in literals:
                literals.add(output_name(output))
    return literals


def _is_constant(condition: Expression, literals: AbstractSet[str | None]) -> bool:
    """Whether a condition is never true, or reads no columns but literals."""
    if condition.variant_name() == "Literal":
        return _is_never_true(condition)
    return _reads_nothing(condition) or _columns(condition) <= literals


def _compares_constants(plan: LogicalPlan) -> bool:
    nodes = list(every_node(plan))
    literals = _literal_columns(nodes)
    conditions = chain.from_iterable(_conditions(node.to_variant()) for node in nodes)
    return any(_is_constant(condition, literals) for condition in conditions)


def _columns(expression: Expression) -> set[str | None]:
    """The names of the columns that a condition reads; None among them where they can't be told."""
    try:
        return {name for _, name in columns_of(expression)}
    except ValueError:
        return {None}


def _is_whole(plan: LogicalPlan) -> bool:
    """Whether a node is an aggregate without groups, or with totals, which are such."""
    node = plan.to_variant()
    if not isinstance(node, Aggregate):
        return False
    keys = node.group_by_exprs()
    return not keys or any(key.variant_name() == "GroupingSet" for key in keys)


def _aggregates(plan: LogicalPlan, *, is_deep: bool) -> Mapping[tuple[str, ...], _Below]:
    """Aggregates without groups, by their names."""
    found: defaultdict[tuple[str, ...], _Below] = defaultdict(_Below)
    aggregates = list(filter(_is_whole, every_node(plan)))
    seen: list[LogicalPlan] = []
    for part in subquery_plans(plan) if is_deep else ():
        # A condition that comes to several inputs takes its subqueries along: they count once.
        seen += (one for one in filter(_is_whole, every_node(part)) if one not in seen)
    aggregates += seen
    for aggregate in aggregates:
        below = found[tuple(map(output_name, aggregate.to_variant().aggregate_exprs()))]
        (source,) = aggregate.inputs()
        if _is_empty(source):
            below.empty += 1
        else:
            # What several conditions share is computed below them, under a name.
            inner = list(every_node(source))
            literals = _literal_columns(inner)
            conditions = chain.from_iterable(_conditions(each.to_variant()) for each in inner)
            below.conditions += sum(_reads_nothing(one, literals) for one in conditions)
    return found


def _is_empty(plan: LogicalPlan) -> bool:
    """Whether a plan certainly gives no rows."""
    node = plan.to_variant()
    inputs = plan.inputs()
    is_never = any(map(_is_never_true, _conditions(node)))
    match node:
        case EmptyRelation():
            return not node.produce_one_row()
        case Join():
            kind = str(node.join_type())
            left, right = map(_is_empty, inputs)
            return {
                "Inner": left or right or is_never,
                "LeftSemi": left or right or is_never,
                "RightSemi": left or right or is_never,
                "Full": left and right,
            }.get(kind, right if kind.startswith("Right") else left)
        case Aggregate() if not node.group_by_exprs():
            return False
        case Aggregate() | Projection() | Sort() | SubqueryAlias() | Union() | Limit() | WindowExpr():
            return all(map(_is_empty, inputs))
        case Filter():
            return is_never or all(map(_is_empty, inputs))
    return is_never


def _conditions(node: object) -> Iterator[Expression]:
    match node:
        case Filter():
            yield from split_conjuncts(node.predicate())
        case Join() if node.filter() is not None:
            yield from split_conjuncts(node.filter())
        case TableScan():
            yield from node.filters()


def _reads_nothing(expression: Expression, literals: AbstractSet[str | None] = frozenset()) -> bool:
    """Whether a condition reads no column but literals, as far as can be told, and is no literal."""
    return expression.variant_name() != "Literal" and not _reads_columns(expression, literals)


def _is_never_true(expression: Expression) -> bool:
    return expression.variant_name() == "Literal" and literal_value(expression) is not True


def _reads_columns(expression: Expression, literals: AbstractSet[str | None] = frozenset()) -> bool:
    if expression.variant_name() == "Column":
        return output_name(expression) not in literals
    try:
        return any(_reads_columns(operand, literals) for operand in operands(expression))
    except ValueError:
        return False  # a subquery: one that read columns of the row around it would be a join by now
