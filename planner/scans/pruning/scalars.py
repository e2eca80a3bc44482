"""Reads the values of a condition's expressions as spans: columns, literals, and what is computed from them.

A function that never gives less for more is evaluated at both ends of what its column may be:

    ts in March of 2026     CAST(ts AS DATE)          2026-03-01 to 2026-03-31
                            date_trunc('month', ts)   2026-03-01

All of them are evaluated together, by DataFusion, with the expressions as they stand in the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import col

from lance_gateway.planner.bridge.plan_reading import (
    Expression,
    columns_of,
    literal_value,
    operands,
    serialize_expression,
    strip_aliases,
)
from lance_gateway.planner.bridge.row_expressions import (
    evaluate_expressions,
    policy_context,
    run_on_own_thread,
)
from lance_gateway.planner.scans.pruning.plan_conditions import Definitions
from lance_gateway.planner.scans.pruning.region_values import ComputedField, RegionValues
from lance_gateway.planner.scans.pruning.spans import Flags, Span, is_ordered, is_text, to_flags
from lance_gateway.planner.sql.text.tokens import quote

Values: TypeAlias = Sequence[pa.Array | None]
"""The values of the expressions that were asked for, at the lower ends, and then at the upper ends."""
Scalar: TypeAlias = Callable[[Values], Span | None]
"""Returns the span of an expression, once values are known."""

_MONOTONE_PARTS: Final = frozenset({"year", "epoch"})
_ROUNDED: Final = frozenset({"floor", "ceil"})


@dataclass(frozen=True, eq=False)
class Ends:
    """The rows of a table that have what regions begin and end with, and the expressions over them.

    Attributes:
        reference: name by which expressions know the table.
        schema: of the table.
        known: of its regions.
        count: number of regions.
        wanted: expressions to evaluate.
    """

    reference: str
    schema: pa.Schema
    known: RegionValues
    count: int
    wanted: list[Expression] = field(default_factory=list)

    def want(self, expression: Expression) -> int:
        """Ask for the values of an expression; return its place among them."""
        self.wanted.append(expression)
        return len(self.wanted) - 1

    def evaluate(self) -> Values:
        """Evaluate all expressions that are wanted."""
        if not self.wanted:
            return []
        names = {name for one in self.wanted for _, name in columns_of(one)}
        fields = [one for one in self.schema if one.name in names]
        columns = []
        for one in fields:
            span = self.known.columns.get(one.name)
            ends = pa.nulls(2 * self.count, one.type) if span is None else _join(span.lower, span.upper)
            columns.append(ends)
        # Region values may be NULL where the column may not.
        schema = pa.schema([one.with_nullable(True) for one in fields])  # noqa: FBT003 - a value
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        return evaluate_expressions(self.reference, rows, self.wanted)

    def read_scalar(self, expression: Expression, definitions: Definitions) -> Scalar | None:
        """Return how to find the span of an expression; None if nothing is known of it."""
        expression = strip_aliases(expression)
        kind = expression.variant_name()
        if kind == "Column":
            name = expression.to_variant().name()
            defined = definitions.get(name)
            if defined is not None:
                return self.read_scalar(defined, {})
            return _constantly(self.known.columns.get(name))
        if kind == "Literal":
            return _constantly(self._repeat(expression))
        if kind == "Case":
            return self._read_case(expression, definitions)
        if any(name in definitions for _, name in columns_of(expression)):
            return None
        return self._find_recorded(expression) or self._read_steps(expression) or self._widen(expression)

    def _read_case(self, expression: Expression, definitions: Definitions) -> Scalar | None:
        """Return the span of all values that a CASE may choose, as `coalesce` is one."""
        case = expression.to_variant()
        chosen = [*(then for _, then in case.when_then_expr()), *filter(None, [case.else_expr()])]
        scalars = [self.read_scalar(one, definitions) for one in chosen]
        if None in scalars:
            return None

        def unite(values: Values) -> Span | None:
            spans = [one(values) for one in scalars if one is not None]
            known = [one for one in spans if one is not None]
            is_same = len(known) == len(spans) and len({str(one.type) for one in known}) == 1
            # Without ELSE, NULL may be chosen: even the span of one value is united, with itself.
            return reduce(Span.unite, known, known[0]) if is_same else None

        return unite

    def _repeat(self, literal: Expression) -> Span | None:
        try:
            value = literal.python_value()
            scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
        except Exception:  # noqa: BLE001 - of some types the bindings have no value
            return None
        if not scalar.is_valid or not is_ordered(scalar.type):
            return None
        values = pa.repeat(_plain(scalar), self.count)
        always, never = np.ones(self.count, np.bool_), np.zeros(self.count, np.bool_)
        return Span(values, values, never, always)

    def _find_recorded(self, expression: Expression) -> Scalar | None:
        """Return the span of an expression whose values regions record."""
        if expression.variant_name() == "ScalarFunction":
            name, arguments = expression.rex_call_operator(), operands(expression)
            found = self._find_part(name, arguments) or self._find_start(name, arguments)
            if found is not None:
                return _constantly(found)
        if self.known.computed:
            sought = serialize_expression(expression)
            for one in self.known.computed:
                same = _serialize_field(self.reference, self.schema, one)
                if same is not None and same[0] == sought:
                    return _constantly(_convert(one.values, same[1]))
        return None

    def _find_part(self, name: str, arguments: Sequence[Expression]) -> Span | None:
        if name != "date_part" or len(arguments) != 2:
            return None
        part, column = _text_of(arguments[0]), _column_of(arguments[1])
        return None if part is None or column is None else self.known.parts.get((part.lower(), column))

    def _find_start(self, name: str, arguments: Sequence[Expression]) -> Span | None:
        if not arguments:
            return None
        column, numbers = _column_of(arguments[0]), [_number_of(one) for one in arguments[1:]]
        is_start = (name == "left" and len(numbers) == 1) or (name == "substr" and numbers[:-1] == [1])
        if column is None or not is_start or not isinstance(numbers[-1], int):
            return None
        return self.known.starts.get((column, numbers[-1]))

    def _widen(self, expression: Expression) -> Scalar | None:
        """Return the span of integers that are cast to a wider type."""
        if expression.variant_name() != "Cast":
            return None
        (inner,) = operands(expression)
        scalar = None if inner.variant_name() == "Column" else self._find_recorded(inner)
        if scalar is None:
            return None
        # Its type is that of the expression, whatever the value: NULL of the column gives it.
        place = self.want(expression)

        def widen(values: Values) -> Span | None:
            span, found = scalar(values), values[place]
            if span is None or found is None:
                return None
            return _convert(span, found.type) if pa.types.is_integer(found.type) else None

        return widen

    def _read_steps(self, expression: Expression) -> Scalar | None:
        """Return the span of an expression that never gives less for more of a column."""
        steps: list[Expression] = []
        column = self._find_monotone(expression, steps)
        span = self.known.columns.get(column or "")
        if span is None or is_text(span.type):
            return None
        places = [self.want(step) for step in steps]

        def read(values: Values) -> Span | None:
            found = [values[place] for place in places]
            # A step through text or times of the day has another order.
            if any(one is None or not _keeps_order(one.type) for one in found):
                return None
            return _make_monotone(span, [one for one in found if one is not None], self.count)

        return read

    def _find_monotone(self, expression: Expression, steps: list[Expression]) -> str | None:
        """Return the only column that an expression grows with, and add its steps; None if there is none."""
        kind = expression.variant_name()
        if kind == "Column":
            name: str = expression.to_variant().name()
            return name
        inner: Expression | None = None
        arguments = operands(expression)
        if kind in {"Cast", "TryCast", "Alias"}:
            (inner,) = arguments
        elif kind == "BinaryExpr":
            inner = _find_moved(expression.to_variant().op(), arguments)
        elif kind == "ScalarFunction":
            inner = _find_rounded(expression.rex_call_operator(), arguments)
        if inner is None:
            return None
        steps.append(expression)
        column = self._find_monotone(inner, steps)
        # In a named zone, clocks are set back: sums of days do not keep the order.
        return None if kind == "BinaryExpr" and column in self.known.zoned else column


def _find_moved(operator: str, arguments: Sequence[Expression]) -> Expression | None:
    """Return the operand that a constant is added to, or that is divided by a positive one."""
    inner, constant = arguments
    if constant.variant_name() != "Literal":
        return None
    try:
        value = constant.python_value()
    except Exception:  # noqa: BLE001 - of some types the bindings have no value
        return None
    scalar = value.as_py() if isinstance(value, pa.Scalar) else value
    if operator in {"+", "-"}:
        # A month more is the same day for several days.
        is_steady = isinstance(scalar, int | float) or getattr(scalar, "months", None) == 0
        return inner if is_steady and scalar == scalar else None  # noqa: PLR0124 - NaN
    return inner if operator == "/" and isinstance(scalar, int | float) and scalar > 0 else None


def _find_rounded(name: str, arguments: Sequence[Expression]) -> Expression | None:
    """Return the argument of a function that rounds it."""
    if name in _ROUNDED and len(arguments) == 1:
        return arguments[0]
    if name == "make_date":
        return _find_first_day(*arguments)
    if name not in {"date_trunc", "date_part"} or len(arguments) != 2:
        return None
    unit = _text_of(arguments[0])
    is_monotone = unit is not None and (name == "date_trunc" or unit.lower() in _MONOTONE_PARTS)
    return arguments[1] if is_monotone else None


def _find_first_day(year: Expression, month: Expression, day: Expression) -> Expression | None:
    """Return the column whose year, and whose month or quarter, a date begins."""
    column = _find_part_of(year, {"year"})
    if column is None or day.variant_name() != "Literal" or not _grows_in_year(month, _column_of(column)):
        return None
    return column


def _grows_in_year(month: Expression, column: str | None) -> bool:
    """Return whether the number of a month never falls within the years of a column."""
    kind = month.variant_name()
    if kind == "BinaryExpr":
        sides = operands(month)
        numbers = [_number_of(one) for one in sides]
        is_steady = {"-": numbers[1] is not None, "*": (numbers[0] or 0) > 0}.get(month.to_variant().op())
        return bool(is_steady) and all(_grows_in_year(one, column) for one in sides)
    if kind == "Cast":
        return _grows_in_year(operands(month)[0], column)
    part = _find_part_of(month, {"month", "quarter"})
    return kind == "Literal" or (part is not None and _column_of(part) == column)


def _find_part_of(expression: Expression, parts: AbstractSet[str]) -> Expression | None:
    """Return the column of which an expression is one of some parts."""
    if expression.variant_name() != "ScalarFunction" or expression.rex_call_operator() != "date_part":
        return None
    part, column = operands(expression)
    is_part = (_text_of(part) or "").lower() in parts and _column_of(column) is not None
    return column if is_part else None


def _keeps_order(kind: pa.DataType) -> bool:
    return is_ordered(kind) and not (is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind))


def _make_monotone(span: Span, steps: Sequence[pa.Array], count: int) -> Span:
    """Make a span of the first of some steps; it tells nothing where the ends of any are in another order."""
    ends = [(_bound(step.slice(0, count)), _bound(step.slice(count))) for step in steps]
    # Integers that are too large for a type go on with its least one.
    is_wrong = np.logical_or.reduce([to_flags(pc.greater(lower, upper)) for lower, upper in ends])
    nothing = pa.scalar(None, steps[0].type)
    lower, upper = (pc.if_else(is_wrong, nothing, one) for one in ends[0])
    # A value may be too large for a type.
    return Span(lower, upper, np.ones(count, np.bool_), span.has_values)


def _bound(values: pa.Array) -> pa.Array:
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def _convert(span: Span, kind: pa.DataType) -> Span | None:
    """Return a span in another type of the same values; None if there may be others."""
    if span.type == kind or (pa.types.is_integer(span.type) and pa.types.is_integer(kind)):
        try:
            return span.cast(kind)
        except pa.ArrowInvalid:
            return None
    return span if is_text(span.type) and is_text(kind) else None


def _join(lower: pa.Array, upper: pa.Array) -> pa.Array:
    return pa.concat_arrays([lower, upper])


def _plain(value: pa.Scalar) -> pa.Scalar:
    return value.cast(pa.string()) if is_text(value.type) else value


def _constantly(span: Span | None) -> Scalar | None:
    return None if span is None else lambda _: span


def _column_of(expression: Expression) -> str | None:
    return expression.to_variant().name() if expression.variant_name() == "Column" else None


def _text_of(expression: Expression) -> str | None:
    value = literal_value(expression) if expression.variant_name() == "Literal" else None
    return value if isinstance(value, str) else None


def _number_of(expression: Expression) -> int | None:
    value = literal_value(expression) if expression.variant_name() == "Literal" else None
    return value if isinstance(value, int) else None


@lru_cache(maxsize=256)
def _serialize_field(
    reference: str, schema: pa.Schema, one: ComputedField
) -> tuple[bytes | None, pa.DataType] | None:
    """Return a region field's expression as plans have it, and its type; None if it can't be planned."""

    def plan() -> tuple[bytes | None, pa.DataType]:
        context = policy_context()
        context.register_record_batches(reference, [[pa.RecordBatch.from_pylist([], schema=schema)]])
        sources = [col(quote(each.name)).alias(f"col{at}") for at, each in enumerate(one.columns)]
        frame = context.table(quote(reference)).select(*sources)
        frame = frame.select(frame.parse_sql_expr(one.sql).alias("value"))
        (output,) = frame.optimized_logical_plan().to_variant().projections()
        return serialize_expression(strip_aliases(output)), frame.schema().field(0).type

    try:
        return run_on_own_thread(plan)
    except Exception:  # noqa: BLE001 - an expression that can't be planned is none of the statement's
        return None


def find_exact(ends: Ends, expression: Expression) -> Flags | None:
    """Return the regions in which all columns of an expression have one value; None if there are none."""
    exact: Flags | None = None
    for _, name in columns_of(expression):
        span = ends.known.columns.get(name)
        if span is None:
            return None
        exact = span.is_exact if exact is None else exact & span.is_exact
    return exact if exact is not None and exact.any() else None


def list_columns(expression: Expression, definitions: Definitions) -> Iterator[str]:
    """Yield the names of the columns of a table that an expression reads."""
    for _, name in columns_of(expression):
        if name in definitions:
            yield from (inner for _, inner in columns_of(definitions[name]))
        else:
            yield name
