"""Resolves the names in a statement, and gives its tables private names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

import pyarrow as pa

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    UnsupportedError,
    copy_error,
)
from lance_gateway.memwal.storage.table_names import CATALOG, TableName
from lance_gateway.planner.access.unknown_names import unknown_name_error
from lance_gateway.planner.access.visible_catalog import SYSTEM_SCHEMA
from lance_gateway.planner.binding.bound_statement import ComparedState, TableReference, VectorsStatement
from lance_gateway.planner.bridge.distance_functions import is_vector_type
from lance_gateway.planner.search.search_call import SearchCall
from lance_gateway.planner.sql.dialects.names import KnownNames, NamedTable, PastResolver
from lance_gateway.planner.sql.rules.subqueries import QUALIFIER
from lance_gateway.planner.sql.text.as_of import AsOf
from lance_gateway.planner.sql.text.edits import Edit
from lance_gateway.planner.sql.text.references import QUERY_STARTS, References, TableSite
from lance_gateway.planner.sql.text.tokens import SqlText, fold, quote, tokenize
from lance_gateway.planner.system.catalogs.information_schema import DATAFUSION_TABLES
from lance_gateway.planner.system.catalogs.relations import INFORMATION_SCHEMA, PG_CATALOG
from lance_gateway.planner.system.catalogs.tables import CATALOG_TABLES, name_leaf
from lance_gateway.planner.tables.state.extended_tables import split_extension

_NOT_PLAIN = re.compile("[^a-z0-9_]")
_MAX_VIEWS = 64


class NameResolver(KnownNames, Protocol):
    """Resolves names, which are exact: the binder folds unquoted names to lower case."""

    def view_sql(self, name: TableName) -> str | None:
        """Return the SELECT statement of a view; None if there is no view of this name."""

    def view_path(self, name: TableName) -> str:
        """Return the schema of names without one in a view."""

    def has_schema(self, schema: str) -> bool:
        """Return whether a schema exists."""

    def system_tables(self) -> tuple[str, ...]:
        """Return the names of tables of the schema `system`."""


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A `NamedTable` that has only its columns."""

    declared_schema: pa.Schema
    primary_key: tuple[str, ...] = ()
    lineage_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meaning:
    """The object that a name refers to.

    Attributes:
        name: within its schema.
        table: in the catalog; None for others.
        view: SELECT of a view; "" for others.
        leaf: name in the text for DataFusion of a table of information_schema or pg_catalog; "" for others.
    """

    name: TableName
    table: NamedTable | None
    view: str = ""
    leaf: str = ""


@dataclass(frozen=True, slots=True)
class ViewTrail:
    """The views that are being expanded, outermost first.

    SELECT * FROM recent AS r
    ->  SELECT * FROM (SELECT * FROM "orders#1" AS "orders" WHERE ...) AS r
    """

    names: tuple[TableName, ...] = ()
    schema: str | None = None
    """That of names without one in the innermost view; None outside of views."""

    def enter(self, name: TableName, schema: str) -> ViewTrail:
        """Return the trail inside one more view.

        Args:
            name: of the view.
            schema: of names without one in it.

        Raises:
            InvalidInputError: the view is already being expanded; the message shows the cycle.
        """
        if name in self.names:
            cycle = " -> ".join([*self.names[self.names.index(name) :], name])
            raise InvalidInputError(f"The view {name!r} refers to itself: {cycle}; change one of these views")
        if len(self.names) >= _MAX_VIEWS:
            raise InvalidInputError(f"The view {name!r} stands on more than {_MAX_VIEWS} layers of views")
        return ViewTrail((*self.names, name), schema)

    def read(self, sql: str) -> SqlText:
        """Tokenize the text of the innermost view, which must be one query without parameters.

        Raises:
            InvalidInputError: the text is not valid; the message names the view.
        """
        try:
            text = tokenize(sql)
        except LanceGatewayError as error:
            raise self.error(str(error)) from error
        if text.words[0] not in QUERY_STARTS and text.words[0] != "(":
            raise self.error(f"a view is one SELECT statement, and this begins with {text.tokens[0].text!r}")
        for index, word in enumerate(text.words):
            if word in {"?", "$"}:
                raise self.error(str(text.error(index, "a view has no parameters")))
        return text

    def error(self, message: str) -> InvalidInputError:
        """Return an error about the text of the innermost view."""
        return InvalidInputError(f"View {self.names[-1]!r}: {message}")


class StatementNames:
    """The names of one statement, its views included.

    Attributes:
        references: the tables that it reads, in order of appearance.
        system_tables: tables of the schema `system` that it names.
        catalog_tables: names in the text for DataFusion of tables of information_schema and pg_catalog.
        common_tables: names of its common table expressions.
        schema: of names without one, outside of views.

    Args:
        resolver: resolves table names.
    """

    def __init__(self, resolver: NameResolver, schema: str) -> None:
        self.references: list[TableReference] = []
        self.system_tables: set[str] = set()
        self.catalog_tables: set[str] = set()
        self.common_tables: set[str] = set()
        self.resolver = resolver
        self.schema = schema
        self._counts: dict[str, int] = {}

    def resolve(self, site: TableSite, text: SqlText, trail: ViewTrail) -> Meaning | None:
        """Resolve a table name; return None for a table that DataFusion resolves itself.

        Raises:
            LanceGatewayError: the name does not exist; the message names the view in which it stands.
        """
        try:
            return self._resolve(site, text, trail.schema or self.schema)
        except LanceGatewayError as error:
            if trail.names:
                raise copy_error(error, f"View {trail.names[-1]!r}: {error}") from error
            raise

    def _resolve(self, site: TableSite, text: SqlText, schema: str) -> Meaning | None:
        *qualifiers, name = site.parts
        if len(qualifiers) > 2:
            message = "A table's name has at most three parts (catalog.schema.table)"
            raise text.error(site.first, f"{message}, not {'.'.join(site.parts)!r}")
        if len(qualifiers) == 2 and qualifiers[0] != CATALOG:
            raise NotFoundError(f"Catalog {qualifiers[0]!r} does not exist; the only one is {CATALOG!r}")
        full_name = _name_of_site(site, schema)
        if full_name.schema in CATALOG_TABLES:
            if full_name.schema == INFORMATION_SCHEMA and name in DATAFUSION_TABLES:
                return None
            return self._resolve_in_catalog(full_name)
        if full_name.schema == SYSTEM_SCHEMA:
            system_tables = self.resolver.system_tables()
            if name not in system_tables:
                listed = ", ".join(system_tables) or "none"
                raise NotFoundError(f"Table {SYSTEM_SCHEMA}.{name} does not exist; that schema has {listed}")
            self.system_tables.add(name)
            return None
        table = self.resolver.find(full_name)
        if table is not None:
            return Meaning(full_name, table)
        view = self.resolver.view_sql(full_name)
        if view is None:
            raise unknown_name_error(full_name, self.resolver)
        return Meaning(full_name, None, view)

    def find_aliases(self, references: References, text: SqlText, schema: str) -> Mapping[TableName, str]:
        """Return the aliases of tables that have the name of a table of another schema.

        SELECT a.t.id FROM a.t, b.t  ->  SELECT "a.t".id FROM "t#1" AS "a.t", "t#2" AS "b.t"

        Others are called by their name without the schema. So are these where the statement calls one of them
        so, and none by its whole name.

        Args:
            references: of the text.
            text: of the statement, or of a view.
            schema: of names without one.
        """
        named: dict[str, set[TableName]] = {}
        for site in references.tables:
            if site.common_table is None and not site.has_alias:
                named.setdefault(site.parts[-1], set()).add(_name_of_site(site, schema))
        shared = {name: among for name, among in named.items() if len(among) > 1}
        if not shared:
            return {}
        whole = {chain.parts[-3:-1] for chain in references.chains}
        whole |= {chain.parts[:2] for chain in references.chains}
        return {
            one: f"{one.schema}.{one.table}"
            for table, among in shared.items()
            if any((other.schema, table) in whole for other in among) or not _is_qualifier(text, table)
            for one in among
        }

    def _resolve_in_catalog(self, full_name: TableName) -> Meaning:
        schema, name = full_name.schema, full_name.table
        tables = CATALOG_TABLES[schema]
        if name not in tables:
            near = get_close_matches(name, tables, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(tables)}"
            raise NotFoundError(f"Table {schema}.{name} does not exist; {hint}")
        leaf = name_leaf(tables[name])
        self.catalog_tables.add(leaf)
        return Meaning(full_name, None, leaf=leaf)

    def add_reference(
        self,
        table: TableName,
        search: SearchCall | None = None,
        vectors: VectorsStatement | None = None,
        as_of: AsOf | None = None,
        compared: ComparedState | None = None,
    ) -> str:
        """Add a reference to a table, or to the result of a search, and return its private name.

        The name never equals that of a CTE, which would capture it.
        """
        stem = _NOT_PLAIN.sub("_", fold(split_extension(table)[0].table))
        stem = f"_{stem}" if stem[:1].isdigit() else stem
        number = self._counts.get(stem, 0) + 1
        while f"{stem}#{number}" in self.common_tables:
            number += 1
        self._counts[stem] = number
        self.references.append(TableReference(f"{stem}#{number}", table, search, vectors, as_of, compared))
        return f"{stem}#{number}"

    def table_schema(self, table: TableName, as_of: AsOf | None) -> pa.Schema:
        """Return the columns of a table that was resolved.

        Raises:
            LanceGatewayError: the table has no such past version.
        """
        return self._find_version(table, as_of).declared_schema

    def find_lineage_columns(self, table: TableName, as_of: AsOf | None) -> Sequence[str]:
        """Return the columns of row lineage of a table that was resolved.

        Raises:
            LanceGatewayError: the table has no such past version.
        """
        return self._find_version(table, as_of).lineage_columns

    def _find_version(self, table: TableName, as_of: AsOf | None) -> NamedTable:
        if as_of is not None:
            if not isinstance(self.resolver, PastResolver):
                raise UnsupportedError(
                    f"Table {table!r} is read as it is here, and not as of a version or a time"
                )
            return self.resolver.table(table, as_of)
        named = self.resolver.find(table)
        if named is None:  # dropped since its name was resolved
            raise unknown_name_error(table, self.resolver)
        return named

    def find_vector_columns(self) -> list[tuple[str, bool]]:
        """Return the columns of all tables so far, each with whether it holds vectors."""
        tables = dict.fromkeys((reference.table, reference.as_of) for reference in self.references)
        return [
            (field.name, is_vector_type(field.type))
            for table, as_of in tables
            for field in self.table_schema(table, as_of)
        ]

    def find_plain_columns(self) -> set[str]:
        """Return the names of columns that have no fields in any table so far."""
        tables = dict.fromkeys((reference.table, reference.as_of) for reference in self.references)
        fields = [field for table in tables for field in self.table_schema(*table)]
        nested = {field.name for field in fields if pa.types.is_nested(field.type)}
        return {field.name for field in fields} - nested

    def shorten_columns(
        self, references: References, text: SqlText, schema: str, aliases: Mapping[TableName, str]
    ) -> Iterator[Edit]:
        """Yield edits that drop catalog and schema from names such as main.orders.id.

        A name that could be that of a field gets a schema that is none, as in
        `planner.sql.rules.subqueries`.

        Args:
            references: of the text.
            text: of the statement, or of a view.
            schema: of names without one.
            aliases: those of `find_aliases`.
        """
        sited = {
            split_extension(_name_of_site(site, schema))[0]
            for site in references.tables
            if site.common_table is None
        } | {TableName(name, one) for name in references.aliases for one in (schema, *CATALOG_TABLES)}
        for chain in references.chains:
            if chain.parts[0] in references.aliases:
                continue
            dropped = 2 if chain.parts[0] == CATALOG and len(chain.parts) > 3 else 1
            name = TableName.qualify(chain.parts[dropped], chain.parts[dropped - 1], schema)
            if len(chain.parts) < dropped + 2 or name not in sited:
                continue
            first, last = text.start(chain.first), text.start(chain.first + 2 * dropped)
            if name in aliases:
                yield Edit.replace(first, text.end(chain.first + 2 * dropped), quote(aliases[name]))
            elif chain.parts[-1] != "*" and name.table in self.find_plain_columns():
                yield Edit.replace(first, last, f"{QUALIFIER}.")
            else:
                yield Edit(first, last, [])


def _name_of_site(site: TableSite, schema: str) -> TableName:
    name = site.parts[-1]
    if len(site.parts) > 1:
        return TableName.qualify(name, site.parts[-2], schema)
    # First, as in PostgreSQL.
    return TableName(name, PG_CATALOG if name in CATALOG_TABLES[PG_CATALOG] else schema)


def _is_qualifier(text: SqlText, table: str) -> bool:
    """Return whether a text has names of columns such as table.id, without a schema."""
    return any(
        text.names[i] == table and text.words[i + 1] == "." and (i == 0 or text.words[i - 1] != ".")
        for i in text.names
    )
