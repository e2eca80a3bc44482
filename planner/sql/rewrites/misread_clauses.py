"""Refuses clauses that DataFusion parses, and then ignores or misreads.

    SELECT id FROM orders TABLESAMPLE SYSTEM (1)     all rows
    SELECT sum(n) FROM t GROUP BY k WITH ROLLUP      no totals
    WHERE a IS DISTINCT FROM b AND c                 a IS DISTINCT FROM (b AND c)

The errors name the form to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from memwal.errors import UnsupportedError
from planner.sql.tokens import STRING, PlacedMessage, SqlText

_Words = tuple[str, ...]
_TOTALS = frozenset({"ROLLUP", "CUBE", "TOTALS"})
_SAMPLES = frozenset({"BERNOULLI", "SYSTEM", "ROW", "BLOCK", "("})
# Words before a name that is no alias, but a CTE or a function.
_BEFORE_NAMES = frozenset({"AS", "WITH", "RECURSIVE", ",", "FROM", "JOIN", "SELECT", ".", "("})
_OPENERS = frozenset({"(", "[", "{", "CASE"})
_CLOSERS = frozenset({")", "]", "}", "END"})
_SIDES = frozenset({"LEFT", "RIGHT"})
"""Also names of functions."""
_AFTER_CONDITIONS = _SIDES | frozenset(
    {"", ",", ";", "AS", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET"}
    | {"FETCH", "UNION", "EXCEPT", "INTERSECT", "MINUS", "JOIN", "INNER", "FULL", "CROSS", "NATURAL", "ON"}
    | {"THEN", "WHEN", "ELSE", "RETURNING", "ASC", "DESC", "NULLS"}
)
_CONSTANTS = frozenset(
    {"(", ")", "[", "]", ",", "-", "0", STRING, "$", "?", "ARRAY", "NULL", "TRUE", "FALSE"}
)
_AFTER_LOCKS = frozenset({"", "OF", "NOWAIT", "SKIP", ")"})


def _is_sample(words: _Words, i: int) -> bool:
    return words[i + 1] in _SAMPLES and words[i - 1] not in _BEFORE_NAMES


def _is_lock(words: _Words, i: int) -> bool:
    last = i + 1
    while words[last] in {"NO", "KEY"}:
        last += 1
    return words[last] in {"UPDATE", "SHARE"} and words[last + 1] in _AFTER_LOCKS


def _is_totals(words: _Words, i: int) -> bool:
    return words[i + 1] in _TOTALS and words[i + 2] not in {"AS", "("}


def _has_connective_behind(words: _Words, i: int) -> bool:
    """Return whether AND or OR follows the right side of IS [NOT] DISTINCT FROM, at the same depth."""
    if words[i + 1] != "FROM" or words[i - 1] not in {"IS", "NOT"}:
        return False
    depth, ranges = 0, 0
    for k in range(i + 2, len(words) - 1):
        word = words[k]
        if words[k - 1] == ".":
            continue  # the name of a column
        if word in _OPENERS:
            depth += 1
        elif word in _CLOSERS:
            depth -= 1
            if depth < 0:
                return False
        elif depth:
            continue
        elif word == "BETWEEN":
            ranges += 1
        elif word == "AND" and ranges:
            ranges -= 1
        elif word in {"AND", "OR"}:
            return True
        elif word in _AFTER_CONDITIONS and not (word in _SIDES and words[k + 1] == "("):
            return False
    return False


def _is_nested_write(words: _Words, i: int) -> bool:
    is_statement = words[i + 1] in {"INTO", "FROM"} or (words[i] == "UPDATE" and words[i + 2] == "SET")
    return is_statement and words[i - 1] == "(" and words[i - 2] in {"AS", "MATERIALIZED"}


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


def _is_pivot(words: _Words, i: int) -> bool:
    is_statement = i == 0 or (words[i - 1] == "(" and words[i + 2] in {"ON", ".", "USING"})
    return is_statement or (words[i + 1] in {"(", "INCLUDE", "EXCLUDE"} and words[i - 1] not in _BEFORE_NAMES)


_PIVOT = "PIVOT is not offered: write sum(n) FILTER (WHERE k = 'a') AS a, .. and GROUP BY for each value"
_NESTED_WRITE = (
    _is_nested_write,
    "A statement that writes can't stand in WITH: send it by itself, with RETURNING if its rows are needed",
)
MISREAD: Mapping[str, tuple[Callable[[_Words, int], bool], str]] = MappingProxyType(
    {
        "TABLESAMPLE": (_is_sample, "Sampling is not offered: use WHERE random() < 0.1"),
        "SAMPLE": (
            lambda words, i: words[i + 1] in {"0", "("} and words[i - 1] not in _BEFORE_NAMES,
            "Sampling is not offered: use WHERE random() < 0.1",
        ),
        "FOR": (_is_lock, "Locking rows is not offered: leave it out"),
        "WITH": (_is_totals, "Totals are written GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS (...)"),
        "CONNECT": (lambda words, i: words[i + 1] == "BY", "CONNECT BY is not offered: use WITH RECURSIVE"),
        "SIMILAR": (
            lambda words, i: words[i + 1] == "TO",
            "SIMILAR TO is not offered: use LIKE, or a regular expression (~ '^...$')",
        ),
        "DISTINCT": (
            _has_connective_behind,
            "AND and OR behind IS DISTINCT FROM would belong to its right side: write (a IS DISTINCT FROM b)",
        ),
        "NATURAL": (
            lambda words, i: words[i + 1] in {"LEFT", "RIGHT", "FULL"},
            "NATURAL joins of one side are not offered: name the columns, as in LEFT JOIN u USING (k)",
        ),
        "ILIKE": (
            lambda words, i: words[i - 1] == "*" and words[i - 2] in {"SELECT", ",", ".", "DISTINCT", "ALL"},
            "* ILIKE is not offered: name the columns",
        ),
        "PIVOT": (_is_pivot, _PIVOT),
        "UNPIVOT": (
            _is_pivot,
            "UNPIVOT is not offered: write a SELECT for each column, and UNION ALL between them",
        ),
        "IN": (
            lambda words, i: words[i - 2] == "FOR" and words[i + 1] != "(",
            "List comprehensions are not offered: unnest the list in a subquery, and use array_agg()",
        ),
        "INSERT": _NESTED_WRITE,
        "MERGE": _NESTED_WRITE,
        "DELETE": _NESTED_WRITE,
        "UPDATE": _NESTED_WRITE,
    }
)


def has_unnested_columns(text: SqlText) -> bool:
    """Return whether UNNEST may read columns of a relation beside it, or numbers its rows."""
    words = (*text.words, "", "")
    return "UNNEST" in words and any(
        word == "ORDINALITY" or (word == "UNNEST" and _is_unnested_column(words, i))
        for i, word in enumerate(text.words)
    )


def refuse_misread(text: SqlText) -> None:
    """Refuse clauses that DataFusion misreads.

    Raises:
        UnsupportedError: the statement has one.
    """
    words = (*text.words, "", "")
    for i, word in enumerate(text.words):
        if word not in MISREAD or words[i - 1] == ".":
            continue
        is_misread, message = MISREAD[word]
        if is_misread(words, i):
            raise UnsupportedError(PlacedMessage(text.sql, text.start(i), f"{message}; it stands"))
