"""Reads whether UNNEST makes rows of the columns of a relation beside it."""

from __future__ import annotations

from planner.sql.tokens import STRING, SqlText

_Words = tuple[str, ...]
_OPENERS = frozenset({"(", "[", "{", "CASE"})
_CLOSERS = frozenset({")", "]", "}", "END"})
_CONSTANTS = frozenset(
    {"(", ")", "[", "]", ",", "-", "0", STRING, "$", "?", "ARRAY", "NULL", "TRUE", "FALSE"}
)


def _is_unnested_column(words: _Words, i: int) -> bool:
    """Return whether UNNEST stands behind another relation, and reads one of its columns perhaps."""
    if words[i + 1] != "(" or words[i - 1] not in {",", "JOIN", "LATERAL"}:
        return False
    depth = 0
    for k in range(i - 1, -1, -1):
        depth += (words[k] in _CLOSERS) - (words[k] in _OPENERS)
        if depth < 0 or (depth == 0 and words[k] in {"SELECT", "WHERE", "BY", "HAVING"}):
            return False
        if depth == 0 and words[k] == "FROM":
            break
    else:
        return False
    depth, k = 1, i + 2
    while depth and words[k]:
        depth += (words[k] in _OPENERS) - (words[k] in _CLOSERS)
        if words[k] == "SELECT":
            return False
        if words[k] not in _CONSTANTS and words[k + 1] != "(":
            return True
        k += 1
    return False


def has_unnested_columns(text: SqlText) -> bool:
    """Return whether UNNEST may read columns of a relation beside it, or numbers its rows."""
    words = (*text.words, "", "")
    return "UNNEST" in words and any(
        word == "ORDINALITY" or (word == "UNNEST" and _is_unnested_column(words, i))
        for i, word in enumerate(text.words)
    )
