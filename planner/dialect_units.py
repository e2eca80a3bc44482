"""Units of time, under all the names that other dialects have for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from planner.dialect_source import DialectSource

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
    """The unit that a function or interval names, in the singular."""
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
        source.refuse(node, f"the unit {name or 'of this'!r} is not offered")
    return known
