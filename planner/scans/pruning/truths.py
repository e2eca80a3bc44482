"""Reads what a condition may be in the rows of each region: true, false or NULL.

AND, OR, NOT, IS NULL and IS TRUE are combined as SQL does; comparisons, IN and LIKE are decided from the
spans of their operands. Any other condition is evaluated where all of its columns have one value per region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.planner.bridge.plan_reading import (
    Expression,
    columns_of,
    literal_value,
    operands,
    strip_aliases,
)
from lance_gateway.planner.scans.pruning.plan_conditions import Definitions
from lance_gateway.planner.scans.pruning.scalars import Ends, Scalar, Values, find_exact
from lance_gateway.planner.scans.pruning.spans import Span, Truth, anything, compare, match_prefix, to_flags

Reading: TypeAlias = Callable[[Values], Truth]
"""Returns the truth of a condition, once values are known."""

_MOST_MEMBERS: Final = 1000
"""Of a list; of a longer one nothing is said."""
_ESCAPE: Final = "\\"


def read_truth(ends: Ends, expression: Expression, definitions: Definitions) -> Reading:
    """Return how to find the truth of a condition.

    Args:
        ends: of the regions.
        expression: the condition.
        definitions: of its computed columns.
    """
    expression = strip_aliases(expression)
    kind = expression.variant_name()
    arguments = operands(expression)
    if kind == "Not":
        inner = read_truth(ends, arguments[0], definitions)
        return lambda values: inner(values).negate()
    if kind in _TESTS:
        return _read_test(ends, kind, arguments[0], definitions)
    if kind == "BinaryExpr" and (operator := expression.to_variant().op()) in {"AND", "OR"}:
        sides = [read_truth(ends, one, definitions) for one in arguments]
        combine = Truth.conjoin if operator == "AND" else Truth.disjoin
        return lambda values: reduce(combine, (side(values) for side in sides))
    return _read_atom(ends, expression, definitions)


def _read_test(ends: Ends, kind: str, operand: Expression, definitions: Definitions) -> Reading:
    """Read IS NULL, IS TRUE and their like, which are never NULL."""
    scalar = ends.read_scalar(operand, definitions) if kind in _OF_NULL else None
    inner = None if scalar is not None else read_truth(ends, operand, definitions)
    never = np.zeros(ends.count, np.bool_)

    def test(values: Values) -> Truth:
        span = None if scalar is None else scalar(values)
        if span is not None:
            some = span.has_values
            truth = Truth(some, some, span.may_be_null)
        else:
            truth = anything(ends.count) if inner is None else inner(values)
        return Truth(*_TESTS[kind](truth), never)

    return test


_TESTS: Final[dict[str, Callable[[Truth], tuple[np.ndarray, np.ndarray]]]] = {
    "IsNull": lambda one: (one.null, one.true | one.false),
    "IsUnknown": lambda one: (one.null, one.true | one.false),
    "IsNotNull": lambda one: (one.true | one.false, one.null),
    "IsNotUnknown": lambda one: (one.true | one.false, one.null),
    "IsTrue": lambda one: (one.true, one.false | one.null),
    "IsNotTrue": lambda one: (one.false | one.null, one.true),
    "IsFalse": lambda one: (one.false, one.true | one.null),
    "IsNotFalse": lambda one: (one.true | one.null, one.false),
}
"""Variant of a test -> where it may be true, and where false."""
_OF_NULL: Final = frozenset({"IsNull", "IsNotNull"})


def _read_atom(ends: Ends, expression: Expression, definitions: Definitions) -> Reading:
    """Read a condition that is no combination of others."""
    decide = _find_decision(ends, expression, definitions)
    if decide is not None:

        def read(values: Values) -> Truth:
            found = decide(values)
            return anything(ends.count) if found is None else found

        return read
    is_defined = any(name in definitions for _, name in columns_of(expression))
    exact = None if is_defined else find_exact(ends, expression)
    if exact is None:
        return lambda _: anything(ends.count)
    place = ends.want(expression)

    def look_up(values: Values) -> Truth:
        found = values[place]
        if found is None:
            return anything(ends.count)
        ours = found.slice(0, ends.count)
        null = ours.is_null().to_numpy(zero_copy_only=False)
        flags = ours if pa.types.is_boolean(ours.type) else None
        true = ~null if flags is None else to_flags(flags)
        false = ~null if flags is None else ~null & ~true
        return anything(ends.count).intersect(Truth(true, false, null), exact)

    return look_up


Decision: TypeAlias = Callable[[Values], Truth | None]


def _find_decision(ends: Ends, expression: Expression, definitions: Definitions) -> Decision | None:
    """Return how a comparison, IN or LIKE is decided; None if one of its operands is not known."""
    kind = expression.variant_name()
    if kind == "BinaryExpr":
        return _read_comparison(ends, expression, definitions)
    if kind == "Like":
        return _read_like(ends, expression, definitions)
    if kind in {"InList", "Between"}:
        node = expression.to_variant()
        scalars = [ends.read_scalar(one, definitions) for one in operands(expression)]
        if None in scalars or len(scalars) > _MOST_MEMBERS:
            return None
        known = [one for one in scalars if one is not None]
        decide = _find_member if kind == "InList" else _find_between
        if node.negated():
            return lambda values: _negate(decide(known, values))
        return lambda values: decide(known, values)
    if kind in {"Column", "Literal"}:
        scalar = ends.read_scalar(expression, definitions)
        return None if scalar is None else lambda values: _find_flag(scalar(values))
    return None


def _read_comparison(ends: Ends, expression: Expression, definitions: Definitions) -> Decision | None:
    operator = expression.to_variant().op()
    left, right = (ends.read_scalar(one, definitions) for one in operands(expression))
    if left is None or right is None:
        return None
    return lambda values: _compare(left(values), operator, right(values))


def _read_like(ends: Ends, expression: Expression, definitions: Definitions) -> Decision | None:
    operator, node = expression.rex_call_operator(), expression.to_variant()
    if operator not in {"like", "not like"} or node.pattern().variant_name() != "Literal":
        return None
    scalar, pattern = ends.read_scalar(node.expr(), definitions), literal_value(node.pattern())
    if scalar is None or not isinstance(pattern, str):
        return None
    prefix = _read_prefix(pattern, node.escape_char() or _ESCAPE)

    def match(values: Values) -> Truth | None:
        span = scalar(values)
        found = None if span is None else match_prefix(span, prefix)
        return _negate(found) if node.negated() else found

    return match


def _read_prefix(pattern: str, escape: str) -> str:
    """Return the ASCII text that all texts begin with that a pattern matches."""
    for at, mark in enumerate(pattern):
        if mark in {"%", "_", escape, _ESCAPE} or not mark.isascii():
            return pattern[:at]
    return pattern


def _compare(left: Span | None, operator: str, right: Span | None) -> Truth | None:
    return None if left is None or right is None else compare(left, operator, right)


def _negate(truth: Truth | None) -> Truth | None:
    return None if truth is None else truth.negate()


def _find_member(scalars: Sequence[Scalar], values: Values) -> Truth | None:
    """Return whether the first is among the others."""
    value, *members = (one(values) for one in scalars)
    found = [_compare(value, "=", member) for member in members]
    known = [one for one in found if one is not None]
    return reduce(Truth.disjoin, known) if len(known) == len(found) > 0 else None


def _find_between(scalars: Sequence[Scalar], values: Values) -> Truth | None:
    value, low, high = (one(values) for one in scalars)
    above, below = _compare(value, ">=", low), _compare(value, "<=", high)
    return None if above is None or below is None else above.conjoin(below)


def _find_flag(span: Span | None) -> Truth | None:
    """Return the truth of a column of booleans."""
    if span is None or not pa.types.is_boolean(span.type):
        return None
    true, false = ~to_flags(pc.invert(span.upper)), ~to_flags(span.lower)
    return Truth(true & span.has_values, false & span.has_values, span.may_be_null)
