"""Joins that DataFusion 55 plans wrongly, found in its optimised plans.

    SELECT y.a FROM x RIGHT JOIN (SELECT * FROM t WHERE lower(c) = 'a') y ON x.a = y.a WHERE x.c IS NULL

Physical plans know columns by name alone. A condition that stays above a RIGHT join, on a column that the
right input has a namesake of, goes down to a filter or a union in that input, as a condition on the namesake.

    SELECT x.k, y.id FROM (SELECT id, 7 AS k FROM t) x FULL JOIN u y ON x.id = y.id ORDER BY x.k

What is constant in the left input of a RIGHT or FULL join is taken for constant in the result, where it is
NULL too: such keys of ORDER BY and of windows are dropped, and groups by them are closed too early. So is
what a condition makes constant in the right input of a LEFT or FULL join.

    SELECT x.k, y.g FROM x LEFT JOIN (SELECT id, g FROM u ORDER BY n LIMIT 9) y ON y.g = 1 AND x.id = y.id
    ORDER BY y.g, x.k

    SELECT id FROM t WHERE id NOT IN (SELECT k FROM u WHERE g < n)

NULLs of all rows count, and not those that belong to a row.

Wrong answers look like right ones, so such statements are refused, with what to write in their place. What
can't be told counts as met: a little more is refused than is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType
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
    Values,
    WindowExpr,
)
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.plan_reading import (
    Expression,
    columns_of,
    every_node,
    literal_value,
    output_name,
    split_conjuncts,
)

_Column = tuple[str | None, str]
"""The relation that a column belongs to, None for any, and its name."""
_Columns = frozenset[_Column]
_ANY: Final = (None, "*")
_NONE: Final[_Columns] = frozenset()
_EVERYTHING: Final[_Columns] = frozenset({_ANY})
# What takes over no condition from above; filters and unions do.
_NEVER_FILTER: Final = (
    Aggregate,
    EmptyRelation,
    Join,
    Limit,
    Projection,
    Sort,
    SubqueryAlias,
    TableScan,
    Values,
    WindowExpr,
)
_EQUALITIES: Final = frozenset({"=", "IS NOT DISTINCT FROM"})
_LEAST: Final = frozenset({">", ">="})
_MOST: Final = frozenset({"<", "<="})
_OPPOSITE: Final = MappingProxyType(
    {">": "<", "<": ">", ">=": "<=", "<=": ">="} | {one: one for one in _EQUALITIES}
)
_OUTER: Final = frozenset({"Left", "Right", "Full"})
_OF_RIGHT_ROWS: Final = frozenset({"RightSemi", "RightAnti", "RightMark"})


def refuse_constant_sides(plan: LogicalPlan) -> None:
    """Look for conditions of joins with a constant on the left, which `constant_sides` has left or not seen.

    Args:
        plan: as it is written.

    Raises:
        UnsupportedError: there is one.
    """
    for one in every_node(plan):
        node = one.to_variant()
        condition = node.filter() if isinstance(node, Join) else None
        for conjunct in [] if condition is None else split_conjuncts(condition):
            if conjunct.variant_name() != "BinaryExpr":
                continue
            comparison = conjunct.to_variant()
            sides = comparison.left().variant_name(), comparison.right().variant_name()
            if sides == ("Literal", "Column") and comparison.op() in _LEAST | _MOST | {"="}:
                msg = "A comparison in a condition of a join has a constant on the left: exchange its sides"
                raise UnsupportedError(msg)


def refuse_misplanned_joins(plan: LogicalPlan) -> None:
    """Look for such joins.

    Args:
        plan: optimised.

    Raises:
        UnsupportedError: there is one.
    """
    _visit(plan, _Above(), is_joined=False)


@dataclass(frozen=True, slots=True)
class _Above:
    """What the nodes above one do with its columns.

    Attributes:
        conditions: columns of conditions.
        misled: columns that a condition on a namesake may be applied to.
        keys: for each key of an order, a group or a window the columns that it is made of.
    """

    conditions: _Columns = _NONE
    misled: _Columns = _NONE
    keys: frozenset[_Columns] = frozenset()


def _visit(plan: LogicalPlan, above: _Above, *, is_joined: bool) -> None:
    """Look at a node below others, and maybe below a join."""
    node = plan.to_variant()
    if is_joined:
        _check_joined(plan)
    match node:
        case Filter():
            above = replace(above, conditions=above.conditions | _read([node.predicate()]))
        case Projection():
            above = _below_projection(node, above)
        case SubqueryAlias():
            above = _Above(
                _without_relation(above.conditions),
                _without_relation(above.misled),
                frozenset(map(_without_relation, above.keys)),
            )
        case Sort():
            above = replace(above, keys=above.keys | {_read([expr.expr()]) for expr in node.sort_exprs()})
        case Aggregate():
            above = replace(above, keys=frozenset(_read([expr]) for expr in node.group_by_exprs()))
        case WindowExpr():
            above = replace(above, keys=above.keys | _keys_of_windows(node))
        case Limit():
            above = _Above(keys=above.keys)
        case Join():
            left, right = plan.inputs()
            _check_membership(node)
            if any(key.variant_name() != "Column" for pair in node.on() for key in pair):
                # Physically, a projection of both sides stands above.
                above = replace(above, misled=above.misled | above.conditions)
            _check(str(node.join_type()), left, right, above)
            is_joined = True
    for child in plan.inputs():
        _visit(child, above, is_joined=is_joined)


def _below_projection(node: Projection, above: _Above) -> _Above:
    """What is done with the columns below. Of several outputs of one name, a condition may get any."""
    outputs = Counter(output_name(projection) for projection in node.projections())
    shared = frozenset((None, name) for _, name in above.conditions if outputs[name] > 1)
    misled = shared | above.misled | (above.conditions & _EVERYTHING)
    return _Above(
        _sources(node, above.conditions),
        _sources(node, misled),
        frozenset(_sources(node, key) for key in above.keys),
    )


def _check_joined(plan: LogicalPlan) -> None:
    node = plan.to_variant()
    if isinstance(node, TableScan) and any(one.variant_name() != "Literal" for one in _constant(node)):
        msg = "A condition on constants alone is left in a join: write what it comes to in its place"
        raise UnsupportedError(msg)


def _check_membership(join: Join) -> None:
    """Look whether a NOT IN, which `quantified_comparisons` has marked, depends on the row around it."""
    if join.filter() is None:
        return
    for key, _ in join.on():
        if _is_kept(key) and _is_kept(key.rex_call_operands()[0]):
            msg = (
                "NOT IN with a subquery that reads columns of the row around it is offered where they can be "
                "told: write the relation before the column, as in NOT IN (SELECT k FROM u WHERE g < t.n)"
            )
            raise UnsupportedError(msg)


def _is_kept(expression: Expression) -> bool:
    """Whether it is nullif(.., NULL)."""
    if expression.variant_name() != "ScalarFunction" or expression.rex_call_operator() != "nullif":
        return False
    second = expression.rex_call_operands()[-1]
    return second.variant_name() == "Literal" and literal_value(second) is None


def _check(kind: str, left: LogicalPlan, right: LogicalPlan, above: _Above) -> None:
    if kind not in _OUTER:
        return
    if kind == "Right" and not all(
        isinstance(node.to_variant(), _NEVER_FILTER) for node in every_node(right)
    ):
        shared = _shared(_without_relation(above.misled), _all_names(right))
        if shared is not None:
            msg = (
                f"A condition on {shared} above a RIGHT JOIN, or a FULL JOIN that another condition makes "
                f"one, is not offered where its right side has a column {shared} and conditions or a UNION: "
                "write LEFT JOIN with the sides exchanged, or give the columns different names"
            )
            raise UnsupportedError(msg)
    if kind != "Left":
        advice = "constant in its left side: exchange the sides, and write LEFT JOIN for RIGHT JOIN"
        _check_keys(kind, above.keys, _constants(left), advice)
    if kind != "Right":
        advice = "constant in its right side by a condition: leave it out of the order, or out of the groups"
        _check_keys(kind, above.keys, _fixed(right), advice)


def _check_keys(kind: str, keys: Iterable[_Columns], constants: _Columns, advice: str) -> None:
    for key in keys:
        if _is_all_constant(key, constants):
            name = "a column" if _ANY in key | constants else min(name for _, name in key)
            msg = (
                f"An order or groups by {name} above a {kind.upper()} JOIN is not offered where {name} "
                f"is {advice}"
            )
            raise UnsupportedError(msg)


def _constant(scan: TableScan) -> list[Expression]:
    """Conditions of a scan that read no column and are not TRUE."""
    return [condition for condition in scan.filters() if not _read([condition]) and not _is_true(condition)]


def _is_true(expression: Expression) -> bool:
    return expression.variant_name() == "Literal" and literal_value(expression) is True


def _shared(some: _Columns, others: _Columns) -> str | None:
    """The name of a column that may be in both; None where there is none."""
    if not some or not others:
        return None
    if _ANY in some or _ANY in others:
        return "a column"
    for relation, name in sorted(some, key=str):
        if any(name == other and (None in (relation, of) or relation == of) for of, other in others):
            return name
    return None


def _read(expressions: Iterable[Expression]) -> _Columns:
    """The columns that expressions read; any where there is a subquery in one."""
    try:
        return frozenset(column for expression in expressions for column in columns_of(expression))
    except ValueError:
        return _EVERYTHING


def _output(expression: Expression) -> _Column:
    relation = expression.to_variant().relation() if expression.variant_name() == "Column" else None
    return relation, output_name(expression)


def _sources(node: Projection, wanted: _Columns) -> _Columns:
    """What the wanted outputs are made of."""
    return _read(
        projection for projection in node.projections() if _shared(frozenset({_output(projection)}), wanted)
    )


def _without_relation(columns: _Columns) -> _Columns:
    return frozenset((None, name) for _, name in columns)


def _keys_of_windows(node: WindowExpr) -> frozenset[_Columns]:
    return frozenset(
        _read([key]) for window in node.get_window_expr() for key in _window_keys(node, window) or []
    )


def _window_keys(node: WindowExpr, function: Expression) -> list[Expression] | None:
    """What a window divides and orders rows by; None where the bindings can't tell."""
    try:
        keys = list(node.get_partition_exprs(function))
        return keys + [key.expr() for key in node.get_sort_exprs(function)]
    except Exception:  # noqa: BLE001 - whatever the bindings say
        return None


def _all_names(plan: LogicalPlan) -> _Columns:
    """Names of columns anywhere in a plan, of any relation."""
    found: set[_Column] = set()
    for one in every_node(plan):
        node = one.to_variant()
        match node:
            case Projection():
                found.update(map(_output, node.projections()))
                found |= _read(node.projections())
            case Aggregate():
                found |= _read(node.group_by_exprs())
            case TableScan():
                found.update((None, name) for _, name in node.projection())
    return _without_relation(frozenset(found))


def _constants(plan: LogicalPlan) -> _Columns:
    """Columns of a plan's result that physical plans take for constant."""
    node = plan.to_variant()
    inputs = plan.inputs()
    if isinstance(node, Join):
        # Of what is constant on the right, only what conditions make so is remembered.
        kept, other = inputs if str(node.join_type()) not in _OF_RIGHT_ROWS else inputs[::-1]
        return _constants(kept) | _fixed(other)
    each = [_constants(one) for one in inputs]
    if isinstance(node, Union):
        return _without_relation(each[0]) if all(each) else _NONE
    below = _NONE.union(*each)
    match node:
        case Projection():
            return frozenset(
                _output(projection) for projection in node.projections() if _is_constant(projection, below)
            )
        case SubqueryAlias():
            return below if _ANY in below else frozenset((node.alias(), name) for _, name in below)
        case Aggregate():
            if node.group_by_exprs():
                return below
            return frozenset((None, output_name(expr)) for expr in node.aggregate_exprs())
        case WindowExpr():
            windows = [window for window in node.get_window_expr() if not _window_keys(node, window)]
            return below | frozenset((None, output_name(window)) for window in windows)
        case Filter():
            return _constants_of(list(split_conjuncts(node.predicate())), below)
    return below


def _fixed(plan: LogicalPlan) -> _Columns:
    """Columns of a plan's result that conditions make constant, and that physical plans never forget."""
    node = plan.to_variant()
    below = _NONE.union(*map(_fixed, plan.inputs()))
    match node:
        case Projection():
            named = ((_output(one), _read([one])) for one in node.projections())
            return frozenset(output for output, columns in named if _is_all_constant(columns, below))
        case SubqueryAlias():
            return below if _ANY in below else frozenset((node.alias(), name) for _, name in below)
        case Aggregate():
            return below if node.group_by_exprs() else _NONE
        case Union():
            return _without_relation(below)
        case Filter():
            return _constants_of(list(split_conjuncts(node.predicate())), below)
    return below


def _constants_of(conjuncts: list[Expression], constants: _Columns) -> _Columns:
    """Columns that are constant below, or have one value by conditions: equal to one, or between two."""
    binary = [conjunct.to_variant() for conjunct in conjuncts if conjunct.variant_name() == "BinaryExpr"]
    sides = [(one.op(), _read([one.left()]), _read([one.right()])) for one in binary]
    sides += [(_OPPOSITE[op], right, left) for op, left, right in sides if op in _OPPOSITE]
    for _ in sides:
        fixed = [(op, left) for op, left, right in sides if _is_all_constant(right, constants) or not right]
        least, most = (_NONE.union(*(left for op, left in fixed if op in ops)) for ops in (_LEAST, _MOST))
        constants |= (least & most) | _NONE.union(*(left for op, left in fixed if op in _EQUALITIES))
    return constants


def _is_constant(expression: Expression, constants: _Columns) -> bool:
    try:
        read = frozenset(columns_of(expression))
    except ValueError:
        return False  # a subquery
    return _is_all_constant(read, constants) if read else not _is_null(expression)


def _is_null(expression: Expression) -> bool:
    """Whether an expression is NULL, as all is in rows that a join adds."""
    while expression.variant_name() in {"Alias", "Cast"}:
        (expression,) = expression.rex_call_operands()
    return expression.variant_name() == "Literal" and literal_value(expression) is None


def _is_all_constant(columns: _Columns, constants: _Columns) -> bool:
    """Whether all of some columns, and there are any, may be among constants."""
    return bool(columns) and all(_shared(frozenset({column}), constants) for column in columns)
