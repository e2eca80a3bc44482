"""What the names in a statement mean, and the private names that stand for its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, UnsupportedError
from planner.access.visible_catalog import SYSTEM_SCHEMA, unknown_table_error
from planner.binding.bound_statement import TableReference, VectorsStatement
from planner.bridge.distance_functions import is_vector_type
from planner.sql.as_of import AsOf
from planner.sql.dialects.names import KnownNames, NamedTable
from planner.sql.pieces import Edit
from planner.sql.references import QUERY_STARTS, References, TableSite
from planner.sql.search_call import SearchCall
from planner.sql.tokens import SqlText, fold, tokenize

__all__ = ["INFORMATION_SCHEMA", "Meaning", "NameResolver", "StatementNames", "TableColumns", "ViewTrail"]

INFORMATION_SCHEMA = "information_schema"
_NOT_PLAIN = re.compile("[^a-z0-9_]")
_MAX_VIEWS = 64


class NameResolver(KnownNames, Protocol):
    """What names mean. Names are exact: the binder has folded unquoted ones to lower case already."""

    def view_sql(self, name: str) -> str | None:
        """The SELECT statement behind a view; None when there is no view of this name."""

    def system_tables(self) -> tuple[str, ...]:
        """The tables of the schema `system`."""


@runtime_checkable
class PastResolver(Protocol):
    """A `NameResolver` that knows what tables were."""

    def table(self, name: str, as_of: AsOf | None = None) -> NamedTable:
        """A base table as it was."""


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A `NamedTable` that is nothing but its columns."""

    declared_schema: pa.Schema
    primary_key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name means: a table, or a view where `table` is None; `view` is its SELECT."""

    name: str
    table: NamedTable | None
    view: str = ""


@dataclass(frozen=True, slots=True)
class ViewTrail:
    """The views that are being expanded, outermost first.

    SELECT * FROM recent AS r
    ->  SELECT * FROM (SELECT * FROM "orders#1" AS "orders" WHERE ...) AS r
    """

    names: tuple[str, ...] = ()

    def enter(self, name: str) -> ViewTrail:
        """The trail inside one more view.

        Raises:
            InvalidInputError: the view is already being expanded; the message shows the cycle.
        """
        if name in self.names:
            cycle = " -> ".join([*self.names[self.names.index(name) :], name])
            raise InvalidInputError(f"The view {name!r} refers to itself: {cycle}; change one of these views")
        if len(self.names) >= _MAX_VIEWS:
            raise InvalidInputError(f"The view {name!r} stands on more than {_MAX_VIEWS} layers of views")
        return ViewTrail((*self.names, name))

    def read(self, sql: str) -> SqlText:
        """The tokens of the innermost view's text, which must be one query without parameters.

        Raises:
            InvalidInputError: the text is something else; the message names the view.
        """
        try:
            text = tokenize(sql)
        except LanceGatewayError as error:
            raise self.error(str(error)) from error
        if text.words[0] not in QUERY_STARTS and text.words[0] != "(":
            raise self.error(f"a view is one SELECT statement, and this begins with {text.tokens[0].text!r}")
        for index, word in enumerate(text.words):
            if word in {"?", "$"}:
                raise self.error(str(text.error(index, "a view has no parameters; one stands")))
        return text

    def error(self, message: str) -> InvalidInputError:
        """An error about the innermost view's text."""
        return InvalidInputError(f"View {self.names[-1]!r}: {message}")


class StatementNames:
    """The names of one statement, its views included.

    Attributes:
        references: the tables that it reads, in order of appearance.
        system_tables: those of the schema `system` that it names.
        common_tables: names of its common table expressions.
        catalog: the catalog that qualified names may carry.
        schema: the schema that qualified names may carry.

    Args:
        resolver: what the names mean.
    """

    def __init__(self, resolver: NameResolver, catalog: str, schema: str) -> None:
        self.references: list[TableReference] = []
        self.system_tables: set[str] = set()
        self.common_tables: set[str] = set()
        self.resolver = resolver
        self.catalog = catalog
        self.schema = schema
        self._counts: dict[str, int] = {}

    def resolve(self, site: TableSite, text: SqlText, trail: ViewTrail) -> Meaning | None:
        """What a site names; None for a table that DataFusion finds by its name.

        Raises:
            LanceGatewayError: nothing has that name; tells in which view.
        """
        try:
            return self._resolve(site, text)
        except LanceGatewayError as error:
            if trail.names:
                raise type(error)(f"View {trail.names[-1]!r}: {error}") from error
            raise

    def _resolve(self, site: TableSite, text: SqlText) -> Meaning | None:
        *qualifiers, name = site.parts
        if len(qualifiers) > 2:
            message = "A table's name has at most three parts (catalog.schema.table)"
            raise text.error(site.first, f"{message}; {'.'.join(site.parts)!r} stands")
        if len(qualifiers) == 2 and qualifiers[0] != self.catalog:
            raise NotFoundError(f"Catalog {qualifiers[0]!r} does not exist; the only one is {self.catalog!r}")
        if qualifiers and qualifiers[-1] == INFORMATION_SCHEMA:
            return None
        if qualifiers and qualifiers[-1] == SYSTEM_SCHEMA:
            known = self.resolver.system_tables()
            if name not in known:
                listed = ", ".join(known) or "none"
                raise NotFoundError(f"Table {SYSTEM_SCHEMA}.{name} does not exist; that schema has {listed}")
            self.system_tables.add(name)
            return None
        if qualifiers and qualifiers[-1] != self.schema:
            raise NotFoundError(
                f"Schema {qualifiers[-1]!r} does not exist (asked for {'.'.join(site.parts)!r}); "
                f"the only one is {self.schema!r}"
            )
        table = self.resolver.find(name)
        if table is not None:
            return Meaning(name, table)
        view = self.resolver.view_sql(name)
        if view is None:
            raise unknown_table_error(name, self.resolver.names())
        return Meaning(name, None, view)

    def add_reference(
        self,
        table: str,
        search: SearchCall | None = None,
        vectors: VectorsStatement | None = None,
        as_of: AsOf | None = None,
    ) -> str:
        """Give a table, or what a search in it finds, the next private name.

        It needs no quotes wherever SQL is parsed, and never equals the name of a CTE that could capture it.
        """
        stem = _NOT_PLAIN.sub("_", fold(table))
        stem = f"_{stem}" if stem[:1].isdigit() else stem
        number = self._counts.get(stem, 0) + 1
        while f"{stem}#{number}" in self.common_tables:
            number += 1
        self._counts[stem] = number
        self.references.append(TableReference(f"{stem}#{number}", table, search, vectors, as_of))
        return f"{stem}#{number}"

    def table_schema(self, table: str, as_of: AsOf | None) -> pa.Schema:
        """The columns of a table that was found.

        Raises:
            LanceGatewayError: there is no such past of it.
        """
        if as_of is not None:
            if not isinstance(self.resolver, PastResolver):
                raise UnsupportedError(
                    f"Table {table!r} is read as it is here, and not as of a version or a time"
                )
            return self.resolver.table(table, as_of).declared_schema
        found = self.resolver.find(table)
        if found is None:  # dropped since its name was resolved
            raise unknown_table_error(table, self.resolver.names())
        return found.declared_schema

    def find_vector_columns(self) -> list[tuple[str, bool]]:
        """Columns of the tables that were found so far, each with whether it holds vectors."""
        tables = dict.fromkeys((reference.table, reference.as_of) for reference in self.references)
        return [
            (field.name, is_vector_type(field.type))
            for table, as_of in tables
            for field in self.table_schema(table, as_of)
        ]

    def find_number_columns(self) -> tuple[set[str], set[str]]:
        """Names of columns that are numbers wherever they stand, and those that may be NaN."""
        tables = dict.fromkeys((one.table, one.as_of) for one in self.references if one.search is None)
        kinds: dict[str, list[pa.DataType]] = {}
        for field in (field for one in tables for field in self.table_schema(*one)):
            kinds.setdefault(field.name, []).append(field.type)
        numbers = {
            name
            for name, types in kinds.items()
            if all(pa.types.is_integer(one) or pa.types.is_floating(one) for one in types)
        }
        return numbers, {name for name in numbers if any(map(pa.types.is_floating, kinds[name]))}

    def find_names_among(self, found: References, tokens: range) -> set[str]:
        """Tables that are read among some tokens, and their columns; not what views and subqueries give."""
        names: set[str] = set()
        for site in found.tables:
            if site.first in tokens and not (site.common_table or site.as_of):
                table = self.resolver.find(site.parts[-1])
                if table is not None:
                    names.update((site.parts[-1], *table.declared_schema.names))
        return names

    def shorten_columns(self, found: References, text: SqlText) -> Iterator[Edit]:
        """Drop catalog and schema from main.orders.id: the reference is known as orders alone."""
        for chain in found.chains:
            if chain.parts[0] == self.schema and self.schema not in found.aliases:
                dropped = 1
            elif chain.parts[:2] == (self.catalog, self.schema) and self.catalog not in found.aliases:
                dropped = 2
            else:
                continue
            if len(chain.parts) >= dropped + 2 and chain.parts[dropped] in found.aliases:
                yield Edit(text.start(chain.first), text.start(chain.first + 2 * dropped), [])
