"""Compares rows of values field by field, as the standard does; DataFusion compares them as structs.

    (a, b) = (1, 2)             ->  (a = 1 AND b = 2)
    (a, b) < (1, 2)             ->  (a < 1 OR (a = 1 AND b < 2))
    (a, b) IN ((1, 2), (3, 4))  ->  ((a = 1 AND b = 2) OR (a = 3 AND b = 4))
    (a, b) NOT IN (SELECT x, y FROM t)
->  NOT EXISTS (SELECT 1 FROM (SELECT x, y FROM t) AS "row#" ("field#1", "field#2")
                WHERE (a = "row#"."field#1" AND b = "row#"."field#2") IS NOT FALSE)

    a IN (VALUES (1), (2))      ->  a IN ((1), (2))

Comparisons of single columns are also what tables are pruned by, and keys are looked up with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from memwal.errors import UnsupportedError
from memwal.transforms.determinism import has_unstable_call
from planner.sql.edits import Copy, Edit, Piece
from planner.sql.rewrites.truth_position import TruthPosition, find_truth_position
from planner.sql.tokens import QUOTED, STRING, PlacedMessage, SqlText

_EQUAL: Final = frozenset({"="})
_UNEQUAL: Final = frozenset({"<>", "!="})
_COMPARISONS: Final = _EQUAL | _UNEQUAL | {"<", "<=", ">", ">="}
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES"})
_OPENERS: Final = frozenset({"(", "[", "{", "CASE"})
_CLOSERS: Final = frozenset({")", "]", "}", "END"})
_BEFORE: Final = frozenset(
    {
        "",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "ON",
        "SELECT",
        "WHEN",
        "THEN",
        "ELSE",
        "HAVING",
        "QUALIFY",
        "CASE",
        ",",
    }
    | {"(", "DISTINCT", "ALL", "BY", "RETURNING"}
)
"""Words before a row on the left of a comparison."""
_AFTER: Final = frozenset(
    {"", ";", ")", ",", "AS", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT"}
    | {"OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LEFT", "RIGHT", "JOIN", "INNER", "FULL"}
    | {"CROSS", "NATURAL", "ON", "THEN", "WHEN", "ELSE", "END", "AND", "OR", "RETURNING", "IS", "ASC", "DESC"}
    | {"NULLS"}
)
"""Words behind a row on the right of a comparison."""
_TRUE: Final = frozenset({TruthPosition.CONJUNCT, TruthPosition.TRUE})
_FALSE: Final = frozenset({TruthPosition.DENIED_CONJUNCT, TruthPosition.FALSE})

_Pieces: TypeAlias = list[Piece | Copy]
_Field: TypeAlias = "range | str"
"""Tokens of an expression, or a text."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of two or more values: tokens `first` to `last`, and the tokens of each value."""

    first: int
    last: int
    fields: Sequence[_Field]


def compare_fields(text: SqlText) -> Iterator[Edit]:
    """Yield edits that compare the fields of rows.

    Raises:
        InvalidInputError: rows of different lengths are compared.
        UnsupportedError: a row is compared in a way that has no counterpart.
    """
    words = text.words
    at = words.index(")") if ")" in words else len(words)
    while at < len(words) - 1:
        if words[at] == ")" and (words[at + 1] in _COMPARISONS or words[at + 1] in {"IN", "NOT", "BETWEEN"}):
            left = _read_left(text, at)
            edit = None if left is None else _Comparison(text, left).write()
            if edit is not None:
                yield edit
                while text.start(at) < edit.end and at < len(words) - 1:
                    at += 1
                continue
        at += 1


def list_members(text: SqlText) -> Iterator[Edit]:
    """Yield edits that make lists of the VALUES behind IN, where they have one column."""
    words = text.words
    for i, word in enumerate(words):
        if word == "VALUES" and words[i - 2 : i] == ("IN", "(") and _has_one_column(text, i):
            yield Edit.replace(text.start(i), text.end(i), "")


def _has_one_column(text: SqlText, values: int) -> bool:
    """Return whether nothing but rows of one value follows VALUES in its brackets."""
    words = text.words
    rows = list(_split(text, values + 1, text.closing(values - 1)))
    return all(
        row
        and words[row.start] == "("
        and text.closing(row.start) == row.stop - 1
        and words[row.start + 1] not in _QUERIES
        and len(list(_split(text, row.start + 1, row.stop - 1))) == 1
        for row in rows
    )


def _read_left(text: SqlText, closing: int) -> _Row | None:
    """Return the row that ends at a token; None if something else does."""
    words = text.words
    depth, opening = 0, closing
    for opening in range(closing, -1, -1):
        depth += (words[opening] in {")", "]", "}"}) - (words[opening] in {"(", "[", "{"})
        if depth == 0:
            break
    row = _read_row(text, opening)
    if row is None:
        return None
    before = words[row.first - 1] if row.first else ""
    return row if before in _BEFORE and (row.first < 2 or words[row.first - 2] != ".") else None


def _read_row(text: SqlText, at: int) -> _Row | None:
    """Return the row that begins at a token; None if something else does."""
    words = text.words
    first = at
    if words[at] == "ROW" and words[at + 1] == "(":
        at += 1
    elif words[at] == "(" and at and words[at - 1] == "ROW":
        first = at - 1
    if words[at] != "(" or words[at + 1] in _QUERIES:
        return None
    last = text.closing(at)
    fields = list(_split(text, at + 1, last))
    return _Row(first, last, fields) if len(fields) > 1 and all(fields) else None


def _split(text: SqlText, first: int, end: int) -> Iterator[range]:
    """Yield the tokens between the commas of a list."""
    depth, begin = 0, first
    for i in range(first, end):
        word = text.words[i]
        depth += (word in _OPENERS) - (word in _CLOSERS)
        if word == "," and depth == 0:
            yield range(begin, i)
            begin = i + 1
    yield range(begin, end)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A comparison of a row with what follows it."""

    text: SqlText
    left: _Row

    def write(self) -> Edit | None:
        """Return the edit that compares the fields; None if no row is compared."""
        words, at = self.text.words, self.left.last + 1
        is_denied = words[at] == "NOT"
        at += is_denied
        word = words[at]
        if word in _COMPARISONS and not is_denied:
            return self._write_operator(word, at + 1)
        if word == "BETWEEN":
            return self._write_range(at + 1, is_denied=is_denied)
        if word == "IN" and words[at + 1] == "(":
            if words[at + 2] in _QUERIES:
                return self._write_membership(at + 1, is_denied=is_denied)
            return self._write_list(at + 1, is_denied=is_denied)
        return None

    def _write_operator(self, operator: str, at: int) -> Edit | None:
        right = self._read_right(at)
        if right is None or self.text.words[right.last + 1] not in _AFTER:
            return None
        return self._edit(right.last, self._compare(operator, self.left.fields, right.fields))

    def _write_range(self, at: int, *, is_denied: bool) -> Edit | None:
        words = self.text.words
        lower = self._read_right(at)
        if lower is None or words[lower.last + 1] != "AND":
            return None
        upper = self._read_right(lower.last + 2)
        if upper is None or words[upper.last + 1] not in _AFTER:
            return None
        pieces = [
            self._say("("),
            *self._compare(">=", self.left.fields, lower.fields),
            self._say(" AND "),
            *self._compare("<=", self.left.fields, upper.fields),
            self._say(")"),
        ]
        return self._edit(upper.last, self._deny(pieces, is_denied=is_denied))

    def _write_list(self, opening: int, *, is_denied: bool) -> Edit | None:
        text, last = self.text, self.text.closing(opening)
        rows = []
        for item in _split(text, opening + 1, last):
            row = self._read_right(item.start) if item else None
            if row is None or row.last + 1 != item.stop:
                return None
            rows.append(self._compare("=", self.left.fields, row.fields))
        return self._edit(last, self._deny(self._join(rows, " OR "), is_denied=is_denied))

    def _write_membership(self, opening: int, *, is_denied: bool) -> Edit:
        text, last = self.text, self.text.closing(opening)
        position = find_truth_position(text, self.left.first, last)
        inner: _Pieces = [Copy(text.start(opening), text.end(last))]
        fields = [f'"field#{number}"' for number in range(1, len(self.left.fields) + 1)]
        rows = [
            self._say("(SELECT 1 FROM "),
            *inner,
            self._say(f' AS "row#" ({", ".join(fields)}) WHERE '),
            *self._compare("=", self.left.fields, [f'"row#".{field}' for field in fields]),
        ]
        if position not in _TRUE | _FALSE:
            message = (
                "(a, b) IN (SELECT ..) as a value is not offered: write EXISTS in a condition; it stands"
            )
            raise UnsupportedError(PlacedMessage(text.sql, text.start(self.left.first), message))
        # What may be true counts where rows stay if no row of the subquery is equal.
        counts_unknown = is_denied == (position in _TRUE)
        end = " IS NOT FALSE)" if counts_unknown else ")"
        start = "NOT EXISTS " if is_denied else "EXISTS "
        return self._edit(last, [self._say(start), *rows, self._say(end)])

    def _read_right(self, at: int) -> _Row | None:
        """Return the row at a token; None if something else stands there.

        Raises:
            InvalidInputError: it has another number of values.
        """
        row = _read_row(self.text, at)
        if row is not None and len(row.fields) != len(self.left.fields):
            counts = f"{len(self.left.fields)} and {len(row.fields)}"
            raise self.text.error(row.first, f"Rows of {counts} values are compared; the second stands")
        return row

    def _compare(self, operator: str, left: Sequence[_Field], right: Sequence[_Field]) -> _Pieces:
        if operator in _EQUAL | _UNEQUAL:
            pairs = [self._pair(operator, one, other) for one, other in zip(left, right, strict=True)]
            return self._join(pairs, " AND " if operator in _EQUAL else " OR ")
        pieces = self._pair(operator, left[-1], right[-1])
        for one, other in zip(reversed(left[:-1]), reversed(right[:-1]), strict=True):
            pieces = [
                self._say("("),
                *self._pair(operator[0], one, other),
                self._say(" OR ("),
                *self._pair("=", one, other),
                self._say(" AND "),
                *pieces,
                self._say("))"),
            ]
        return pieces

    def _pair(self, operator: str, left: _Field, right: _Field) -> _Pieces:
        return [*self._copy(left), self._say(f" {operator} "), *self._copy(right)]

    def _copy(self, field: _Field) -> _Pieces:
        if isinstance(field, str):
            return [self._say(field)]
        text = self.text
        words = [text.words[i] for i in field]
        if has_unstable_call(words):
            message = "A row with a function whose values change can't be compared: compute it in a subquery"
            raise UnsupportedError(PlacedMessage(text.sql, text.start(field.start), f"{message}; it stands"))
        copy = Copy(text.start(field.start), text.end(field.stop - 1))
        if all(text.is_name(i) or text.words[i] in {".", "0", "$", STRING, QUOTED} for i in field):
            return [copy]
        return [self._say("("), copy, self._say(")")]

    def _join(self, conditions: Sequence[_Pieces], connective: str) -> _Pieces:
        """Connect conditions as a balanced tree, since DataFusion's depth of expressions is limited."""
        if len(conditions) == 1:
            return list(conditions[0])
        middle = len(conditions) // 2
        return [
            self._say("("),
            *self._join(conditions[:middle], connective),
            self._say(connective),
            *self._join(conditions[middle:], connective),
            self._say(")"),
        ]

    def _deny(self, pieces: _Pieces, *, is_denied: bool) -> _Pieces:
        return [self._say("(NOT "), *pieces, self._say(")")] if is_denied else pieces

    def _say(self, words: str) -> Piece:
        return Piece(words, self.text.start(self.left.first), verbatim=False)

    def _edit(self, last: int, pieces: _Pieces) -> Edit:
        return Edit(self.text.start(self.left.first), self.text.end(last), pieces)
