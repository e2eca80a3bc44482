"""Literals of times, and dates, have the unit of the times beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeGuard

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import Use, cast_to, find_groups
from planner.sql.rules.tree import Tree, find_family, for_texts

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6}
_ZONES: Final = {exp.DType.TIMESTAMP: None, exp.DType.TIMESTAMPTZ: "+00:00"}


@for_texts(r"timestamp\[(?:s|ms|us)\b", r"\btimestamp(?:tz)?\s*'|\bdate")
def time_units(tree: Tree) -> None:
    """Read a literal of a time, and a date, in the unit of the times beside it, if that holds its digits.

    DataFusion takes nanoseconds for both, and casts the times to them, which end in the year 2262.
    Comparisons with literals alone are right.

        SELECT coalesce(valid_to, TIMESTAMP '2024-03-10 02:30:00') FROM t
    ->  SELECT coalesce(valid_to, arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)')) FROM t
    """
    for group in find_groups(tree):
        others = [member for member in group.members if not isinstance(_find_source(member), exp.Literal)]
        has_dates = tree.may_mix(others, "instant", "date") or tree.may_mix(others, "zoned", "date")
        is_single = group.is_condition and len(others) == 1 and not isinstance(group.node, exp.Case)
        has_literals = any(map(_is_literal, group.members)) and not is_single
        if group.use is not Use.COMPUTED and (has_dates or has_literals):
            _unify(tree, group.members, others)


def _unify(tree: Tree, members: Sequence[exp.Expr], others: Sequence[exp.Expr]) -> None:
    kinds = [tree.find_type(member) for member in others]
    units = {kind.unit for kind in kinds if kind is not None and pa.types.is_timestamp(kind)}
    if not units or not units <= _DIGITS.keys():
        return
    unit = max(units, key=_DIGITS.__getitem__)
    for member, kind in zip(others, kinds, strict=True):
        if kind is not None and find_family(kind) == "date":
            tree.replace(member, cast_to(member.copy(), pa.timestamp(unit)))
    for literal in filter(_is_literal, members):
        _, _, fraction = literal.this.name.partition(".")
        if len(fraction.rstrip("0")) <= _DIGITS[unit]:
            tree.replace(literal, cast_to(literal.this.copy(), pa.timestamp(unit, _ZONES[literal.to.this])))


def _is_literal(member: exp.Expr) -> TypeGuard[exp.Cast]:
    """Return whether an expression is a literal of a time in nanoseconds."""
    return (
        isinstance(member, exp.Cast)
        and isinstance(member.this, exp.Literal)
        and member.this.is_string
        and member.to.this in _ZONES
        and not member.to.expressions
    )


def _find_source(member: exp.Expr) -> exp.Expr:
    source: exp.Expr = member.this if isinstance(member, exp.Cast) else member
    return source
