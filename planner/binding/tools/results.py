"""Finds the results of a SELECT among tokens."""

from __future__ import annotations

from typing import Final

from planner.sql.tokens import SqlText

_BEFORE: Final = frozenset({"SELECT", "DISTINCT", "ALL", ","})
_BEHIND: Final = frozenset({"", ",", "FROM", ")", "UNION", "EXCEPT", "INTERSECT", "LIMIT", "WHERE", "ORDER"})
_CLAUSES: Final = frozenset(
    {"FROM", "WHERE", "GROUP", "ORDER", "HAVING", "VALUES", "LIMIT", "ON", "BY", "SET", "IN"}
)


def is_result(text: SqlText, first: int, last: int) -> bool:
    """Return whether tokens are a whole result of a SELECT, without a name."""
    words = text.words
    if last + 1 >= len(words):
        return False  # a bracket is not closed
    if first == 0 or words[first - 1] not in _BEFORE or words[last + 1] not in _BEHIND:
        return False
    depth = 0
    for i in range(first - 1, -1, -1):
        depth += (words[i] in {")", "]"}) - (words[i] in {"(", "["})
        if depth < 0 or (depth == 0 and words[i] in _CLAUSES):
            return False
        if depth == 0 and words[i] == "SELECT":
            return True
    return False
