"""Finds the tables whose row lineage a statement names, and keeps it out of what * stands for.

    SELECT *, _rowid FROM t
->  SELECT * EXCLUDE ("_rowid", "_row_created_at_version", "_row_last_updated_at_version"), _rowid FROM t

The columns are read by name only. A table has them where the statement names one in the SELECT that reads the
table, or in a subquery of that SELECT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.text.edits import Edit
from lance_gateway.planner.sql.text.references import References, TableSite
from lance_gateway.planner.sql.text.tokens import PlacedMessage, SqlText, quote

LINEAGE_WORDS: Final = frozenset({"_ROWID", "_ROW_CREATED_AT_VERSION", "_ROW_LAST_UPDATED_AT_VERSION"})
_LISTS: Final = frozenset({"EXCLUDE", "EXCEPT"})
_STARTS: Final = frozenset({"SELECT", "WITH", "VALUES"})
_SET_OPERATIONS: Final = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})
_TAILS: Final = frozenset({"ORDER", "LIMIT", "OFFSET", "FETCH"})
_AFTER_OUTPUTS: Final = _TAILS | frozenset({"FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "INTO"})
_OPENERS: Final = frozenset({"(", "[", "{", "CASE"})
_CLOSERS: Final = frozenset({")", "]", "}", "END"})


class LineageScopes:
    """The SELECTs of a text that names columns of row lineage.

    Args:
        text: of the statement, or of a view.
        references: of the text.
    """

    def __init__(self, text: SqlText, references: References) -> None:
        self._text = text
        self._bodies = _find_bodies(text)
        self._operands = [operand for body in self._bodies for operand in body.operands]
        names = [i for i, name in text.names.items() if name.upper() in LINEAGE_WORDS]
        self._named = [i for i in names if text.words[i - 1] != "AS" and text.words[i + 1] != "("]
        self._homes = {site.first: self._find_home(site.first) for site in references.tables}

    def names_lineage_of(self, site: TableSite) -> bool:
        """Return whether the text may name columns of row lineage of a table."""
        home, called = self._homes[site.first], self._find_alias(site)
        for i in self._named:
            qualifier = self._text.names.get(i - 2) if self._text.words[i - 1] == "." else None
            is_meant = qualifier is None or called is None or qualifier == called
            if is_meant and home in self._find_around(i):
                return True
        return False

    def hide(self, tables: Sequence[tuple[TableSite, Sequence[str]]]) -> Iterator[Edit]:
        """Yield edits that keep columns out of what * stands for.

        Args:
            tables: that have columns of row lineage, with these.

        Raises:
            UnsupportedError: the columns of several tables can't be told apart.
        """
        by_home: dict[range, dict[str | None, Sequence[str]]] = {}
        for site, columns in tables:
            home = self._homes[site.first]
            among = by_home.setdefault(home, {})
            if among:
                self._refuse_mixed(home)
            among[self._find_alias(site)] = columns
        for home, among in by_home.items():
            for output in _find_outputs(self._text, home):
                star = self._find_star(output)
                called = None if star in {None, output.start} else self._text.name(star - 2)
                (first, *_) = among.values()
                columns = first if called is None else among.get(called, among.get(None, ()))
                if star is not None and columns:
                    yield self._exclude(star, output, columns)

    def _refuse_mixed(self, home: range) -> None:
        """Refuse * and NATURAL where several tables have columns of row lineage.

        Raises:
            UnsupportedError: one of them stands in the SELECT.
        """
        text = self._text
        stars = [one.start for one in _find_outputs(text, home) if text.words[one.start] == "*"]
        natural = [i for i in _outside(text, home) if text.words[i] == "NATURAL"]
        for at, instead in ((stars, "name the columns, as in a.*, b.*"), (natural, "write USING")):
            if at:
                what = f"{text.words[at[0]]} beside columns of row lineage of several tables"
                message = f"{what} is ambiguous ({instead}); it stands"
                raise UnsupportedError(PlacedMessage(text.sql, text.start(at[0]), message))

    def _find_star(self, output: range) -> int | None:
        """Return the token of an output that is * or a.*; None if it is something else."""
        text, i = self._text, output.start
        while text.is_name(i) and text.words[i + 1] == ".":
            i += 2
        return i if text.words[i] == "*" else None

    def _exclude(self, star: int, output: range, columns: Sequence[str]) -> Edit:
        text, words = self._text, self._text.words
        listed, first = ", ".join(map(quote, columns)), star + 2
        if words[star + 1] not in _LISTS or star + 1 >= output.stop:
            return Edit.insert(text.end(star), f" EXCLUDE ({listed})")
        if words[first] == "(":
            return Edit.insert(text.end(first), f"{listed}, ")
        return Edit.replace(text.start(first), text.end(first), f"({listed}, {quote(text.name(first))})")

    def _find_home(self, token: int) -> range:
        """Return the innermost SELECT that has a token."""
        return min(
            (one for one in self._operands if token in one), key=len, default=range(len(self._text.words))
        )

    def _find_around(self, token: int) -> Sequence[range]:
        """Return the SELECTs whose tables an expression at a token may read."""
        sorted_by = [
            body.operands[0] for body in self._bodies if token in body.tail and len(body.operands) == 1
        ]
        return [*sorted_by, *(one for one in self._operands if token in one)]

    def _find_alias(self, site: TableSite) -> str | None:
        """Return the name of a table in the text; None where that is not plain."""
        if not site.has_alias:
            return site.parts[-1]
        behind = site.last + 1 + (self._text.words[site.last + 1] == "AS")
        return self._text.names.get(behind)


@dataclass(frozen=True, slots=True)
class _QueryBody:
    """A query, with all that belongs to it alone.

    Attributes:
        tokens: of the query.
        operands: SELECTs, VALUES and bracketed queries between its set operators.
        tail: ORDER BY, LIMIT and what follows.
    """

    tokens: range
    operands: Sequence[range]
    tail: range


def _find_bodies(text: SqlText) -> Sequence[_QueryBody]:
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


def _read_body(text: SqlText, tokens: range) -> _QueryBody:
    words = text.words
    at = _skip_common_tables(text, tokens)
    operands = []
    begin, end = at, tokens.stop
    for i in _outside(text, range(at, tokens.stop)):
        word = words[i]
        if word in _TAILS:
            end = i
            break
        if word in _SET_OPERATIONS and not (words[i - 1] == "*" and words[i + 1] == "("):
            operands.append(range(begin, i))
            begin = i + 1 + (words[i + 1] in {"ALL", "DISTINCT"})
    operands.append(range(begin, end))
    return _QueryBody(tokens, operands, range(end, tokens.stop))


def _skip_common_tables(text: SqlText, tokens: range) -> int:
    """Return the token behind WITH and its definitions."""
    words, at = text.words, tokens.start
    if words[at] != "WITH":
        return at
    at += 1 + (words[at + 1] == "RECURSIVE")
    while text.is_name(at):
        at += 1
        if words[at] == "(":
            at = _behind(text, at)
        while words[at] in {"AS", "NOT", "MATERIALIZED"}:
            at += 1
        if words[at] != "(":
            break
        at = _behind(text, at)
        if words[at] != ",":
            break
        at += 1
    return at


def _behind(text: SqlText, opening: int) -> int:
    """Return the token behind a bracket; the end of the text if nothing closes it."""
    return min(text.closing(opening) + 1, len(text.words) - 1)


def _find_outputs(text: SqlText, operand: range) -> Sequence[range]:
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
    for i in _outside(text, range(at, operand.stop)):
        if words[i] in _AFTER_OUTPUTS and not (words[i] == "FROM" and words[i - 1] == "DISTINCT"):
            end = i
            break
    outputs, begin = [], at
    for i in _outside(text, range(at, end)):
        if words[i] == ",":
            outputs.append(range(begin, i))
            begin = i + 1
    return [*outputs, range(begin, end)]


def _outside(text: SqlText, tokens: range) -> Iterator[int]:
    """Yield the tokens of a range that are outside of brackets and CASE, and no columns behind a dot."""
    depth = 0
    for i in tokens:
        word = text.words[i]
        if text.words[i - 1] == "." and i > tokens.start:
            continue
        depth += (word in _OPENERS) - (word in _CLOSERS)
        if depth == 0:
            yield i
