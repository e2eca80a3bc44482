"""Totals over keys that are constant, or have one name, which DataFusion 55 plans wrongly.

    SELECT n, s, count(*) FROM (SELECT 5 AS n, s FROM t) GROUP BY ROLLUP (n, s) ORDER BY n
    SELECT x.s, y.s FROM x JOIN y ON x.id = y.id GROUP BY ROLLUP (x.s, y.s) HAVING x.s = 'a'

What is constant in the rows is taken for constant in their groups, where it is NULL as well: groups are
closed too early, so that they come several times, and an order by such a key is left out. A condition on
groups moves below them by the names of keys alone. Such statements are refused, with what to write in their
place.
"""

from __future__ import annotations

from typing import Final

from datafusion.expr import Aggregate, Filter, Join, Projection, SubqueryAlias, TableScan, Union
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.plan_reading import (
    Expression,
    columns_of,
    every_node,
    literal_value,
    operands,
    output_name,
    schema_of,
    split_conjuncts,
    strip_aliases,
)

_GROUPING_ID: Final = "__grouping_id"
_BOUNDS: Final = frozenset({"=", "<", ">", "<=", ">="})


def refuse_mistaken_keys(plan: LogicalPlan) -> None:
    """Look for totals over keys that are constant, or have one name.

    Args:
        plan: optimised.

    Raises:
        UnsupportedError: there are some.
    """
    filtered: set[str] = set()
    for one in every_node(plan):
        node = one.to_variant()
        if isinstance(node, Filter):
            filtered |= _read(node.predicate())
        if not isinstance(node, Aggregate):
            continue
        if not any(key.variant_name() == "GroupingSet" for key in node.group_by_exprs()):
            continue
        (source,) = one.inputs()
        constants = _constants(source)
        names = schema_of(one).names
        place = names.index(_GROUPING_ID)
        keys, totals = names[:place], names[place:]
        # A key that is no column is computed of some: it may be constant where one of them is.
        wrong = [
            key for key in keys if key in constants or (constants and key not in schema_of(source).names)
        ]
        if wrong:
            msg = (
                f"ROLLUP, CUBE and GROUPING SETS over {wrong[0]} are not offered, since it is the same in "
                "all rows: leave it out of them, and select it beside them"
            )
            raise UnsupportedError(msg)
        if len(set(keys)) < len(keys) and filtered.difference(totals):
            msg = (
                "A condition above ROLLUP, CUBE and GROUPING SETS over columns of one name is not offered: "
                "give the columns different names in subqueries"
            )
            raise UnsupportedError(msg)


def _constants(plan: LogicalPlan) -> frozenset[str]:
    """Names of a plan's columns that physical plans may take for constant."""
    node = plan.to_variant()
    below = frozenset[str]().union(*map(_constants, plan.inputs()))
    match node:
        case Projection():
            return frozenset(
                output_name(projection) for projection in node.projections() if _read(projection) <= below
            )
        case Filter():
            return below | _fixed([node.predicate()])
        case Join():
            return below | (frozenset() if node.filter() is None else _fixed([node.filter()]))
        case TableScan():
            return frozenset()
        case Aggregate() if not node.group_by_exprs():
            return frozenset(schema_of(plan).names)
        case Union():
            return frozenset(
                name
                for place, name in enumerate(schema_of(plan).names)
                if all(schema_of(child).names[place] in _constants(child) for child in plan.inputs())
                # What has another value in each part is constant in none of the groups.
                and len({_find_literal(child, place) for child in plan.inputs()} - {None}) < 2
            )
    return below


def _find_literal(plan: LogicalPlan, place: int) -> str | None:
    """Return the value of a plan's column as text, if it is a literal."""
    node = plan.to_variant()
    if isinstance(node, SubqueryAlias):
        return _find_literal(plan.inputs()[0], place)
    if not isinstance(node, Projection):
        return None
    expression = strip_aliases(node.projections()[place])
    return repr(literal_value(expression)) if expression.variant_name() == "Literal" else None


def _fixed(conditions: list[Expression]) -> frozenset[str]:
    """Columns that conditions may leave one value: by an equation, or by two bounds."""
    counts: dict[str, int] = {}
    for one in (conjunct for condition in conditions for conjunct in split_conjuncts(condition)):
        match one.variant_name():
            case "BinaryExpr":
                operator = one.to_variant().op()
                weight = 2 if operator in {"=", "OR"} else 1 if operator in _BOUNDS else 0
            case "Between":
                weight = 2
            case _:
                weight = 0
        # What ranges follow of the arguments of functions isn't looked for.
        for name in _read(one) if weight and _is_arithmetic(one) else ():
            counts[name] = counts.get(name, 0) + weight
    return frozenset(name for name, count in counts.items() if count > 1)


def _is_arithmetic(expression: Expression) -> bool:
    return expression.variant_name() != "ScalarFunction" and all(map(_is_arithmetic, _operands(expression)))


def _operands(expression: Expression) -> list[Expression]:
    try:
        return operands(expression)
    except ValueError:
        return []


def _read(expression: Expression) -> frozenset[str]:
    """The names of the columns that an expression reads; none for a subquery, which is one value."""
    try:
        return frozenset(name for _, name in columns_of(expression))
    except ValueError:
        return frozenset()
