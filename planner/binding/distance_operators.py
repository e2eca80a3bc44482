"""Rewrites pgvector's operators and casts, and vectors written as text, which DataFusion does not support.

    vec <-> '[1, 2]'              l2_distance(vec, [1.0, 2.0])
    vec <=> $1::vector            cosine_distance(vec, CAST($1 AS DOUBLE[]))
    vec <#> other                 negative_inner_product(vec, other)
    vec <+> ARRAY[1, 2]           l1_distance(vec, ARRAY[1, 2])
    bits <~> [1, 2]               hamming_distance(bits, [1, 2])

`<=>` is the cosine distance where one side is visibly a vector. Elsewhere it keeps DataFusion's meaning:
equal, or both NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.bridge.distance_functions import DISTANCES, Distance
from lance_gateway.planner.sql.text.edits import Edit
from lance_gateway.planner.sql.text.tokens import STRING, SqlText
from lance_gateway.planner.sql.vector_text import format_array, read_vector

_OPERATORS = {
    "<->": Distance.L2,
    "<=>": Distance.COSINE,
    "<#>": Distance.NEGATIVE_PRODUCT,
    "<+>": Distance.L1,
    "<~>": Distance.HAMMING,
}
_WHOLE = frozenset({"<->", "<=>"})
"""Operators that are one token."""
SPLIT_OPERATORS = frozenset(_OPERATORS) - _WHOLE
"""Operators that are three tokens."""
_NULL_SAFE = "<=>"
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_VECTOR_TYPES = frozenset({"VECTOR", "HALFVEC"})
DISTANCE_WORDS = frozenset(_OPERATORS) | _VECTOR_TYPES | {name.upper() for name in DISTANCES}
"""A statement without any of these words is not rewritten."""
_TYPED_PARAMETER = ("CAST(", " AS DOUBLE[])")
_LONG = 16
"""Vectors of this length become constants: DataFusion is slow to parse them, and names columns after them."""
# Words and marks after which an expression begins.
_BEFORE = frozenset(
    {"", "(", "[", ",", "=", "<", ">", "<=", ">=", "<>", "!=", "=>", ":=", ":"}
    | {"SELECT", "DISTINCT", "ALL", "WHERE", "AND", "OR", "NOT", "ON", "HAVING", "BY", "WHEN", "THEN", "ELSE"}
    | {"CASE", "BETWEEN", "QUALIFY", "VALUES", "RETURN", "LIMIT"}
)
_NO_OPERANDS = _BEFORE | {"FROM", "AS", "IN", "END", "IS", "LIKE", "ILIKE", "OVER", "FILTER", "INTERVAL"}
# Marks after the right operand that bind more tightly than a distance operator.
_NOT_BEHIND = frozenset(
    {"+", "-", "*", "/", "%", "||", "^", "&", "|", "#", "~", "<<", ">>", "->", "->>", "."}
)


def find_called_distances(text: SqlText) -> Iterator[str]:
    """Yield the names of distance functions that a statement calls, also by operators."""
    for i, word in enumerate(text.words):
        operator = _find_operator(text, i)
        if operator is not None:
            yield _OPERATORS[operator].value
        elif word and _is_call(text, i):
            yield text.name(i)


def find_vector_names(text: SqlText, columns: Sequence[tuple[str, bool]]) -> frozenset[str]:
    """Return the names of columns that hold vectors, and the names that AS gives them.

    Args:
        text: the statement.
        columns: of its tables, each with whether it holds vectors.
    """
    names = {name for name, is_vector in columns if is_vector}
    names -= {name for name, is_vector in columns if not is_vector}
    for i, word in enumerate(text.words):
        if word == "AS" and i and text.is_name(i - 1) and text.is_name(i + 1) and text.name(i - 1) in names:
            names.add(text.name(i + 1))
    return frozenset(names)


def rewrite_distances(
    text: SqlText,
    vectors: Callable[[], frozenset[str]],
    keep: Callable[[list[float]], str],
    skipped: Sequence[tuple[int, int]] = (),
) -> Iterator[Edit]:
    """Yield edits that replace distance operators, casts to vectors, and vectors written as text.

    Args:
        text: the statement.
        vectors: returns the names of columns that hold vectors; called only if needed.
        keep: keeps a long vector, and returns the text that stands for it.
        skipped: ranges of tokens, first and last, that other text replaces.

    Raises:
        InvalidInputError: an operand is not a single value, or a text is not a vector.
    """
    yield from _Rewriting(text, vectors, keep, skipped).edits()


class _Rewriting:
    """The rewriting of one statement."""

    def __init__(
        self,
        text: SqlText,
        vectors: Callable[[], frozenset[str]],
        keep: Callable[[list[float]], str],
        skipped: Sequence[tuple[int, int]],
    ) -> None:
        self._text = text
        self._words = text.words
        self._vectors = vectors
        self._keep = keep
        self._skipped = skipped
        self._closing: dict[int, int] = {}
        """Token of an opening bracket -> token of its closing bracket."""
        self._first: dict[int, int] = {}
        """Last token of an operand -> its first token."""
        self._typed: set[int] = set()
        """Texts and parameters that are cast to vectors already."""

    def edits(self) -> Iterator[Edit]:
        words = self._words
        operators = [
            (i, operator)
            for i in range(len(words))
            if (operator := _find_operator(self._text, i)) is not None and not self._is_skipped(i)
        ]
        casts = [i for i, word in enumerate(words) if self._is_vector_cast(i, word)]
        calls = [i for i in range(len(words)) if _is_call(self._text, i) and not self._is_skipped(i)]
        if not (operators or casts or calls):
            return
        self._match_brackets()
        # Edits that insert text before a value must come before edits that replace the value.
        if operators:
            self._find_operands()
            for i, operator in operators:
                yield from self._rewrite_operation(i, operator)
        for i in calls:
            yield from self._rewrite_arguments(i + 1)
        for i in casts:
            yield from self._rewrite_cast(i)

    def _is_skipped(self, index: int) -> bool:
        return any(first <= index <= last for first, last in self._skipped)

    def _is_vector_cast(self, index: int, word: str) -> bool:
        return word == "::" and self._words[index + 1] in _VECTOR_TYPES and not self._is_skipped(index)

    def _match_brackets(self) -> None:
        opened: list[int] = []
        for i, word in enumerate(self._words):
            if word in _CLOSERS:
                opened.append(i)
            elif opened and word == _CLOSERS[self._words[opened[-1]]]:
                self._closing[opened.pop()] = i

    # Values

    def _rewrite_cast(self, index: int) -> Iterator[Edit]:
        """Rewrite `'[1, 2]'::vector(2)` and `$1::vector`; of other values, only remove the cast."""
        text = self._text
        yield from self._cast_value(index - 1)
        yield Edit(text.start(index), text.end(self._skip_type(index + 1) - 1), [])

    def _rewrite_arguments(self, opening: int) -> Iterator[Edit]:
        """Cast arguments of a distance function that are a text or a parameter."""
        closing = self._closing.get(opening, opening)
        first = opening + 1
        i = first
        while first < closing:
            while i < closing and self._words[i] != ",":
                i = self._closing.get(i, i) + 1
            yield from self._rewrite_value(first, i)
            first = i = i + 1

    def _rewrite_value(self, first: int, end: int) -> Iterator[Edit]:
        """Cast a value that is a text or a parameter, and keep one that is a long list of numbers."""
        if end - first == 1 or (self._words[first] == "$" and end - first == 2):
            yield from self._cast_value(end - 1)
        elif end - first > _LONG:
            numbers = self._read_numbers(first, end)
            if numbers is not None:
                yield self._replace(first, end - 1, self._keep(numbers))

    def _read_numbers(self, first: int, end: int) -> list[float] | None:
        """Read `[1, -2.5, ...]` or `ARRAY[1, -2.5, ...]`; return None for other values."""
        text, words = self._text, self._words
        first += words[first] == "ARRAY"
        if words[first] != "[" or self._closing.get(first) != end - 1:
            return None
        if any(words[i] not in {"0", "-", ","} for i in range(first + 1, end - 1)):
            return None
        return read_vector(text.sql[text.start(first) : text.end(end - 1)])

    def _replace(self, first: int, last: int, replacement: str) -> Edit:
        return Edit.replace(self._text.start(first), self._text.end(last), replacement)

    def _cast_value(self, last: int) -> Iterator[Edit]:
        """Cast a text or a parameter that ends at token `last` to a vector."""
        text, words = self._text, self._words
        if last < 0 or last in self._typed:
            return
        first = last - 1 if words[last] == "0" and words[last - 1] == "$" else last
        if words[first] in {"?", "$"}:
            self._typed.add(last)
            before, after = _TYPED_PARAMETER
            yield Edit.insert(text.start(first), before)
            yield Edit.insert(text.end(last), after)
        elif words[last] == STRING:
            self._typed.add(last)
            numbers = read_vector(text.tokens[last].text)
            if numbers is None:
                raise text.error(last, "A vector such as '[0.1, 0.2, ...]' is expected")
            vector = format_array(numbers) if len(numbers) < _LONG else self._keep(numbers)
            yield self._replace(last, last, vector)

    # Operators

    def _rewrite_operation(self, index: int, operator: str) -> Iterator[Edit]:
        text = self._text
        behind = index + (1 if operator in _WHOLE else 3)
        first, end = self._first.get(index - 1), self._find_operand_end(behind)
        if operator == _NULL_SAFE and not self._has_vector(first, index, behind, end):
            return
        if first is None or end is None or not self._stands_alone(first, end):
            raise _operand_error(text, index, operator)
        name = f"{_OPERATORS[operator].value}("
        yield Edit.insert(text.start(first), name)
        yield from self._rewrite_value(first, index)
        yield self._replace(index, behind - 1, ",")
        yield from self._rewrite_value(behind, end)
        yield Edit.insert(text.end(end - 1), ")")

    def _stands_alone(self, first: int, end: int) -> bool:
        """Return whether nothing binds the operands more tightly than the operator between them."""
        return (
            (not first or self._words[first - 1] in _BEFORE)
            and self._words[end] not in _NOT_BEHIND
            and _find_operator(self._text, end) is None
        )

    def _has_vector(self, first: int | None, index: int, behind: int, end: int | None) -> bool:
        """Return whether an operand is visibly a vector."""
        sides = [(first, index)] if first is not None else []
        if end is not None:
            sides.append((behind, end))
        return any(self._is_vector(begin, stop) for begin, stop in sides)

    def _is_vector(self, first: int, end: int) -> bool:
        words, text = self._words, self._text
        if words[first] == "[" or words[first : first + 2] == ("ARRAY", "["):
            return True
        if any(words[i] == "::" and words[end - 1] == "]" for i in range(first, end)):
            return True
        if any(self._is_vector_cast(i, words[i]) for i in range(first, end)):
            return True
        if words[first] == STRING:
            return read_vector(text.tokens[first].text) is not None
        chain = all(text.is_name(i) or words[i] == "." for i in range(first, end))
        return chain and text.name(end - 1) in self._vectors()

    def _find_operands(self) -> None:
        """Record where single values begin and end, the longest value for each end."""
        for i in range(len(self._text.tokens)):
            if i and self._words[i - 1] in {".", "::"}:
                continue
            end = self._find_operand_end(i)
            if end is not None:
                self._first.setdefault(end - 1, i)

    def _find_operand_end(self, first: int) -> int | None:
        """Return the token behind a single value: a name, call, literal or bracket, with its casts."""
        words, text = self._words, self._text
        word = words[first]
        if word in {"(", "["}:
            end = self._closing.get(first, -1) + 1
        elif word == "ARRAY" and words[first + 1] == "[":
            end = self._closing.get(first + 1, -1) + 1
        elif word in {"?", STRING, "0"}:
            end = first + 1
        elif word == "$":
            end = first + 2
        elif text.is_name(first) and word not in _NO_OPERANDS:
            end = self._skip_name(first)
            if words[end] == "(":
                end = self._closing.get(end, -1) + 1
        else:
            return None
        while end:
            if words[end] == "[":
                end = self._closing.get(end, -1) + 1
            elif words[end] == "::":
                end = self._skip_type(end + 1)
            elif words[end] == "." and text.is_name(end + 1):
                end += 2
            else:
                return end
        return None

    def _skip_name(self, first: int) -> int:
        end = first + 1
        while self._words[end] == "." and self._text.is_name(end + 1):
            end += 2
        return end

    def _skip_type(self, first: int) -> int:
        """Return the token behind a type such as FLOAT[3], VECTOR(3) or DOUBLE PRECISION[]."""
        words, last = self._words, len(self._text.tokens)
        end = min(first + 1, last)
        if words[first : first + 2] == ("DOUBLE", "PRECISION"):
            end += 1
        while words[end] in {"(", "["} and end in self._closing:
            end = self._closing[end] + 1
        return min(end, last)


def _find_operator(text: SqlText, index: int) -> str | None:
    """Return the distance operator that begins at a token, or None."""
    words = text.words
    if words[index] in _WHOLE:
        return words[index]
    if words[index] != "<" or words[index + 2 : index + 3] != (">",):
        return None
    if text.start(index + 2) - text.start(index) != 2:
        return None
    joined = f"<{words[index + 1]}>"
    return joined if joined in _OPERATORS else None


def _is_call(text: SqlText, index: int) -> bool:
    """Return whether a distance function is called at a token."""
    if index + 1 >= len(text.words) or text.words[index + 1] != "(" or not text.is_name(index):
        return False
    return text.name(index) in DISTANCES and (not index or text.words[index - 1] != ".")


def _operand_error(text: SqlText, index: int, operator: str) -> InvalidInputError:
    message = (
        f"{operator} takes a column, a literal, a parameter or a call on either side: put parentheses around "
        f"what it compares, and around a distance that is computed with, as in 1 - (a {operator} b)"
    )
    return text.error(index, message)
