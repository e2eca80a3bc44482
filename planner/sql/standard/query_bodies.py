"""Finds the queries of a statement, and their parts: common tables, operands, outputs and order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from planner.sql.tokens import QUOTED, STRING, SqlText

_STARTS: Final = frozenset({"SELECT", "WITH", "VALUES"})
_SET_OPERATIONS: Final = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})
_TAILS: Final = frozenset({"ORDER", "LIMIT", "OFFSET", "FETCH"})
_AFTER_OUTPUTS: Final = _TAILS | frozenset({"FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "INTO"})
_OPENERS: Final = frozenset({"(", "[", "{", "CASE"})
_CLOSERS: Final = frozenset({")", "]", "}", "END"})


@dataclass(frozen=True, slots=True)
class SetOperator:
    """UNION, INTERSECT or EXCEPT between two operands.

    Attributes:
        at: its token.
        word: the operation; EXCEPT for MINUS.
        keeps_all: whether ALL stands behind it.
    """

    at: int
    word: str
    keeps_all: bool


@dataclass(frozen=True, slots=True)
class QueryBody:
    """A query, with all that belongs to it alone.

    Attributes:
        tokens: of the query.
        common_tables: tokens of each definition in its WITH.
        operands: SELECTs, VALUES and bracketed queries between its set operators.
        operators: one fewer.
        tail: ORDER BY, LIMIT and what follows.
    """

    tokens: range
    common_tables: Sequence[range]
    operands: Sequence[range]
    operators: Sequence[SetOperator]
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
    operands, operators = [], []
    begin, end = at, tokens.stop
    for i in outside(text, range(at, tokens.stop)):
        word = words[i]
        if word in _TAILS:
            end = i
            break
        if word in _SET_OPERATIONS and not (words[i - 1] == "*" and words[i + 1] == "("):
            operands.append(range(begin, i))
            keeps_all = words[i + 1] == "ALL"
            operators.append(SetOperator(i, "EXCEPT" if word == "MINUS" else word, keeps_all))
            begin = i + 1 + (words[i + 1] in {"ALL", "DISTINCT"})
    operands.append(range(begin, end))
    return QueryBody(tokens, common_tables, operands, operators, range(end, tokens.stop))


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


def find_sort_keys(text: SqlText, tail: range) -> Sequence[range]:
    """Return the tokens of each key of the ORDER BY with which a tail begins."""
    words = text.words
    if not tail or words[tail.start : tail.start + 2] != ("ORDER", "BY"):
        return ()
    first, end = tail.start + 2, tail.stop
    for i in outside(text, range(first, tail.stop)):
        if words[i] in _TAILS:
            end = i
            break
    return list(split(text, range(first, end)))


def split(text: SqlText, tokens: range) -> Iterator[range]:
    """Yield the tokens between the commas of a list."""
    begin = tokens.start
    for i in outside(text, tokens):
        if text.words[i] == ",":
            yield range(begin, i)
            begin = i + 1
    yield range(begin, tokens.stop)


def split_alias(text: SqlText, output: range) -> tuple[range, str | None]:
    """Return the expression of an output, and its alias."""
    words, last = text.words, output.stop - 1
    if len(output) > 2 and words[last - 1] == "AS":
        return range(output.start, last - 1), text.name(last)
    before = words[last - 1]
    is_alias = len(output) > 1 and text.is_name(last) and words[last] != "END" and before != "OVER"
    if is_alias and (before in {")", "]", "0", STRING, QUOTED, "END"} or text.is_name(last - 1)):
        return range(output.start, last), text.name(last)
    return output, None


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
