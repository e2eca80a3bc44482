"""Values, literals and boolean expressions drawn at random over columns that are known."""

import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.oracle.replay.model import Column

Draw = Callable[[st.SearchStrategy[Any]], Any]

VALUES: Mapping[pa.DataType, Sequence[Any]] = {
    pa.int32(): (None, -1, 0, 1, 2, 7, 2**31 - 1),
    pa.int64(): (None, -1, 0, 1, 2, 3, 4, 5, 6, 7, 2**53 + 1),
    pa.float64(): (None, math.nan, 0.0, 1.5, 2.5, 3.0, math.inf),
    pa.string(): (None, "", "a", "ab", "b", "é", "it's", "a%b"),
    pa.bool_(): (None, True, False),
    pa.date32(): (None, dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2025, 1, 1)),
    pa.timestamp("us"): (
        None,
        dt.datetime(2024, 2, 29, 23, 59, 59, 999_999),
        dt.datetime(2025, 1, 1),
    ),
    pa.decimal128(10, 2): (None, decimal.Decimal("-1.25"), decimal.Decimal("0.00"), decimal.Decimal("7.50")),
}
"""The values that cells and literals are drawn from: few, so that they meet."""


def literal(value: Any, data_type: pa.DataType) -> str:
    """``value`` as a SQL literal of ``data_type``."""
    if value is None:
        return "NULL"
    if pa.types.is_string(data_type):
        return "'" + value.replace("'", "''") + "'"
    if pa.types.is_floating(data_type):
        special = math.isnan(value) or math.isinf(value)
        return f"CAST('{value}' AS DOUBLE)" if special else repr(value)
    if pa.types.is_date(data_type):
        return f"DATE '{value.isoformat()}'"
    if pa.types.is_timestamp(data_type):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if pa.types.is_boolean(data_type):
        return "TRUE" if value else "FALSE"
    return str(value)


def value_of(draw: Draw, data_type: pa.DataType, *, nullable: bool = False) -> Any:
    values = VALUES[data_type]
    return draw(st.sampled_from(values if nullable else [value for value in values if value is not None]))


def drawn_literal(draw: Draw, column: Column) -> str:
    return literal(value_of(draw, column.type), column.type)


def predicate(draw: Draw, columns: Sequence[Column], alias: str = "", depth: int = 2) -> str:
    """A boolean expression over ``columns``, whose names are prefixed by ``alias``."""
    if depth and draw(st.booleans()):
        left, right = (predicate(draw, columns, alias, depth - 1) for _ in range(2))
        shape = draw(st.sampled_from(("({} AND {})", "({} OR {})", "NOT ({} AND {})")))
        return shape.format(left, right)
    column = draw(st.sampled_from(columns))
    shapes = list(_SHAPES)
    if alias:
        # DataFusion 55 keeps too much of `x RIGHT JOIN y ON x.id = y.id WHERE x.id IS NOT DISTINCT FROM 0`.
        shapes.remove(_distinct)
    shapes += _SHAPES_OF.get(column.type, [])
    return f"({draw(st.sampled_from(shapes))(draw, column, f'{alias}{column.name}')})"


def _comparison(draw: Draw, column: Column, name: str) -> str:
    operator = draw(st.sampled_from(("=", "=", "<>", "<", "<=", ">", ">=")))
    return f"{name} {operator} {drawn_literal(draw, column)}"


def _flipped(draw: Draw, column: Column, name: str) -> str:
    return f"{drawn_literal(draw, column)} {draw(st.sampled_from(('=', '<', '>=')))} {name}"


def _in_list(draw: Draw, column: Column, name: str) -> str:
    items = [drawn_literal(draw, column) for _ in range(draw(st.integers(1, 5)))]
    has_null = draw(st.integers(0, 4)) == 0
    operator = draw(st.sampled_from(("IN", "IN", "NOT IN")))
    listed = f"{name} {operator} ({', '.join(items)})"
    if not has_null:
        return listed
    # What NULL in the list means: in a list, it is refused beside other lists for the column.
    return f"({listed} {'OR' if operator == 'IN' else 'AND'} CAST(NULL AS BOOLEAN))"


def _between(draw: Draw, column: Column, name: str) -> str:
    return f"{name} BETWEEN {drawn_literal(draw, column)} AND {drawn_literal(draw, column)}"


def _is_null(draw: Draw, _: Column, name: str) -> str:
    return f"{name} IS {draw(st.sampled_from(('NULL', 'NOT NULL')))}"


def _distinct(draw: Draw, column: Column, name: str) -> str:
    return f"{name} IS {draw(st.sampled_from(('', 'NOT ')))}DISTINCT FROM {drawn_literal(draw, column)}"


def _coalesced(draw: Draw, column: Column, name: str) -> str:
    return f"coalesce({name}, {drawn_literal(draw, column)}) = {drawn_literal(draw, column)}"


def _arithmetic(draw: Draw, _: Column, name: str) -> str:
    return draw(
        st.sampled_from(
            (
                f"{name} % 2 = 0",
                f"{name} + 1 = 2",
                f"abs({name}) = 1",
                f"CAST({name} AS BIGINT) = 1",
                f"CAST({name} AS VARCHAR) = '1'",
                f"{name} > 0.5",
                f"{name} = 1.0",
            )
        )
    )


def _text(draw: Draw, _: Column, name: str) -> str:
    return draw(
        st.sampled_from(
            (
                f"{name} LIKE 'a%'",
                f"{name} NOT LIKE '%b'",
                f"{name} ILIKE 'A_'",
                f"upper({name}) = 'A'",
                f"{name} || 'b' = 'ab'",
                f"starts_with({name}, 'a')",
                f"character_length({name}) = 1",
                f"{name} ~ '^a'",
            )
        )
    )


def _day(draw: Draw, _: Column, name: str) -> str:
    return draw(
        st.sampled_from(
            (
                f"{name} >= '2024-02-29'",
                f"{name} < TIMESTAMP '2024-02-29 12:00:00'",
                f"extract(YEAR FROM {name}) = 2024",
                f"date_trunc('month', {name}) = DATE '2024-02-01'",
                f"{name} + INTERVAL '1' DAY = DATE '2024-03-01'",
            )
        )
    )


def _moment(draw: Draw, _: Column, name: str) -> str:
    return draw(
        st.sampled_from(
            (
                f"{name} >= DATE '2024-03-01'",
                f"CAST({name} AS DATE) = DATE '2024-02-29'",
                f"{name} < '2025-01-01 00:00:00'",
                f"extract(YEAR FROM {name}) >= 2025",
            )
        )
    )


def _money(draw: Draw, _: Column, name: str) -> str:
    return draw(
        st.sampled_from(
            (f"{name} > 0", f"{name} = 7.5", f"{name} * 2 > 10", f"{name} < 7.505", f"-{name} > 1")
        )
    )


def _float(draw: Draw, _: Column, name: str) -> str:
    return draw(
        st.sampled_from((f"{name} > 2.5", f"{name} = CAST('NaN' AS DOUBLE)", f"{name} < 3", f"{name} = 0"))
    )


def _boolean(draw: Draw, _: Column, name: str) -> str:
    return draw(st.sampled_from((name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT FALSE")))


_Shape = Callable[[Draw, Column, str], str]
_SHAPES: tuple[_Shape, ...] = (
    _comparison,
    _comparison,
    _flipped,
    _in_list,
    _between,
    _is_null,
    _distinct,
    _coalesced,
)
_SHAPES_OF: Mapping[pa.DataType, list[_Shape]] = {
    pa.int32(): [_arithmetic],
    pa.int64(): [_arithmetic],
    pa.string(): [_text],
    pa.float64(): [_float, _float],
    pa.bool_(): [_boolean, _boolean],
    pa.date32(): [_day, _day],
    pa.timestamp("us"): [_moment, _moment],
    pa.decimal128(10, 2): [_money, _money],
}
