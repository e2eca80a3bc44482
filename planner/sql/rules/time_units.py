"""Literals of times, and dates, have the unit of the times beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeGuard

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import Use, cast_to, find_groups, replace_value
from planner.sql.rules.tree import Tree, find_family, for_texts

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6}
_ZONES: Final = {exp.DType.TIMESTAMP: None, exp.DType.TIMESTAMPTZ: "+00:00"}

_FRACTION: Final = re.compile(r"\s*\d{4}-.*:\d\d\.(\d*[1-9])0*\s*(?:Z|[+-][\d:]*)?\s*", re.IGNORECASE)


_COARSE: Final = r"timestamp[\[(](?:s|ms|us|second|milli|micro|[0-6]\b)"


@for_texts(
    rf"{_COARSE}.*(?:\btimestamp(?:tz)?\s*'|\bdate)|(?:\bdate|\btimestamp(?:tz)?\s*').*{_COARSE}"
    rf"|{_COARSE}.*:\d\d\.\d|(?:date|{_COARSE}).*(?:as\s+|::\s*)timestamp"
)
def time_units(tree: Tree) -> None:
    """Read a literal of a time, and a date, in the unit of the times beside it, if that holds its digits.

    DataFusion takes nanoseconds for both, and casts the times to them, which end in the year 2262.
    Comparisons of a column with literals alone are right. Times beside a text with more digits have its unit,
    and casts of dates and of times of coarser units have microseconds.

        SELECT coalesce(valid_to, TIMESTAMP '2024-03-10 02:30:00') FROM t
    ->  SELECT coalesce(valid_to, arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)')) FROM t
    """
    for cast in list(tree.root.find_all(exp.Cast))[::-1]:
        if _is_of_nanoseconds(cast) and not isinstance(cast.this, exp.Literal):
            kind = tree.find_type(cast.this)
            is_time = kind is not None and pa.types.is_timestamp(kind) and kind.unit in _DIGITS
            if is_time or (kind is not None and pa.types.is_date(kind)):
                replace_value(tree, cast, cast_to(cast.this.copy(), pa.timestamp("us", _ZONES[cast.to.this])))
    for group in find_groups(tree):
        if group.use is not Use.COMPUTED and any(map(_read_fraction, group.members)):
            _refine(tree, group.members)
    for group in find_groups(tree):
        others = [member for member in group.members if not _is_constant(member)]
        has_dates = tree.may_mix(others, "instant", "date") or tree.may_mix(others, "zoned", "date")
        is_single = group.is_condition and len(others) == 1 and isinstance(others[0], exp.Column)
        is_single = is_single and not isinstance(group.node, exp.Case)
        has_literals = any(map(_is_literal, group.members)) and not is_single
        if group.use is not Use.COMPUTED and (has_dates or has_literals):
            _unify(tree, group.members, others)


def _refine(tree: Tree, members: Sequence[exp.Expr]) -> None:
    """Give times the unit that holds the digits of a text beside them, which DataFusion cuts off."""
    others = [member for member in members if not isinstance(member, exp.Literal)]
    if not (tree.may_mix(others, "instant") or tree.may_mix(others, "zoned")):
        return
    kinds = [tree.find_type(member) for member in others]
    times = [kind for kind in kinds if kind is not None and pa.types.is_timestamp(kind)]
    digits = max(len(_read_fraction(member)) for member in members)
    if not times or digits > _DIGITS["us"] or digits <= max(_DIGITS.get(kind.unit, 9) for kind in times):
        return
    unit = next(unit for unit, count in _DIGITS.items() if count >= digits)
    for member, kind in zip(others, kinds, strict=True):
        if kind is not None and pa.types.is_timestamp(kind):
            tree.replace(member, cast_to(member.copy(), pa.timestamp(unit, kind.tz)))


def _read_fraction(member: exp.Expr) -> str:
    """Return the digits of the fraction of a second in a text of a time; none for other expressions."""
    is_text = isinstance(member, exp.Literal) and member.is_string
    found = _FRACTION.fullmatch(member.name) if is_text else None
    return found[1] if found else ""


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
    return _is_of_nanoseconds(member) and isinstance(member.this, exp.Literal) and member.this.is_string


def _is_of_nanoseconds(member: exp.Expr) -> TypeGuard[exp.Cast]:
    return isinstance(member, exp.Cast) and member.to.this in _ZONES and not member.to.expressions


def _is_constant(member: exp.Expr) -> bool:
    """Return whether an expression is a literal, but for those of times in other units."""
    if isinstance(member, exp.Cast) and member.to.this in _ZONES and member.to.expressions:
        return False
    return isinstance(member.this if isinstance(member, exp.Cast) else member, exp.Literal)
