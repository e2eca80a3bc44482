"""Aggregates of other dialects."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from lance_gateway.planner.sql.dialects.build import (
    Rule,
    call,
    from_template,
    literal_text,
    native,
    operand,
    raw,
)
from lance_gateway.planner.sql.dialects.source import DialectSource

_SKIPS_NULLS = "skips_nulls"


def _refuse_filter_or_window(node: exp.Expr, source: DialectSource) -> None:
    """Refuse FILTER and OVER of an aggregate whose translation has a FILTER."""
    parent = node.parent
    while isinstance(parent, exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        parent = parent.parent
    if isinstance(parent, exp.Filter | exp.Window):
        source.refuse(node, f"{node.key.upper()} with FILTER or OVER is not supported")


def _skip_nulls(text: str, *subjects: exp.Expr) -> exp.Var:
    known = " AND ".join(f"{operand(subject)} IS NOT NULL" for subject in subjects)
    made = raw(f"{text} FILTER (WHERE {known})")
    made.meta[_SKIPS_NULLS] = True
    return made


def _best(order: str) -> Rule:
    def rule(node: exp.Expr, source: DialectSource) -> exp.Expr:
        if node.args.get("count") is not None:
            source.refuse(node, f"{node.key.upper()} of several rows is not supported")
        _refuse_filter_or_window(node, source)
        value, by = node.this, node.expression
        text = f"first_value({native(value)} ORDER BY {native(by)} {order})"
        subjects = (value, by) if source.dialect == "duckdb" else (by,)
        return _skip_nulls(text, *subjects)

    return rule


def _any_value(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if isinstance(node.this, exp.HavingMax):
        source.refuse(node, "ANY_VALUE with HAVING is not supported: use MAX_BY")
    _refuse_filter_or_window(node, source)
    return _skip_nulls(f"first_value({native(node.this)})", node.this)


def _first(name: str) -> Rule:
    def rule(node: exp.Expr, source: DialectSource) -> exp.Expr:
        if isinstance(node.parent, exp.IgnoreNulls):
            _refuse_filter_or_window(node, source)
            return _skip_nulls(f"{name}({native(node.this)})", node.this)
        return call(name, node.this)

    return rule


def _ignore_nulls(node: exp.Expr, _source: DialectSource) -> exp.Expr:
    inner: exp.Expr = node.this
    if inner.meta.get(_SKIPS_NULLS):
        return inner.copy()
    return raw(f"{native(inner)} IGNORE NULLS")


def _string_agg(node: exp.Expr, source: DialectSource) -> exp.Expr:
    """Translate STRING_AGG, GROUP_CONCAT and LISTAGG."""
    if node.args.get("on_overflow") is not None:
        source.refuse(node, "ON OVERFLOW is not supported")
    subject, order, distinct = node.this, "", ""
    if isinstance(subject, exp.Limit):
        source.refuse(node, "LIMIT inside of an aggregate is not supported")
    if isinstance(subject, exp.Order):
        order = _order_by(subject)
        subject = subject.this
    if isinstance(subject, exp.Distinct):
        distinct, subject = "DISTINCT ", subject.expressions[0]
        if isinstance(subject, exp.Order):
            order = _order_by(subject)
            subject = subject.this
    separator = native(node.args.get("separator")) or ("','" if source.dialect != "snowflake" else "''")
    text = native(subject) if literal_text(subject) is not None else f"CAST({native(subject)} AS VARCHAR)"
    return raw(f"string_agg({distinct}{text}, {separator}{order})")


def _order_by(subject: exp.Expr) -> str:
    """Return the ORDER BY inside of an aggregate as text."""
    return (
        " " + native(exp.Order(expressions=[expression.copy() for expression in subject.expressions])).strip()
    )


def _count_if(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if isinstance(node.this, exp.Distinct):
        source.refuse(node, "COUNT_IF(DISTINCT ...) is not supported")
    return raw(f"count(CASE WHEN {native(node.this)} THEN 1 END)")


def _array(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    subject = node.this
    if isinstance(subject, exp.Limit | exp.HavingMax):
        source.refuse(node, "LIMIT inside of an aggregate is not supported")
    within = node.parent if isinstance(node.parent, exp.WithinGroup) else None
    skips = bool(node.args.get("nulls_excluded")) or isinstance(node.parent, exp.IgnoreNulls)
    order = ""
    if isinstance(subject, exp.Order):
        order = _order_by(subject)
        subject = subject.this
    elif within is not None:
        order = " " + native(within.expression).strip()
    if not skips and not isinstance(node, exp.ArrayUniqueAgg):
        return raw(f"array_agg({native(subject)}{order})")
    _refuse_filter_or_window(node, source)
    distinct = "DISTINCT " if isinstance(node, exp.ArrayUniqueAgg) else ""
    plain = subject.expressions[0] if isinstance(subject, exp.Distinct) else subject
    return _skip_nulls(f"array_agg({distinct}{native(subject)}{order})", plain)


def _within(node: exp.Expr, _source: DialectSource) -> exp.Expr | None:
    """Remove WITHIN GROUP of aggregates whose translation has the order already."""
    return node.this.copy() if isinstance(node.this, exp.Var) else None


def _quantile(function: str) -> Rule:
    def rule(node: exp.Expr, source: DialectSource) -> exp.Expr:
        share = node.args.get("quantile")
        if source.dialect == "duckdb" and function == "percentile_cont":
            source.refuse(node, "QUANTILE picks a value: use QUANTILE_CONT")
        if not isinstance(share, exp.Literal) or any(
            node.args.get(one) for one in ("weight", "error_tolerance")
        ):
            source.refuse(node, "this form of a percentile is not supported")
        if function == "percentile_cont":
            return raw(f"percentile_cont({native(share)}) WITHIN GROUP (ORDER BY {native(node.this)})")
        return call(function, node.this, share)

    return rule


def _percentile(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    if isinstance(node.parent, exp.WithinGroup):
        return None
    if node.expression is None or isinstance(node.parent, exp.Window):
        source.refuse(node, "this form of PERCENTILE_CONT is not supported")
    return raw(f"percentile_cont({native(node.expression)}) WITHIN GROUP (ORDER BY {native(node.this)})")


def _grouping(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if len(node.expressions) != 1:
        source.refuse(node, "GROUPING of several columns is not supported")
    return call("grouping", *node.expressions)


RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        exp.ArgMax: _best("DESC"),
        exp.ArgMin: _best("ASC"),
        exp.AnyValue: _any_value,
        exp.First: _first("first_value"),
        exp.Last: _first("last_value"),
        exp.IgnoreNulls: _ignore_nulls,
        exp.GroupConcat: _string_agg,
        exp.CountIf: _count_if,
        exp.ArrayAgg: _array,
        exp.ArrayUniqueAgg: _array,
        exp.WithinGroup: _within,
        exp.Quantile: _quantile("percentile_cont"),
        exp.ApproxQuantile: _quantile("approx_percentile_cont"),
        exp.Median: from_template("median({this})"),
        exp.Grouping: _grouping,
        exp.PercentileCont: _percentile,
    }
)
