"""Times of day, times that are read from texts, their units, windows and intervals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final, TypeGuard

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.tree.dialect import parse_expression
from lance_gateway.planner.sql.tree.groups import (
    Use,
    cast_to,
    find_groups,
    find_unions,
    recast,
    replace_value,
)
from lance_gateway.planner.sql.tree.tree import Tree, find_family, for_texts

_FINE: Final = re.compile(r"\.\d{7}")
"""Fractions that microseconds do not have."""


@for_texts(r"\btime\b")
def times_of_day(tree: Tree) -> None:
    """Give times of day the unit of columns, since DataFusion compares no others with them.

        SELECT id FROM t WHERE tm > TIME '10:30'
    ->  SELECT id FROM t WHERE tm > arrow_cast('10:30', 'Time64(Microsecond)')
    """
    for cast in list(tree.root.find_all(exp.Cast))[::-1]:
        is_time = cast.to.this is exp.DType.TIME and not cast.to.expressions
        is_fine = isinstance(cast.this, exp.Literal) and _FINE.search(cast.this.name)
        if is_time and not is_fine and not isinstance(cast, exp.TryCast):
            tree.replace(cast, cast_to(cast.this.copy(), pa.time64("us")))


_READ_UNITS: Final = {
    "TO_TIMESTAMP": "ns",
    "TO_TIMESTAMP_SECONDS": "s",
    "TO_TIMESTAMP_MILLIS": "ms",
    "TO_TIMESTAMP_MICROS": "us",
    "TO_TIMESTAMP_NANOS": "ns",
}


@for_texts(r"\bto_timestamp")
def read_texts(tree: Tree) -> None:
    """Give times that are read from texts their type.

    DataFusion 55 documents that these functions give times of the session's time zone, and give those of
    texts none: a plan over rows then fails. The optimizer leaves casts out of comparisons that change
    nothing, as it believes, but for nullif(). Constants are right.

        SELECT to_timestamp_seconds(s) AS x FROM t
    ->  SELECT nullif(arrow_cast(arrow_cast(to_timestamp_seconds(s), 'Timestamp(Second, None)'),
            'Timestamp(Second, Some("+00:00"))'), NULL) AS x FROM t
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        unit = _READ_UNITS.get(call.name.upper())
        is_constant = len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Literal)
        if unit is None or not call.expressions or is_constant:
            continue
        kind = tree.find_type(call.expressions[0])
        if kind is None or find_family(kind) == "text":
            typed = cast_to(cast_to(call.copy(), pa.timestamp(unit)), pa.timestamp(unit, "+00:00"))
            tree.replace(call, exp.Anonymous(this="nullif", expressions=[typed, exp.null()]))


_SHORT: Final = re.compile(
    r"\s*(\d{4}-\d\d-\d\d[ T]\d\d:\d\d)(\s*(?:Z|[+-]\d\d(?::?\d\d)?)?)\s*", re.IGNORECASE
)


@for_texts(r"'\s*\d{4}-\d\d-\d\d[ t]\d\d:\d\d(?!:)")
def short_times(tree: Tree) -> None:
    """Add the seconds that DataFusion demands of times.

        SELECT id FROM t WHERE at > '2024-03-10 02:30'
    ->  SELECT id FROM t WHERE at > '2024-03-10 02:30:00'
    """
    for cast in tree.root.find_all(exp.Cast):
        families = tree.guess_families(cast)
        if families is not None and families <= {"instant", "zoned"}:
            _add_seconds(tree, cast.this)
    for zoned in tree.root.find_all(exp.AtTimeZone):
        _add_seconds(tree, zoned.this)
    for group in find_groups(tree):
        literals = [member for member in group.members if _is_short(member)]
        others = [member for member in group.members if not _is_short(member)]
        if literals and (tree.may_mix(others, "instant") or tree.may_mix(others, "zoned")):
            kinds = filter(None, map(tree.find_type, others))
            if not {"instant", "zoned"}.isdisjoint(map(find_family, kinds)):
                for literal in literals:
                    _add_seconds(tree, literal)
    for branches in find_unions(tree):
        for branch in branches:
            for at, item in enumerate(branch.items or ()):
                types = [other.fields[at].type for other in branches]
                if _is_short(item) and not {"instant", "zoned"}.isdisjoint(map(find_family, types)):
                    _add_seconds(tree, item)


def _is_short(member: exp.Expr) -> bool:
    return isinstance(member, exp.Literal) and member.is_string and bool(_SHORT.fullmatch(member.name))


def _add_seconds(tree: Tree, literal: exp.Expr) -> None:
    if _is_short(literal):
        tree.replace(literal, exp.Literal.string(_SHORT.sub(r"\1:00\2", literal.name)))


_DIGITS: Final = {"s": 0, "ms": 3, "us": 6}
_ZONES: Final = {exp.DType.TIMESTAMP: None, exp.DType.TIMESTAMPTZ: "+00:00"}

_FRACTION: Final = re.compile(r"\s*\d{4}-.*:\d\d\.(\d*[1-9])0*\s*(?:Z|[+-][\d:]*)?\s*", re.IGNORECASE)


_COARSE: Final = r"timestamp[\[(](?:s|ms|us|second|milli|micro|[0-6]\b)"


@for_texts(
    rf"{_COARSE}|date",
    r"\btimestamp(?:tz)?\s*'|\bdate|:\d\d\.\d|(?:as\s+|::\s*)timestamp",
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
            recast(tree, member, partial(cast_to, kind=pa.timestamp(unit, kind.tz)))


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
            recast(tree, member, partial(cast_to, kind=pa.timestamp(unit)))
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


_FIXED = (None, "UNBOUNDED", "CURRENT ROW")
"""Bounds of a frame that are no values."""


@for_texts(r"\bover\b", r"\border\b")
def windows_of_times(tree: Tree) -> None:
    """Sort a window by a number in the place of a time, and by a text in the place of bytes.

    Without a frame, a window ends with the rows that are equal to the current one, and DataFusion finds these
    for numbers and texts, but not for times and bytes.

        SELECT count(*) OVER (ORDER BY tm) FROM t
    ->  SELECT count(*) OVER (ORDER BY arrow_cast(tm, 'Int64')) FROM t
    """
    for window in tree.root.find_all(exp.Window):
        order, frame = window.args.get("order"), window.args.get("spec")
        if order is None or (frame is not None and not _is_of_peers(frame)):
            continue
        for ordered in order.expressions:
            kind = tree.find_type(ordered.this)
            if kind is None:
                continue
            if pa.types.is_time(kind) or pa.types.is_duration(kind):
                shown = parse_expression("arrow_cast(x, 'Int64')")
            elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                shown = parse_expression("encode(x, 'hex')")
            else:
                continue
            (column,) = shown.find_all(exp.Column)
            column.replace(ordered.this.copy())
            tree.replace(ordered.this, shown)


def _is_of_peers(frame: exp.Expr) -> bool:
    """Return whether a frame is of RANGE, and bounded by no values."""
    return frame.args.get("kind") == "RANGE" and all(
        frame.args.get(end) in _FIXED for end in ("start", "end")
    )


_PART: Final = re.compile(r"([+-]?\d+)\s*([a-z]+)\s*", re.IGNORECASE)
_INTERVAL_UNITS: Final = {
    "year": (12, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000_000),
    "minute": (0, 0, 60_000_000_000),
    "second": (0, 0, 1_000_000_000),
    "millisecond": (0, 0, 1_000_000),
    "microsecond": (0, 0, 1_000),
}
"""Name -> months, days, nanoseconds."""
_DAY: Final = 86_400_000_000_000


@for_texts(r"\binterval\b", r"[*/]")
def multiplied_intervals(tree: Tree) -> None:
    """Write an interval times a number as a text that is cast.

    DataFusion does not multiply intervals. A part of a day is so many hours; parts of months are left to it.

        SELECT ts + INTERVAL '2 days' * i FROM t
    ->  SELECT ts + CAST((i * 2) || ' days' AS INTERVAL) FROM t
    """
    for node in reversed(list(tree.root.find_all(exp.Mul, exp.Div))):
        sides = [node.this, node.expression]
        parts = [_read_interval(side) for side in sides]
        if isinstance(node, exp.Div):
            parts = [parts[0], None]
        at = next((at for at, one in enumerate(parts) if one is not None), None)
        if at is None:
            continue
        number = sides[1 - at]
        text = _write_interval(
            parts[at] or (0, 0, 0), tree.find_type(number), is_divided=isinstance(node, exp.Div)
        )
        if text is None:
            continue
        written = parse_expression(text)
        for column in list(written.find_all(exp.Column)):
            column.replace(exp.paren(number.copy()) if isinstance(number, exp.Binary) else number.copy())
        tree.replace(node, written)


def _read_interval(node: exp.Expr) -> tuple[int, int, int] | None:
    """Return the months, days and nanoseconds of a literal; None for other expressions."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        found = _read_interval(node.this)
        return None if found is None else (-found[0], -found[1], -found[2])
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    text = f"{node.this.name} {'' if unit is None else unit.name}".strip()
    found, end = (0, 0, 0), 0
    while end < len(text) and (part := _PART.match(text, end)) is not None:
        sizes = _INTERVAL_UNITS.get(part[2].casefold().removesuffix("s"))
        if sizes is None:
            return None
        months, days, nanoseconds = (old + int(part[1]) * one for old, one in zip(found, sizes, strict=True))
        found, end = (months, days, nanoseconds), part.end()
    return found if end == len(text) else None


def _write_interval(size: tuple[int, int, int], kind: pa.DataType | None, *, is_divided: bool) -> str | None:
    """Return an interval of so many times a size, with x for the number; None if it can't be written."""
    months, days, nanoseconds = size
    if kind is not None and pa.types.is_integer(kind) and not is_divided:
        named = (("months", months), ("days", days), ("nanoseconds", nanoseconds))
        texts = [f"(x * {one}) || ' {name}'" for name, one in named if one]
        return f"CAST({' || '.join(texts)} AS INTERVAL)" if texts else None
    is_number = kind is not None and (pa.types.is_floating(kind) or pa.types.is_decimal(kind) or is_divided)
    if months or not is_number:
        return None
    times = "1.0e0 / x" if is_divided else "CAST(x AS DOUBLE)"
    whole = f"trunc({times} * {days})"
    rest = f"round(({times} * {days} - {whole}) * {_DAY}) + round({times} * {nanoseconds})"
    return (
        f"CAST(CAST({whole} AS BIGINT) || ' days ' || CAST({rest} AS BIGINT) || ' nanoseconds' AS INTERVAL)"
    )
