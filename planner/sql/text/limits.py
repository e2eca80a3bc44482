"""Limits on the depth of plans, and on the size of constants.

The depth of a plan is estimated: chains of operators, joins, set operations and CTEs.

    SELECT 1 + 1 + 1 + ... + 1
    SELECT 1 UNION ALL SELECT 1 UNION ALL ... SELECT 1

DataFusion's parser limits only brackets, and parses these chains as left-deep trees, over which it recurses:
thousands of operators take minutes, and tens of thousands overflow the stack, which ends the process. The
estimate is never too low.

Calls that would make one enormous value, such as `repeat('x', 2000000000)`, are refused: DataFusion computes
constants while it plans, without a limit on memory. So are types of very many levels and sketches of very
many centroids, which end the process. The same holds for parameters in these places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.sql.text.tokens import QUOTED, STRING, SqlText

MAX_LENGTH = 10_000_000
"""The largest number of characters or elements of a value that a literal may request."""

MAX_LEVELS = 64
"""The largest depth of a type that text names, as in `arrow_cast(1, 'List(List(Int64))')`."""
MAX_WIDTH = 1_000_000
"""The largest number of elements or bytes of a type of fixed size, which NULL has as well."""
MAX_CENTROIDS = 10_000
"""The largest sketch of `approx_percentile_cont`, which allocates it whole."""

_GROWING = frozenset(
    {"ARRAY_REPEAT", "ARRAY_RESIZE", "LIST_REPEAT", "LIST_RESIZE", "LPAD", "REPEAT", "RPAD", "SPACE"}
)
# The length of what these make is the sum of others.
_JOINING = frozenset(
    {
        "ARRAY_AGG",
        "ARRAY_CONCAT",
        "CONCAT",
        "CONCAT_WS",
        "FLATTEN",
        "LIST_CONCAT",
        "REGEXP_REPLACE",
        "REPLACE",
    }
    | {"STRING_AGG"}
)
_SERIES = frozenset({"GENERATE_SERIES", "RANGE"})
_NUMBERS = frozenset({"0", "-", "?", "$"})
_CASTS = frozenset({"ARROW_CAST", "ARROW_TRY_CAST"})
_SKETCHES = frozenset({"APPROX_PERCENTILE_CONT", "APPROX_PERCENTILE_CONT_WITH_WEIGHT"})
_FIXED = frozenset({"BINARY", "VARBINARY"})
SIZE_WORDS = _GROWING | _SERIES | _CASTS | _SKETCHES | _FIXED
"""Words whose arguments `check_literal_sizes` and `find_sizes` look at, in quotes or without."""
_CALLED = re.compile(r'(\w+)"?\s*\(')
_DIGITS = re.compile(r"\d+")
# Words before the name of a table function, which gives its rows in batches.
_TABLE_FUNCTION = frozenset({"FROM", "JOIN", "LATERAL"})


def find_makers(sql: str) -> tuple[str, ...]:
    """Return the functions that make long values and that a statement seems to call, for messages."""
    names = dict.fromkeys(match[1].lower() for match in _CALLED.finditer(sql))
    return tuple(name for name in names if name.upper() in _GROWING | _JOINING | _SERIES | _SKETCHES)


def check_literal_sizes(text: SqlText) -> None:
    """Check the literals in arguments of functions that make values of a given length, or of a given type.

    Raises:
        InvalidInputError: one is too large, or too deep.
    """
    for function, arguments in _find_calls(text):
        for j in arguments:
            excess = _describe_excess(function, text.words[j], text.tokens[j].text)
            if excess:
                raise text.error(j, excess)


def _describe_excess(function: str, word: str, token: str) -> str:
    """Return what is wrong with a token among the arguments of a function; empty if nothing is."""
    name = function.lower()
    if function in _CASTS:
        is_large = word == STRING and _is_large_type(token)
        limits = f"{MAX_LEVELS} levels, and of at most {MAX_WIDTH} elements or bytes"
        return f"{name} takes types of at most {limits}" if is_large else ""
    if function in _FIXED:
        is_large = word == "0" and _number(token) > MAX_WIDTH
        return f"{name} has at most {MAX_WIDTH} bytes" if is_large else ""
    if function in _SKETCHES:
        if word not in _NUMBERS:
            return f"{name} takes its percentile and number of centroids as numbers"
        is_large = word == "0" and _number(token) > MAX_CENTROIDS
        return f"{name} keeps at most {MAX_CENTROIDS} centroids" if is_large else ""
    if word != "0" or _number(token) <= MAX_LENGTH:
        return ""
    way_out = "; as a table, write it behind FROM or JOIN" if function in _SERIES else ""
    return f"{name} makes values of at most {MAX_LENGTH} elements{way_out}"


def find_sizes(text: SqlText, slots: Mapping[int, int]) -> Mapping[int, str]:
    """Return ordinal -> function of the parameters that `check_literal_sizes` would check as literals.

    Args:
        text: the statement.
        slots: first token of each parameter -> its ordinal.
    """
    return {slots[j]: function for function, arguments in _find_calls(text) for j in arguments if j in slots}


def check_bound_size(number: int, function: str, value: pa.Scalar) -> None:
    """Check the value of a parameter that `find_sizes` found.

    Args:
        number: of the parameter, from 1.
        function: whose argument it is part of, in upper case.
        value: that was bound.

    Raises:
        InvalidInputError: it is too large, or too deep.
    """
    found = value.as_py()
    if function in _CASTS:
        is_too_much = isinstance(found, str) and _is_large_type(found)
        most = f"types of {MAX_LEVELS} levels, and of {MAX_WIDTH} elements or bytes"
    else:
        limit = MAX_CENTROIDS if function in _SKETCHES else MAX_LENGTH
        is_too_much = isinstance(found, int | float | Decimal) and found > limit
        most = str(limit)
    if is_too_much:
        msg = f"parameter ${number} is larger than {function.lower()} takes: at most {most}"
        raise InvalidInputError(msg)


def _find_calls(text: SqlText) -> Iterator[tuple[str, range]]:
    """Yield the function of each call that is checked, in upper case, and the tokens of the arguments."""
    words = text.words
    for i, bare in enumerate(words[:-1]):
        if words[i + 1] != "(":
            continue
        word = text.names[i].upper() if bare == QUOTED else bare
        if word not in SIZE_WORDS:
            continue
        if word in _SERIES and words[i - 1] in _TABLE_FUNCTION:
            continue
        closing = text.closing(i + 1)
        first = i + 2
        if word in _SKETCHES | _CASTS:
            # The type of a cast, and not what is cast to it.
            first = _find_last_argument(text, first, closing)
        yield word, range(first, closing)


def _find_last_argument(text: SqlText, first: int, closing: int) -> int:
    i = first
    while i < closing:
        if text.words[i] == ",":
            first = i + 1
        i = text.closing(i) + 1 if text.words[i] == "(" else i + 1
    return first


def _is_large_type(name: str) -> bool:
    """Return whether the name of a type has more levels, or a larger number, than types may have."""
    depth = deepest = 0
    for mark in name:
        depth += (mark in "(<[") - (mark in ")>]")
        deepest = max(deepest, depth)
    return deepest > MAX_LEVELS or any(
        len(digits) > 7 or int(digits) > MAX_WIDTH for digits in _DIGITS.findall(name)
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES", "FROM"})
"""The words with which queries begin."""
MAX_RELATIONS = 1000
"""The number of relations in a statement, each counted as often as it is planned."""
_MAX_BRACKETS = 100
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


def check_brackets(text: SqlText, first: int = 0) -> None:
    """Check that the brackets of a text match, from one token on.

    Raises:
        InvalidInputError: they don't, or are nested too deeply.
    """
    opened: list[int] = []
    for i in range(first, len(text.tokens)):
        word = text.words[i]
        if word in _CLOSERS:
            opened.append(i)
            if len(opened) > _MAX_BRACKETS:
                raise text.error(i, f"Brackets are nested more than {_MAX_BRACKETS} deep")
        elif word in {")", "]", "}"}:
            wanted = _CLOSERS[text.words[opened[-1]]] if opened else ""
            if word != wanted:
                expected = f"{wanted!r} is expected" if wanted else "no bracket is open"
                raise text.error(i, f"Unexpected {word!r} ({expected})")
            opened.pop()
    if opened:
        raise text.error(opened[-1], f"The bracket is not closed with {_CLOSERS[text.words[opened[-1]]]!r}")


MAX_DEPTH = 2000
_OPERATOR_DEPTH = 2
_RELATION_DEPTH = 8
"""The costs of operators and relations in planning; those of AND and OR are 1."""
SHALLOW_WORDS = MAX_DEPTH // _RELATION_DEPTH
"""A text of so many words can't be too deep, since no word costs more than a relation."""
_OPENING = {"(": ")", "[": "]", "{": "}", "CASE": "END"}
_CLOSING = frozenset(_OPENING.values())
_RELATIONS = frozenset({"JOIN", "UNION", "EXCEPT", "INTERSECT", "MINUS", "|>"})
_OPERATORS = frozenset(
    {"XOR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "SIMILAR", "RLIKE", "REGEXP", "DIV"}
    | {"COLLATE", "AT", "OVERLAPS"}
)
_NEW_EXPRESSION = frozenset(
    {",", "SELECT", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "QUALIFY", "LIMIT", "OFFSET", "ON", "VALUES"}
    | {"WHEN", "THEN", "ELSE", "FROM", "WINDOW"}
)
_END_OF_FROM = frozenset({"WHERE", "GROUP", "HAVING", "ORDER", "QUALIFY", "LIMIT", "SELECT", "WINDOW"})
_NO_OPERATORS = frozenset({"", ".", "?", "$", QUOTED, STRING})


@dataclass(slots=True)
class _Level:
    """The depth of the text between two brackets, or between CASE and END, as far as it was read.

    Attributes:
        relations: depth of joins, set operations and CTEs.
        deepest: depth of the deepest expression before the current one.
        conditions: depth of AND and OR in the current expression.
        operand: depth of the deepest of their operands so far.
        chain: depth of the current operand.
    """

    closing: str
    is_common_table: bool
    in_from: bool = False
    relations: int = 0
    deepest: int = 0
    conditions: int = 0
    operand: int = 0
    chain: int = 0

    @property
    def depth(self) -> int:
        return self.relations + max(self.deepest, self.conditions + max(self.operand, self.chain))

    def see(self, word: str, *, is_operator: bool) -> None:
        if word in _RELATIONS or word in _NEW_EXPRESSION:
            self.deepest = self.depth - self.relations
            self.conditions = self.operand = self.chain = 0
            if word in _RELATIONS or (word == "," and self.in_from):
                self.relations += _RELATION_DEPTH
        elif word in {"AND", "OR"}:
            self.operand, self.chain = max(self.operand, self.chain), 0
            self.conditions += 1
        elif is_operator:
            self.chain += _OPERATOR_DEPTH
        if word == "FROM" or word in _END_OF_FROM:
            self.in_from = word == "FROM"


def check_depth(text: SqlText) -> None:
    """Refuse a statement whose plan would be too deep.

    Args:
        text: a statement whose brackets match.

    Raises:
        InvalidInputError: it is too deep; the message has the place where it exceeds the limit.
    """
    levels, names = [_Level("", is_common_table=False)], text.names
    for i, word in enumerate(text.words):
        if i and text.words[i - 1] == ".":
            continue  # a column may have any name
        level = levels[-1]
        if word in _OPENING:
            level.chain += _OPERATOR_DEPTH * (word == "[")
            is_common_table = word == "(" and text.words[i - 1] in {"AS", "MATERIALIZED"}
            levels.append(_Level(_OPENING[word], is_common_table))
        elif word in _CLOSING and any(level.closing == word for level in levels):
            while (closed := levels.pop()).closing != word:
                pass
            _close(levels[-1], closed)
        else:
            level.see(word, is_operator=word in _OPERATORS or (i not in names and _is_mark(word)))
        if max(levels[-1].depth, len(levels)) > MAX_DEPTH:
            message = (
                f"Operators, joins, set operations or common table expressions follow one another more than "
                f"{MAX_DEPTH} deep (AND and OR count 1, other operators {_OPERATOR_DEPTH}, the rest "
                f"{_RELATION_DEPTH}); write many constants as x IN (...) or as rows of VALUES. "
                "The limit is met"
            )
            raise text.error(i, message)


def _close(outer: _Level, inner: _Level) -> None:
    if inner.is_common_table:
        # Each may read the one before it.
        outer.relations += _RELATION_DEPTH + inner.depth
    else:
        outer.chain = max(outer.chain, inner.depth) + _OPERATOR_DEPTH


def _is_mark(word: str) -> bool:
    """Return whether a word that is not a name is an operator of punctuation, such as `+`, `||` or `::`."""
    return word not in _NO_OPERATORS and word != "0"
