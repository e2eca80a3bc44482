"""Vectors written as text, as clients of pgvector send them: '[0.1, 2, -3e-5]'."""

from __future__ import annotations

import json
import math

from lance_gateway.planner.sql.text.limits import MAX_WIDTH


def read_vector(text: str) -> list[float] | None:
    """Read the numbers of a vector; return None if the text is not a vector, or one of a million numbers.

    >>> read_vector("[1, 2.5]")
    [1.0, 2.5]
    """
    if not text.lstrip().startswith("[") or text.count(",") >= MAX_WIDTH:
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return None
    try:
        numbers = [float(value) for value in values]
    except OverflowError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def format_array(numbers: list[float]) -> str:
    """Format numbers as an array of doubles in SQL.

    >>> array_text([1.0, -0.5])
    '[1.0, -0.5]'
    """
    return f"[{', '.join(map(repr, numbers))}]"
