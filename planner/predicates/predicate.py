"""Filters that DataFusion pushes into a leaf, as a small algebra that plans can reason about.

DataFusion hands a leaf its own conjuncts as one `pyarrow.compute.Expression`, which shows nothing of its
inside. `decode` turns it into frozen nodes; whatever it does not understand becomes `Anything`, so that a
conclusion drawn from the nodes holds for the expression too:

    (id == 7) and (lower(s) == "x")   ->   And(Comparison(id = 7), Anything)

A node describes the rows for which the condition is TRUE, SQL's NULL counting as not TRUE. NOT has been
pushed down to the leaves, so `Not` holds nothing but `InList` and `IsNull`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.columns.kinds import is_text
from lance_gateway.planner.predicates.arrow_expressions import Call, Field, Node, Value, read_expression

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class And:
    """All of the operands; without operands: every row."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the operands; without operands: no row."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Rows that the operand does not describe."""

    operand: InList | IsNull


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator value`; the value is not NULL and has the column's type."""

    column: str
    operator: Operator
    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class InList:
    """`column IN (values)`; the values are distinct, not NULL and have the column's type."""

    column: str
    values: tuple[pa.Scalar, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`."""

    column: str


@dataclass(frozen=True, slots=True)
class Anything:
    """Condition that is not understood: any row may satisfy it."""


Predicate: TypeAlias = And | Or | Not | Comparison | InList | IsNull | Anything

TRUE: Final = And(())
FALSE: Final = Or(())
_ANYTHING: Final = Anything()
_OPERATORS: Final[dict[str, Operator]] = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_NEGATED: Final[dict[Operator, Operator]] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_FLIPPED: Final[dict[Operator, Operator]] = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_MATCH_NULLS: Final = 0  # null_matching_behavior of is_in: NULL is a member if the list has a NULL


def decode(expression: pc.Expression | pa.BooleanScalar | None, schema: pa.Schema) -> Predicate:
    """Decode an expression over the columns of `schema`; None decodes to `TRUE`.

    DataFusion pushes a condition that it has folded to a constant as a scalar, which is not an expression.
    """
    if expression is None:
        return TRUE
    if isinstance(expression, pa.BooleanScalar):
        return TRUE if expression.as_py() else FALSE
    node = read_expression(expression)
    return _ANYTHING if node is None else _decode(node, schema, negated=False)


def _decode(node: Node, schema: pa.Schema, *, negated: bool) -> Predicate:
    if isinstance(node, Call):
        read = _FUNCTIONS.get(node.function)
        return _ANYTHING if read is None else read(node, schema, negated=negated)
    if isinstance(node, Value) and pa.types.is_boolean(node.value.type):
        # NULL is not TRUE, and neither is NOT NULL.
        return TRUE if node.value.is_valid and node.value.as_py() is not negated else FALSE
    if isinstance(node, Field) and _column_type(node, schema) == pa.bool_():
        return Comparison(node.name, "=", pa.scalar(not negated))
    return _ANYTHING


def _decode_combination(node: Call, schema: pa.Schema, *, negated: bool) -> Predicate:
    operands = [_decode(argument, schema, negated=negated) for argument in node.arguments]
    all_hold = node.function.startswith("and") is not negated
    return conjunction(operands) if all_hold else _disjunction(operands)


def _decode_inversion(node: Call, schema: pa.Schema, *, negated: bool) -> Predicate:
    return _decode(node.arguments[0], schema, negated=not negated)


def conjunction(operands: Iterable[Predicate]) -> Predicate:
    """Combine operands with AND, without nesting."""
    flat: list[Predicate] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, And) else (operand,))
    if FALSE in flat:
        return FALSE
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def _disjunction(operands: Iterable[Predicate]) -> Predicate:
    flat: list[Predicate] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, Or) else (operand,))
    if TRUE in flat:
        return TRUE
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def _decode_null_test(node: Call, schema: pa.Schema, *, negated: bool) -> Predicate:
    column = node.arguments[0]
    if not isinstance(column, Field) or not _is_column(column, schema):
        return _ANYTHING
    if node.options is not None and node.options["nan_is_null"].as_py():
        return _ANYTHING
    is_null = IsNull(column.name)
    return is_null if (node.function == "is_null") is not negated else Not(is_null)


def _decode_membership(node: Call, schema: pa.Schema, *, negated: bool) -> Predicate:
    column = node.arguments[0]
    dtype = _column_type(column, schema)
    if not isinstance(column, Field) or dtype is None or node.options is None:
        return _ANYTHING
    values = node.options["value_set"].values
    exact = _cast_exactly(values.drop_null(), dtype)
    if exact is None:
        return _ANYTHING
    members = InList(column.name, tuple(pc.unique(exact)))
    if negated:
        return Not(members)
    if values.null_count and node.options["null_matching_behavior"].as_py() == _MATCH_NULLS:
        return Or((members, IsNull(column.name)))
    return members


def _decode_comparison(node: Call, schema: pa.Schema, *, negated: bool) -> Predicate:
    operator = _OPERATORS[node.function]
    left, right = node.arguments
    if isinstance(right, Field):
        left, right, operator = right, left, _FLIPPED[operator]
    dtype = _column_type(left, schema)
    if not isinstance(left, Field) or not isinstance(right, Value) or dtype is None:
        return _ANYTHING
    if not right.value.is_valid:
        return FALSE  # nothing compares as TRUE with NULL, nor does its negation
    exact = _cast_exactly(pa.array([right.value]), dtype)
    if exact is None:
        return _ANYTHING
    return Comparison(left.name, _NEGATED[operator] if negated else operator, exact[0])


_FUNCTIONS: Final[dict[str, Callable[..., Predicate]]] = {
    "and_kleene": _decode_combination,
    "and": _decode_combination,
    "or_kleene": _decode_combination,
    "or": _decode_combination,
    "invert": _decode_inversion,
    "is_null": _decode_null_test,
    "is_valid": _decode_null_test,
    "is_in": _decode_membership,
    **dict.fromkeys(_OPERATORS, _decode_comparison),
}


def _is_column(node: Node, schema: pa.Schema) -> bool:
    return isinstance(node, Field) and len(schema.get_all_field_indices(node.name)) == 1


def _column_type(node: Node, schema: pa.Schema) -> pa.DataType | None:
    """Return the type of a column of simple values (of a dictionary's values), else None."""
    if not isinstance(node, Field) or not _is_column(node, schema):
        return None
    dtype = schema.field(node.name).type
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    is_simple = not pa.types.is_nested(dtype) and not pa.types.is_interval(dtype)
    return dtype if is_simple and not isinstance(dtype, pa.BaseExtensionType) else None


def _cast_exactly(values: pa.Array, dtype: pa.DataType) -> pa.Array | None:
    """Cast values to the column's type; return None if that could change a comparison."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.type == dtype:
        return values
    if not any(is_member(values.type) and is_member(dtype) for is_member in _FAMILIES):
        return None
    try:
        cast = values.cast(dtype)
        return cast if cast.cast(values.type).equals(values) else None
    except pa.ArrowException:
        return None


def _is_bytes(dtype: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_binary_view(dtype)
    )


def _is_instant(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) and dtype.tz is not None)


def _is_local_time(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) and dtype.tz is None)


# Types that compare by value with one another, so that an exact cast changes no comparison.
_FAMILIES: Final = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    is_text,
    _is_bytes,
    _is_instant,
    _is_local_time,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
)


# What is shown of predicates decides nothing about rows.
# pragma: no mutate start
def describe(predicate: Predicate) -> str:
    """Format the predicate as SQL-like text, e.g. `id = 7 AND s IS NULL`."""
    match predicate:
        case And(operands):
            return _join(operands, " AND ") or "TRUE"
        case Or(operands):
            return _join(operands, " OR ") or "FALSE"
        case Not(operand):
            return describe(operand).replace(" IS NULL", " IS NOT NULL").replace(" IN (", " NOT IN (", 1)
        case Comparison(column, operator, value):
            return f"{column} {operator} {_abbreviate(value)}"
        case InList(column, values):
            return f"{column} IN ({_format_values(values)})"
        case IsNull(column):
            return f"{column} IS NULL"
        case Anything():
            return "(not understood)"


def _join(operands: Sequence[Predicate], word: str) -> str:
    return word.join(
        f"({describe(operand)})" if isinstance(operand, And | Or) else describe(operand)
        for operand in operands
    )


def _format_values(values: Sequence[pa.Scalar]) -> str:
    return ", ".join(map(_abbreviate, values[:3])) + (
        f", ... {len(values)} values" if len(values) > 3 else ""
    )


def _abbreviate(value: pa.Scalar) -> str:
    text = format_value(value)
    return text if len(text) <= 40 else text[:37] + "..."


def format_value(value: pa.Scalar) -> str:
    """Format a value as SQL-like text; temporal values as Arrow does, since Python has no nanoseconds."""
    if is_text(value.type):
        return f"'{value.as_py()}'"
    if not pa.types.is_temporal(value.type):
        return str(value.as_py())
    try:
        return f"'{value.cast(pa.string())}'"
    except pa.ArrowException:
        return f"{value.value} {value.type}"


# pragma: no mutate end
