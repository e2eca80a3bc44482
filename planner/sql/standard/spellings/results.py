"""Finds results of a SELECT, and operands of casts, among tokens."""

from __future__ import annotations

from typing import Final

from planner.sql.tokens import SqlText

_BEFORE: Final = frozenset({"SELECT", "DISTINCT", "ALL", ","})
_BEHIND: Final = frozenset({"", ",", "FROM", ")", "UNION", "EXCEPT", "INTERSECT", "LIMIT", "WHERE", "ORDER"})
_CLAUSES: Final = frozenset(
    {"FROM", "WHERE", "GROUP", "ORDER", "HAVING", "VALUES", "LIMIT", "ON", "BY", "SET", "IN"}
)


_BEFORE_OPERANDS: Final = _CLAUSES | frozenset(
    {
        "SELECT",
        "DISTINCT",
        "ALL",
        "AND",
        "OR",
        "NOT",
        "WHEN",
        "THEN",
        "ELSE",
        "CASE",
        "LIKE",
        "ILIKE",
        "BETWEEN",
    }
    | {"IS", "ANY", "SOME", "QUALIFY", "RETURNING", "USING", "AS", "FILTER", "OFFSET", "END"}
)
"""Words before a bracket that belong to no call."""


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


def find_cast_operand(text: SqlText, i: int) -> int:
    """Return the first token of the operand that ends before a token."""
    words = text.words
    j = i - 1
    while j > 0 and words[j] in {")", "]"}:
        j = _find_opening(text, j)
        is_call = text.is_name(j - 1) and words[j - 1] not in _BEFORE_OPERANDS
        if j > 0 and (words[j] == "[" or is_call):
            j -= 1
        else:
            break
    if j > 0 and words[j] == "0" and words[j - 1] == "$":
        j -= 1
    while j > 1 and words[j - 1] == "." and text.is_name(j - 2):
        j -= 2
    return find_cast_operand(text, j - 1) if j > 1 and words[j - 1] == "::" else j


def _find_opening(text: SqlText, i: int) -> int:
    depth = 0
    for j in range(i, -1, -1):
        depth += (text.words[j] in {")", "]"}) - (text.words[j] in {"(", "["})
        if depth == 0:
            return j
    return i
