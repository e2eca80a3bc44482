"""Finds the tables whose row lineage a query names, and excludes these columns from *.

    SELECT *, _rowid FROM t
->  SELECT * EXCLUDE ("_rowid", "_row_created_at_version", "_row_last_updated_at_version"), _rowid FROM t

The columns are read by name only. A table has them where the query names one in the SELECT that reads the
table, or in a subquery of that SELECT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.tree.tree import Tree, read_name

LINEAGE_WORDS: Final = frozenset({"_ROWID", "_ROW_CREATED_AT_VERSION", "_ROW_LAST_UPDATED_AT_VERSION"})


def names_lineage_of(table: exp.Table, columns: Iterable[exp.Column]) -> bool:
    """Return whether columns that a query names may be those of row lineage of a table that it reads."""
    home, called = table.parent_select, _find_alias(table)
    for column in columns:
        if column.name.upper() not in LINEAGE_WORDS:
            continue
        qualifier = column.args.get("table")
        if qualifier is None or read_name(qualifier) == called:
            select = column.find_ancestor(exp.Select, exp.CTE)
            while isinstance(select, exp.Select):
                if select is home:
                    return True
                select = select.find_ancestor(exp.Select, exp.CTE)
    return False


def hide_lineage(tree: Tree, tables: Sequence[tuple[exp.Table, Sequence[str]]]) -> None:
    """Exclude columns of row lineage from *.

    Args:
        tree: of the query.
        tables: that have columns of row lineage, with these.

    Raises:
        UnsupportedError: the columns of several tables would have one name.
    """
    by_home: dict[int, tuple[exp.Select, dict[str, Sequence[str]]]] = {}
    for table, columns in tables:
        home = table.parent_select
        if isinstance(home, exp.Select):
            _, among = by_home.setdefault(id(home), (home, {}))
            if among:
                _refuse_mixed(tree, home)
            among[_find_alias(table)] = columns
    for home, among in by_home.values():
        for output in home.expressions:
            if not output.is_star:
                continue
            star = output.this if isinstance(output, exp.Column) else output
            qualifier = output.args.get("table")
            columns = next(iter(among.values())) if qualifier is None else among.get(read_name(qualifier), ())
            if columns:
                excluded = [exp.to_identifier(name, quoted=True) for name in columns]
                star.set("except_", [*excluded, *(star.args.get("except_") or ())])
                tree.note_change()


def _refuse_mixed(tree: Tree, home: exp.Select) -> None:
    """Refuse * and NATURAL where several tables have columns of row lineage.

    Raises:
        UnsupportedError: one of them is in the SELECT.
    """
    stars = [one for one in home.expressions if isinstance(one, exp.Star)]
    natural = [one.this for one in home.args.get("joins") or () if one.method == "NATURAL"]
    for at, what in ((stars, "* "), (natural, "NATURAL ")):
        if at:
            instead = "name the columns, as in a.*, b.*" if at is stars else "write USING"
            message = f"{what}beside columns of row lineage of several tables is ambiguous ({instead})"
            raise tree.error(at[0], message, UnsupportedError)


def _find_alias(table: exp.Table) -> str:
    alias = table.args.get("alias")
    return read_name(alias.this if alias is not None and alias.this is not None else table.this)
