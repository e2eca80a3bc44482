"""Differences of dates in other dialects, in boundaries of a unit or in whole units."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from lance_gateway.planner.sql.dialects.build import Rule, literal_text, operand, raw
from lance_gateway.planner.sql.dialects.source import DialectSource

UNITS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("YEAR", "YEARS", "YYYY", "YYY", "YY", "Y"), "YEAR"),
        **dict.fromkeys(("QUARTER", "QUARTERS", "QTR", "Q"), "QUARTER"),
        **dict.fromkeys(("MONTH", "MONTHS", "MON", "MONS", "MM"), "MONTH"),
        **dict.fromkeys(("WEEK", "WEEKS", "WK", "W", "ISOWEEK", "WEEK(MONDAY)", "WEEKISO"), "WEEK"),
        **dict.fromkeys(("DAY", "DAYS", "DD", "D", "DAYOFMONTH"), "DAY"),
        **dict.fromkeys(("HOUR", "HOURS", "HH", "H"), "HOUR"),
        **dict.fromkeys(("MINUTE", "MINUTES", "MIN", "MI"), "MINUTE"),
        **dict.fromkeys(("SECOND", "SECONDS", "SEC", "SS", "S"), "SECOND"),
        **dict.fromkeys(("MILLISECOND", "MILLISECONDS", "MS"), "MILLISECOND"),
        **dict.fromkeys(("MICROSECOND", "MICROSECONDS", "US"), "MICROSECOND"),
    }
)


def unit_of(node: exp.Expr, source: DialectSource, default: str = "") -> str:
    """Return the unit of a function or interval, in the singular."""
    unit = node.args.get("unit")
    if isinstance(unit, exp.Expr):
        name = unit.name if isinstance(unit, exp.Var | exp.Literal) else unit.sql(dialect="bigquery")
    else:
        name = default
    if name.upper() == "WEEK(SUNDAY)":
        return "SUNDAY WEEK"
    if source.dialect == "bigquery" and name.upper() == "WEEK":
        return "SUNDAY WEEK"
    known = UNITS.get(name.upper())
    if known is None:
        source.refuse(node, f"the unit {name or 'of this'!r} is not supported")
    return known


_SECONDS = {"WEEK": 604800, "DAY": 86400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1}
_FRACTIONS = {"MILLISECOND": 1000, "MICROSECOND": 1000000}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _difference(node: exp.Expr, source: DialectSource) -> exp.Expr:
    """Count the boundaries of the unit between two dates, or the whole units, depending on the dialect."""
    unit = unit_of(node, source, "DAY")
    end, start = operand(node.this), operand(node.expression)
    if literal_text(node.this) is not None:
        end = f"CAST({end} AS TIMESTAMP)"
    if literal_text(node.expression) is not None:
        start = f"CAST({start} AS TIMESTAMP)"
    borders = (
        bool(node.args.get("date_part_boundary"))
        or source.dialect in {"duckdb", "snowflake", "bigquery"}
        or (unit == "DAY" and node.args.get("unit") is None)
    )
    if source.dialect == "bigquery" and isinstance(node, exp.TimestampDiff):
        borders = False
    if unit == "WEEK" and source.dialect == "duckdb":
        text = f"({_borders(end, start, 'DAY')} / 7)"
    else:
        text = _borders(end, start, unit) if borders else _whole(end, start, unit, source)
    return raw(f"CAST({text} AS BIGINT)")


def _borders(end: str, start: str, unit: str) -> str:
    if unit == "DAY":
        return f"(CAST({end} AS DATE) - CAST({start} AS DATE))"
    if unit == "YEAR":
        return f"(date_part('year', {end}) - date_part('year', {start}))"
    if unit == "QUARTER":
        years = f"(date_part('year', {end}) - date_part('year', {start}))"
        return f"({years} * 4 + date_part('quarter', {end}) - date_part('quarter', {start}))"
    if unit == "MONTH":
        return _months(end, start)
    if unit == "SUNDAY WEEK":
        return _borders(f"({end} + INTERVAL '1 DAY')", f"({start} + INTERVAL '1 DAY')", "WEEK")
    if unit in _FRACTIONS:
        return f"round(({_epoch(end)} - {_epoch(start)}) * {_FRACTIONS[unit]})"
    floors = [_epoch(f"date_trunc('{unit.lower()}', {one})") for one in (end, start)]
    return f"(({floors[0]} - {floors[1]}) / {_SECONDS[unit]})"


def _whole(end: str, start: str, unit: str, source: DialectSource) -> str:
    if unit in _FRACTIONS:
        return f"trunc(({_epoch(end)} - {_epoch(start)}) * {_FRACTIONS[unit]})"
    if unit.removeprefix("SUNDAY ") in _SECONDS:
        return f"trunc(({_epoch(end)} - {_epoch(start)}) / {_SECONDS[unit.removeprefix('SUNDAY ')]})"
    forth, back = _whole_months(end, start, source), _whole_months(start, end, source)
    return f"trunc((CASE WHEN {end} >= {start} THEN {forth} ELSE -{back} END) / {_MONTHS[unit]})"


def _whole_months(end: str, start: str, source: DialectSource) -> str:
    months = _months(end, start)
    if source.dialect == "trino":
        # The last day of a shorter month completes the month.
        shifted = f"{start} + CAST(CAST({months} AS VARCHAR) || ' MONTH' AS INTERVAL)"
        incomplete = f"{shifted} > {end}"
    else:
        incomplete = f"{_in_month(end)} < {_in_month(start)}"
    return f"({months} - CASE WHEN {incomplete} THEN 1 ELSE 0 END)"


def _months(end: str, start: str) -> str:
    years = f"(date_part('year', {end}) - date_part('year', {start}))"
    return f"({years} * 12 + date_part('month', {end}) - date_part('month', {start}))"


def _in_month(text: str) -> str:
    month = f"date_trunc('month', {text})"
    return f"({_epoch(text)} - {_epoch(month)})"


def _epoch(text: str) -> str:
    return f"date_part('epoch', {text})"


RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {exp.DateDiff: _difference, exp.DatetimeDiff: _difference, exp.TimestampDiff: _difference}
)
