"""Resolves the case of names in other dialects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TableName
from lance_gateway.planner.sql.dialects.source import DialectSource
from lance_gateway.planner.sql.text.as_of import AsOf

CASE_INSENSITIVE = frozenset({"spark", "duckdb", "mysql", "bigquery", "trino"})
"""Dialects in which names are not case-sensitive, not even in quotes."""


class NamedTable(Protocol):
    """A table with the facts that are needed to resolve names."""

    @property
    def declared_schema(self) -> pa.Schema:
        """Return the columns as the table declares them."""

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Return the key columns, in key order; () if there are none."""

    @property
    def lineage_columns(self) -> tuple[str, ...]:
        """Return the columns of row lineage, which are only read by their names."""


class KnownNames(Protocol):
    """The tables of a catalog with their columns."""

    def find(self, name: TableName) -> NamedTable | None:
        """Return the table of this name, or None."""

    def names(self, schema: str | None = None) -> Sequence[TableName]:
        """Return the names of all tables and views, or of those of a schema."""


@runtime_checkable
class PastResolver(Protocol):
    """The tables of a catalog, with past versions of tables."""

    def table(self, name: TableName, as_of: AsOf | None = None) -> NamedTable:
        """Return a past version of a base table."""


def find_tables(tree: exp.Expr, schema: str = MAIN_SCHEMA) -> tuple[TableName, ...]:
    """Return the names of tables and views in a statement, as they are written.

    Args:
        tree: the statement.
        schema: of names without one.
    """
    common_tables = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    tables = (table for table in tree.find_all(exp.Table) if table.name)
    return tuple(
        sorted(
            {
                TableName.qualify(table.name, table.db, schema)
                for table in tables
                if table.db or table.name.lower() not in common_tables
            }
        )
    )


def find_spellings(named: Sequence[TableName], known: KnownNames) -> tuple[str, ...]:
    """Return the spellings of the tables that a statement names, and of their columns."""
    spellings: set[str] = set()
    for name in named:
        table = find_table(name, known)
        if table is not None:
            spellings |= {table[0].table, *table[1].names}
    return tuple(sorted(spellings))


def find_table(name: TableName, known: KnownNames) -> tuple[TableName, pa.Schema] | None:
    """Find a table by its name in any case; return None if there is none, or several."""
    lower = TableName(name.table.lower(), name.schema.lower())
    for candidate in dict.fromkeys((name, lower)):
        table = known.find(candidate)
        if table is not None:
            return candidate, table.declared_schema
    like = (other for other in known.names(lower.schema) if other.lower() == lower)
    same = [(other, table.declared_schema) for other in like if (table := known.find(other)) is not None]
    return same[0] if len(same) == 1 else None


def spell(tree: exp.Expr, source: DialectSource, names: Sequence[str]) -> None:
    """Quote all names of a statement, in the spelling of the tables and columns that they refer to.

    Other names are left as they are if they are quoted, and otherwise get lower case.

    Args:
        tree: the statement.
        source: its text.
        names: spellings of tables and columns, if names of the dialect are not case-sensitive.
    """
    options: dict[str, set[str]] = {}
    for name in names:
        options.setdefault(name.lower(), set()).add(name)
    aliases: dict[str, str] = {}
    identifiers = list(tree.find_all(exp.Identifier))
    if source.dialect in CASE_INSENSITIVE:
        aliases = {
            identifier.name.lower(): identifier.name
            for identifier in identifiers
            if identifier.arg_key == "alias" and identifier.quoted
        }
    for identifier in identifiers:
        text = identifier.name
        spellings = options.get(text.lower(), set())
        if not spellings and text.lower() in aliases and _is_sort_key(identifier):
            text = aliases[text.lower()]
        elif not (identifier.quoted and (text in spellings or not spellings)):
            text = next(iter(spellings)) if len(spellings) == 1 else text.lower()
        identifier.set("this", text)
        identifier.args["quoted"] = True


def _is_sort_key(name: exp.Identifier) -> bool:
    """Return whether a name is in the ORDER BY of a query, where it may be an alias of the query."""
    order = name.find_ancestor(exp.Order)
    return order is not None and isinstance(order.parent, exp.Query)
