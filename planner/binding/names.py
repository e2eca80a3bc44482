"""Resolves the names in a statement, and gives its tables private names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, Protocol, TypeAlias

import pyarrow as pa
from sqlglot import exp

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
from lance_gateway.planner.sql.text.limits import MAX_RELATIONS, QUERY_STARTS
from lance_gateway.planner.sql.text.tokens import SqlText, fold, tokenize
from lance_gateway.planner.sql.tree.queries import list_visible
from lance_gateway.planner.sql.tree.tree import Tree, read_name
from lance_gateway.planner.system.catalogs.information_schema import DATAFUSION_TABLES
from lance_gateway.planner.system.catalogs.relations import INFORMATION_SCHEMA, PG_CATALOG
from lance_gateway.planner.system.catalogs.tables import CATALOG_TABLES, name_leaf
from lance_gateway.planner.tables.state.extended_tables import split_extension

_NOT_PLAIN = re.compile("[^a-z0-9_]")
_MAX_VIEWS = 64
_COLUMN_PARTS: Final = ("catalog", "db", "table", "this")
Place: TypeAlias = Callable[[str], LanceGatewayError]
"""Makes an error about a place in a statement."""


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
class TableSite:
    """The name of a table or view in FROM.

    Attributes:
        node: in the tree.
        parts: of the name, as DataFusion reads it.
        has_alias: whether an alias follows.
        as_of: the past version behind the name.
    """

    node: exp.Table
    parts: tuple[str, ...]
    has_alias: bool
    as_of: AsOf | None


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
    place: Mapping[str, object] = field(default_factory=dict)
    """Where the statement names the outermost view, as `meta` of expressions has it."""

    def enter(self, name: TableName, schema: str, place: Mapping[str, object]) -> ViewTrail:
        """Return the trail inside one more view.

        Args:
            name: of the view.
            schema: of names without one in it.
            place: of the name, where it is in the text of the statement.

        Raises:
            InvalidInputError: the view is already being expanded; the message shows the cycle.
        """
        if name in self.names:
            cycle = " -> ".join([*self.names[self.names.index(name) :], name])
            raise InvalidInputError(f"The view {name!r} refers to itself: {cycle}; change one of these views")
        if len(self.names) >= _MAX_VIEWS:
            raise InvalidInputError(f"The view {name!r} stands on more than {_MAX_VIEWS} layers of views")
        return ViewTrail((*self.names, name), schema, self.place if self.names else dict(place))

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

    def resolve(self, parts: Sequence[str], place: Place, trail: ViewTrail) -> Meaning | None:
        """Resolve the name of a table; return None for a table that DataFusion resolves itself.

        Args:
            parts: of the name.
            place: makes errors about the name.
            trail: the views that contain the name.

        Raises:
            LanceGatewayError: the name does not exist; the message names the view in which it stands.
        """
        try:
            return self._resolve(parts, place, trail.schema or self.schema)
        except LanceGatewayError as error:
            if trail.names:
                raise copy_error(error, f"View {trail.names[-1]!r}: {error}") from error
            raise

    def _resolve(self, parts: Sequence[str], place: Place, schema: str) -> Meaning | None:
        *qualifiers, name = parts
        if len(qualifiers) > 2:
            message = "A table's name has at most three parts (catalog.schema.table)"
            raise place(f"{message}, not {'.'.join(parts)!r}")
        if len(qualifiers) == 2 and qualifiers[0] != CATALOG:
            raise NotFoundError(f"Catalog {qualifiers[0]!r} does not exist; the only one is {CATALOG!r}")
        full_name = _qualify(parts, schema)
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

    def find_aliases(
        self, tables: Iterable[TableSite], columns: Iterable[exp.Column], schema: str
    ) -> Mapping[TableName, str]:
        """Return the aliases of tables that have the name of a table of another schema.

        SELECT a.t.id FROM a.t, b.t  ->  SELECT "a.t".id FROM "t#1" AS "a.t", "t#2" AS "b.t"

        Others are called by their name without the schema. So are these where the statement calls one of them
        so, and none by its whole name.

        Args:
            tables: that a query reads, without common table expressions.
            columns: that it names.
            schema: of names without one.
        """
        named: dict[str, set[TableName]] = {}
        for site in tables:
            if not site.has_alias:
                named.setdefault(site.parts[-1], set()).add(_qualify(site.parts, schema))
        shared = {name: among for name, among in named.items() if len(among) > 1}
        if not shared:
            return {}
        called = list(map(list_parts, columns))
        whole = {parts[at : at + 2] for parts in called if len(parts) > 2 for at in (0, len(parts) - 3)}
        qualifiers = {parts[0] for parts in called if len(parts) > 1}
        return {
            one: f"{one.schema}.{one.table}"
            for table, among in shared.items()
            if any((other.schema, table) in whole for other in among) or table not in qualifiers
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
        self,
        tables: Iterable[TableSite],
        columns: Iterable[exp.Column],
        schema: str,
        aliases: Mapping[TableName, str],
        called: Collection[str],
    ) -> None:
        """Drop catalog and schema from names such as main.orders.id.

        A name that could be that of a field gets a schema that is none, as in
        `planner.sql.rules.subqueries`.

        Args:
            tables: that a query reads, without common table expressions.
            columns: that it names.
            schema: of names without one.
            aliases: those of `find_aliases`.
            called: aliases and names of the relations of the query.
        """
        named = {split_extension(_qualify(site.parts, schema))[0] for site in tables}
        named |= {TableName(name, one) for name in called for one in (schema, *CATALOG_TABLES)}
        for column in columns:
            parts = list_parts(column)
            if len(parts) < 3 or parts[0] in called:
                continue
            dropped = 2 if parts[0] == CATALOG and len(parts) > 3 else 1
            name = TableName.qualify(parts[dropped], parts[dropped - 1], schema)
            if len(parts) < dropped + 2 or name not in named:
                continue
            kept = [column.args[key] for key in _COLUMN_PARTS if column.args.get(key) is not None][dropped:]
            if name in aliases:
                kept[0] = exp.to_identifier(aliases[name], quoted=True)
            elif parts[-1] != "*" and name.table in self.find_plain_columns():
                kept.insert(0, exp.to_identifier(QUALIFIER.strip('"'), quoted=True))
            for key in _COLUMN_PARTS:
                column.set(key, None)
            for key, part in zip(reversed(_COLUMN_PARTS), reversed(kept), strict=False):
                column.set(key, part)


class CommonTables:
    """The common table expressions of a query, and the relations that name them.

    DataFusion refuses one with the name of one in a query around it: it gets another name.

        WITH c AS (WITH c AS (SELECT 1) SELECT * FROM c) SELECT * FROM c
    ->  WITH c AS (WITH "c#cte2" AS (SELECT 1) SELECT * FROM "c#cte2" AS "c") SELECT * FROM c

    Attributes:
        names: that they have, and get.

    Args:
        tree: of the query.
        relations: in it.
        taken: names of those in the texts around it.

    Raises:
        InvalidInputError: they are read too often, or as of a version.
    """

    def __init__(self, tree: Tree, relations: Iterable[exp.Table], taken: Collection[str]) -> None:
        self.names: set[str] = set()
        self._renamed: list[tuple[exp.CTE, str]] = []
        self._targets: dict[int, tuple[exp.Table, exp.CTE]] = {}
        tables = tree.find_all(exp.CTE)
        if not tables:
            return
        self.names = {_find_name(table) for table in tables}
        for table in sorted(tables, key=lambda one: one.args["alias"].this.meta.get("start", 0)):
            name, query = _find_name(table), table.parent.parent if table.parent is not None else None
            around = () if query is None else (_find_name(one) for one in list_visible(query))
            outer = {*taken, *around}
            if name in outer:
                number = 2
                while (fresh := f"{name}#cte{number}") in outer or fresh in self.names:
                    number += 1
                self.names.add(fresh)
                self._renamed.append((table, fresh))
        for node in relations:
            if node.args.get("db") is None and isinstance(node.this, exp.Identifier):
                name = read_name(node.this)
                target = next((one for one in list_visible(node) if _find_name(one) == name), None)
                if target is not None:
                    if node.args.get("version") is not None:
                        message = "Only tables are read as of a version or a time, and not a common table"
                        raise tree.error(node, f"{message} expression")
                    self._targets[id(node)] = node, target
        self._refuse_many(tree, tables)

    def __contains__(self, node: exp.Expr) -> bool:
        return id(node) in self._targets

    def rename(self) -> None:
        """Write the names that they get."""
        fresh = {id(table): name for table, name in self._renamed}
        for node, target in self._targets.values():
            name = fresh.get(id(target))
            if name is not None:
                if node.args.get("alias") is None:
                    node.set("alias", exp.TableAlias(this=exp.to_identifier(_find_name(target), quoted=True)))
                node.set("this", exp.to_identifier(name, quoted=True))
        for table, name in self._renamed:
            table.args["alias"].set("this", exp.to_identifier(name, quoted=True))

    def _refuse_many(self, tree: Tree, tables: Iterable[exp.CTE]) -> None:
        """Refuse a query with too many relations, as DataFusion plans them.

        A CTE is planned again for each reference, so CTEs that read the one before them twice multiply.
        """
        counts: dict[int, int] = {}

        def count(node: exp.Expr) -> int:
            if id(node) not in counts:
                counts[id(node)] = 1  # what a recursive one reads of itself
                found = 1
                for one in node.find_all(exp.Table):
                    _, target = self._targets.get(id(one), (one, None))
                    found += 1 if target is None else count(target)
                counts[id(node)] = found
                if found > MAX_RELATIONS:
                    message = f"Tables and common table expressions are read {found} times in all, more than"
                    raise tree.error(node, f"{message} the {MAX_RELATIONS} that are allowed, in the query")
            return counts[id(node)]

        for table in tables:
            count(table)
        count(tree.root)


def _find_name(table: exp.CTE) -> str:
    return read_name(table.args["alias"].this)


def list_parts(column: exp.Expr) -> tuple[str, ...]:
    """Return the parts of the name of a column, or of a star, as DataFusion reads them."""
    parts = (column.args.get(key) for key in _COLUMN_PARTS)
    return tuple("*" if isinstance(part, exp.Star) else read_name(part) for part in parts if part is not None)


def _qualify(parts: Sequence[str], schema: str) -> TableName:
    name = parts[-1]
    if len(parts) > 1:
        return TableName.qualify(name, parts[-2], schema)
    # First, as in PostgreSQL.
    return TableName(name, PG_CATALOG if name in CATALOG_TABLES[PG_CATALOG] else schema)
