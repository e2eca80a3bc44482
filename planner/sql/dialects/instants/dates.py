"""Dates and times of other dialects: arithmetic, parts and formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from lance_gateway.planner.sql.dialects.build import (
    Rule,
    call,
    from_template,
    literal_number,
    literal_text,
    native,
    operand,
    raw,
)
from lance_gateway.planner.sql.dialects.instants.date_differences import UNITS, unit_of
from lance_gateway.planner.sql.dialects.source import DialectSource

_BELOW_DAY = frozenset({"HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"})

_PARTS: Mapping[str, str] = MappingProxyType(
    {
        **{unit: unit.lower() for unit in ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")},
        "DOY": "doy",
        "DAYOFYEAR": "doy",
        "DAY_OF_YEAR": "doy",
        "EPOCH": "epoch",
        "EPOCH_SECOND": "epoch",
        "ISOWEEK": "week",
        "WEEKISO": "week",
        "WEEK_ISO": "week",
    }
)
# Dialects in which Sunday is day 0; in others, it is day 1.
_SUNDAY_IS_ZERO = frozenset({"duckdb", "snowflake"})
# Specifiers of strftime with the same meaning in chrono, which formats DataFusion's dates.
_CHRONO = frozenset("YymdHIMSpjbBaAUWuweFTDRZz%")
_LETTERS_ARE_FORMAT = frozenset({"spark", "snowflake"})


def interval(amount: exp.Expr, unit: str) -> str:
    """Return an interval; `amount` may be any expression of an integer."""
    unit = unit.removeprefix("SUNDAY ")
    factor = 1
    if unit == "QUARTER":
        unit, factor = "MONTH", 3
    number = literal_number(amount)
    if number is None and (text := literal_text(amount)) is not None and re.fullmatch(r"-?\d+", text.strip()):
        number = int(text)
    if number is not None:
        return f"INTERVAL '{number * factor} {unit}'"
    whole = f"CAST({native(amount)} AS BIGINT)" + (f" * {factor}" if factor > 1 else "")
    return f"CAST(CAST({whole} AS VARCHAR) || ' {unit}' AS INTERVAL)"


def moment(node: exp.Expr, unit: str) -> str:
    """Return the operand to which an interval is added, as a timestamp: DataFusion adds no hours to dates."""
    if literal_text(node) is not None:
        return f"CAST({native(node)} AS TIMESTAMP)"
    return f"date_trunc('microsecond', {native(node)})" if unit in _BELOW_DAY else operand(node)


def _shift(sign: str, *, to_date: bool = False) -> Rule:
    def rule(node: exp.Expr, source: DialectSource) -> exp.Expr:
        unit, amount = unit_of(node, source, "DAY"), node.expression
        if isinstance(amount, exp.Interval):
            unit, amount = unit_of(amount, source), amount.this
        base = f"CAST({native(node.this)} AS DATE)" if to_date else moment(node.this, unit)
        return raw(f"({base} {sign} {interval(amount, unit)})")

    return rule


def _interval(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    amount = node.this
    if node.args.get("unit") is None:
        return None  # '1 day': DataFusion reads it
    if amount is None:
        source.refuse(node, "this interval is not supported")
    return raw(interval(amount, unit_of(node, source)))


def _plus_interval(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    """Cast the other operand to a timestamp, before the interval is translated."""
    for one, other in ((node.expression, node.this), (node.this, node.expression)):
        if isinstance(one, exp.Interval) and one.args.get("unit") is not None:
            plain = isinstance(other, exp.Interval | exp.CurrentTimestamp)
            if unit_of(one, source) in _BELOW_DAY and not plain:
                fine = exp.Literal.string("microsecond")
                other.replace(exp.Anonymous(this="date_trunc", expressions=[fine, other.copy()]))
            break
    return None


def _add_months(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if node.args.get("preserve_end_of_month"):
        source.refuse(node, "ADD_MONTHS keeps the end of the month here: use DATEADD(MONTH, ...)")
    return raw(f"(CAST({native(node.this)} AS DATE) + {interval(node.expression, 'MONTH')})")


def _truncate(*, to_date: bool = False) -> Rule:
    def rule(node: exp.Expr, source: DialectSource) -> exp.Expr:
        if node.args.get("zone") is not None:
            source.refuse(node, "truncating in another time zone is not supported")
        unit = unit_of(node, source)
        if unit == "SUNDAY WEEK":
            day = "INTERVAL '1 DAY'"
            text = f"(date_trunc('week', {native(node.this)} + {day}) - {day})"
        else:
            text = f"date_trunc('{unit.lower()}', {native(node.this)})"
        return raw(f"CAST({text} AS DATE)" if to_date or isinstance(node.this, exp.CurrentDate) else text)

    return rule


def _date_trunc(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    # If the type of the result depends on the input, which is not known here, it is a timestamp.
    return _truncate(to_date=source.dialect in {"bigquery", "spark"})(node, source)


def strftime(node: exp.Expr, source: DialectSource) -> str:
    """Return the format of a function as a literal for DataFusion."""
    text = literal_text(node.args.get("format"))
    if text is None:
        source.refuse(node, "a date format must be a literal")
    checked = re.sub(r"(%-?[a-zA-Z%])strict", r"\1", text)
    for padding, letter in re.findall(r"%(-?)(.)", checked):
        if letter not in _CHRONO and letter != "f":
            source.refuse(node, f"the date format %{padding}{letter} is not supported")
    rest = re.sub(r"%-?.", "", checked)
    if source.dialect in _LETTERS_ARE_FORMAT and re.search(r"[A-Za-z]", rest.replace("T", "")):
        source.refuse(node, f"a part of this date format is not supported ({rest.strip()!r})")
    checked = re.sub(r"%-?f", "%6f", checked).replace("'", "''")
    return f"'{checked}'"


def _to_char(node: exp.Expr, source: DialectSource) -> exp.Expr:
    """Translate TO_CHAR of dates, which its format distinguishes from TO_CHAR of numbers."""
    written = node.args.get("format")
    if written is None:
        return raw(f"CAST({native(node.this)} AS VARCHAR)")
    if not re.search(r"[YyDdHh]|MM|mm|MI|mi|SS|ss", literal_text(written) or ""):
        source.refuse(node, "TO_CHAR is supported with a format of dates, as a literal")
    node.set("format", Dialect.get_or_raise(source.dialect).format_time(written.copy()))
    return call("to_char", node.this, strftime(node, source))


def _format(function: str) -> Rule:
    def rule(node: exp.Expr, source: DialectSource) -> exp.Expr:
        return call(function, node.this, strftime(node, source))

    return rule


def _read_timestamp(node: exp.Expr, source: DialectSource) -> exp.Expr:
    return raw(f"CAST({native(call('to_timestamp', node.this, strftime(node, source)))} AS TIMESTAMP)")


def _to_date(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if node.args.get("format") is not None:
        return call("to_date", node.this, strftime(node, source))
    if isinstance(node, exp.Date) and (node.args.get("zone") or node.expressions):
        source.refuse(node, "this form of DATE() is not supported")
    return raw(f"CAST({native(node.this)} AS DATE)")


def _to_timestamp(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if node.args.get("zone") is not None or node.expression is not None:
        source.refuse(node, "this form of TIMESTAMP() is not supported")
    return raw(f"CAST({native(node.this)} AS TIMESTAMP)")


def _extract(node: exp.Expr, source: DialectSource) -> exp.Expr:
    name = node.this.sql(dialect="bigquery").upper()
    moment_ = native(node.expression)
    if literal_text(node.expression) is not None:
        moment_ = f"CAST({moment_} AS TIMESTAMP)"
    if name in {"DOW", "DAYOFWEEK", "DAY_OF_WEEK", "DW", "WEEKDAY"}:
        if source.dialect == "trino":
            return raw(f"date_part('isodow', {moment_})")
        return raw(_day_of_week(moment_, source))
    if name in {"DOW_ISO", "DAYOFWEEK_ISO", "DAYOFWEEKISO", "ISODOW"}:
        return raw(f"date_part('isodow', {moment_})")
    if name == "DATE":
        return raw(f"CAST({moment_} AS DATE)")
    if name == "WEEK" and source.dialect != "bigquery":
        name = "ISOWEEK"
    part = _PARTS.get(name) or _PARTS.get(UNITS.get(name, name))
    if part is None:
        source.refuse(node, f"EXTRACT of {name} is not supported")
    return raw(f"date_part('{part}', {moment_})")


def _day_of_week(text: str, source: DialectSource) -> str:
    if source.dialect in _SUNDAY_IS_ZERO:
        return f"date_part('dow', {text})"
    return f"(date_part('dow', {text}) + 1)"


def _weekday(node: exp.Expr, source: DialectSource) -> exp.Expr:
    return raw(_day_of_week(native(node.this), source))


def _week(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if source.dialect == "mysql" or node.args.get("mode") is not None:
        source.refuse(node, "WEEK() counts weeks in a way that is not supported: use WEEKOFYEAR()")
    return call("date_part", "'week'", node.this)


def _name_of(long: str, short: str) -> Rule:
    def rule(node: exp.Expr, _source: DialectSource) -> exp.Expr:
        return call("to_char", node.this, f"'{short if node.args.get('abbreviated') else long}'")

    return rule


def _last_day(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if node.args.get("unit") is not None and unit_of(node, source) != "MONTH":
        source.refuse(node, "LAST_DAY is supported of months only")
    end = f"date_trunc('month', {native(node.this)}) + INTERVAL '1 MONTH' - INTERVAL '1 DAY'"
    return raw(f"CAST({end} AS DATE)")


def _from_parts(node: exp.Expr, _source: DialectSource) -> exp.Expr:
    return call("make_date", *(node.args.get(name) for name in ("year", "month", "day")))


def _from_unix(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if node.args.get("zone") is not None or node.args.get("format") is not None:
        source.refuse(node, "only a number of seconds, without zone or format, is supported here")
    scale = literal_number(node.args.get("scale")) or 0
    names = {0: "seconds", 3: "millis", 6: "micros", 9: "nanos"}
    if scale not in names:
        source.refuse(node, "this scale is not supported")
    return raw(f"CAST({native(call(f'to_timestamp_{names[scale]}', node.this))} AS TIMESTAMP)")


def _now(node: exp.Expr, source: DialectSource) -> exp.Expr:
    zone = literal_text(node.this)
    if zone is not None and zone.upper() != "UTC":
        source.refuse(node, "the time of another zone is not supported")
    return raw("now()")


def _today(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if node.this is not None and (literal_text(node.this) or "").upper() != "UTC":
        source.refuse(node, "the date of another zone is not supported")
    return raw("current_date")


def _in_zone(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    """Translate AT TIME ZONE, for which DataFusion reads a timestamp without zone as one in that zone."""
    if source.dialect not in {"spark", "trino"}:
        return None
    text = f"{operand(node.this)} AT TIME ZONE 'UTC' AT TIME ZONE {operand(node.args['zone'])}"
    # Spark's from_utc_timestamp, whose timestamps have no zones.
    return raw(f"to_local_time({text})" if source.dialect == "spark" else f"({text})")


def _from_zone(node: exp.Expr, _source: DialectSource) -> exp.Expr:
    zoned = f"{operand(node.this)} AT TIME ZONE {operand(node.args['zone'])}"
    return raw(f"to_local_time({zoned} AT TIME ZONE 'UTC')")


BEFORE: Mapping[type[exp.Expr], Rule] = MappingProxyType({exp.Add: _plus_interval, exp.Sub: _plus_interval})
"""Rules that look at operands before these are translated."""

RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        exp.Interval: _interval,
        exp.DateAdd: _shift("+"),
        exp.DateSub: _shift("-"),
        exp.DatetimeAdd: _shift("+"),
        exp.DatetimeSub: _shift("-"),
        exp.TimestampAdd: _shift("+"),
        exp.TimestampSub: _shift("-"),
        exp.TsOrDsAdd: _shift("+", to_date=True),
        exp.AddMonths: _add_months,
        exp.DateTrunc: _date_trunc,
        exp.TimestampTrunc: _truncate(),
        exp.DatetimeTrunc: _truncate(),
        exp.TimeToStr: _format("to_char"),
        exp.ToChar: _to_char,
        exp.TimeStrToTime: _to_timestamp,
        exp.StrToTime: _read_timestamp,
        exp.StrToDate: _format("to_date"),
        exp.TsOrDsToDate: _to_date,
        exp.Date: _to_date,
        exp.TsOrDsToDatetime: _to_timestamp,
        exp.TsOrDsToTimestamp: _to_timestamp,
        exp.Timestamp: _to_timestamp,
        exp.AtTimeZone: _in_zone,
        exp.FromTimeZone: _from_zone,
        exp.Extract: _extract,
        exp.Year: from_template("date_part('year', {this})"),
        exp.Quarter: from_template("date_part('quarter', {this})"),
        exp.Month: from_template("date_part('month', {this})"),
        exp.Day: from_template("date_part('day', {this})"),
        exp.DayOfMonth: from_template("date_part('day', {this})"),
        exp.DayOfYear: from_template("date_part('doy', {this})"),
        exp.Hour: from_template("date_part('hour', {this})"),
        exp.Minute: from_template("date_part('minute', {this})"),
        exp.Second: from_template("date_part('second', {this})"),
        exp.WeekOfYear: from_template("date_part('week', {this})"),
        exp.Week: _week,
        exp.DayOfWeek: _weekday,
        exp.DayOfWeekIso: from_template("date_part('isodow', {this})"),
        exp.Dayname: _name_of("%A", "%a"),
        exp.Monthname: _name_of("%B", "%b"),
        exp.LastDay: _last_day,
        exp.DateFromParts: _from_parts,
        exp.UnixToTime: _from_unix,
        exp.TimeToUnix: from_template("date_part('epoch', {this})"),
        exp.UnixSeconds: from_template("CAST(floor(date_part('epoch', {this})) AS BIGINT)"),
        exp.CurrentTimestamp: _now,
        exp.CurrentDatetime: _now,
        exp.CurrentDate: _today,
        exp.UtcTimestamp: _now,
    }
)
