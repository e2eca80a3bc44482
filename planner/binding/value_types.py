"""Decides which types the values of parameters keep.

    WHERE id = ?          told by the text: a bound 1.0 becomes the integer 1
    SELECT id / ?         computed: told by the text, but a bound 2.0 is divided by as it is
    SELECT abs(?)         open: the text does not tell; a bound value keeps its type

The parameter schema of a statement says of each parameter which of these it is, in the metadata of its field.
An open parameter has the type there that is offered to clients that ask before they bind.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.bridge.types.plain_types import plain_type

_KEY: Final = b"lance-gateway:parameter"
_OPEN: Final = {_KEY: b"open"}
_COMPUTED: Final = {_KEY: b"computed"}
_SMALL: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
"""Types of one value in the place of those of many."""
_ONE: Final = pa.scalar(1, pa.int64())
_CONSTANTS: Final[Mapping[tuple[str, int], pa.Scalar]] = {
    ("date_part", 0): pa.scalar("day"),
    ("datepart", 0): pa.scalar("day"),
    **{(name, 1): _ONE for name in ("lag", "lead", "nth_value")},
}
"""Function and argument -> a value of the arguments that DataFusion takes as literals only."""
_ZONE: Final = pa.scalar("UTC")
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


def find_computed(root: exp.Query) -> Mapping[int, pa.DataType | None]:
    """Return the ordinals of the parameters that are operands of arithmetic.

    Args:
        root: the statement, in which parameters have numbers.

    Returns:
        Ordinal -> type, where an interval beside the parameter tells it; DataFusion takes such a parameter
        for an interval, too.
    """
    found: dict[int, pa.DataType | None] = {}
    for parameter in root.find_all(exp.Parameter):
        operand: exp.Expr = parameter
        while isinstance(operand.parent, exp.Paren):
            operand = operand.parent
        around = operand.parent
        if isinstance(around, _ARITHMETIC):
            other = around.expression if operand is around.this else around.this
            kind = None
            if _is_interval(other):
                kind = pa.timestamp("us") if isinstance(around, exp.Add | exp.Sub) else pa.int64()
            found[int(parameter.name) - 1] = kind
    return found


def find_constants(root: exp.Query) -> Mapping[int, pa.Scalar]:
    """Return the ordinals of the parameters that DataFusion takes as literals only, each with a likely value.

        SELECT date_part($1, at), lag(n, $2) OVER (ORDER BY at) FROM t

    Args:
        root: the statement, in which parameters have numbers.
    """
    found: dict[int, pa.Scalar] = {}
    for parameter in root.find_all(exp.Parameter):
        around, value = parameter.parent, None
        if isinstance(around, exp.Anonymous) and parameter.arg_key == "expressions":
            is_table = isinstance(around.parent, exp.Table | exp.Lateral)  # such as generate_series
            value = _ONE if is_table else _CONSTANTS.get((around.name.casefold(), parameter.index or 0))
        elif isinstance(around, exp.AtTimeZone) and parameter.arg_key == "zone":
            value = _ZONE
        if value is not None and parameter.name.isdecimal():
            found[int(parameter.name) - 1] = value
    return found


def _is_interval(node: exp.Expr) -> bool:
    """Return whether an expression is an interval, or a multiple of one."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        return _is_interval(node.this)
    if isinstance(node, exp.Mul | exp.Div):
        return _is_interval(node.this) or _is_interval(node.expression)
    return isinstance(node, exp.Interval)


def build_parameter_schema(
    told: Mapping[int, pa.DataType], types: Sequence[pa.DataType], computed: Collection[int]
) -> pa.Schema:
    """Return the parameter schema of a statement: nullable fields "$1", "$2", ...

    Args:
        told: ordinal -> type, of the parameters whose type the text tells.
        types: of all parameters.
        computed: ordinals of those that are operands of arithmetic.
    """
    fields = []
    for ordinal, kind in enumerate(types):
        metadata = _OPEN if ordinal not in told else _COMPUTED if ordinal in computed else None
        fields.append(pa.field(f"${ordinal + 1}", kind, metadata=metadata))
    return pa.schema(fields)


def settle_types(parameters: pa.Schema, bound: Sequence[pa.DataType]) -> tuple[pa.DataType, ...]:
    """Return the types that bound values have in the statement.

    Args:
        parameters: the parameter schema, as `build_parameter_schema` makes it.
        bound: the types of the values; as many as there are parameters, or the caller refuses them.
    """
    if len(parameters) != len(bound):
        return tuple(parameters.types)
    return tuple(_settle(field, kind) for field, kind in zip(parameters, bound, strict=True))


def _settle(field: pa.Field, bound: pa.DataType) -> pa.DataType:
    metadata = field.metadata
    if metadata is None or bound.equals(field.type):
        return field.type
    bound = _strip(bound)
    if pa.types.is_null(bound) or pa.types.is_union(bound):
        # A row of a union has its own type, and all rows run one plan.
        return field.type
    if metadata == _OPEN or _is_wider(bound, field.type):
        return bound
    return field.type


def _strip(kind: pa.DataType) -> pa.DataType:
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    kind = plain_type(kind)
    return _SMALL.get(kind, kind)


def _is_span(kind: pa.DataType) -> bool:
    return bool(pa.types.is_interval(kind) or pa.types.is_duration(kind))


def _is_wider(bound: pa.DataType, told: pa.DataType) -> bool:
    """Return whether arithmetic with bound values differs from arithmetic with values of the told type."""
    types = pa.types
    if types.is_temporal(told):
        # `at - ?` tells an instant.
        return bool(types.is_temporal(bound)) and _is_span(bound) != _is_span(told)
    if types.is_decimal(told) and types.is_decimal(bound):
        return bool(bound.scale > told.scale or bound.precision - bound.scale > told.precision - told.scale)
    if types.is_decimal(told) and types.is_integer(bound):
        return True
    if types.is_floating(bound):
        narrower = types.is_floating(told) and told.bit_width < bound.bit_width
        return bool(types.is_integer(told) or types.is_decimal(told) or narrower)
    return bool(types.is_decimal(bound) and types.is_integer(told))
