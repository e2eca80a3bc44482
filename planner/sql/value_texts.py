r"""Texts that clients of PostgreSQL write for vectors, '[0.1, 2, -3e-5]', and for bytes, '\xDEADBEEF'."""

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


def read_bytes(text: str) -> bytes:
    r"""Read `\x` and hexadecimal digits as bytes, and other texts as their characters.

    >>> read_bytes(r"\x6162"), read_bytes("ab")
    (b'ab', b'ab')

    Raises:
        ValueError: something else than pairs of digits is behind `\x`.
    """
    if not text.startswith("\\x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        msg = f"'{text}' has something else than pairs of hexadecimal digits"
        raise ValueError(msg) from None


def format_array(numbers: list[float]) -> str:
    """Format numbers as an array of doubles in SQL.

    >>> array_text([1.0, -0.5])
    '[1.0, -0.5]'
    """
    return f"[{', '.join(map(repr, numbers))}]"
