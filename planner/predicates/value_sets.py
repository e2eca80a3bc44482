"""Convert a predicate to the values that columns can have where it is TRUE.

A predicate becomes a union of boxes, and a box gives some columns a set of admissible values:

    (a = 1 AND b = 2) OR a > 8   ->   {a: {1}, b: {2}}, {a: (8, ...)}

Every row that satisfies the predicate lies in a box; a box may hold other rows too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lance_gateway.planner.predicates.predicate import And, Comparison, InList, IsNull, Not, Or, Predicate

_MAX_BOXES: Final = 2_000
# Ranges up to this many values of a discrete type count as lists of values.
_MAX_ENUMERATED: Final = 400


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range; `key` is the value's `order_key`."""

    value: pa.Scalar
    inclusive: bool
    key: Any = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", order_key(self.value))


@dataclass(frozen=True, slots=True)
class ColumnSet:
    """Admissible values of one column.

    `values` lists all that are not NULL; None: any within the bounds, without `excluded` (by `order_key`).
    `null` says whether NULL is admissible.
    """

    null: bool = False
    values: tuple[pa.Scalar, ...] | None = None
    lower: Bound | None = None
    upper: Bound | None = None
    excluded: frozenset[Any] = field(default_factory=frozenset)

    @property
    def is_empty(self) -> bool:
        """Whether no value at all is admissible."""
        return self.values == () and not self.null

    def has_value(self, key: Any) -> bool:  # noqa: ANN401 - of any orderable type
        """Return whether a value, given by its `order_key`, is within the bounds and not excluded."""
        lower, upper = self.lower, self.upper
        if lower is not None and (key < lower.key or (key == lower.key and not lower.inclusive)):
            return False
        if upper is not None and (key > upper.key or (key == upper.key and not upper.inclusive)):
            return False
        return key not in self.excluded

    def intersect(self, other: ColumnSet) -> ColumnSet:
        """Return the values that both sets admit."""
        null = self.null and other.null
        if self.values is None and other.values is None:
            lower = _select_tighter(self.lower, other.lower, larger=True)
            upper = _select_tighter(self.upper, other.upper, larger=False)
            return _enumerate_range(ColumnSet(null, None, lower, upper, self.excluded | other.excluded))
        if self.values is None:
            return other.intersect(self)
        values: Iterable[pa.Scalar] = self.values
        if other.values is not None:
            members = {order_key(value) for value in other.values}
            values = (value for value in values if order_key(value) in members)
        return ColumnSet(null, tuple(value for value in values if other.has_value(order_key(value))))


Box: TypeAlias = dict[str, ColumnSet]


def order_key(value: pa.Scalar) -> Any:  # noqa: ANN401 - of any orderable type
    """Return a Python value that compares and hashes as the scalar does; integers for temporal values."""
    return value.value if pa.types.is_temporal(value.type) else value.as_py()


def find_boxes(predicate: Predicate, columns: frozenset[str]) -> Sequence[Box]:
    """Return boxes over some columns that cover the predicate; none if it is never TRUE, [{}] for any row."""
    boxes = _build_boxes(predicate, columns)
    return [{}] if boxes is None else boxes


def _build_boxes(predicate: Predicate, columns: frozenset[str]) -> list[Box] | None:
    match predicate:
        case And(operands):
            together: list[Box] = [{}]
            for operand in operands:
                boxes = _build_boxes(operand, columns)
                # An operand with too many alternatives narrows nothing.
                if boxes is not None and len(together) * len(boxes) <= _MAX_BOXES:
                    together = [
                        box
                        for one in together
                        for other in boxes
                        if (box := _intersect_boxes(one, other)) is not None
                    ]
            return together
        case Or(operands):
            alternatives: list[Box] = []
            for operand in operands:
                boxes = _build_boxes(operand, columns)
                if boxes is None or len(alternatives) + len(boxes) > _MAX_BOXES:
                    return None
                alternatives.extend(boxes)
            return [{}] if {} in alternatives else alternatives
        case (
            Comparison(column, _, _)
            | InList(column, _)
            | IsNull(column)
            | Not(InList(column, _) | IsNull(column))
        ):
            values = _build_column_set(predicate) if column in columns else None
            if values is None:
                return [{}]
            return [] if values.is_empty else [{column: values}]
        case _:
            return [{}]


def _build_column_set(predicate: Predicate) -> ColumnSet | None:
    """Return the values that a condition on one column admits; None for any."""
    match predicate:
        case Comparison(_, "=", value):
            return _list_values((value,))
        case Comparison(_, "!=", value):
            return ColumnSet(excluded=_list_exclusions((value,)))
        case Comparison(_, operator, value):
            if pa.types.is_floating(value.type):
                if math.isnan(value.as_py()):
                    return ColumnSet()
                # DataFusion tells -0.0 from 0.0, and Arrow does not: keep both at the edge.
                operator = "<=" if operator.startswith("<") else ">="
            bound = Bound(value, inclusive=operator.endswith("="))
            is_upper = operator.startswith("<")
            return _enumerate_range(ColumnSet(upper=bound) if is_upper else ColumnSet(lower=bound))
        case InList(_, values):
            return _list_values(values)
        case IsNull():
            return ColumnSet(null=True, values=())
        case Not(IsNull()):
            return ColumnSet()
        case Not(InList(_, values)):
            # Arrow's own evaluation of "not is_in" keeps NULL, unlike SQL: admit it.
            return ColumnSet(null=True, excluded=_list_exclusions(values))
        case _:
            return None


def _list_values(values: tuple[pa.Scalar, ...]) -> ColumnSet | None:
    """Build a finite set; NaN has many bit patterns, and zero has two."""
    if values and pa.types.is_floating(values[0].type):
        if any(math.isnan(value.as_py()) for value in values):
            return ColumnSet()
        if any(value.as_py() == 0.0 for value in values):
            zeros = tuple(pa.scalar(zero, values[0].type) for zero in (0.0, -0.0))
            values = (*zeros, *(value for value in values if value.as_py() != 0.0))
    return ColumnSet(values=values)


def _list_exclusions(values: tuple[pa.Scalar, ...]) -> frozenset[Any]:
    if values and pa.types.is_floating(values[0].type):
        return frozenset()
    return frozenset(map(order_key, values))


def _intersect_boxes(one: Box, other: Box) -> Box | None:
    merged = {**one, **other}
    for column in one.keys() & other.keys():
        both = one[column].intersect(other[column])
        if both.is_empty:
            return None
        merged[column] = both
    return merged


def _select_tighter(one: Bound | None, other: Bound | None, *, larger: bool) -> Bound | None:
    if one is None or other is None:
        return one or other
    if one.key == other.key:
        return other if one.inclusive else one
    return one if (one.key > other.key) is larger else other


def _enumerate_range(values: ColumnSet) -> ColumnSet:
    """Make bounds of discrete types inclusive, and list the values of short ranges.

    `d < DATE '2025-01-01'` thus ends with 2024-12-31, whose year is 2024.
    """
    dtype = next((bound.value.type for bound in (values.lower, values.upper) if bound is not None), None)
    if dtype is None or not _is_discrete(dtype):
        return values
    lower, upper = values.lower, values.upper
    if lower is not None and not lower.inclusive:
        lower = _move_bound(lower, dtype, 1)
    if upper is not None and not upper.inclusive:
        upper = _move_bound(upper, dtype, -1)
    values = replace(values, lower=lower, upper=upper)
    if lower is None or upper is None:
        return values
    low, high = lower.key, upper.key
    if high - low >= _MAX_ENUMERATED or not (lower.inclusive and upper.inclusive):
        return values
    keys = [key for key in range(low, high + 1) if key not in values.excluded]
    return ColumnSet(null=values.null, values=tuple(_build_scalar(key, dtype) for key in keys))


def _is_discrete(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_date32(dtype) or pa.types.is_timestamp(dtype))


def _move_bound(bound: Bound, dtype: pa.DataType, by: int) -> Bound:
    try:
        return Bound(_build_scalar(bound.key + by, dtype), inclusive=True)
    except (pa.ArrowException, OverflowError):
        return bound  # the last value of the type: nothing lies beyond it


def _build_scalar(key: int, dtype: pa.DataType) -> pa.Scalar:
    if pa.types.is_integer(dtype):
        return pa.scalar(key, dtype)
    storage = pa.int32() if pa.types.is_date32(dtype) else pa.int64()
    return pa.scalar(key, storage).cast(dtype)


# Finite keys

_FiniteBox: TypeAlias = dict[str, tuple[pa.Scalar, ...]]


def find_key_values(
    predicate: Predicate, key_columns: Sequence[str], schema: pa.Schema, limit: int = 1000
) -> pa.Table | None:
    """Return the finite set of primary keys outside which the predicate is never TRUE.

    Args:
        predicate: What the rows satisfy.
        key_columns: The primary key, in key order.
        schema: The table's columns.
        limit: More keys than this count as not finite.

    Returns:
        Distinct keys typed as the key columns (no rows if the predicate is never TRUE); None when there is
        no such set, or none that can be compared exactly (float keys).
    """
    types = [schema.field(name).type for name in key_columns]
    if not key_columns or any(_is_inexact(dtype) for dtype in types):
        return None
    boxes = _build_finite_boxes(predicate, frozenset(key_columns), limit)
    if boxes is None:
        return None
    keys: dict[tuple[pa.Scalar, ...], None] = {}
    for box in boxes:
        if len(box) < len(key_columns):
            return None
        for key in product(*(box[name] for name in key_columns)):
            keys[key] = None
            if len(keys) > limit:
                return None
    columns = zip(*keys, strict=True) if keys else ((),) * len(key_columns)
    fields = [schema.field(name) for name in key_columns]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _is_inexact(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_floating(dtype) or pa.types.is_nested(dtype) or pa.types.is_dictionary(dtype))


def _build_finite_boxes(predicate: Predicate, columns: frozenset[str], limit: int) -> list[_FiniteBox] | None:
    """Build lists of values by column, a box per alternative; None if there would be too many."""
    match predicate:
        case Comparison(column, "=", value) if column in columns:
            return [{column: (value,)}]
        case InList(column, values) if column in columns:
            return [{column: values}]
        case Or(operands):
            return _combine_alternatives(operands, columns, limit)
        case And(operands):
            together: list[_FiniteBox] = [{}]
            for operand in operands:
                boxes = _build_finite_boxes(operand, columns, limit)
                if boxes is not None and len(together) * len(boxes) <= limit:
                    together = list(_intersect_finite_boxes(together, boxes))
            return together  # an operand that has too many alternatives narrows nothing
        case _:
            return [{}]


def _combine_alternatives(
    operands: Sequence[Predicate], columns: frozenset[str], limit: int
) -> list[_FiniteBox] | None:
    alternatives: list[_FiniteBox] = []
    for operand in operands:
        boxes = _build_finite_boxes(operand, columns, limit)
        if boxes is None or len(alternatives) + len(boxes) > limit:
            return None
        alternatives.extend(boxes)
    return alternatives


def _intersect_finite_boxes(left: Sequence[_FiniteBox], right: Sequence[_FiniteBox]) -> Iterator[_FiniteBox]:
    for one, other in product(left, right):
        merged = {**one, **other}
        for column in one.keys() & other.keys():
            members = set(other[column])
            merged[column] = tuple(value for value in one[column] if value in members)
        if all(merged.values()):
            yield merged
