"""Comparisons with the constant on the left, which DataFusion confuses with those that have it on the right.

    SELECT * FROM orders JOIN items ON 1 < items.id WHERE items.id >= 1
->  SELECT * FROM orders JOIN items ON items.id > 1 WHERE items.id >= 1

DataFusion 55 combines the comparisons of a column with constants: `id = 1 AND 1 = id` becomes false, and of
`1 < id AND id >= 1` only the second is left. Simplifying exchanges the sides first, but not in conditions of
joins, nor where the constant is yet to be computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from planner.sql.edits import Copy, Edit, Piece
from planner.sql.rewrites.truth_position import find_subject_start
from planner.sql.tokens import QUOTED, STRING, SqlText

OPPOSITES: Final = MappingProxyType({"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="})
"""The comparisons that are combined, each with the one that means the same of exchanged sides."""
_OPENING: Final = MappingProxyType({"(": ")", "[": "]", "{": "}", "CASE": "END"})
_OPERATORS: Final = frozenset(
    {"+", "-", "*", "/", "%", "||", "::", ".", "&", "|", "^", "#", "->", "->>", ","}
)
_LITERALS: Final = frozenset({"0", STRING, "?", "$"})
_CONSTANT_WORDS: Final = frozenset(
    {"NULL", "TRUE", "FALSE", "DATE", "TIME", "TIMESTAMP", "INTERVAL", "CASE", "WHEN", "THEN", "ELSE", "END"}
    | {"AND", "OR", "NOT", "IS", "AT", "ZONE", "WITH", "WITHOUT", "CURRENT_DATE", "CURRENT_TIME"}
    | {"CURRENT_TIMESTAMP", "DOUBLE", "PRECISION", "AS"}
)
_AFTER: Final = frozenset(
    {
        "",
        ")",
        "]",
        "}",
        ",",
        "AND",
        "OR",
        "AS",
        "FROM",
        "WHERE",
        "GROUP",
        "HAVING",
        "WINDOW",
        "QUALIFY",
        "ORDER",
    }
    | {"LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "JOIN", "INNER", "LEFT", "RIGHT", "FULL"}
    | {"CROSS", "NATURAL", "ON", "THEN", "WHEN", "ELSE", "END", "ASC", "DESC", "NULLS", "RETURNING"}
)
"""Words that follow a comparison, and belong to no operator beside it."""
_BEFORE: Final = frozenset(
    {"WHERE", "ON", "AND", "OR", "NOT", "(", "HAVING", "QUALIFY", "WHEN", "THEN", "ELSE"}
)
_CONDITIONS: Final = frozenset({"WHERE", "ON", "HAVING", "QUALIFY"})
_OTHER_CLAUSES: Final = frozenset(
    {
        "SELECT",
        "FROM",
        "JOIN",
        "USING",
        "GROUP",
        "WINDOW",
        "ORDER",
        "LIMIT",
        "OFFSET",
        "FETCH",
        "UNION",
        "EXCEPT",
    }
    | {"INTERSECT", "VALUES", "SET", "RETURNING"}
)
_QUANTIFIERS: Final = frozenset({"ANY", "SOME", "ALL"})
_SIDES: Final = frozenset({"LEFT", "RIGHT"})
"""Words of joins, and names of functions."""


def exchange_constant_sides(text: SqlText) -> Iterator[Edit]:
    """Yield what exchanges the sides of such comparisons in conditions; elsewhere, they may name a column."""
    words = text.words
    for i in _list_comparisons(words):
        first = find_subject_start(text, i - 1)
        if first == i or words[first - 1] not in _BEFORE or not reads_no_columns(text, range(first, i)):
            continue
        last = _find_operand_end(text, i + 1)
        if last is None or _ends_range(words, first) or not _reads_columns(text, range(i + 1, last + 1)):
            continue
        begin, end = text.start(first), text.end(last)
        yield Edit(begin, text.start(i + 1), [Copy(begin, begin)])
        operator = Piece(f" {OPPOSITES[words[i]]} ", end, verbatim=False)
        yield Edit(end, end, [operator, Copy(begin, text.end(i - 1))])


def _list_comparisons(words: tuple[str, ...]) -> Iterator[int]:
    """Yield the tokens of comparisons that stand in conditions."""
    is_condition = False
    outer: list[bool] = []
    for i, word in enumerate(words):
        if word == "(":
            outer.append(is_condition)
        elif word == ")":
            is_condition = outer.pop() if outer else False
        elif word in _CONDITIONS:
            is_condition = True
        elif word in _OTHER_CLAUSES and words[i - 1] not in {".", "DISTINCT"}:
            is_condition = False
        elif is_condition and word in OPPOSITES:
            yield i


def reads_no_columns(text: SqlText, tokens: range) -> bool:
    """Return whether an operand is made of constants alone, as far as its words tell."""
    words = text.words
    if any(words[i] in {"SELECT", "WITH", "OVER"} and words[i - 1] == "(" for i in tokens):
        return False
    return all(not text.is_name(i) or _is_no_column(text, i) for i in tokens)


def _is_no_column(text: SqlText, i: int) -> bool:
    """Return whether a name is certainly that of a function or of a type, or a word of an expression."""
    words = text.words
    if words[i - 1] == "." or words[i + 1] == ".":
        return False
    is_type = words[i - 1] in {"AS", "::"}
    return words[i + 1] == "(" or is_type or (words[i] in _CONSTANT_WORDS and words[i] != QUOTED)


def _reads_columns(text: SqlText, tokens: range) -> bool:
    return not any(text.words[i] == "SELECT" for i in tokens) and not reads_no_columns(text, tokens)


def _find_operand_end(text: SqlText, first: int) -> int | None:
    """Return the last token of the operand that begins at a token; None if more may belong to it."""
    words, i = text.words, first
    while True:
        if words[i] in {"-", "+"}:
            i += 1
            continue
        if words[i] in _OPENING:
            i = _find_closing(words, i)
        elif words[i] in _QUANTIFIERS or (not text.is_name(i) and words[i] not in _LITERALS):
            return None
        elif words[i] == "$" or (text.is_name(i) and words[i + 1] == STRING):
            i += 1  # a parameter, or a literal with its type
        elif text.is_name(i) and words[i + 1] == "(":
            i = text.closing(i + 1)
        while words[i + 1] == "[":
            i = _find_closing(words, i + 1)
        following = words[i + 1]
        if following in _OPERATORS - {","}:
            i += 2
            continue
        is_call = following in _SIDES and words[i + 2] == "("
        return i if following in _AFTER and not is_call else None


def _find_closing(words: tuple[str, ...], opening: int) -> int:
    depth = 0
    for i in range(opening, len(words)):
        depth += (words[i] in _OPENING) - (words[i] in _OPENING.values())
        if depth == 0:
            return i
    return len(words) - 1


def _ends_range(words: tuple[str, ...], first: int) -> bool:
    """Return whether the AND before an operand may be that of BETWEEN."""
    depth = 0
    if words[first - 1] != "AND":
        return False
    for i in range(first - 2, -1, -1):
        depth += (words[i] in _OPENING.values()) - (words[i] in _OPENING)
        if depth < 0 or (depth == 0 and words[i] in {"AND", "OR", "WHERE", "ON", "HAVING", "WHEN"}):
            return False
        if depth == 0 and words[i] == "BETWEEN":
            return True
    return False
