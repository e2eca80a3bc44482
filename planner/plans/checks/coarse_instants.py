"""Constants beside timestamps of a coarser unit, to which DataFusion 55 brings them.

    SELECT id FROM t WHERE at = TIMESTAMP '2024-02-29 23:59:59.5'
    SELECT id FROM t WHERE CAST(at AS TIMESTAMP) = '2024-02-29 23:59:59.5'
    SELECT at + INTERVAL '500 milliseconds' FROM t
    SELECT x FROM (SELECT CAST(at AS TIMESTAMP) AS x FROM t) WHERE x >= '2024-02-29 23:59:59.5'

Where `at` has seconds, all find or give 23:59:59. A conversion that loses what nobody asked it to lose is
refused, with what to write in its place. One of a constant that loses nothing is not, nor is one of the time
that it is now. Of two columns, the coarser one is converted, which loses nothing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Final

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionConfig, SessionContext
from datafusion.expr import Aggregate, Filter, Join, Projection, Sort, TableScan, WindowExpr
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.memwal.transforms.determinism import is_deterministic
from lance_gateway.planner.bridge.plan_reading import (
    KEEPS_SUBQUERIES,
    WRONG_RULES,
    Expression,
    columns_of,
    every_node,
    subquery_plans,
)

_UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NANOSECONDS = re.compile(r"\.\d{7}")
_BY_PLACE = re.compile(r"\b(?:union|except|intersect|using|natural)\b", re.IGNORECASE)
"""What compares columns without their names."""
_CASTS: Final = frozenset({"Cast", "TryCast"})
_COMPARISONS: Final = frozenset({"=", "!=", "<", ">", "<=", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
_WORDS: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}

_COMPARED: Final = (
    "Timestamps of {unit} beside finer ones are not supported, since DataFusion would take both as {unit}: "
    "write to_timestamp_nanos(..) around both"
)
_SHIFTED: Final = (
    "An interval with fractions beside timestamps of {unit} is not supported, since DataFusion would cut "
    "them off: write to_timestamp_nanos(..) around the timestamps"
)


def instants_of(schemas: Iterable[pa.Schema]) -> list[pa.Field]:
    """Return the columns of timestamps among those of some tables."""
    return [field for schema in schemas for field in schema if pa.types.is_timestamp(field.type)]


def may_lose_fractions(sql: str | None, columns: Collection[pa.Field]) -> bool:
    """Whether a statement can have timestamps of two units, or constants that microseconds can't tell.

    Args:
        sql: its text; None if there is none.
        columns: of timestamps, of the tables that it reads.
    """
    units = {field.type.unit for field in columns}
    if not (units - {"us", "ns"} or len(units) > 1 or ("us" in units and _NANOSECONDS.search(sql or ""))):
        return False
    if sql is None or _BY_PLACE.search(sql):
        return True
    folded = sql.casefold()
    return any(field.name.casefold() in folded for field in columns)


def refuse_lost_fractions(frame: DataFrame) -> None:
    """Look for constants and intervals that lose fractions beside timestamps of a coarser unit.

    Raises:
        UnsupportedError: there is one.
    """
    written = frame.logical_plan()
    typed = _typing().create_dataframe_from_logical_plan(written).optimized_logical_plan()
    for source, one in _expressions(typed):
        _check(_compared_unit(source, one))
        _check(_shifted_unit(source, one), _SHIFTED)
    # Subqueries show where they have become joins, or by themselves.
    optimized = frame.optimized_logical_plan()
    _refuse_truncated_constants(written, (optimized, *subquery_plans(optimized)))


def _refuse_truncated_constants(statement: LogicalPlan, plans: Iterable[LogicalPlan]) -> None:
    """Look for constants that have lost fractions on their way to columns of a coarser unit.

    Args:
        statement: the plan as it is written.
        plans: what the optimiser made of it.
    """
    optimized = {constant for plan in plans for constant in _find_constants(plan)}
    if not any(unit in _WORDS for _, unit in optimized):
        return
    joined = _unfolding().create_dataframe_from_logical_plan(statement).optimized_logical_plan()
    written = {instant for instant, _ in _find_constants(joined)}
    kept = {instant for instant, _ in optimized}
    for instant, unit in optimized:
        step = _UNITS["ns"] // _UNITS[unit]
        truncated = {one for one in written if one % step and abs(one - instant) < step}
        if truncated and (instant not in written or not truncated <= kept):
            _check(unit)


def _find_constants(plan: LogicalPlan) -> Iterator[tuple[int, str]]:
    """Yield the timestamps that a plan has or computes without columns: nanoseconds, and the unit."""
    for _, one in _expressions(plan):
        value = None
        if one.variant_name() == "Literal":
            value = one.python_value()
        elif _is_constant(one) and is_deterministic(Expr(one)):
            with contextlib.suppress(Exception):  # the run raises it
                value = _compute(one)
        if isinstance(value, pa.TimestampScalar) and value.is_valid:
            unit = value.type.unit
            yield value.value * (_UNITS["ns"] // _UNITS[unit]), unit


def _check(unit: str | None, message: str = _COMPARED) -> None:
    if unit is not None:
        raise UnsupportedError(message.format(unit=_WORDS[unit]))


def _names(expression: Expression) -> frozenset[str] | None:
    try:
        return frozenset(name for _, name in columns_of(expression))
    except ValueError:
        return None


@cache
def _typing() -> SessionContext:
    """Gives expressions the types that they are computed in, and changes nothing else."""
    return SessionContext(SessionConfig().set("datafusion.optimizer.max_passes", "0"))


@cache
def _unfolding() -> SessionContext:
    """Makes joins of subqueries, where the bindings show their constants, and folds nothing."""
    context = SessionContext(SessionConfig().set(KEEPS_SUBQUERIES, "false"))
    for rule in (*WRONG_RULES, "simplify_expressions"):
        context.remove_optimizer_rule(rule)
    return context


@cache
def _one_row() -> DataFrame:
    """Computes constants; the optimiser puts others in place of functions that can't be planned."""
    return SessionContext().sql("SELECT 1")


def _expressions(plan: LogicalPlan) -> Iterator[tuple[LogicalPlan, Expression]]:
    """The expressions of a plan and their parts, each with the plan whose columns it reads."""
    for node in every_node(plan):
        variant = node.to_variant()
        match variant:
            case Filter():
                found = [variant.predicate()]
            case Projection():
                found = variant.projections()
            case Aggregate():
                found = [*variant.group_by_exprs(), *variant.aggregate_exprs()]
            case WindowExpr():
                found = [
                    part for window in variant.get_window_expr() for part in _window_parts(variant, window)
                ]
            case Sort():
                found = [expr.expr() for expr in variant.sort_exprs()]
            case Join():
                found = [side for pair in variant.on() for side in pair]
                found += [] if variant.filter() is None else [variant.filter()]
            case TableScan():
                found = variant.filters()
            case _:
                continue
        source = node.inputs()[0] if len(node.inputs()) == 1 else node
        for one in found:
            yield from ((source, part) for part in _parts(one))


def _window_parts(node: WindowExpr, call: Expression) -> list[Expression]:
    orders = (expr.expr() for expr in node.get_sort_exprs(call))
    return [*node.get_args(call), *node.get_partition_exprs(call), *orders]


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    for operand in _operands(expression):
        yield from _parts(operand)


def _operands(expression: Expression) -> list[Expression]:
    if expression.variant_name() in {"Column", "Literal"}:
        return []
    try:
        return list(expression.rex_call_operands())
    except Exception:  # noqa: BLE001 - a subquery, say
        return []


def _compared_unit(source: LogicalPlan, expression: Expression) -> str | None:
    """The unit of what is cast to finer timestamps beside constants, which DataFusion casts instead then."""
    match expression.variant_name():
        case "BinaryExpr":
            if expression.to_variant().op() not in _COMPARISONS:
                return None
        case "Between" | "InList":
            pass
        case _:
            return None
    operands = _operands(expression)
    constants = [operand for operand in operands if _is_constant(operand)]
    for one in operands if constants else []:
        for coarse in _cast_units(source, one) if not _is_constant(one) else ():
            if any(_unit(source, other) is not None and _has_fractions(other, coarse) for other in constants):
                return coarse
    return None


def _shifted_unit(source: LogicalPlan, expression: Expression) -> str | None:
    """The unit of what is moved by a constant interval with fractions of that unit."""
    if expression.variant_name() != "BinaryExpr" or expression.to_variant().op() not in {"+", "-"}:
        return None
    operands = _operands(expression)
    constants = [operand for operand in operands if _is_constant(operand) and is_deterministic(Expr(operand))]
    found = [_unit(source, operand) for operand in operands] if constants else []
    units = [unit for unit in found if unit is not None]
    for constant in constants:
        with contextlib.suppress(Exception):  # the run raises it
            value = _compute(constant)
            if isinstance(value, pa.MonthDayNanoIntervalScalar) and value.is_valid:
                nanoseconds = value.as_py().nanoseconds
                return next((unit for unit in units if nanoseconds % (_UNITS["ns"] // _UNITS[unit])), None)
    return None


def _cast_units(source: LogicalPlan, cast: Expression) -> Iterator[str]:
    """The units of what casts, one around the other, are applied to."""
    while cast.variant_name() in _CASTS:
        (cast,) = _operands(cast)
        unit = _unit(source, cast)
        if unit is not None:
            yield unit


def _is_constant(expression: Expression) -> bool:
    return _names(expression) == frozenset()


def _has_fractions(expression: Expression, unit: str) -> bool:
    """Whether an expression may have timestamps that are no multiples of a unit, other than the time now."""
    if not _is_constant(expression):
        return True
    if not is_deterministic(Expr(expression)):
        return False
    value = _compute(expression)
    return bool(value.is_valid and value.value * _UNITS[unit] % _UNITS[value.type.unit])


def _compute(constant: Expression) -> pa.Scalar:
    return _one_row().select(Expr(constant)).to_arrow_table().column(0)[0]


def _unit(source: LogicalPlan, expression: Expression) -> str | None:
    """The unit of timestamps; None for values of other types."""
    frame = _typing().create_dataframe_from_logical_plan(source)
    try:
        kind = frame.select(Expr(expression)).schema().types[0]
    except Exception:  # noqa: BLE001 - columns of a query around this one
        return None
    return kind.unit if pa.types.is_timestamp(kind) else None
