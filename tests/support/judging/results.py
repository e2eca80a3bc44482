"""Comparing query results as multisets of rows; NaN equals itself."""

import decimal
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table as tuples, in order."""
    return (
        list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []
    )


def assert_same_rows(
    actual: pa.Table, expected: pa.Table, *, ordered: bool = False, context: str = ""
) -> None:
    """Both tables hold the same rows (and, if asked, in the same order); -0.0 and 0.0 differ, NaN is NaN."""
    assert actual.column_names == expected.column_names, (actual.column_names, expected.column_names, context)
    left, right = (_sort_rows(rows_of(table)) for table in (actual, expected))
    if ordered:
        assert left == right, _describe_difference(left, right, context)
    assert Counter(left) == Counter(right), _describe_difference(left, right, context)


def assert_close_rows(
    actual: Iterable[tuple[Any, ...]], expected: Iterable[tuple[Any, ...]], context: str
) -> None:
    """Both lists hold the same rows in the same order, numbers to nine digits."""
    left, right = list(actual), list(expected)
    assert len(left) == len(right), f"{context}: {len(left)} rows instead of {len(right)}"
    for number, (ours, theirs) in enumerate(zip(left, right, strict=True)):
        same = len(ours) == len(theirs) and all(map(are_close, ours, theirs))
        assert same, f"{context}: row {number} is {ours} instead of {theirs}"


def are_close(ours: object, theirs: object) -> bool:
    numbers = (int, float, decimal.Decimal)
    if isinstance(ours, numbers) and isinstance(theirs, numbers):
        return math.isclose(float(ours), float(theirs), rel_tol=1e-9, abs_tol=1e-9)
    return ours == theirs


def _sort_rows(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return [tuple(map(repr, row)) for row in rows]


def _describe_difference(actual: list[tuple[str, ...]], expected: list[tuple[str, ...]], context: str) -> str:
    missing, extra = Counter(expected) - Counter(actual), Counter(actual) - Counter(expected)
    return f"missing {dict(missing)}, unexpected {dict(extra)}; {context}"
