"""Finds the tables whose row lineage a statement names, and keeps it out of what * stands for.

    SELECT *, _rowid FROM t
->  SELECT * EXCLUDE ("_rowid", "_row_created_at_version", "_row_last_updated_at_version"), _rowid FROM t

The columns are read by name only. A table has them where the statement names one in the SELECT that reads the
table, or in a subquery of that SELECT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from memwal.errors import UnsupportedError
from planner.sql.edits import Edit
from planner.sql.query_bodies import find_bodies, find_outputs, outside
from planner.sql.references import References, TableSite
from planner.sql.tokens import PlacedMessage, SqlText, quote

LINEAGE_WORDS: Final = frozenset({"_ROWID", "_ROW_CREATED_AT_VERSION", "_ROW_LAST_UPDATED_AT_VERSION"})
_LISTS: Final = frozenset({"EXCLUDE", "EXCEPT"})


class LineageScopes:
    """The SELECTs of a text that names columns of row lineage.

    Args:
        text: of the statement, or of a view.
        references: of the text.
    """

    def __init__(self, text: SqlText, references: References) -> None:
        self._text = text
        self._bodies = find_bodies(text)
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
            for output in find_outputs(self._text, home):
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
        stars = [one.start for one in find_outputs(text, home) if text.words[one.start] == "*"]
        natural = [i for i in outside(text, home) if text.words[i] == "NATURAL"]
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
