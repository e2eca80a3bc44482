"""What is known of the values that an expression has in the rows of each region: bounds, and whether NULL.

A span has one entry per region. What is computed from spans holds for each row that may be in the region:
`Truth` says which of true, false and NULL a condition may be, and says all three where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Flags: TypeAlias = np.ndarray
"""One flag per region."""


@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """Bounds of the values of an expression.

    Attributes:
        lower: the least value; NULL where there is no bound.
        upper: the largest value; NULL where there is no bound.
        may_be_null: whether the expression may be NULL in a row.
        has_values: whether it may be anything else.
        excludes_upper: whether `upper` is larger than all values.
        only_equality: whether nothing but equality with a text of ASCII can be decided.
    """

    lower: pa.Array
    upper: pa.Array
    may_be_null: Flags
    has_values: Flags
    excludes_upper: bool = False
    only_equality: bool = False

    def __len__(self) -> int:
        """Return the number of regions."""
        return len(self.lower)

    @property
    def type(self) -> pa.DataType:
        """Type of the values."""
        return self.lower.type

    @property
    def is_exact(self) -> Flags:
        """Whether all rows of a region have the same value, which is `lower`."""
        same = to_flags(pc.equal(self.lower, self.upper)) & (not self.excludes_upper)
        if pa.types.is_floating(self.type):
            same &= ~to_flags(pc.equal(self.lower, 0), unknown=True)  # there are two zeros
        return np.where(self.has_values, same & ~self.may_be_null, self.may_be_null)

    def unite(self, other: Span) -> Span:
        """Return the span of what has the value of either, or NULL."""
        return Span(
            pc.if_else(pc.less(self.lower, other.lower), self.lower, other.lower),
            pc.if_else(pc.less(self.upper, other.upper), other.upper, self.upper),
            np.ones(len(self), np.bool_),
            self.has_values | other.has_values,
            only_equality=self.only_equality or other.only_equality,
        )

    def cast(self, kind: pa.DataType) -> Span:
        """Return the span in another type, in which all values are the same."""
        return replace(self, lower=self.lower.cast(kind), upper=self.upper.cast(kind))


@dataclass(frozen=True, eq=False, slots=True)
class Truth:
    """What a condition may be in the rows of each region."""

    true: Flags
    false: Flags
    null: Flags

    def negate(self) -> Truth:
        """Return the truth of NOT."""
        return Truth(self.false, self.true, self.null)

    def conjoin(self, other: Truth) -> Truth:
        """Return the truth of AND."""
        null = (self.null & (other.null | other.true)) | (other.null & self.true)
        return Truth(self.true & other.true, self.false | other.false, null)

    def disjoin(self, other: Truth) -> Truth:
        """Return the truth of OR."""
        return self.negate().conjoin(other.negate()).negate()

    def intersect(self, other: Truth, where: Flags) -> Truth:
        """Return what both allow, in the regions where the other one is known."""
        return Truth(
            self.true & (other.true | ~where),
            self.false & (other.false | ~where),
            self.null & (other.null | ~where),
        )


def anything(count: int) -> Truth:
    """Return the truth of a condition of which nothing is known."""
    return Truth(np.ones(count, np.bool_), np.ones(count, np.bool_), np.ones(count, np.bool_))


def is_ordered(kind: pa.DataType) -> bool:
    """Return whether Arrow orders values of a type as DataFusion does."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date)
    others = (pa.types.is_timestamp, pa.types.is_boolean, is_text, pa.types.is_binary)
    return any(bool(test(kind)) for test in (*tests, *others))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is one of text."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(bool(test(kind)) for test in tests)


def compare(left: Span, operator: str, right: Span) -> Truth | None:
    """Return the truth of a comparison; None if nothing is known of it."""
    if is_text(left.type) and is_text(right.type):
        left, right = left.cast(pa.string()), right.cast(pa.string())
    if left.type != right.type or not is_ordered(left.type) or operator not in _POSSIBLE:
        return None
    is_equality = operator in {"=", "!="}
    if (left.only_equality or right.only_equality) and not (is_equality and _is_ascii(left, right)):
        return None
    counts = left.has_values & right.has_values
    null = left.may_be_null | right.may_be_null
    true = _POSSIBLE[operator](left, right) & counts
    false = _POSSIBLE[_NEGATED[operator]](left, right) & counts
    if left.only_equality or right.only_equality:
        # Others may compute other values of other letters: these are no member, and so is what is recorded.
        return Truth(true | (operator == "!="), false | (operator == "="), np.ones(len(left), np.bool_))
    return Truth(true, false, null)


def match_prefix(span: Span, prefix: str) -> Truth | None:
    """Return the truth of `LIKE 'prefix..'`; None if nothing is known of it."""
    if not is_text(span.type) or span.only_equality:
        return None
    possible = _are_less(pa.scalar(prefix, span.type), span.upper, or_equal=not span.excludes_upper)
    end = find_end_of_prefix(prefix)
    if end is not None:
        possible &= _are_less(span.lower, pa.scalar(end, span.type), or_equal=False)
    return Truth(possible & span.has_values, span.has_values, span.may_be_null)


def find_end_of_prefix(prefix: str) -> str | None:
    """Return the least text above all that begin with a prefix of ASCII; None if there is none."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix and prefix.isascii() else None


def _are_less(left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar, *, or_equal: bool) -> Flags:
    """Return whether one bound is below the other, as far as there are bounds."""
    return to_flags((pc.less_equal if or_equal else pc.less)(left, right), unknown=True)


def to_flags(values: pa.Array, *, unknown: bool = False) -> Flags:
    """Return the values of a column of booleans, with one in place of NULL."""
    flags: np.ndarray = values.fill_null(unknown).to_numpy(zero_copy_only=False)
    return flags


def _may_be_less(left: Span, right: Span) -> Flags:
    # DataFusion tells -0.0 from 0.0, and Arrow does not.
    return _are_less(left.lower, right.upper, or_equal=bool(pa.types.is_floating(left.type)))


def _may_be_at_most(left: Span, right: Span) -> Flags:
    return _are_less(left.lower, right.upper, or_equal=not right.excludes_upper)


def _may_be_equal(left: Span, right: Span) -> Flags:
    found: Flags = _may_be_at_most(left, right) & _may_be_at_most(right, left)
    return found


def _may_differ(left: Span, right: Span) -> Flags:
    found: Flags = ~(left.is_exact & right.is_exact & _may_be_equal(left, right))
    return found


_POSSIBLE: Final[dict[str, Callable[[Span, Span], Flags]]] = {
    "=": _may_be_equal,
    "!=": _may_differ,
    "<": _may_be_less,
    "<=": _may_be_at_most,
    ">": lambda left, right: _may_be_less(right, left),
    ">=": lambda left, right: _may_be_at_most(right, left),
}
_NEGATED: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _is_ascii(*spans: Span) -> bool:
    """Return whether all texts that are known are of ASCII."""
    known = [pc.string_is_ascii(one.lower) for one in spans if is_text(one.type)]
    return len(known) == len(spans) and all(pc.all(one).as_py() is not False for one in known)
