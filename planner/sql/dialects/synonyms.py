"""Replaces functions that sqlglot does not parse with ones that have rules.

ADDDATE(d, INTERVAL 1 MONTH)    DATE_ADD(d, INTERVAL 1 MONTH)
MAKEDATE(2024, 60)              DATE_FROM_PARTS(2024, 1, 1) + 59 days
WEEKDAY(d)                      DAYOFWEEK_ISO(d) - 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sqlglot import exp

from lance_gateway.planner.sql.dialects.source import DialectSource

_Synonym = Callable[..., exp.Expr]
_TEXTS = (exp.Concat, exp.DPipe, exp.TimeToStr)
_FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d")
_ONE = exp.Literal.number(1)


def _days(kind: type[exp.Expr]) -> _Synonym:
    def synonym(start: exp.Expr, amount: exp.Expr) -> exp.Expr:
        if isinstance(start, _TEXTS):
            # MySQL reads 2024-1-01, which a cast does not.
            read = exp.Anonymous(this="to_timestamp", expressions=[start, *map(exp.Literal.string, _FORMATS)])
            start = exp.cast(read, "timestamp")
        if isinstance(amount, exp.Interval):
            return kind(this=start, expression=amount.this, unit=amount.args.get("unit"))
        return kind(this=start, expression=amount, unit=exp.Var(this="DAY"))

    return synonym


def _day_of_year(year: exp.Expr, day: exp.Expr) -> exp.Expr:
    first = exp.DateFromParts(year=year, month=_ONE.copy(), day=_ONE.copy())
    return exp.DateAdd(this=first, expression=exp.Sub(this=exp.paren(day), expression=_ONE.copy()))


def _weekday(day: exp.Expr) -> exp.Expr:
    number = exp.DayOfWeekIso(this=exp.TsOrDsToDate(this=day))
    return exp.paren(exp.Sub(this=number, expression=_ONE.copy()))


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Is(this=exp.paren(value), expression=exp.Null()))


def _is_not_null(value: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Not(this=_is_null(value)))


_SYNONYMS: Mapping[str, Mapping[str, _Synonym]] = MappingProxyType(
    {
        "mysql": {
            "ADDDATE": _days(exp.DateAdd),
            "SUBDATE": _days(exp.DateSub),
            "MAKEDATE": _day_of_year,
            "WEEKDAY": _weekday,
        },
        "spark": {"WEEKDAY": _weekday, "ISNULL": _is_null, "ISNOTNULL": _is_not_null},
        "duckdb": {"PREFIX": lambda text, start: exp.StartsWith(this=text, expression=start)},
    }
)


def resolve(tree: exp.Expr, source: DialectSource) -> None:
    """Replace such functions in a statement, innermost first."""
    known = _SYNONYMS.get(source.dialect, {})
    for call in reversed(list(tree.find_all(exp.Anonymous, bfs=False))):
        synonym = known.get(call.name.upper())
        if synonym is None:
            continue
        try:
            call.replace(synonym(*(expression.copy() for expression in call.expressions)))
        except TypeError:
            source.refuse(
                call, f"{call.name.upper()} with {len(call.expressions)} arguments is not supported"
            )
