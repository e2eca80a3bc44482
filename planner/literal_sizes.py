"""Refuses calls that would make one enormous value: `repeat('x', 2000000000)`.

DataFusion computes constants while it plans, outside of every limit that a running statement has, and one
such value can take all memory of the process. What is written as a literal can be seen before.
"""

from __future__ import annotations

from planner.tokens import SqlText

__all__ = ["MAX_LENGTH", "check_literal_sizes"]

MAX_LENGTH = 10_000_000
"""Characters or elements of a value that a literal may ask for."""

_GROWING = frozenset(
    {"ARRAY_REPEAT", "ARRAY_RESIZE", "LIST_REPEAT", "LIST_RESIZE", "LPAD", "REPEAT", "RPAD", "SPACE"}
)
_SERIES = frozenset({"GENERATE_SERIES", "RANGE"})
# Before the name of a table function, which yields its rows one batch after another.
_TABLE_FUNCTION = frozenset({"FROM", "JOIN", "LATERAL"})


def check_literal_sizes(text: SqlText) -> None:
    """Looks at the literals among the arguments of functions that make values of a given length.

    Raises:
        InvalidInputError: one asks for more than `MAX_LENGTH`.
    """
    words = text.words
    for i, word in enumerate(words[:-1]):
        if words[i + 1] != "(" or not (
            word in _GROWING or (word in _SERIES and words[i - 1] not in _TABLE_FUNCTION)
        ):
            continue
        depth = 0
        for j in range(i + 1, len(words)):
            depth += (words[j] == "(") - (words[j] == ")")
            if depth == 0:
                break
            if words[j] == "0" and _number(text.tokens[j].text) > MAX_LENGTH:
                way_out = "; as a table, write it behind FROM or JOIN" if word in _SERIES else ""
                raise text.error(
                    j,
                    f"{word.lower()} makes values of at most {MAX_LENGTH} elements{way_out}; more stands",
                )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
