"""A time without a zone is one of UTC, the zone of all sessions, beside a time with a zone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.rules.late_instants import SHOWS_ZONE
from lance_gateway.planner.sql.rules.times import count_fraction, is_of_nanoseconds
from lance_gateway.planner.sql.tree.dialect import parse_expression
from lance_gateway.planner.sql.tree.groups import (
    Cast,
    Group,
    Kinds,
    Use,
    cast_to,
    find_groups,
    recast,
    replace_value,
    unify_types,
)
from lance_gateway.planner.sql.tree.tree import Family, Tree, find_family
from lance_gateway.planner.sql.type_names import name_type

_UTC: Final = frozenset({"UTC", "+00:00", "-00:00", "Z", "Etc/UTC"})
_UNZONED: Final[frozenset[Family]] = frozenset({"instant", "date", "text"})
_PARTS: Final = {
    "DATE_PART": 1,
    "DATEPART": 1,
    "DATE_TRUNC": 1,
    "DATETRUNC": 1,
    "TO_CHAR": 0,
    "DATE_FORMAT": 0,
    "TO_DATE": 0,
    "LAST_DAY": 0,
}
"""Function of parts of a time -> which argument the time is."""
_SHOWN: Final = frozenset({exp.DType.DATE, exp.DType.TIME, *exp.DataType.TEXT_TYPES})
_SHOWN_ARROW: Final = re.compile(r"Date|Time(?!stamp)|(?:Large)?Utf8")
"""Types of which a time with a zone has other values in another zone."""
_FORMATTED: Final = frozenset({"TO_CHAR", "DATE_FORMAT"})
_CASTS: Final = frozenset({"ARROW_CAST", "ARROW_TRY_CAST"})


def zoned_times(tree: Tree) -> None:
    """Give a time, a date or a text the zone of a column beside it, as the same instant in UTC.

    DataFusion takes it as a local time of the zone of the column.

        SELECT id FROM t WHERE at = '2024-07-01 12:00:00'
    ->  SELECT id FROM t WHERE at = arrow_cast(arrow_cast('2024-07-01 12:00:00',
            'Timestamp(Microsecond, Some("+00:00"))'), 'Timestamp(Microsecond, Some("America/New_York"))')

    Parts and texts of a time with a zone are those in UTC, and AT TIME ZONE takes the zone away.

        SELECT extract(hour FROM at), at AT TIME ZONE 'Asia/Tokyo' FROM t
    ->  SELECT extract(hour FROM arrow_cast(at, 'Timestamp(Microsecond, Some("+00:00"))')),
            to_local_time(arrow_cast(at, 'Timestamp(Microsecond, Some("Asia/Tokyo"))')) FROM t
    """
    _change_zones(tree)
    for group in find_groups(tree):
        if group.use is Use.RETURNED and tree.may_mix(group.members, "zoned", "zoned"):
            _unite_zones(tree, group)
    unify_types(tree, ("zoned",), _choose)
    _change_zones(tree)  # of what has a type now
    for node in tree.find_all(exp.Anonymous, exp.Cast, exp.Extract)[::-1]:
        _show_in_utc(tree, node)
    for group in find_groups(tree):
        if group.use is Use.COMPUTED and tree.may_mix(group.members, "zoned"):
            kinds = [tree.find_type(member) for member in group.members]
            families = {find_family(kind) for kind in kinds if kind is not None}
            # Those of two times are right.
            if families == {"zoned", "other"} and find_zoned(kinds) is not None:
                _compute_in_utc(tree, group, kinds)


def _choose(kinds: Kinds) -> Sequence[Cast | None]:
    zoned = find_zoned(kinds)
    return [
        partial(_give_zone, kind=kind, zoned=zoned)
        if zoned is not None and kind is not None and find_family(kind) in _UNZONED
        else None
        for kind in kinds
    ]


def _unite_zones(tree: Tree, group: Group) -> None:
    """Give times of UTC the zone of another one: DataFusion shows them in it, and takes it for UTC."""
    kinds = [tree.find_type(member) for member in group.members]
    zoned = find_zoned(kinds)
    for member, kind in zip(group.members, kinds, strict=True):
        if zoned is not None and kind is not None and pa.types.is_timestamp(kind) and kind.tz in _UTC:
            recast(tree, member, partial(cast_to, kind=pa.timestamp(kind.unit, zoned.tz)))


def _compute_in_utc(tree: Tree, group: Group, kinds: Kinds) -> None:
    """Add an interval in UTC: a day has 24 hours there, and there are no hours that are skipped."""
    for member, kind in zip(group.members, kinds, strict=True):
        if kind is not None and find_family(kind) == "zoned":
            tree.replace(member, cast_to(member.copy(), pa.timestamp(kind.unit, "+00:00")))
            tree.replace(group.node, cast_to(group.node.copy(), kind))
            return


def _show_in_utc(tree: Tree, node: exp.Expr) -> None:
    """Take the time of a function of parts, and of a cast to a date or a text, in UTC."""
    shown = _find_shown(node)
    if shown is None or not tree.may_mix([shown], "zoned"):
        return
    kind = tree.find_type(shown)
    if kind is not None and find_zoned([kind]) is not None:
        name, utc = node.name.upper(), pa.timestamp(kind.unit, "+00:00")
        is_truncated = name in {"DATE_TRUNC", "DATETRUNC"}
        # Without a zone, DataFusion truncates and writes times that have no nanoseconds, too.
        is_plain = is_truncated or (name in _FORMATTED and not SHOWS_ZONE.search(node.expressions[-1].name))
        tree.replace(shown, cast_to(shown.copy(), pa.timestamp(kind.unit) if is_plain else utc))
        if is_truncated:
            replace_value(tree, node, cast_to(cast_to(node.copy(), utc), kind))


def _find_shown(node: exp.Expr) -> exp.Expr | None:
    """Return the time of which an expression shows parts."""
    shown: exp.Expr | None = None
    if isinstance(node, exp.Extract):
        shown = node.expression
    elif isinstance(node, exp.Cast) and node.to.this in _SHOWN:
        shown = node.this
    if not isinstance(node, exp.Anonymous):
        return shown
    at = _PARTS.get(node.name.upper())
    if node.name.upper() in _CASTS and _SHOWN_ARROW.match(node.expressions[-1].name):
        at = 0
    if at is not None and len(node.expressions) > at:
        shown = node.expressions[at]
    return shown


def _change_zones(tree: Tree) -> None:
    for node in tree.find_all(exp.AtTimeZone)[::-1]:
        _change_zone(tree, node)


def _change_zone(tree: Tree, node: exp.AtTimeZone) -> None:
    """Take the time of a zone: without a zone that of an instant, and an instant that of a time without."""
    zone, time = node.args["zone"], node.this
    kind = tree.find_type(time)
    if kind is None or not isinstance(zone, exp.Literal) or not zone.is_string:
        return
    is_open = is_of_nanoseconds(time) and count_fraction(time) <= 6
    unit = kind.unit if pa.types.is_timestamp(kind) and not is_open else "us"
    zoned = pa.timestamp(unit, zone.name)
    match find_family(kind):
        case "zoned":
            text, made = "to_local_time(x)", cast_to(time.copy(), zoned)
        case "date" | "text":
            text, made = (
                "to_local_time(x)",
                cast_to(cast_to(time.copy(), pa.timestamp(unit, "+00:00")), zoned),
            )
        case "instant" if zone.name in _UTC:
            text, made = f"arrow_cast(x, '{name_type(pa.timestamp(unit, '+00:00'))}')", time.copy()
        case "instant":
            text, made = _write_instant(zoned), time.copy()
        case _:
            return
    written = parse_expression(text)
    for column in list(written.find_all(exp.Column)):
        column.replace(made.copy())
    replace_value(tree, node, written)


def _write_instant(zoned: pa.TimestampType) -> str:
    """Return the instant of a local time x; of an hour that is skipped, or comes twice, the later one.

    DataFusion has no instant for these: its cast fails, and it has another one a day before and after.
    """
    utc = name_type(pa.timestamp(zoned.unit, "+00:00"))
    at, before, after = (
        f"arrow_cast(arrow_try_cast({time}, '{name_type(zoned)}'), '{utc}')"
        for time in ("x", "x - INTERVAL '1 day'", "x + INTERVAL '1 day'")
    )
    return f"coalesce({at}, greatest({before} + INTERVAL '24 hours', {after} - INTERVAL '24 hours'))"


def find_zoned(kinds: Kinds) -> pa.TimestampType | None:
    """Return the first type with a zone, if it is another one than UTC."""
    zoned = [kind for kind in kinds if kind is not None and find_family(kind) == "zoned"]
    return next((kind for kind in zoned if kind.tz not in _UTC), None)


def _give_zone(expression: exp.Expr, kind: pa.DataType, zoned: pa.TimestampType) -> exp.Expr:
    unit = kind.unit if pa.types.is_timestamp(kind) else zoned.unit
    return cast_to(cast_to(expression, pa.timestamp(unit, "+00:00")), pa.timestamp(unit, zoned.tz))
