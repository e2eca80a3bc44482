"""Names of other dialects: which of them are the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from planner.sql.dialects.source import DialectSource

CASE_INSENSITIVE = frozenset({"spark", "duckdb", "mysql", "bigquery", "trino"})
"""Dialects in which a name finds what is written with other capitals, in quotes, too."""


class NamedTable(Protocol):
    """What must be known of a table to resolve names with it."""

    @property
    def declared_schema(self) -> pa.Schema:
        """Its columns, as it declares them."""

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Its key columns, in key order; () where it has none."""


class KnownNames(Protocol):
    """What tables there are, and their columns."""

    def find(self, name: str) -> NamedTable | None:
        """The table of this name; None where there is none."""

    def names(self) -> Sequence[str]:
        """All tables and views, for messages too."""


def find_tables(tree: exp.Expr) -> tuple[str, ...]:
    """Tables and views that a statement names, as it names them."""
    own = {one.alias.lower() for one in tree.find_all(exp.CTE)}
    names = (table.name for table in tree.find_all(exp.Table))
    return tuple(sorted({name for name in names if name and name.lower() not in own}))


def find_spellings(named: Sequence[str], known: KnownNames) -> tuple[str, ...]:
    """How the tables that a statement names, and their columns, are spelt."""
    found: set[str] = set()
    for name in named:
        table = find_table(name, known)
        if table is not None:
            found |= {table[0], *table[1].names}
    return tuple(sorted(found))


def find_table(name: str, known: KnownNames) -> tuple[str, pa.Schema] | None:
    """The table that a name means, whatever its capitals; None where there is none, or several."""
    for candidate in dict.fromkeys((name, name.lower())):
        table = known.find(candidate)
        if table is not None:
            return candidate, table.declared_schema
    like = (other for other in known.names() if other.lower() == name.lower())
    same = [(other, table.declared_schema) for other in like if (table := known.find(other)) is not None]
    return same[0] if len(same) == 1 else None


def spell(tree: exp.Expr, source: DialectSource, names: Sequence[str]) -> None:
    """Quote all names of a statement, each spelt as what it names.

    A name that nothing has is taken as written where it is quoted, and in lower case where it is not.

    Args:
        tree: the statement.
        source: its text.
        names: of tables and columns that it may name, where the dialect finds them whatever the capitals.
    """
    options: dict[str, set[str]] = {}
    for name in names:
        options.setdefault(name.lower(), set()).add(name)
    aliases: dict[str, str] = {}
    identifiers = list(tree.find_all(exp.Identifier))
    if source.dialect in CASE_INSENSITIVE:
        aliases = {one.name.lower(): one.name for one in identifiers if one.arg_key == "alias" and one.quoted}
    for one in identifiers:
        text = one.name
        known = options.get(text.lower(), set())
        if not known and text.lower() in aliases and _orders(one):
            text = aliases[text.lower()]
        elif not (one.quoted and (text in known or not known)):
            text = next(iter(known)) if len(known) == 1 else text.lower()
        one.set("this", text)
        one.args["quoted"] = True


def _orders(name: exp.Identifier) -> bool:
    """Whether a name stands in the ORDER BY of a query, where it may be one that the query gave."""
    order = name.find_ancestor(exp.Order)
    return order is not None and isinstance(order.parent, exp.Query)
