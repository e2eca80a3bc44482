"""Times that have no nanoseconds in 64 bits, such as those of the year 9999, have microseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.tree.dialect import parse_expression
from lance_gateway.planner.sql.tree.groups import Use, cast_to, find_groups
from lance_gateway.planner.sql.tree.tree import Tree

_LATE_YEAR: Final = (
    r"(?:0\d{3}|1[0-5]\d\d|16[0-6]\d|167[0-7]|226[2-9]|22[7-9]\d|2[3-9]\d\d|[3-9]\d{3}|\d{5,6})"
)
_LATE: Final = re.compile(rf"\s*{_LATE_YEAR}-\d{{1,2}}-\d{{1,2}}(?!\d)")
"""Dates that may have no nanoseconds, past or to come."""
_YEARS: Final = range(1678, 2262)
"""Years all of whose times have nanoseconds."""
_UTC: Final = frozenset({"UTC", "+00:00"})
_TYPES: Final = frozenset({exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ})
_COMPARISONS: Final = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In),
)
_STARTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "week": "arrow_cast(arrow_cast(CAST(x AS DATE), 'Int32') - (date_part('isodow', x) - 1), 'Date32')",
        "month": "make_date(date_part('year', x), date_part('month', x), 1)",
        "quarter": "make_date(date_part('year', x), 3 * date_part('quarter', x) - 2, 1)",
        "year": "make_date(date_part('year', x), 1, 1)",
    }
)
"""Unit -> its first day in the time x."""
_ZONED_STARTS: Final[Mapping[str, str]] = MappingProxyType(
    {"hour": "date_trunc('hour', arrow_cast(x, 'Timestamp(us)'))", "day": "CAST(x AS DATE)"}
)
"""Other units that times in UTC have no start of."""
_BIN: Final = "arrow_cast(x, 'Int64') - ((arrow_cast(x, 'Int64') - {0}) % {1} + {1}) % {1}"
_MICROSECONDS: Final = MappingProxyType(
    {
        "MICROSECOND": 1,
        "MILLISECOND": 1_000,
        "SECOND": 1_000_000,
        "MINUTE": 60_000_000,
        "HOUR": 3_600_000_000,
        "DAY": 86_400_000_000,
        "WEEK": 604_800_000_000,
    }
)
SHOWS_ZONE: Final = re.compile(r"^$|TZ|OF|%:?[zZ+]|tz")
"""A format of a time that shows the zone, or that is not a literal."""
_PER_SECOND: Final = MappingProxyType({"s": 1, "ms": 1_000, "us": 1_000_000})


def late_instants(tree: Tree) -> None:
    """Read literals of times that have no nanoseconds as times of microseconds.

        SELECT id FROM t WHERE ts < '9999-12-31'
    ->  SELECT id FROM t WHERE ts < arrow_cast('9999-12-31', 'Timestamp(Microsecond, None)')
    """
    for group in find_groups(tree):
        literals = [member for member in group.members if _is_literal(member)]
        if group.use is not Use.COMPUTED and any(map(_is_late, literals)):
            _read_as_microseconds(tree, literals, [one for one in group.members if one not in literals])
    for cast in tree.find_all(exp.Cast)[::-1]:
        if _is_late(cast):
            _name_unit(tree, cast)


def late_parts(tree: Tree) -> None:
    """Compute starts of units, texts and years of times that have no nanoseconds without these.

        SELECT id, date_trunc('month', ts) AS x FROM t
    ->  SELECT id, arrow_cast(make_date(date_part('year', ts), date_part('month', ts), 1),
            'Timestamp(Microsecond, None)') AS x FROM t
    """
    for node in tree.find_all(exp.Anonymous, exp.Extract)[::-1]:
        if isinstance(node, exp.Anonymous):
            _compute_in_microseconds(tree, node)
        else:
            _keep_year(tree, node, node.name, node.expression)


def _is_literal(node: exp.Expr) -> bool:
    """Return whether an expression is a text, DATE '..' or TIMESTAMP '..'."""
    if isinstance(node, exp.Cast) and node.to.this in _TYPES:
        node = node.this
    return isinstance(node, exp.Literal) and node.is_string


def _is_late(node: exp.Expr) -> bool:
    return (
        _is_literal(node)
        and _LATE.match((node.this if isinstance(node, exp.Cast) else node).name) is not None
    )


def _read_as_microseconds(tree: Tree, literals: list[exp.Expr], others: list[exp.Expr]) -> None:
    """Read literals beside a time as times of microseconds."""
    if not tree.may_mix(others, "instant") and not tree.may_mix(others, "zoned"):
        return
    kinds = [kind for kind in map(tree.find_type, others) if kind is not None and pa.types.is_timestamp(kind)]
    if not kinds:
        return
    zone = kinds[0].tz
    for literal in literals:
        value = (literal.this if isinstance(literal, exp.Cast) else literal).copy()
        if zone is not None and zone not in _UTC:
            value = cast_to(value, pa.timestamp("us", "+00:00"))
        tree.replace(literal, cast_to(value, pa.timestamp("us", zone)))


def _name_unit(tree: Tree, cast: exp.Cast) -> None:
    """Give the type of a literal that no time is beside its unit."""
    if cast.to.expressions or cast.to.this is exp.DType.DATE:
        return
    if cast.to.this is exp.DType.TIMESTAMP:
        named = cast.copy()
        named.to.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(6))])
        tree.replace(cast, named)
    elif not isinstance(cast, exp.TryCast):
        tree.replace(cast, cast_to(cast.this.copy(), pa.timestamp("us", "+00:00")))


def _compute_in_microseconds(tree: Tree, call: exp.Anonymous) -> None:
    name, arguments = call.name.upper().replace("DATEPART", "DATE_PART"), call.expressions
    if len(arguments) < 2:
        return
    first, value = arguments[:2]
    if name == "DATE_PART" and first.name.lower() in {"year", "years"}:
        _keep_year(tree, call, "year", value)
        return
    if name in {"TO_CHAR", "DATE_FORMAT"}:
        _write_without_zone(tree, first, value)
        return
    kind = tree.find_type(value) if name in {"DATE_TRUNC", "DATETRUNC", "DATE_BIN"} else None
    if kind is None or not pa.types.is_timestamp(kind) or kind.unit == "ns" or kind.tz not in {None, *_UTC}:
        return
    if name != "DATE_BIN":
        _truncate(tree, call, kind)
    elif (start := _find_bin(first, arguments[2:], kind)) is not None:
        tree.replace(call, cast_to(_write_start(start, value), kind))


def _truncate(tree: Tree, call: exp.Anonymous, kind: pa.TimestampType) -> None:
    """Find the start of a unit by days, where it may have no nanoseconds."""
    part, value = call.expressions[:2]
    name = part.name.lower() if isinstance(part, exp.Literal) else ""
    start = (_STARTS if kind.tz is None else {**_STARTS, **_ZONED_STARTS}).get(name)
    each = _PER_SECOND[kind.unit] * _MICROSECONDS.get(name.upper(), 0)
    if start is None and value.find(exp.Column) is None and each >= _MICROSECONDS["SECOND"]:
        # DataFusion truncates columns of such times alone.
        start = _BIN.format(0, each // _MICROSECONDS["SECOND"])
    if start is not None:
        tree.replace(call, cast_to(_write_start(start, value), kind))


def _write_start(start: str, time: exp.Expr) -> exp.Expr:
    written = parse_expression(start)
    for column in list(written.find_all(exp.Column)):
        column.replace(time.copy())
    return written


def _write_without_zone(tree: Tree, value: exp.Expr, written: exp.Expr) -> None:
    """Take the zone from a time in UTC: DataFusion writes times with a zone in nanoseconds."""
    kind = tree.find_type(value)
    is_utc = kind is not None and pa.types.is_timestamp(kind) and kind.tz in _UTC
    if kind is not None and is_utc and kind.unit != "ns" and not SHOWS_ZONE.search(written.name):
        tree.replace(value, cast_to(value.copy(), pa.timestamp(kind.unit)))


def _find_bin(length: exp.Expr, origin: list[exp.Expr], kind: pa.TimestampType) -> str | None:
    """Return the start of the bin of a time x; None for months, and for an origin of rows."""
    unit = length.args.get("unit") if isinstance(length, exp.Interval) else None
    microseconds = _MICROSECONDS.get(unit.name.upper().removesuffix("S")) if unit is not None else None
    number = length.name
    start = _read_origin(origin)
    if microseconds is None or start is None or not number.isdecimal():
        return None
    each = 1_000_000 // _PER_SECOND[kind.unit]
    step = int(number) * microseconds
    if not step or step % each or start % each:
        return None
    return _BIN.format(start // each, step // each)


def _read_origin(origin: list[exp.Expr]) -> int | None:
    """Return the microseconds from 1970 on of TIMESTAMP '..'; None for anything else."""
    if not origin:
        return 0
    if not isinstance(origin[0], exp.Cast) or not _is_literal(origin[0]):
        return None
    try:
        time = datetime.fromisoformat(origin[0].this.name)
    except ValueError:
        return None
    start = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _keep_year(tree: Tree, call: exp.Expr, part: str, value: exp.Expr) -> None:
    """Keep DataFusion 55 from comparing a year as the time at which it begins, which has no nanoseconds."""
    whole = call.find_ancestor(*_COMPARISONS, exp.Query)
    if part.lower() != "year" or not isinstance(whole, _COMPARISONS):
        return
    others = whole.walk(prune=lambda one: one is call)  # DataFusion looks through casts and brackets
    kind = tree.find_type(value) if any(_is_late_year(one) for one in others if one is not call) else None
    if kind is not None and pa.types.is_timestamp(kind) and kind.unit == "ns":
        tree.replace(call, exp.Paren(this=exp.Add(this=call.copy(), expression=exp.Literal.number(0))))


def _is_late_year(year: exp.Expr) -> bool:
    """Return whether a year may have no nanoseconds: that of a parameter may."""
    if isinstance(year, exp.Literal):
        return not (year.name.isdecimal() and int(year.name) in _YEARS)
    return isinstance(year, exp.Parameter | exp.Placeholder | exp.Neg)
