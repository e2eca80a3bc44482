"""Writes columns of USING by the side that has them; DataFusion takes the relation whose name comes first.

    SELECT id, n FROM t FULL JOIN u USING (id)
->  SELECT coalesce("t"."id", "u"."id") AS "id", n FROM t FULL JOIN u USING (id)
    SELECT * FROM t RIGHT JOIN u USING (id)
->  SELECT "t".* REPLACE ("u"."id" AS "id"), "u".* EXCLUDE ("id") FROM t RIGHT JOIN u USING (id)
    SELECT * FROM t LEFT JOIN u USING (id) WHERE id > 1
->  SELECT "t".*, "u".* EXCLUDE ("id") FROM t LEFT JOIN u USING (id) WHERE "t"."id" > 1
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memwal.errors import UnsupportedError
from planner.sql.as_of import AS_OF_STARTS, read_as_of
from planner.sql.edits import Edit
from planner.sql.standard.query_bodies import (
    QueryBody,
    find_bodies,
    find_outputs,
    find_sort_keys,
    outside,
    split_alias,
)
from planner.sql.tokens import PlacedMessage, SqlText, quote

_MERGING: Final = frozenset({"RIGHT", "FULL"})
"""Joins with rows that have no partner on the left."""
_ONE_SIDED: Final = frozenset({"SEMI", "ANTI"})
"""Joins that have no columns of the right."""
_AFTER_FROM: Final = frozenset({"WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW"})
_JOINS: Final = frozenset(
    {"JOIN", "NATURAL", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "OUTER", "SEMI", "ANTI", "ON", "USING"}
)
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES"})


def merge_columns(text: SqlText) -> Iterator[Edit]:
    """Yield edits that name the sides of such columns.

    Raises:
        UnsupportedError: the sides can't be told.
    """
    kinds = {i: _kind(text, i) for i, word in enumerate(text.words) if word == "USING"}
    if not any(kinds.values()):
        return
    unread = set(kinds)
    for body in find_bodies(text):
        for operand in body.operands:
            select = _Select(text, body, operand)
            unread -= select.read
            yield from select.write()
    for using in sorted(unread):  # of joins in brackets
        if _may_be_wrong(text, using, kinds[using]):
            raise _refusal(text, using)


def _kind(text: SqlText, behind: int) -> str:
    """Return the kind of the join that a token behind its JOIN belongs to; an empty text if there is none."""
    words, depth = text.words, 0
    for i in range(behind - 1, 0, -1):
        depth += (words[i] == ")") - (words[i] == "(")
        if depth < 0 or (depth == 0 and words[i] in {"ON", "USING", ";"}):
            return ""
        if depth == 0 and words[i] == "JOIN":
            before = [word for word in words[max(i - 3, 0) : i] if word != "OUTER"]
            return "NATURAL" if "NATURAL" in before[-2:] else before[-1]
    return ""


def _may_be_wrong(text: SqlText, using: int, kind: str) -> bool:
    """Return whether a SELECT may read columns of a USING from the wrong side."""
    words = text.words
    around = [one for body in find_bodies(text) for one in body.operands if using in one]
    stars = any(words[output.start] == "*" for output in find_outputs(text, around[-1])) if around else False
    if kind not in _MERGING:
        return stars and kind == "LEFT"
    lists = [i for i in range(2, len(words)) if words[i] == "(" and "AS" in words[i - 2 : i - 1]]
    listed = {k for i in (using + 1, *lists) for k in range(i + 1, text.closing(i), 2)}
    names = {text.name(i) for i in range(using + 2, text.closing(using + 1), 2)}
    return stars or any(i not in listed and _is_column(text, i, names) for i in text.names)


def _is_column(text: SqlText, at: int, names: Container[str]) -> bool:
    """Return whether a token is one of these columns, without the name of a relation."""
    words = text.words
    is_name = text.is_name(at) and text.name(at) in names
    return is_name and words[at - 1] not in {".", "AS"} and words[at + 1] not in {".", "("}


@dataclass(frozen=True, slots=True)
class _Relation:
    """A relation of a FROM clause.

    Attributes:
        begins_chain: whether it is the first one of joins.
        qualifier: its name, quoted; None if it has none.
        kind: of the join before it; NATURAL for all natural ones.
        using: token of the USING behind it; None without.
        names: columns of that USING.
    """

    begins_chain: bool
    qualifier: str | None
    kind: str
    using: int | None
    names: Sequence[str]


class _Select:
    """A SELECT with its merged columns.

    Attributes:
        read: tokens of the USING that it has.
    """

    def __init__(self, text: SqlText, body: QueryBody, operand: range) -> None:
        self._text = text
        self._body = body
        self._operand = operand
        self._outputs = find_outputs(text, operand)
        self._from = self._find_from()
        self._relations = list(self._read_relations())
        self.read = {one.using for one in self._relations if one.using is not None}
        self._merged: dict[str, str] = {}
        """Name -> value that is not the column of one relation."""
        self._values = self._find_values()

    def _find_from(self) -> range:
        words = self._text.words
        first = self._outputs[-1].stop if self._outputs else self._operand.stop
        if words[first] != "FROM":
            return range(0)
        inner = outside(self._text, range(first + 1, self._operand.stop))
        end = next((i for i in inner if words[i] in _AFTER_FROM), self._operand.stop)
        return range(first + 1, end)

    def _read_relations(self) -> Iterator[_Relation]:
        text, words = self._text, self._text.words
        ends = [i for i in outside(text, self._from) if words[i] in _JOINS or words[i] == ","]
        starts = [self._from.start, *(i + 1 for i in ends if words[i] in {"JOIN", ","})]
        for start in starts if self._from else ():
            end = next((i for i in ends if i >= start), self._from.stop)
            begins_chain = words[start - 1] != "JOIN"
            kind = "" if begins_chain else _kind(text, start)
            using = end if words[end] == "USING" and words[end + 1] == "(" and end in self._from else None
            names = [] if using is None else [text.name(i) for i in range(end + 2, text.closing(end + 1), 2)]
            yield _Relation(begins_chain, self._qualify(start, end - 1), kind, using, names)

    def _qualify(self, first: int, last: int) -> str | None:
        """Return the name of the relation that two tokens enclose; None if it has none."""
        text, words = self._text, self._text.words
        name = first
        while words[name + 1] == ".":
            name += 2
        if text.is_name(name):
            called = text.closing(name + 1) if words[name + 1] == "(" else name
            as_of = read_as_of(text, name + 1) if words[name + 1] in AS_OF_STARTS else None
            if last in {called, as_of[1] - 1 if as_of else called}:
                return quote(text.name(name))  # of a table, or of the function that makes it
        if words[last] == ")":
            opening = next((i for i in range(last, 0, -1) if words[i] == "(" and text.closing(i) == last), 0)
            if words[opening - 2] not in {"AS", ")"}:
                return None
            last = opening - 1
        return quote(text.name(last)) if text.is_name(last) else None

    def _find_values(self) -> Mapping[str, str | None]:
        """Return the name of each column of a USING -> its value; None if it can't be told."""
        values: dict[str, str | None] = {}
        left: list[str | None] = []
        for one in self._relations:
            left = [] if one.begins_chain else left
            for name in one.names if one.kind not in _ONE_SIDED else ():
                alone = f"{left[0]}.{quote(name)}" if len(left) == 1 and left[0] else None
                value = values.get(name, alone)
                if name in self._merged or (
                    one.kind in _MERGING and (name in values or value is None or one.qualifier is None)
                ):
                    assert one.using is not None  # noqa: S101 - it has names
                    raise _refusal(self._text, one.using)
                if one.kind in _MERGING:
                    right = f"{one.qualifier}.{quote(name)}"
                    value = right if one.kind == "RIGHT" else f"coalesce({value}, {right})"
                    self._merged[name] = value
                values[name] = value
            if one.kind not in _ONE_SIDED:
                left.append(one.qualifier)
        return values

    def write(self) -> Iterator[Edit]:
        """Yield the edits of the columns."""
        if not self._values:
            return
        text = self._text
        names: set[str | None] = set()
        for output in self._outputs:
            expression, alias = split_alias(text, output)
            if text.words[output.start] == "*":
                names.update(self._values)
                yield from self._write_star(output)
            elif len(expression) == 1 and alias is None:
                names.add(text.name(expression.start))
                yield from self._write_names(expression, shows=True)
            else:
                names.add(alias)
                yield from self._write_names(expression)
        distinct = range(self._operand.start + 1, self._outputs[0].start)
        yield from self._write_names(distinct)
        for i in outside(text, self._from):
            if i > min(self.read) and _is_column(text, i, self._merged):
                raise _refusal(text, i)
        yield from self._write_names(range(self._from.stop, self._operand.stop))
        if len(self._body.operands) == 1:
            for key in find_sort_keys(text, self._body.tail):
                # An output's name stands for the output; but DataFusion compares the words of DISTINCT ON.
                yield from self._write_names(key, without=() if len(distinct) > 1 else names)

    def _write_star(self, star: range) -> Iterator[Edit]:
        text = self._text
        options = text.words[star.start + 1 : star.stop]
        if options and (options[0] not in {"EXCLUDE", "EXCEPT"} or "REPLACE" in options):
            raise _refusal(text, star.start)
        left_out = {text.name(i) for i in star[1:]}
        kept = [name for name in self._values if name not in left_out]
        shown = [
            f"{value} AS {quote(name)}"
            for name, value in self._values.items()
            if value and name not in left_out
        ]
        if not options and not any(one.qualifier is None or one.kind == "NATURAL" for one in self._relations):
            yield Edit.replace(text.start(star.start), text.end(star.start), ", ".join(self._write_stars()))
        elif shown and len(shown) == len(kept):
            yield Edit.insert(text.end(star.stop - 1), f" REPLACE ({', '.join(shown)})")
        elif kept:
            raise _refusal(text, star.start)

    def _write_stars(self) -> Iterator[str]:
        """Yield the star of each relation, with the columns of USING where those of the left stand."""
        merged = [f"{value} AS {quote(name)}" for name, value in self._merged.items()]
        for one in self._relations:
            if one.kind in _ONE_SIDED:
                continue
            options = f" EXCLUDE ({', '.join(map(quote, one.names))})" if one.names else ""
            if one.begins_chain and merged:
                options += f" REPLACE ({', '.join(merged)})"
            yield f"{one.qualifier}.*{options}"

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
                value = self._values[name]
                if value is not None:
                    shown = f" AS {quote(name)}" if shows else ""
                    yield Edit.replace(text.start(at), text.end(at), f"{value}{shown}")
            at += 1


def _refusal(text: SqlText, at: int) -> UnsupportedError:
    message = (
        "USING of a RIGHT or FULL JOIN beside other joins, or of relations in brackets or without a name, "
        "is not offered: write ON, and coalesce(a.k, b.k) for its column; it stands"
    )
    return UnsupportedError(PlacedMessage(text.sql, text.start(at), message))
