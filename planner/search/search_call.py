"""Reads calls of search functions in a statement.

    lance_vector_search('items', 'vec', [0.1, 0.2], k => 10, prefilter => false)
    lance_fts('docs', 'body', $1, k => $2)

Arguments are constants or parameters; they are interpreted per run, since parameters have other values then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa

from lance_gateway.execnodes.text.query.syntax import TEXT_OPTIONS
from lance_gateway.planner.sql.text.limits import QUERY_STARTS
from lance_gateway.planner.sql.text.tokens import STRING, SqlText, fold


@dataclass(frozen=True, slots=True)
class Parameter:
    """The place of a parameter, counted from 0."""

    ordinal: int


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query that gives the vectors of a search: its first token and the one behind it."""

    first: int
    end: int


class QueryVectors(tuple[tuple[float, ...], ...]):
    """The vectors that a subquery gave: any number, also none."""

    __slots__ = ()


Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | QueryVectors | None"
Argument: TypeAlias = (
    "bool | int | float | str | tuple[Argument, ...] | Parameter | Subquery | QueryVectors | None"
)


class SearchFunction(Enum):
    """The search functions, which are table functions."""

    VECTOR = "lance_vector_search"
    TEXT = "lance_fts"
    HYBRID = "lance_hybrid_search"


_COMMON = {"k": pa.int64(), "prefilter": pa.bool_(), "catch_up": pa.string()}
_VECTOR_OPTIONS = {
    "use_index": pa.bool_(),
    "metric": pa.string(),
    "nprobes": pa.int64(),
    "ef": pa.int64(),
    "refine_factor": pa.int64(),
    "staleness": pa.string(),
}
_HYBRID_OPTIONS = {
    "alpha": pa.float64(),
    "oversample_factor": pa.int64(),
    "fusion": pa.string(),
    "rrf_k": pa.float64(),
}
_POSITIONAL = {
    SearchFunction.VECTOR: ("table", "column", "query"),
    SearchFunction.TEXT: ("table", "column", "query"),
    SearchFunction.HYBRID: ("table", "vector_column", "vector_query", "text_column", "text_query"),
}
_OPTIONS: Mapping[SearchFunction, Mapping[str, pa.DataType]] = {
    SearchFunction.VECTOR: {**_COMMON, **_VECTOR_OPTIONS},
    SearchFunction.TEXT: {**_COMMON, **TEXT_OPTIONS},
    SearchFunction.HYBRID: {**_COMMON, **_HYBRID_OPTIONS, **_VECTOR_OPTIONS, **TEXT_OPTIONS},
}
"""Named arguments, with the type that a parameter has there."""
_VECTORS: Mapping[SearchFunction, frozenset[str]] = {
    SearchFunction.VECTOR: frozenset({"query"}),
    SearchFunction.TEXT: frozenset(),
    SearchFunction.HYBRID: frozenset({"vector_query"}),
}
"""Arguments that may be subqueries."""
_ALIASES = {"nprobs": "nprobes"}
"""Spellings of DuckDB's lance extension."""
_ASSIGNMENTS = frozenset({"=>", ":=", "="})
_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}
_VECTOR = pa.list_(pa.float64())
_NUMBER_STARTS = frozenset({"0", ".", "-", "+"})
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


def find_search_function(name: str) -> SearchFunction | None:
    """Return the search function of that name, or None."""
    return next((function for function in SearchFunction if function.value == name), None)


def render_subquery(
    text: SqlText, subquery: Subquery, slots: Mapping[int, int]
) -> tuple[str, tuple[int, ...]]:
    """Render a subquery as a separate statement.

    Args:
        text: the outer statement.
        subquery: in that text.
        slots: token -> ordinal of the parameter at that token.

    Returns:
        The statement, with parameters $1, $2, ..., and their ordinals in the outer statement.
    """
    begin = text.start(subquery.first)
    pieces, ordinals = [], []
    for token, ordinal in sorted(slots.items()):
        if subquery.first <= token < subquery.end:
            pieces.append(text.sql[begin : text.start(token)])
            if ordinal not in ordinals:
                ordinals.append(ordinal)
            pieces.append(f"${ordinals.index(ordinal) + 1}")
            begin = text.end(token + (text.words[token] == "$"))
    pieces.append(text.sql[begin : text.start(subquery.end)])
    return "".join(pieces), tuple(ordinals)


@dataclass(frozen=True, slots=True)
class SearchCall:
    """A search function and its arguments.

    Attributes:
        function: that is called.
        table: name of the table that is searched.
        arguments: canonical name -> value of all other arguments.
    """

    function: SearchFunction
    table: str
    arguments: Mapping[str, Argument]

    @property
    def parameter_types(self) -> Mapping[int, pa.DataType]:
        """Return ordinal -> type of the parameters among the arguments; elements of lists are numbers."""
        types: dict[int, pa.DataType] = {}
        for name, value in self.arguments.items():
            if isinstance(value, Parameter):
                types[value.ordinal] = self._type_of(name)
            else:
                types |= dict.fromkeys(_find_parameters(value), pa.float64())
        return types

    @property
    def subquery(self) -> Subquery | None:
        """Return the subquery that gives the vectors, or None."""
        return next((value for value in self.arguments.values() if isinstance(value, Subquery)), None)

    def with_vectors(self, vectors: QueryVectors) -> SearchCall:
        """Return the call with these vectors in place of the subquery."""
        arguments = {
            name: vectors if isinstance(value, Subquery) else value for name, value in self.arguments.items()
        }
        return SearchCall(self.function, self.table, MappingProxyType(arguments))

    def _type_of(self, name: str) -> pa.DataType:
        if name == "vector_query" or (name == "query" and self.function is SearchFunction.VECTOR):
            return _VECTOR
        return _OPTIONS[self.function].get(name, pa.string())

    def with_values(self, values: Sequence[Value] | None) -> Mapping[str, Value]:
        """Return the arguments with the values of parameters; None leaves out arguments that need them."""
        return {
            name: _fill_in(value, values or ())
            for name, value in self.arguments.items()
            if values is not None or not (isinstance(value, Subquery) or [*_find_parameters(value)])
        }


def _find_parameters(value: Argument) -> Iterator[int]:
    if isinstance(value, Parameter):
        yield value.ordinal
    elif isinstance(value, tuple) and not isinstance(value, QueryVectors):
        for element in value:
            yield from _find_parameters(element)


def _fill_in(value: Argument, values: Sequence[Value]) -> Value:
    if isinstance(value, Parameter):
        return values[value.ordinal]
    if isinstance(value, tuple) and not isinstance(value, QueryVectors):
        return tuple(_fill_in(element, values) for element in value)
    assert not isinstance(value, Subquery)  # noqa: S101 - replaced by `with_vectors` before
    return value


def read_call(
    text: SqlText, function: SearchFunction, opening: int, closing: int, slots: Mapping[int, int]
) -> SearchCall:
    """Read the arguments between two brackets.

    Args:
        text: the statement.
        function: that is called.
        opening: token of the opening bracket.
        closing: token of the closing bracket.
        slots: token -> ordinal of the parameter at that token.

    Raises:
        InvalidInputError: an argument is missing, unknown, given twice or not constant.
    """
    reader = _Reader(text, slots)
    positional = _POSITIONAL[function]
    arguments: dict[str, Argument] = {}
    named = False
    at = opening + 1
    while at < closing:
        start = at
        if at in text.names and text.words[at + 1] in _ASSIGNMENTS:
            name = _read_option(text, at, function)
            named = True
            at += 2
        elif named:
            raise text.error(at, f"{function.value}: named arguments come last")
        elif len(arguments) < len(positional):
            name = positional[len(arguments)]
        else:
            raise text.error(
                at,
                f"{function.value} takes {len(positional)} arguments without a name "
                f"({', '.join(positional)}); options are written k => 10; one more",
            )
        if name in arguments:
            raise text.error(start, f"{function.value}: {name} is given twice")
        arguments[name], at = reader.read_value(at)
        if isinstance(arguments[name], Subquery) and name not in _VECTORS[function]:
            raise text.error(start, f"{function.value}: {name} can't be a subquery")
        if at < closing:
            if text.words[at] != ",":
                message = f"{function.value}: {name} must be a constant or a parameter"
                raise text.error(at, message)
            at += 1
    missing = [name for name in positional if name not in arguments]
    if missing:
        called = f"{function.value}({', '.join(positional)}, k => 10, ...)"
        raise text.error(opening, f"{function.value} needs {missing[0]}: {called}")
    table = arguments.pop("table")
    if not isinstance(table, str):
        raise text.error(opening + 1, f"{function.value}: the table is named by a string such as 'items'")
    return SearchCall(function, table, MappingProxyType(arguments))


def _read_option(text: SqlText, at: int, function: SearchFunction) -> str:
    name = fold(text.names[at])
    name = _ALIASES.get(name, name)
    names = (*_OPTIONS[function], *_POSITIONAL[function])
    if name in names:
        return name
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    offered = ", ".join(_OPTIONS[function])
    raise text.error(at, f"{function.value} has no option {name!r}; {hint}it has {offered}")


class _Reader:
    """Reads constants: numbers, strings, booleans, NULL and lists of them; casts are ignored."""

    def __init__(self, text: SqlText, slots: Mapping[int, int]) -> None:
        self._text = text
        self._words = text.words
        self._slots = slots

    def read_value(self, at: int) -> tuple[Argument, int]:
        """Read the constant that begins at a token; return it, and the token behind it."""
        value, at = self._read_plain(at)
        while self._words[at] == "::":
            at = self._skip_type(at + 1)
        return value, at

    def _read_plain(self, at: int) -> tuple[Argument, int]:
        words, text = self._words, self._text
        word = words[at]
        if at in self._slots:
            return Parameter(self._slots[at]), at + 1 + (word == "$")
        if word == STRING:
            return text.tokens[at].text, at + 1
        if word in _NUMBER_STARTS:
            sign = word in {"-", "+"}
            first = at + sign
            last = first + (words[first] == ".")
            if words[last] == "0":
                number = _read_number(text, first, last)
                return (-number if word == "-" else number), last + 1
        if word in _CONSTANTS:
            return _CONSTANTS[word], at + 1
        if word == "ARRAY" and words[at + 1] == "[":
            return self._read_list(at + 1)
        if word == "[":
            return self._read_list(at)
        if word == "(" and words[at + 1] in QUERY_STARTS:
            end = text.closing(at)
            return Subquery(at + 1, end), end + 1
        if word == "(":
            value, after = self.read_value(at + 1)
            if words[after] == ")":
                return value, after + 1
        expected = "A constant (number, string, list) or a parameter is expected here"
        if at in text.names:
            expected += "; vectors of other rows are given as a subquery, (SELECT vec FROM ...)"
        raise text.error(at, f"{expected}")

    def _read_list(self, at: int) -> tuple[Argument, int]:
        values: list[Argument] = []
        at += 1
        while self._words[at] != "]":
            value, at = self.read_value(at)
            values.append(value)
            if self._words[at] == ",":
                at += 1
            elif self._words[at] != "]":
                raise self._text.error(at, "The values of a list are separated by commas")
        return tuple(values), at + 1

    def _skip_type(self, at: int) -> int:
        """Skip a type such as FLOAT[4], DOUBLE PRECISION[] or DECIMAL(10, 2)."""
        if at not in self._text.names:
            raise self._text.error(at, "The name of a type is expected after ::")
        at += 1
        if self._words[at] == "PRECISION":
            at += 1
        while self._words[at] in {"(", "["}:
            close = _CLOSERS[self._words[at]]
            while self._words[at] not in {close, ""}:
                at += 1
            at += 1
        return at


def _read_number(text: SqlText, first: int, last: int) -> int | float:
    number = text.sql[text.tokens[first].start : text.tokens[last].end + 1]
    try:
        return int(number) if number.isdecimal() else float(number)
    except ValueError:
        raise text.error(first, f"{number!r} is not a number") from None
