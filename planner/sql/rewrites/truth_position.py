"""Determines from the words of a statement which values of a condition matter."""

from __future__ import annotations

from enum import Enum

from planner.sql.tokens import QUOTED, SqlText

_CONNECTIVES = frozenset({"AND", "OR"})
_CLAUSES = frozenset({"WHERE", "HAVING", "ON", "QUALIFY"})
_OUTPUTS = frozenset({"SELECT", "BY", "DISTINCT"})
_OPENERS = frozenset({"(", "[", "{", "CASE"})
_CLOSERS = frozenset({")", "]", "}", "END"})
_COMPARISONS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!=", "IS", "LIKE", "ILIKE", "BETWEEN", "~", "!~"})
_BOUNDS = (
    _CONNECTIVES | _CLAUSES | _OUTPUTS | _OPENERS | _COMPARISONS | frozenset({"NOT", "WHEN", "THEN", "ELSE"})
) | {","}
"""Words that end an operand to its left."""
_AFTER = frozenset(
    {"", ";", ")", ",", "AS", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT"}
    | {"OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LEFT", "RIGHT", "JOIN", "INNER", "FULL"}
    | {"CROSS", "NATURAL", "ON", "THEN", "WHEN", "ELSE", "END"}
)
"""Words that follow a whole condition."""


class TruthPosition(Enum):
    """Which values of a condition matter."""

    CONJUNCT = "rows stay where it is true, whatever else holds"
    DENIED_CONJUNCT = "rows stay where it is false, whatever else holds"
    TRUE = "NULL counts as false"
    FALSE = "NULL counts as true"
    VALUE = "true, false and NULL differ"
    OUTPUT = "a result, a group or an order"


def find_subject_start(text: SqlText, last: int) -> int:
    """Return the first token of the operand that ends at a token."""
    words, i = text.words, last
    while i >= 0:
        if words[i] in _CLOSERS and not _is_column(words, i):
            i = _find_opening(words, i)
        elif words[i] in _BOUNDS and not _is_column(words, i):
            break
        i -= 1
    return i + 1


def find_truth_position(text: SqlText, begin: int, end: int) -> TruthPosition:
    """Return which values of the condition at tokens `begin` to `end`, both included, matter."""
    words = text.words
    is_conjunct, is_denied, is_connected = True, False, False
    while True:
        while words[begin - 1] == "NOT":
            begin -= 1
            is_denied = not is_denied
            is_conjunct &= not is_connected
        if words[end + 1] not in _AFTER | _CONNECTIVES:
            return TruthPosition.VALUE
        start, left = _find_chain_start(words, begin)
        right = _find_connectives_after(words, end)
        is_conjunct &= "OR" not in left | right
        is_connected |= bool(left | right)
        before = words[start]
        if words[begin - 1] not in _CONNECTIVES and begin - 1 != start:
            return TruthPosition.VALUE
        if before in _CLAUSES:
            break
        if before == "WHEN" and _is_searched(words, start):
            is_conjunct = False
            break
        if before in _OUTPUTS:
            return TruthPosition.OUTPUT
        if before == "," and _is_output(words, start):
            return TruthPosition.OUTPUT
        outer = words[start - 1]
        if before != "(" or not (outer in _BOUNDS and outer not in _CLOSERS):
            return TruthPosition.VALUE
        begin, end = start, text.closing(start)
    if is_conjunct:
        return TruthPosition.DENIED_CONJUNCT if is_denied else TruthPosition.CONJUNCT
    return TruthPosition.FALSE if is_denied else TruthPosition.TRUE


def _find_chain_start(words: tuple[str, ...], begin: int) -> tuple[int, set[str]]:
    """Return the token before all conditions that AND and OR connect with one, and those connectives."""
    found: set[str] = set()
    i = begin - 1
    while i >= 0:
        word = words[i]
        if _is_column(words, i):
            pass
        elif word in _CLOSERS:
            i = _find_opening(words, i)
        elif word in _CONNECTIVES:
            found.add(word)
        elif (
            word in _OPENERS or word in _CLAUSES or word in _OUTPUTS or word in {",", "WHEN", "THEN", "ELSE"}
        ):
            return i, found
        i -= 1
    return 0, found


def _find_connectives_after(words: tuple[str, ...], end: int) -> set[str]:
    """Return the connectives behind a condition."""
    found: set[str] = set()
    depth = 0
    for i in range(end + 1, len(words)):
        word = words[i]
        if _is_column(words, i):
            continue
        if depth == 0 and word in _CONNECTIVES:
            found.add(word)
        elif depth == 0 and (word in _AFTER or word in _CLOSERS):
            is_function = word in {"LEFT", "RIGHT"} and words[i + 1] == "("
            if not is_function:
                break
        depth += (word in _OPENERS) - (word in _CLOSERS)
    return found


def _is_output(words: tuple[str, ...], comma: int) -> bool:
    """Return whether a comma separates results, groups or sort keys."""
    i = comma - 1
    while i >= 0:
        word = words[i]
        if not _is_column(words, i):
            if word in _CLOSERS:
                i = _find_opening(words, i)
            elif word in _OPENERS:
                return False
            elif word in _OUTPUTS:
                return True
        i -= 1
    return False


def _is_searched(words: tuple[str, ...], when: int) -> bool:
    """Return whether WHEN belongs to a CASE without an operand."""
    i = when - 1
    while i >= 0:
        if words[i] in _CLOSERS and not _is_column(words, i):
            i = _find_opening(words, i)
        elif words[i] == "CASE" and not _is_column(words, i):
            return words[i + 1] == "WHEN"
        i -= 1
    return False


def _find_opening(words: tuple[str, ...], closing: int) -> int:
    """Return the token of the opening bracket or CASE for a closing one."""
    depth = 0
    for i in range(closing, -1, -1):
        if not _is_column(words, i):
            depth += (words[i] in _CLOSERS) - (words[i] in _OPENERS)
        if depth == 0:
            return i
    return 0


def _is_column(words: tuple[str, ...], i: int) -> bool:
    """Return whether a word is certainly a name, since it is quoted or follows a dot."""
    return words[i] == QUOTED or words[i - 1] == "."
