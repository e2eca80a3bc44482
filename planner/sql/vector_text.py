"""Vectors written as text, as clients of pgvector send them: '[0.1, 2, -3e-5]'."""

from __future__ import annotations

import json
import math

__all__ = ["format_array", "read_vector"]


def read_vector(text: str) -> list[float] | None:
    """The numbers of a vector; None where the text is none.

    >>> read_vector("[1, 2.5]")
    [1.0, 2.5]
    """
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in found):
        return None
    try:
        numbers = [float(one) for one in found]
    except OverflowError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def format_array(numbers: list[float]) -> str:
    """The same as an array of doubles in SQL.

    >>> array_text([1.0, -0.5])
    '[1.0, -0.5]'
    """
    return f"[{', '.join(map(repr, numbers))}]"
