"""Reads the types of placeholders from the nodes and expressions of a plan.

DataFusion infers the type of a placeholder from its comparisons and operators; otherwise the type of a cast
is taken. The bindings show neither the plans of subqueries, nor the counts of a Limit, nor the FILTER and
ORDER BY of an aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionContext
from datafusion.expr import Aggregate, Filter, Join, Projection, Sort, TableScan, Values, WindowExpr
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.columns.kinds import is_text

_LEAVES = frozenset({"Column", "Literal"})
_CASTS = frozenset({"Cast", "TryCast"})
_COERCING = frozenset({"ScalarFunction", "Case"})
"""Variants whose operands are cast to a common type."""
_CAST_CALLS = frozenset({"arrow_cast", "arrow_try_cast"})


def infer_placeholder_types(plan: LogicalPlan, *, is_coerced: bool = False) -> dict[int, pa.DataType]:
    """Return the types of $1, $2, ... by number; placeholders that a plan does not show are missing.

    There are no null, view or dictionary types. Inferred types take precedence over those of casts, and upper
    nodes over lower ones.

    Args:
        plan: of a statement with placeholders.
        is_coerced: whether coercion has added casts. Casts of arguments to text are then ignored: beside a
            literal text, the type of an argument depends on its value.
    """
    inferred: dict[int, pa.DataType] = {}
    cast: dict[int, pa.DataType] = {}
    for expression in _every_expression(plan):
        _collect(expression, inferred, cast, is_coerced=is_coerced)
    return cast | inferred


def _collect(
    expression: Any,  # noqa: ANN401 - the bindings have one class per variant
    inferred: dict[int, pa.DataType],
    cast: dict[int, pa.DataType],
    *,
    is_coerced: bool,
) -> None:
    stack = [(expression, False)]
    while stack:
        current, is_argument = stack.pop()
        kind = current.variant_name()
        if kind == "Placeholder":
            placeholder = current.to_variant()
            field = placeholder.field()
            _add(inferred, placeholder.id(), None if field is None else field.type)
            continue
        operands = () if kind in _LEAVES else _operands(current)
        is_cast = kind in _CASTS or (kind == "ScalarFunction" and current.rex_call_operator() in _CAST_CALLS)
        if is_cast and operands[0].variant_name() == "Placeholder":
            placeholder = operands[0].to_variant()
            target = None if placeholder.field() else _one_row().select(Expr(current)).schema().types[0]
            if not (is_coerced and is_argument and target is not None and is_text(target)):
                _add(cast, placeholder.id(), target)
        stack += [(operand, kind in _COERCING) for operand in reversed(operands)]


def _operands(expression: Any) -> Sequence[Any]:  # noqa: ANN401
    try:
        return tuple(expression.rex_call_operands())
    except Exception:  # noqa: BLE001 - the bindings don't support all variants
        return ()


def _add(types: dict[int, pa.DataType], name: str, data_type: pa.DataType | None) -> None:
    number = name.removeprefix("$")
    kind = None if data_type is None else _bindable(data_type)
    if number.isdecimal() and kind is not None:
        types.setdefault(int(number), kind)


def _every_expression(plan: LogicalPlan) -> Iterator[Any]:
    """Yield the expressions of a plan that the bindings show, from the result down."""
    yield from expressions_of(plan)
    for child in plan.inputs():
        yield from _every_expression(child)


def expressions_of(plan: LogicalPlan) -> Iterator[Any]:
    """Yield the expressions of the uppermost node of a plan that the bindings show."""
    match node := plan.to_variant():
        case Projection():
            yield from node.projections()
        case Filter():
            yield node.predicate()
        case Aggregate():
            yield from (*node.group_by_exprs(), *node.aggregate_exprs())
        case Join():
            yield from (side for pair in node.on() for side in pair)
            yield from _as_sequence(node.filter())
        case Sort():
            yield from (expr.expr() for expr in node.sort_exprs())
        case Values():
            yield from (one for row in node.values() for one in row)
        case WindowExpr():
            for window in node.get_window_expr():
                yield window
                yield from node.get_partition_exprs(window)
                yield from (key.expr() for key in node.get_sort_exprs(window))
        case TableScan():
            yield from node.filters()


def _as_sequence(expression: Any) -> Iterable[Any]:  # noqa: ANN401
    return () if expression is None else (expression,)


def _bindable(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of a parameter for values of a type; None if no parameter can have it."""
    types = pa.types
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if types.is_dictionary(kind):
        return _bindable(kind.value_type)
    if types.is_struct(kind):
        fields = [(field.name, _bindable(field.type)) for field in kind]
        return None if any(one is None for _, one in fields) else pa.struct(fields)
    if types.is_map(kind):
        key, item = _bindable(kind.key_type), _bindable(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _bindable_list(kind)
    return None if types.is_null(kind) or types.is_nested(kind) else kind


def _bindable_list(kind: pa.DataType) -> pa.DataType | None:
    item = _bindable(kind.value_type)
    if item is None:
        return None
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(item, kind.list_size)
    return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)


@cache
def _one_row() -> DataFrame:
    """Return a table to plan casts over, which is never executed."""
    return SessionContext().from_pydict({"one": [1]})
