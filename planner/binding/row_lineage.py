"""Finds the tables whose row lineage a statement names, and excludes these columns from *.

    SELECT *, _rowid FROM t
->  SELECT * EXCLUDE ("_rowid", "_row_created_at_version", "_row_last_updated_at_version"), _rowid FROM t

The columns are read by name only. A table has them where the statement names one in the SELECT that reads the
table, or in a subquery of that SELECT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.text.edits import Edit
from lance_gateway.planner.sql.text.references import TableSite
from lance_gateway.planner.sql.text.tokens import PlacedMessage, SqlText, quote
from lance_gateway.planner.sql.tree.dialect import find_query, parse_query
from lance_gateway.planner.sql.tree.tree import read_name

LINEAGE_WORDS: Final = frozenset({"_ROWID", "_ROW_CREATED_AT_VERSION", "_ROW_LAST_UPDATED_AT_VERSION"})


class LineageScopes:
    """The SELECTs of a text that names columns of row lineage.

    Args:
        text: of the statement, or of a view.

    Raises:
        UnsupportedError: sqlglot does not read the text.
    """

    def __init__(self, text: SqlText) -> None:
        self._text = text
        self._begin = find_query(text.sql)
        root = parse_query(text.sql[self._begin :])
        if root is None:
            words = (i for i, name in text.names.items() if name.upper() in LINEAGE_WORDS)
            message = "Row lineage is not supported beside the syntax of this statement; it is read"
            raise UnsupportedError(PlacedMessage(text.sql, text.start(next(words, 0)), message))
        self._tables = {self._find_place(one.this): one for one in root.find_all(exp.Table)}
        self._named = [one for one in root.find_all(exp.Column) if one.name.upper() in LINEAGE_WORDS]

    def names_lineage_of(self, site: TableSite) -> bool:
        """Return whether the text may name columns of row lineage of a table."""
        table = self._find_table(site)
        if table is None:
            return False
        home, called = table.parent_select, _find_alias(table)
        for column in self._named:
            qualifier = column.args.get("table")
            if qualifier is None or read_name(qualifier) == called:
                select = column.find_ancestor(exp.Select, exp.CTE)
                while isinstance(select, exp.Select):
                    if select is home:
                        return True
                    select = select.find_ancestor(exp.Select, exp.CTE)
        return False

    def hide(self, sites: Sequence[tuple[TableSite, Sequence[str]]]) -> Iterator[Edit]:
        """Yield edits that exclude columns from *.

        Args:
            sites: that have columns of row lineage, with these.

        Raises:
            UnsupportedError: the columns of several tables would have one name.
        """
        by_home: dict[int, tuple[exp.Select, dict[str, Sequence[str]]]] = {}
        for site, columns in sites:
            table = self._find_table(site)
            home = None if table is None else table.parent_select
            if table is not None and home is not None:
                _, among = by_home.setdefault(id(home), (home, {}))
                if among:
                    self._refuse_mixed(home)
                among[_find_alias(table)] = columns
        for home, among in by_home.values():
            for output in home.expressions:
                if output.is_star:
                    table = output.args.get("table")
                    first = next(iter(among.values()))
                    columns = first if table is None else among.get(read_name(table), ())
                    if columns:
                        yield self._exclude(
                            output.this if isinstance(output, exp.Column) else output, columns
                        )

    def _refuse_mixed(self, home: exp.Select) -> None:
        """Refuse * and NATURAL where several tables have columns of row lineage.

        Raises:
            UnsupportedError: one of them is in the SELECT.
        """
        stars = [one for one in home.expressions if isinstance(one, exp.Star)]
        natural = [one.this.this for one in home.args.get("joins") or () if one.method == "NATURAL"]
        for at, what in ((stars, "* "), (natural, "NATURAL ")):
            if at:
                instead = "name the columns, as in a.*, b.*" if at is stars else "write USING"
                message = f"{what}beside columns of row lineage of several tables is ambiguous ({instead})"
                raise UnsupportedError(PlacedMessage(self._text.sql, self._find_place(at[0]), message))

    def _exclude(self, star: exp.Expr, columns: Sequence[str]) -> Edit:
        text, place = self._text, self._find_place(star)
        at = next(i for i, token in enumerate(text.tokens) if token.start == place)
        listed, first = ", ".join(map(quote, columns)), at + 2
        if not star.args.get("except_"):
            return Edit.insert(text.end(at), f" EXCLUDE ({listed})")
        if text.words[first] == "(":
            return Edit.insert(text.end(first), f"{listed}, ")
        return Edit.replace(text.start(first), text.end(first), f"({listed}, {quote(text.name(first))})")

    def _find_table(self, site: TableSite) -> exp.Table | None:
        return self._tables.get(self._text.start(site.first + 2 * (len(site.parts) - 1)))

    def _find_place(self, node: exp.Expr) -> int:
        return self._begin + int(node.meta.get("start", -1 - self._begin))


def _find_alias(table: exp.Table) -> str:
    alias = table.args.get("alias")
    return read_name(alias.this if alias is not None else table.this)
