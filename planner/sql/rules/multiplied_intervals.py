"""Intervals times numbers."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.dialect import parse_expression
from planner.sql.rules.tree import Tree, for_texts

_PART: Final = re.compile(r"([+-]?\d+)\s*([a-z]+)\s*", re.IGNORECASE)
_UNITS: Final = {
    "year": (12, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000_000),
    "minute": (0, 0, 60_000_000_000),
    "second": (0, 0, 1_000_000_000),
    "millisecond": (0, 0, 1_000_000),
    "microsecond": (0, 0, 1_000),
}
"""Name -> months, days, nanoseconds."""
_DAY: Final = 86_400_000_000_000


@for_texts(r"\binterval\b", r"[*/]")
def multiplied_intervals(tree: Tree) -> None:
    """Write an interval times a number as a text that is cast.

    DataFusion does not multiply intervals. A part of a day is so many hours; parts of months are left to it.

        SELECT ts + INTERVAL '2 days' * i FROM t
    ->  SELECT ts + CAST((i * 2) || ' days' AS INTERVAL) FROM t
    """
    for node in reversed(list(tree.root.find_all(exp.Mul, exp.Div))):
        sides = [node.this, node.expression]
        parts = [_read_interval(side) for side in sides]
        if isinstance(node, exp.Div):
            parts = [parts[0], None]
        at = next((at for at, one in enumerate(parts) if one is not None), None)
        if at is None:
            continue
        number = sides[1 - at]
        text = _write_interval(
            parts[at] or (0, 0, 0), tree.find_type(number), is_divided=isinstance(node, exp.Div)
        )
        if text is None:
            continue
        written = parse_expression(text)
        for column in list(written.find_all(exp.Column)):
            column.replace(exp.paren(number.copy()) if isinstance(number, exp.Binary) else number.copy())
        tree.replace(node, written)


def _read_interval(node: exp.Expr) -> tuple[int, int, int] | None:
    """Return the months, days and nanoseconds of a literal; None for other expressions."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        found = _read_interval(node.this)
        return None if found is None else (-found[0], -found[1], -found[2])
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    text = f"{node.this.name} {'' if unit is None else unit.name}".strip()
    found, end = (0, 0, 0), 0
    while end < len(text) and (part := _PART.match(text, end)) is not None:
        sizes = _UNITS.get(part[2].casefold().removesuffix("s"))
        if sizes is None:
            return None
        months, days, nanoseconds = (old + int(part[1]) * one for old, one in zip(found, sizes, strict=True))
        found, end = (months, days, nanoseconds), part.end()
    return found if end == len(text) else None


def _write_interval(size: tuple[int, int, int], kind: pa.DataType | None, *, is_divided: bool) -> str | None:
    """Return an interval of so many times a size, with x for the number; None if it can't be written."""
    months, days, nanoseconds = size
    if kind is not None and pa.types.is_integer(kind) and not is_divided:
        named = (("months", months), ("days", days), ("nanoseconds", nanoseconds))
        texts = [f"(x * {one}) || ' {name}'" for name, one in named if one]
        return f"CAST({' || '.join(texts)} AS INTERVAL)" if texts else None
    is_number = kind is not None and (pa.types.is_floating(kind) or pa.types.is_decimal(kind) or is_divided)
    if months or not is_number:
        return None
    times = "1.0e0 / x" if is_divided else "CAST(x AS DOUBLE)"
    whole = f"trunc({times} * {days})"
    rest = f"round(({times} * {days} - {whole}) * {_DAY}) + round({times} * {nanoseconds})"
    return (
        f"CAST(CAST({whole} AS BIGINT) || ' days ' || CAST({rest} AS BIGINT) || ' nanoseconds' AS INTERVAL)"
    )
