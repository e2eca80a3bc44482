"""Times of day, times that are read from texts, their units, windows and intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Final, TypeGuard

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.tree.dialect import parse_expression
from lance_gateway.planner.sql.tree.groups import (
    Cast,
    Group,
    Kinds,
    Use,
    cast_to,
    find_groups,
    find_unions,
    is_literal,
    list_literals,
    make_nullable,
    name_literals,
    recast,
    recast_outputs,
    replace_value,
)
from lance_gateway.planner.sql.tree.tree import Tree, find_family

_FINE: Final = re.compile(r"\.\d{7}")
"""Fractions that microseconds do not have."""


def times_of_day(tree: Tree) -> None:
    """Give times of day the unit of columns, since DataFusion compares no others with them.

        SELECT id FROM t WHERE tm > TIME '10:30'
    ->  SELECT id FROM t WHERE tm > arrow_cast('10:30', 'Time64(Microsecond)')
    """
    for cast in tree.find_all(exp.Cast)[::-1]:
        is_time = cast.to.this is exp.DType.TIME and not cast.to.expressions
        is_fine = isinstance(cast.this, exp.Literal) and _FINE.search(cast.this.name)
        if is_time and not is_fine and not isinstance(cast, exp.TryCast):
            tree.replace(cast, cast_to(cast.this.copy(), pa.time64("us")))


_READ_UNITS: Final = {
    "to_timestamp": "ns",
    "to_timestamp_seconds": "s",
    "to_timestamp_millis": "ms",
    "to_timestamp_micros": "us",
    "to_timestamp_nanos": "ns",
}


def read_texts(tree: Tree) -> None:
    """Give times that are read from texts their type.

    DataFusion 55 documents that these functions give times of the session's time zone, and give those of
    texts none: a plan over rows then fails. The optimizer leaves casts out of comparisons that change
    nothing, as it believes, but for nullif(). Constants are right.

        SELECT to_timestamp_seconds(s) AS x FROM t
    ->  SELECT nullif(arrow_cast(arrow_cast(to_timestamp_seconds(s), 'Timestamp(Second, None)'),
            'Timestamp(Second, Some("+00:00"))'), NULL) AS x FROM t
    """
    for call in tree.find_calls(*_READ_UNITS)[::-1]:
        unit = _READ_UNITS[call.name.casefold()]
        is_constant = len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Literal)
        if not call.expressions or is_constant:
            continue
        kind = tree.find_type(call.expressions[0])
        if kind is None or find_family(kind) == "text":
            typed = cast_to(cast_to(call.copy(), pa.timestamp(unit)), pa.timestamp(unit, "+00:00"))
            tree.replace(call, make_nullable(typed))


_SHORT: Final = re.compile(
    r"\s*(\d{4}-\d\d-\d\d[ T]\d\d:\d\d)(\s*(?:Z|[+-]\d\d(?::?\d\d)?)?)\s*", re.IGNORECASE
)
_WITH_SECONDS: Final = r"regexp_replace(x, '^(\s*[0-9-]{10}[ Tt][0-9]{2}:[0-9]{2})([^0-9:]|$)', '\1:00\2')"


def short_times(tree: Tree) -> None:
    r"""Add the seconds that DataFusion demands of times.

        SELECT id FROM t WHERE at > '2024-03-10 02:30'
    ->  SELECT id FROM t WHERE at > '2024-03-10 02:30:00'

        SELECT id FROM t JOIN (VALUES ('2024-03-10 02:30')) AS v(x) ON at = x
    ->  SELECT id FROM t JOIN (VALUES ('2024-03-10 02:30')) AS v(x)
        ON at = regexp_replace(x, '^(\s*[0-9-]{10}[ Tt][0-9]{2}:[0-9]{2})([^0-9:]|$)', '\1:00\2')
    """
    for cast in tree.find_all(exp.Cast):
        families = tree.guess_families(cast)
        if families is not None and families <= {"instant", "zoned"}:
            _add_seconds(tree, cast.this)
    for zoned in tree.find_all(exp.AtTimeZone):
        _add_seconds(tree, zoned.this)
    named = name_literals(tree)
    for group in find_groups(tree):
        short = [member for member in group.members if any(map(_is_short, list_literals(member, named)))]
        others = [member for member in group.members if member not in short]
        if short and (tree.may_mix(others, "instant") or tree.may_mix(others, "zoned")):
            kinds = filter(None, map(tree.find_type, others))
            if not {"instant", "zoned"}.isdisjoint(map(find_family, kinds)):
                for member in short:
                    recast(tree, member, _write_seconds)
    for branches in find_unions(tree):
        for branch in branches:
            for at, item in zip(range(len(branch.fields)), branch.items or (), strict=False):
                types = [other.fields[at].type for other in branches]
                if _is_short(item) and not {"instant", "zoned"}.isdisjoint(map(find_family, types)):
                    _add_seconds(tree, item)


def _is_short(member: exp.Expr) -> bool:
    return isinstance(member, exp.Literal) and member.is_string and bool(_SHORT.fullmatch(member.name))


def _write_seconds(text: exp.Expr) -> exp.Expr:
    if isinstance(text, exp.Literal):
        return exp.Literal.string(_SHORT.sub(r"\1:00\2", text.name))
    written = parse_expression(_WITH_SECONDS)
    written.expressions[0].replace(text)
    return written


def _add_seconds(tree: Tree, literal: exp.Expr) -> None:
    if _is_short(literal):
        tree.replace(literal, _write_seconds(literal))


_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_ZONES: Final = {exp.DType.TIMESTAMP: None, exp.DType.TIMESTAMPTZ: "+00:00"}

_FRACTION: Final = re.compile(r"\s*\d{4}-.*:\d\d\.(\d*[1-9])0*\s*(?:Z|[+-][\d:]*)?\s*", re.IGNORECASE)


def time_units(tree: Tree) -> None:
    """Read literals of times, and dates, in the unit of the times beside them, or in one with their digits.

    DataFusion takes nanoseconds for both, and casts the times to them, which end in the year 2262. It reads
    literals beside a column in the unit of the column, without the digits that this has not. Casts of dates
    and of times of coarser units have microseconds.

        SELECT coalesce(valid_to, TIMESTAMP '2024-03-10 02:30:00') FROM t WHERE s = '2024-03-10 02:30:00.5'
    ->  SELECT coalesce(valid_to, arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)')) FROM t
        WHERE nullif(arrow_cast(s, 'Timestamp(Millisecond, None)'), NULL) = '2024-03-10 02:30:00.5'
    """
    _cast_to_microseconds(tree)
    named = name_literals(tree)
    for group in find_groups(tree):
        if group.use is not Use.COMPUTED or isinstance(group.node, exp.Sub):
            _give_units(tree, group, [_list_times(member, named) for member in group.members])
    for branches in find_unions(tree):
        for at in range(len(branches[0].fields)):
            items = [branch.items[at] if branch.items else None for branch in branches]
            literals = [() if item is None else _list_times(item, named) for item in items]
            kinds = [
                None if found else branch.fields[at].type
                for branch, found in zip(branches, literals, strict=True)
            ]
            for branch, cast in zip(branches, _choose_units(kinds, literals), strict=True):
                if cast is not None:
                    recast_outputs(tree, branch, {at: cast})
    _cast_to_microseconds(tree)  # what has another type now


def _cast_to_microseconds(tree: Tree) -> None:
    """Cast dates and coarser times to microseconds, to a type without a unit and in date_trunc."""
    for call in tree.find_calls("date_trunc", "datetrunc")[::-1]:
        if len(call.expressions) == 2:
            kind = tree.find_type(call.expressions[1])
            if kind is not None and pa.types.is_date(kind):
                tree.replace(call.expressions[1], cast_to(call.expressions[1].copy(), pa.timestamp("us")))
    for cast in tree.find_all(exp.Cast)[::-1]:
        if is_of_nanoseconds(cast) and not isinstance(cast.this, exp.Literal):
            kind = tree.find_type(cast.this)
            is_time = kind is not None and pa.types.is_timestamp(kind) and kind.unit != "ns"
            if is_time or (kind is not None and pa.types.is_date(kind)):
                replace_value(tree, cast, cast_to(cast.this.copy(), pa.timestamp("us", _ZONES[cast.to.this])))


def _list_times(member: exp.Expr, named: Mapping[str, Sequence[exp.Expr]]) -> Sequence[exp.Expr]:
    """Return the literals that an expression gives, perhaps with an interval, if all may be of any unit."""
    base = member
    while isinstance(base, exp.Add | exp.Sub) and isinstance(base.expression, exp.Interval):
        base = base.this
    found = (member,) if _is_now(member) else list_literals(base, named)
    return found if all(map(_is_open, found)) else ()


def _is_now(node: exp.Expr) -> bool:
    """Return whether an expression is the time of the statement, perhaps with an interval."""
    if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
        return _is_now(node.this)
    is_call = isinstance(node, exp.Anonymous) and node.name.upper() in {"NOW", "CURRENT_TIMESTAMP"}
    return is_call or isinstance(node, exp.CurrentTimestamp)


def _is_open(literal: exp.Expr) -> bool:
    """Return whether a literal is a text, a date, or a time without digits, or the time of the statement."""
    if _is_now(literal):
        return True
    text = literal
    if isinstance(literal, exp.Cast):
        text = literal.this
        if literal.to.this is not exp.DType.DATE and not is_of_nanoseconds(literal):
            return False
    return isinstance(text, exp.Literal) and text.is_string


def _give_units(tree: Tree, group: Group, literals: Sequence[Sequence[exp.Expr]]) -> None:
    members = group.members
    if isinstance(group.node, exp.Sub) and any(isinstance(one, exp.Literal) for one in members):
        return
    others = [member for member, found in zip(members, literals, strict=True) if not found]
    may_be_times = any(tree.may_mix(others, family) for family in ("instant", "zoned", "date"))
    if not may_be_times or not (any(literals) or tree.may_mix(others, "date")):
        return
    kinds = [
        None if found else tree.find_type(member) for member, found in zip(members, literals, strict=True)
    ]
    has_dates = any(kind is not None and find_family(kind) == "date" for kind in kinds)
    is_alone = group.is_condition and len(others) == 1 and isinstance(others[0], exp.Column) and not has_dates
    is_plain = all(member is others[0] or is_literal(member) or _is_now(member) for member in members)
    # DataFusion reads literals in the unit of a time that is alone.
    is_read = is_alone and is_plain and not isinstance(group.node, exp.Case)
    if is_read and any(map(_is_now, members)):
        return
    read = [_find_read_unit(tree, member, kind) for member, kind in zip(members, kinds, strict=True)]
    for member, kind, cast in zip(members, kinds, _choose_units(kinds, literals, read), strict=True):
        if cast is not None and not (is_read and kind is None):
            recast(tree, member, cast)


def _choose_units(
    kinds: Kinds, literals: Sequence[Sequence[exp.Expr]], read: Sequence[str | None] = ()
) -> Sequence[Cast | None]:
    """Choose how dates, literals, and times with fewer digits than these are cast beside times.

    Args:
        kinds: types of expressions; None for those that give literals.
        literals: that they give.
        read: units in which DataFusion reads literals beside them; by default those of the types.
    """
    units = [kind.unit if kind is not None and pa.types.is_timestamp(kind) else None for kind in kinds]
    dates = [kind for kind in kinds if kind is not None and find_family(kind) == "date"]
    if not any(units):
        # Dates beside times of the statement: both have microseconds.
        is_time = any(is_of_nanoseconds(one) or _is_now(one) for found in literals for one in found)
        units = ["us" if kind in dates and is_time else None for kind in kinds]
        read = ()
    fractions = max([count_fraction(one) for found in literals for one in found], default=0)
    digits = max([fractions, *(_DIGITS[unit] for unit in units if unit is not None)])
    zones = [getattr(kind, "tz", None) for kind, unit in zip(kinds, units, strict=True) if unit is not None]
    if not zones or "ns" in units:
        return [None] * len(kinds)
    target = next(unit for unit, count in _DIGITS.items() if count >= digits)
    zone = next((zone for zone in zones if zone is not None), None)
    return [
        _choose_unit(kind, found, target, zone)
        if kind is None or unit is None or kind in dates
        else partial(_hide_cast, kind=pa.timestamp(target, kind.tz))
        if _DIGITS[unit] < fractions
        else None
        for kind, found, unit in zip(kinds, literals, read or units, strict=True)
    ]


def _find_read_unit(tree: Tree, member: exp.Expr, kind: pa.DataType | None) -> str | None:
    """Return the unit of a time in which DataFusion reads literals beside it: of what is cast, if it is."""
    if kind is None or not pa.types.is_timestamp(kind):
        return None
    is_call = isinstance(member, exp.Anonymous) and member.name.upper() == "ARROW_CAST"
    source = member.this if isinstance(member, exp.Cast) else member.expressions[0] if is_call else None
    inner = None if source is None else _find_read_unit(tree, source, tree.find_type(source))
    unit: str = kind.unit
    return unit if inner is None else min(unit, inner, key=_DIGITS.__getitem__)


def _hide_cast(expression: exp.Expr, kind: pa.DataType) -> exp.Expr:
    """Cast a time to a finer unit, and hide that from DataFusion, which would cut off digits of literals."""
    return make_nullable(cast_to(expression, kind))


def _choose_unit(
    kind: pa.DataType | None, literals: Sequence[exp.Expr], unit: str, zone: str | None
) -> Cast | None:
    if kind is not None:
        return partial(cast_to, kind=pa.timestamp(unit)) if find_family(kind) == "date" else None
    if not literals:
        return None  # a parameter of an unknown type
    targets = {
        one.to.this if isinstance(one, exp.Cast) else exp.DType.TIMESTAMPTZ if _is_now(one) else None
        for one in literals
    }
    if targets <= {exp.DType.TIMESTAMP, exp.DType.DATE}:
        return partial(_read_as, kinds=[pa.timestamp(unit)])
    if targets <= {exp.DType.TIMESTAMPTZ}:
        return partial(_read_as, kinds=[pa.timestamp(unit, "+00:00")])
    if targets != {None}:
        return None
    utc = [] if zone is None else [pa.timestamp(unit, "+00:00")]
    return partial(_read_as, kinds=[*utc, pa.timestamp(unit, zone)])


def _read_as(expression: exp.Expr, kinds: Sequence[pa.DataType]) -> exp.Expr:
    """Cast an expression, or a literal in the place of its type, to some types in turn."""
    is_typed = isinstance(expression, exp.Cast) and is_literal(expression)
    return reduce(cast_to, kinds, expression.this if is_typed else expression)


def count_fraction(literal: exp.Expr) -> int:
    """Return how many digits of a second the fraction of a literal has; none for those of no times."""
    if _is_now(literal):
        return _DIGITS["us"]
    text = literal.this if isinstance(literal, exp.Cast) else literal
    found = _FRACTION.fullmatch(text.name) if isinstance(text, exp.Literal) and text.is_string else None
    return len(found[1]) if found else 0


def is_of_nanoseconds(member: exp.Expr) -> TypeGuard[exp.Cast]:
    """Return whether an expression is a cast to a time without a unit."""
    return isinstance(member, exp.Cast) and member.to.this in _ZONES and not member.to.expressions


_FIXED = (None, "UNBOUNDED", "CURRENT ROW")
"""Bounds of a frame that are no values."""


def windows_of_times(tree: Tree) -> None:
    """Sort a window by a number in the place of a time, and by a text in the place of bytes.

    Without a frame, a window ends with the rows that are equal to the current one, and DataFusion finds these
    for numbers and texts, but not for times and bytes.

        SELECT count(*) OVER (ORDER BY tm) FROM t
    ->  SELECT count(*) OVER (ORDER BY arrow_cast(tm, 'Int64')) FROM t
    """
    for window in tree.find_all(exp.Window):
        order, frame = window.args.get("order"), window.args.get("spec")
        if order is None or (frame is not None and not _is_of_peers(frame)):
            continue
        for ordered in order.expressions:
            kind = tree.find_type(ordered.this)
            if kind is None:
                continue
            if pa.types.is_time(kind) or pa.types.is_duration(kind):
                shown = parse_expression("arrow_cast(x, 'Int64')")
            elif find_family(kind) == "bytes":
                shown = parse_expression("encode(arrow_cast(x, 'LargeBinary'), 'hex')")
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


def multiplied_intervals(tree: Tree) -> None:
    """Write an interval times a number as a text that is cast.

    DataFusion does not multiply intervals. A part of a day is so many hours; parts of months are left to it.

        SELECT ts + INTERVAL '2 days' * i FROM t
    ->  SELECT ts + CAST((i * 2) || ' days' AS INTERVAL) FROM t
    """
    for node in tree.find_all(exp.Mul, exp.Div)[::-1]:
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


_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_DURATION: Final = pa.duration("us")


def added_durations(tree: Tree) -> None:
    """Give parameters that are added to times, or subtracted from them, the type of a duration.

    DataFusion infers that both operands of + and - have the same type, even if a value is bound. A parameter
    without a value that is subtracted is a duration only if the result is compared with a time; otherwise the
    result is the difference of two times. Times in seconds or milliseconds are cast to the unit of the
    duration, at most to microseconds.

        SELECT ts + $1 FROM t WHERE at > now() - $2
    ->  SELECT ts + arrow_cast($1, 'Duration(Microsecond)') FROM t
        WHERE at > now() - arrow_cast($2, 'Duration(Microsecond)')
    """
    for node in tree.find_all(exp.Add, exp.Sub):
        time, amount = node.this.unnest(), node.expression.unnest()
        if isinstance(node, exp.Add) and not isinstance(amount, exp.Parameter):
            time, amount = amount, time
        if not isinstance(amount, exp.Parameter):
            continue
        kind, found = tree.find_type(amount), tree.find_type(time)
        if kind is not None and not pa.types.is_duration(kind):
            continue
        compared = _find_compared_time(tree, node)
        if kind is None and isinstance(node, exp.Sub) and compared is None:
            continue
        kind = kind or _DURATION
        if found is None and compared is not None and isinstance(time, exp.Parameter):
            tree.replace(time, cast_to(time.copy(), compared))
        elif found is None or not pa.types.is_timestamp(found):
            continue
        elif found.unit in {"s", "ms"} and _DIGITS[found.unit] < _DIGITS[kind.unit]:
            # The result has the unit of the time, which would truncate the duration.
            unit = "ms" if kind.unit == "ms" else "us"
            tree.replace(time, cast_to(time.copy(), pa.timestamp(unit, found.tz)))
        tree.replace(amount, cast_to(amount.copy(), kind))


def _find_compared_time(tree: Tree, node: exp.Expr) -> pa.DataType | None:
    """Return the type of the time that an expression is compared with, if any."""
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    match node.parent:
        case exp.Between() as around:
            other = around.args["low"] if around.this is node else around.this
        case exp.Binary() as around if isinstance(around, _COMPARISONS):
            other = around.expression if around.this is node else around.this
        case _:
            return None
    kind = tree.find_type(other)
    return kind if kind is not None and pa.types.is_timestamp(kind) else None


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
