"""Writes columns of USING from both sides where the left one may be missing; DataFusion takes the left one.

    SELECT id, n FROM t FULL JOIN u USING (id)
->  SELECT coalesce("t"."id", "u"."id") AS "id", n FROM t FULL JOIN u USING (id)
    SELECT * FROM t RIGHT JOIN u USING (id)
->  SELECT * REPLACE ("u"."id" AS "id") FROM t RIGHT JOIN u USING (id)
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from memwal.errors import UnsupportedError
from planner.sql.standard.query_bodies import (
    QueryBody,
    find_bodies,
    find_outputs,
    find_sort_keys,
    outside,
    split_alias,
)
from planner.sql.tokens import Edit, SqlText, at_position, quote

_MERGING: Final = frozenset({"RIGHT", "FULL"})
"""Joins with rows that have no partner on the left."""
_AFTER_FROM: Final = frozenset({"WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW"})
_JOINS: Final = frozenset(
    {"JOIN", "NATURAL", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "OUTER", "SEMI", "ANTI", "ON", "USING"}
)
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES"})


def merge_columns(text: SqlText) -> Iterator[Edit]:
    """Yield edits that name both sides of such columns.

    Raises:
        UnsupportedError: the sides can't be told.
    """
    merging = {i for i, word in enumerate(text.words) if word == "USING" and _kind(text, i) in _MERGING}
    if not merging:
        return
    for body in find_bodies(text):
        for operand in body.operands:
            select = _Select(text, body, operand)
            merging -= select.read.keys()
            yield from select.write()
    for using in sorted(merging):  # of joins in brackets
        if _reads_merged(text, using):
            raise _refusal(text, using)


def _kind(text: SqlText, using: int) -> str:
    """Return the kind of the join that a USING belongs to; an empty text if it belongs to none."""
    words, depth = text.words, 0
    for i in range(using - 1, 0, -1):
        depth += (words[i] == ")") - (words[i] == "(")
        if depth < 0 or (depth == 0 and words[i] in {"ON", "USING", ";"}):
            return ""
        if depth == 0 and words[i] == "JOIN":
            return words[i - 2] if words[i - 1] == "OUTER" else words[i - 1]
    return ""


def _reads_merged(text: SqlText, using: int) -> bool:
    """Return whether a statement may read columns of a USING from both sides."""
    words = text.words
    lists = [i for i in range(2, len(words)) if words[i] == "(" and "AS" in words[i - 2 : i - 1]]
    listed = {k for i in (using + 1, *lists) for k in range(i + 1, text.closing(i), 2)}
    names = {text.name(i) for i in range(using + 2, text.closing(using + 1), 2)}
    stars = any(word == "*" and words[i - 1] in {"SELECT", "DISTINCT", ","} for i, word in enumerate(words))
    return stars or any(i not in listed and _is_column(text, i, names) for i in text.names)


def _is_column(text: SqlText, at: int, names: Container[str]) -> bool:
    """Return whether a token is one of these columns, without the name of a relation."""
    words = text.words
    is_name = text.is_name(at) and text.name(at) in names
    return is_name and words[at - 1] not in {".", "AS"} and words[at + 1] not in {".", "("}


class _Select:
    """A SELECT with its merged columns.

    Attributes:
        read: token of a USING -> its columns, of joins that leave columns of the left out.
    """

    def __init__(self, text: SqlText, body: QueryBody, operand: range) -> None:
        self._text = text
        self._body = body
        self._operand = operand
        self.read: dict[int, Sequence[str]] = {}
        self._outputs = find_outputs(text, operand)
        self._from = self._find_from()
        self._values: Mapping[str, str] = self._read_joins()

    def _find_from(self) -> range:
        words = self._text.words
        if not self._outputs:
            return range(0)
        first = self._outputs[-1].stop
        if words[first] != "FROM":
            return range(0)
        inner = outside(self._text, range(first + 1, self._operand.stop))
        end = next((i for i in inner if words[i] in _AFTER_FROM), self._operand.stop)
        return range(first + 1, end)

    def _read_joins(self) -> Mapping[str, str]:
        """Return the name of each merged column -> its value."""
        text, words = self._text, self._text.words
        values: dict[str, str] = {}
        chain = self._from.start
        for i in outside(text, self._from):
            if words[i] == ",":
                chain = i + 1
            if words[i] != "USING" or words[i + 1] != "(":
                continue
            kind = _kind(text, i)
            names = [text.name(k) for k in range(i + 2, text.closing(i + 1), 2)]
            if not values.keys().isdisjoint(names):
                raise _refusal(text, i)
            if kind in _MERGING:
                self.read[i] = names
                left, right = self._find_sides(chain, i)
                for name in names:
                    value = f"{right}.{quote(name)}"
                    both = f"coalesce({left}.{quote(name)}, {value})"
                    values[name] = value if kind == "RIGHT" else both
        return values

    def _find_sides(self, chain: int, using: int) -> tuple[str, str]:
        """Return the qualifiers of the two relations of the first join of a chain."""
        words = self._text.words
        joins = [i for i in outside(self._text, range(chain, using)) if words[i] in _JOINS]
        if words[joins[-1]] != "JOIN" or any(words[i] in {"ON", "USING", "CROSS", "NATURAL"} for i in joins):
            raise _refusal(self._text, using)
        return self._qualify(joins[0] - 1, using), self._qualify(using - 1, using)

    def _qualify(self, last: int, using: int) -> str:
        """Return the name of the relation that ends at a token."""
        text, words = self._text, self._text.words
        if words[last] == ")":
            opening = next(i for i in range(last, 0, -1) if words[i] == "(" and text.closing(i) == last)
            if words[opening - 2] not in {"AS", ")"}:
                raise _refusal(text, using)
            last = opening - 1
        if not text.is_name(last):
            raise _refusal(text, using)
        return quote(text.name(last))

    def write(self) -> Iterator[Edit]:
        """Yield the edits of the columns."""
        if not self._values:
            return
        names: set[str | None] = set()
        for output in self._outputs:
            expression, alias = split_alias(self._text, output)
            if self._text.words[output.start] == "*":
                names.update(self._values)
                yield from self._write_star(output)
            elif len(expression) == 1 and alias is None:
                names.add(self._text.name(expression.start))
                yield from self._write_names(expression, shows=True)
            else:
                names.add(alias)
                yield from self._write_names(expression)
        distinct = range(self._operand.start + 1, self._outputs[0].start)
        yield from self._write_names(distinct)
        for i in outside(self._text, self._from):
            if i > min(self.read, default=i) and _is_column(self._text, i, self._values):
                raise _refusal(self._text, i)
        yield from self._write_names(range(self._from.stop, self._operand.stop))
        if len(self._body.operands) == 1:
            for key in find_sort_keys(self._text, self._body.tail):
                # An output's name stands for the output; but DataFusion compares the words of DISTINCT ON.
                yield from self._write_names(key, without=() if len(distinct) > 1 else names)

    def _write_star(self, star: range) -> Iterator[Edit]:
        text = self._text
        left_out = {text.name(i) for i in star[1:]}
        if len(star) > 1 and (
            text.words[star[1]] not in {"EXCLUDE", "EXCEPT"} or "REPLACE" in text.words[star[1] : star.stop]
        ):
            raise _refusal(text, star.start)
        shown = [f"{value} AS {quote(name)}" for name, value in self._values.items() if name not in left_out]
        if shown:
            yield Edit.insert(text.end(star.stop - 1), f" REPLACE ({', '.join(shown)})")

    def _write_names(
        self, tokens: range, *, shows: bool = False, without: Container[str | None] = ()
    ) -> Iterator[Edit]:
        """Yield the edits of the columns in an expression, those of its subqueries excepted."""
        text, at = self._text, tokens.start
        while at < tokens.stop:
            if text.words[at] == "(" and text.words[at + 1] in _QUERIES:
                at = text.closing(at)
            elif _is_column(text, at, self._values) and text.name(at) not in without:
                name = text.name(at)
                shown = f" AS {quote(name)}" if shows else ""
                yield Edit.replace(text.start(at), text.end(at), f"{self._values[name]}{shown}")
            at += 1


def _refusal(text: SqlText, at: int) -> UnsupportedError:
    message = (
        "USING of a RIGHT or FULL JOIN beside other joins, or by a relation without a name, is not offered: "
        "write ON, and coalesce(a.k, b.k) for its column; it stands"
    )
    return UnsupportedError(at_position(text.sql, text.start(at), message))
