"""Finds the queries of a statement, and their parts: common tables, operands and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from planner.sql.tokens import SqlText

_STARTS: Final = frozenset({"SELECT", "WITH", "VALUES"})
_SET_OPERATIONS: Final = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})
_TAILS: Final = frozenset({"ORDER", "LIMIT", "OFFSET", "FETCH"})
_AFTER_OUTPUTS: Final = _TAILS | frozenset({"FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "INTO"})
_OPENERS: Final = frozenset({"(", "[", "{", "CASE"})
_CLOSERS: Final = frozenset({")", "]", "}", "END"})


@dataclass(frozen=True, slots=True)
class QueryBody:
    """A query, with all that belongs to it alone.

    Attributes:
        tokens: of the query.
        common_tables: tokens of each definition in its WITH.
        operands: SELECTs, VALUES and bracketed queries between its set operators.
        tail: ORDER BY, LIMIT and what follows.
    """

    tokens: range
    common_tables: Sequence[range]
    operands: Sequence[range]
    tail: range


def find_bodies(text: SqlText) -> Sequence[QueryBody]:
    """Return the queries of a statement, each before those that are in its brackets."""
    words = text.words
    first = next((i for i, word in enumerate(words) if word in _STARTS or word == "("), len(words) - 1)
    bodies = [_read_body(text, range(first, len(words) - 1))]
    for i in range(first, len(words) - 1):
        if words[i] == "(":
            inner = i + 1
            while words[inner] == "(":
                inner += 1
            if words[inner] in _STARTS:
                bodies.append(_read_body(text, range(i + 1, text.closing(i))))
    return bodies


def _read_body(text: SqlText, tokens: range) -> QueryBody:
    words = text.words
    at, common_tables = _skip_common_tables(text, tokens)
    operands = []
    begin, end = at, tokens.stop
    for i in outside(text, range(at, tokens.stop)):
        word = words[i]
        if word in _TAILS:
            end = i
            break
        if word in _SET_OPERATIONS and not (words[i - 1] == "*" and words[i + 1] == "("):
            operands.append(range(begin, i))
            begin = i + 1 + (words[i + 1] in {"ALL", "DISTINCT"})
    operands.append(range(begin, end))
    return QueryBody(tokens, common_tables, operands, range(end, tokens.stop))


def _skip_common_tables(text: SqlText, tokens: range) -> tuple[int, Sequence[range]]:
    """Return the token behind WITH and its definitions, and these."""
    words, at = text.words, tokens.start
    found: list[range] = []
    if words[at] != "WITH":
        return at, found
    at += 1 + (words[at + 1] == "RECURSIVE")
    while text.is_name(at):
        begin = at
        at += 1
        if words[at] == "(":
            at = _behind(text, at)
        while words[at] in {"AS", "NOT", "MATERIALIZED"}:
            at += 1
        if words[at] != "(":
            break
        at = _behind(text, at)
        found.append(range(begin, at))
        if words[at] != ",":
            break
        at += 1
    return at, found


def _behind(text: SqlText, opening: int) -> int:
    """Return the token behind a bracket; the end of the text if nothing closes it."""
    return min(text.closing(opening) + 1, len(text.words) - 1)


def find_outputs(text: SqlText, operand: range) -> Sequence[range]:
    """Return the tokens of each output of a SELECT; nothing for another operand."""
    words = text.words
    if words[operand.start] != "SELECT":
        return ()
    at = operand.start + 1
    if words[at] in {"ALL", "DISTINCT"}:
        at += 1
        if words[at] == "ON" and words[at + 1] == "(":
            at = text.closing(at + 1) + 1
    end = operand.stop
    for i in outside(text, range(at, operand.stop)):
        if words[i] in _AFTER_OUTPUTS and not (words[i] == "FROM" and words[i - 1] == "DISTINCT"):
            end = i
            break
    return list(split(text, range(at, end)))


def split(text: SqlText, tokens: range) -> Iterator[range]:
    """Yield the tokens between the commas of a list."""
    begin = tokens.start
    for i in outside(text, tokens):
        if text.words[i] == ",":
            yield range(begin, i)
            begin = i + 1
    yield range(begin, tokens.stop)


def find_column(text: SqlText, expression: range) -> str | None:
    """Return the name of a column; None if an expression is something else."""
    words, first = text.words, expression.start
    if len(expression) % 2 == 0 or words[first] in {"NULL", "TRUE", "FALSE"}:
        return None
    is_column = all(text.is_name(i) if (i - first) % 2 == 0 else words[i] == "." for i in expression)
    return text.name(expression.stop - 1) if is_column else None


def outside(text: SqlText, tokens: range) -> Iterator[int]:
    """Yield the tokens of a range that are outside of brackets and CASE, and no columns behind a dot."""
    depth = 0
    for i in tokens:
        word = text.words[i]
        if text.words[i - 1] == "." and i > tokens.start:
            continue
        depth += (word in _OPENERS) - (word in _CLOSERS)
        if depth == 0:
            yield i
