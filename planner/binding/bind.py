"""SQL text -> bound statement: every table reference gets a private name of its own.

    SELECT o.id FROM orders o JOIN orders p ON o.id = p.parent
->  SELECT o.id FROM "orders#1" o JOIN "orders#2" p ON o.id = p.parent

DataFusion then sees one leaf per reference, and its optimizer pushes each reference's own conjuncts into its
own leaf. The original text is spliced at token positions, never regenerated, so all of DataFusion's syntax
survives; names that DataFusion finds by itself (CTEs, table functions, information_schema, the schema
`system`) are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol, runtime_checkable

import pyarrow as pa

from memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, UnsupportedError
from planner.access.visible_catalog import SYSTEM_SCHEMA, unknown_table
from planner.binding.bound_statement import (
    BoundStatement,
    StatementKind,
    TableReference,
    VectorsStatement,
    statement_kind,
)
from planner.binding.distance_operators import called_distances, vector_names
from planner.binding.key_query import KeyQuery, find_key_query
from planner.binding.rewrites import Names, rewrite
from planner.binding.search_subquery import subquery_text, without_subqueries
from planner.binding.views import ViewTrail
from planner.bridge.distance_functions import is_vector_type
from planner.sql.as_of import AsOf
from planner.sql.limits import check_depth, check_literal_sizes
from planner.sql.pieces import VECTOR, Edit, Piece, Slot, spliced
from planner.sql.references import MAX_RELATIONS, FunctionSite, References, TableSite, find_references
from planner.sql.rewrites.misread_clauses import refuse_misread
from planner.sql.search_call import SearchCall, SearchFunction, read_call
from planner.sql.tokens import SqlText, at_position, fold, number_parameters, quote, tokenize

__all__ = ["BoundStatement", "KeyQuery", "NameResolver", "StatementKind", "TableReference", "bind"]

_NOT_PLAIN = re.compile("[^a-z0-9_]")
_SYSTEM_SCHEMA = "information_schema"


class NameResolver(Protocol):
    """What names mean. Names are exact: the binder has folded unquoted ones to lower case already."""

    def has_table(self, name: str) -> bool:
        """Whether a base table of this name exists."""

    def view_sql(self, name: str) -> str | None:
        """The SELECT statement behind a view; None when there is no view of this name."""

    def table_schema(self, name: str) -> pa.Schema:
        """The columns of a base table."""

    def primary_key(self, name: str) -> tuple[str, ...]:
        """The key columns of a base table, in key order; () when it has none."""

    def names(self) -> tuple[str, ...]:
        """All tables and views, for messages."""

    def system_tables(self) -> tuple[str, ...]:
        """The tables of the schema `system`."""


@runtime_checkable
class PastResolver(Protocol):
    """A `NameResolver` that knows what tables were."""

    def past_schema(self, name: str, as_of: AsOf) -> pa.Schema:
        """The columns that a base table had."""


def bind(sql: str, resolver: NameResolver, *, catalog: str = "lance", schema: str = "main") -> BoundStatement:
    """Resolves the names of one statement.

    Args:
        sql: One statement; a trailing semicolon is fine.
        resolver: What the names mean.
        catalog: The catalog that qualified names may carry.
        schema: The schema that qualified names may carry.

    Raises:
        InvalidInputError: a syntax error that can be seen without DataFusion (unbalanced brackets, text that
            does not end, a NUL, parameters that are mixed or have gaps), with line, column and excerpt.
        NotFoundError: a table, schema or catalog that does not exist.
        UnsupportedError: a statement that is not offered.
    """
    text = tokenize(sql)
    check_literal_sizes(text)
    kind, start = statement_kind(text)
    binder = _Binder(resolver, catalog, schema)
    if kind is StatementKind.SHOW:
        pieces = binder.show(text)
    elif kind is StatementKind.DESCRIBE and start is None:
        pieces = binder.describe(text)
    else:
        pieces = binder.query(text, start or 0)
    nul = sql.find("\0")
    if nul >= 0:
        # DataFusion would name a column so, and panic when it tells Arrow.
        raise InvalidInputError(at_position(sql.replace("\0", "\ufffd"), nul, "A NUL character"))
    key_query = None
    if kind is StatementKind.QUERY and len(binder.references) == 1 and len(binder.base_sites) == 1:
        reference = binder.references[0]
        key = resolver.primary_key(reference.table)
        if key and reference.as_of is None:
            key_query = find_key_query(
                text,
                binder.base_sites[0],
                table=reference.table,
                columns=resolver.table_schema(reference.table).names,
                primary_key=key,
                slots=binder.slots,
            )
    return BoundStatement(
        sql,
        kind,
        tuple(binder.references),
        binder.parameter_count,
        key_query,
        tuple(pieces),
        frozenset(binder.system_tables),
        frozenset(binder.distances),
        tuple(binder.vectors),
    )


class _Binder:
    """The state of one bind call: what has been numbered and collected so far."""

    def __init__(self, resolver: NameResolver, catalog: str, schema: str) -> None:
        self.references: list[TableReference] = []
        self.base_sites: list[TableSite] = []  # sites of base tables in the statement's own text
        self.slots: dict[int, int] = {}  # token index -> parameter ordinal
        self.parameter_count = 0
        self.system_tables: set[str] = set()
        self.vectors: list[tuple[float, ...]] = []  # constants that are not in the text
        self.distances: set[str] = set()  # distance functions that are called
        self._resolver = resolver
        self._catalog = catalog
        self._schema = schema
        self._counts: dict[str, int] = {}
        self._sites = 0  # names of tables that were read, in views as often as these are expanded
        self._common_tables: set[str] = set()

    def query(self, text: SqlText, start: int) -> list[Piece | Slot]:
        """The pieces of a query, or of EXPLAIN or DESCRIBE with a query from token `start` on."""
        self.slots, self.parameter_count = number_parameters(text)
        return self._rewrite(text, start, ViewTrail())

    def describe(self, text: SqlText) -> list[Piece | Slot]:
        """DESCRIBE table: a view is described through its query."""
        i = 2 if text.words[1] == "TABLE" else 1
        site = _whole_name(text, i)
        name = self._resolve(site, text)
        if name is None:
            return [Piece(text.sql, 0, verbatim=True)]
        origin = text.start(site.first)
        if self._resolver.has_table(name):
            return [Piece(f"DESCRIBE {quote(self._private(name))}", origin, verbatim=False)]
        pieces: list[Piece | Slot] = [Piece("DESCRIBE SELECT * FROM ", origin, verbatim=False)]
        return pieces + self._expand(name, origin, ViewTrail(), alias=True)

    def show(self, text: SqlText) -> list[Piece | Slot]:
        """SHOW TABLES and its siblings go to DataFusion as they are; a table that they name must exist."""
        if text.words[1] == "COLUMNS" and text.words[2] in {"FROM", "IN"}:
            self._resolve(_whole_name(text, 3), text)
        return [Piece(text.sql, 0, verbatim=True)]

    def _rewrite(self, text: SqlText, start: int, trail: ViewTrail) -> list[Piece | Slot]:
        """Splices one text; inside a view (a trail of names) the origin of all is where the view is named."""
        found = find_references(
            text, start, taken=frozenset(self._common_tables) if trail.names else frozenset()
        )
        check_depth(text)
        refuse_misread(text)
        self._common_tables |= found.common_tables
        self._sites += len(found.tables)
        if trail.names and self._sites > MAX_RELATIONS:
            # Views that name others twice multiply.
            raise trail.error(f"the statement reads more than the {MAX_RELATIONS} tables that are allowed")
        edits: list[Edit] = []
        found, searches = without_subqueries(found)
        for site in found.tables:
            pieces = self._table(site, text, trail)
            if pieces is not None:
                edits.append(Edit(text.start(site.first), text.end(site.last), pieces))
        for call, function in searches:
            pieces = self._search(call, function, text, trail)
            edits.append(Edit(text.start(call.first), text.end(call.closing), pieces))
        called = [(text.start(call.first), text.end(call.closing)) for call, _ in searches]
        for index, name in found.renamed.items():
            edits.append(Edit.replace(text.start(index), text.end(index), quote(name)))
        edits.extend(self._qualified_columns(found, text))
        edits.extend(_folded_functions(found, text, {call.first for call, _ in searches}))
        names = Names(
            relations=found.aliases,
            among=lambda tokens: self._names_among(found, tokens),
            numbers=self._numbers,
            vectors=lambda: vector_names(text, self._columns()),
            keep=self._keep_vector,
            replaced=[(call.first, call.closing) for call, _ in searches],
        )
        edits.extend(rewrite(text, names))
        self.distances.update(called_distances(text))
        if not trail.names:
            edits.extend(self._parameters(text))
        edits = [
            edit for edit in edits if not any(begin < edit.begin and edit.end <= end for begin, end in called)
        ]
        return spliced(text.sql, edits)

    def _keep_vector(self, numbers: list[float]) -> str:
        """What stands for a long vector."""
        self.vectors.append(tuple(numbers))
        return f"CAST(${VECTOR}{len(self.vectors)} AS DOUBLE[])"

    def _columns(self) -> list[tuple[str, bool]]:
        """Columns of the tables that were found so far, each with whether it holds vectors."""
        tables = dict.fromkeys((reference.table, reference.as_of) for reference in self.references)
        return [
            (field.name, is_vector_type(field.type))
            for table, as_of in tables
            for field in self._table_schema(table, as_of)
        ]

    def _numbers(self) -> tuple[set[str], set[str]]:
        """Names of columns that are numbers wherever they stand, and those that may be NaN."""
        tables = dict.fromkeys((one.table, one.as_of) for one in self.references if one.search is None)
        kinds: dict[str, list[pa.DataType]] = {}
        for field in (field for one in tables for field in self._table_schema(*one)):
            kinds.setdefault(field.name, []).append(field.type)
        numbers = {
            name
            for name, types in kinds.items()
            if all(pa.types.is_integer(one) or pa.types.is_floating(one) for one in types)
        }
        return numbers, {name for name in numbers if any(map(pa.types.is_floating, kinds[name]))}

    def _names_among(self, found: References, tokens: range) -> set[str]:
        """Tables that are read among some tokens, and their columns; not what views and subqueries give."""
        sites = [
            site for site in found.tables if site.first in tokens and not (site.common_table or site.as_of)
        ]
        tables = [site.parts[-1] for site in sites if self._resolver.has_table(site.parts[-1])]
        return {*tables, *(name for table in tables for name in self._resolver.table_schema(table).names)}

    def _table_schema(self, table: str, as_of: AsOf | None) -> pa.Schema:
        if as_of is None:
            return self._resolver.table_schema(table)
        if not isinstance(self._resolver, PastResolver):
            raise UnsupportedError(
                f"Table {table!r} is read as it is here, and not as of a version or a time"
            )
        return self._resolver.past_schema(table, as_of)

    # Tables

    def _table(self, site: TableSite, text: SqlText, trail: ViewTrail) -> list[Piece | Slot] | None:
        """What stands in place of a table's name; None leaves it alone."""
        origin = text.start(site.first)
        alias = "" if site.has_alias else f" AS {quote(site.parts[-1])}"
        if site.common_table is not None:
            self._check_now(site, text, "a common table expression")
            if site.common_table == site.parts[0]:
                return None
            return [Piece(quote(site.common_table) + alias, origin, verbatim=False)]
        name = self._resolve_within(trail, site, text)
        if name is None:
            self._check_now(site, text, "a system table")
            # The catalog's name is ours; DataFusion keeps its system tables under its own.
            if len(site.parts) == 2 or site.parts[-2] == SYSTEM_SCHEMA:
                return None
            return [Piece(f"{_SYSTEM_SCHEMA}.{quote(site.parts[-1])}", origin, verbatim=False)]
        if not self._resolver.has_table(name):
            self._check_now(site, text, "a view (what it reads may say AS OF itself)")
            return self._expand(name, origin, trail, alias=not site.has_alias)
        if not trail.names:
            self.base_sites.append(site)
        if site.as_of is not None:
            self._table_schema(name, site.as_of)
        return [Piece(quote(self._private(name, as_of=site.as_of)) + alias, origin, verbatim=False)]

    def _check_now(self, site: TableSite, text: SqlText, kind: str) -> None:
        if site.as_of is not None:
            raise text.error(site.first, f"Only tables are read as of a version or a time; {kind} stands")

    def _search(
        self, site: FunctionSite, function: SearchFunction, text: SqlText, trail: ViewTrail
    ) -> list[Piece | Slot]:
        """What stands in place of a search function's call."""
        slots = {} if trail.names else self.slots
        call = read_call(text, function, site.opening, site.closing, slots)
        vectors = None
        if call.subquery is not None:
            sql, ordinals = subquery_text(text, call.subquery, slots)
            try:
                asked = bind(sql, self._resolver, catalog=self._catalog, schema=self._schema)
            except LanceGatewayError as error:
                msg = f"{function.value}: in its subquery, which is a statement of its own: {error}"
                raise type(error)(msg) from error
            vectors = VectorsStatement(asked, ordinals)
        parts = (call.table,) if self._resolver.has_table(call.table) else tuple(call.table.split("."))
        named = TableSite(site.opening + 1, site.opening + 1, parts, has_alias=True)
        name = self._resolve_within(trail, named, text)
        if name is None or not self._resolver.has_table(name):
            message = (
                f"{function.value} searches tables, and {call.table!r} is none (views have no indexes); it"
            )
            raise text.error(site.opening + 1, message)
        alias = "" if site.has_alias else f" AS {quote(site.name)}"
        private = self._private(name, replace(call, table=name), vectors)
        return [Piece(quote(private) + alias, text.start(site.first), verbatim=False)]

    def _expand(self, name: str, origin: int, trail: ViewTrail, *, alias: bool) -> list[Piece | Slot]:
        """A view as a derived table. The line break ends a comment that ends the view's text."""
        inner = trail.enter(name)
        sql = self._resolver.view_sql(name)
        if sql is None:  # deleted since its name was resolved
            raise unknown_table(name, self._resolver.names())
        pieces = self._rewrite(inner.read(sql.strip()), 0, inner)
        body = [
            Piece(piece.text, origin, verbatim=False, mend=piece.mend)
            for piece in pieces
            if isinstance(piece, Piece)
        ]
        after = "\n)" + (f" AS {quote(name)}" if alias else "")
        return [Piece("(", origin, verbatim=False), *body, Piece(after, origin, verbatim=False)]

    def _resolve_within(self, trail: ViewTrail, site: TableSite, text: SqlText) -> str | None:
        """As `_resolve`; an error tells in which view it is."""
        try:
            return self._resolve(site, text)
        except LanceGatewayError as error:
            if trail.names:
                raise type(error)(f"View {trail.names[-1]!r}: {error}") from error
            raise

    def _resolve(self, site: TableSite, text: SqlText) -> str | None:
        """The table or view that a site names; None for one that DataFusion finds by its name."""
        *qualifiers, name = site.parts
        if len(qualifiers) > 2:
            message = "A table's name has at most three parts (catalog.schema.table)"
            raise text.error(site.first, f"{message}; {'.'.join(site.parts)!r} stands")
        if len(qualifiers) == 2 and qualifiers[0] != self._catalog:
            raise NotFoundError(
                f"Catalog {qualifiers[0]!r} does not exist; the only one is {self._catalog!r}"
            )
        if qualifiers and qualifiers[-1] == _SYSTEM_SCHEMA:
            return None
        if qualifiers and qualifiers[-1] == SYSTEM_SCHEMA:
            known = self._resolver.system_tables()
            if name not in known:
                listed = ", ".join(known) or "none"
                raise NotFoundError(f"Table {SYSTEM_SCHEMA}.{name} does not exist; that schema has {listed}")
            self.system_tables.add(name)
            return None
        if qualifiers and qualifiers[-1] != self._schema:
            raise NotFoundError(
                f"Schema {qualifiers[-1]!r} does not exist (asked for {'.'.join(site.parts)!r}); "
                f"the only one is {self._schema!r}"
            )
        if self._resolver.has_table(name) or self._resolver.view_sql(name) is not None:
            return name
        raise unknown_table(name, self._resolver.names())

    def _private(
        self,
        table: str,
        search: SearchCall | None = None,
        vectors: VectorsStatement | None = None,
        as_of: AsOf | None = None,
    ) -> str:
        """The next private name of a table, or of what a search in it finds.

        It needs no quotes wherever SQL is parsed, and never equals the name of a CTE that could capture it.
        """
        stem = _NOT_PLAIN.sub("_", fold(table))
        stem = f"_{stem}" if stem[:1].isdigit() else stem
        number = self._counts.get(stem, 0) + 1
        while f"{stem}#{number}" in self._common_tables:
            number += 1
        self._counts[stem] = number
        self.references.append(TableReference(f"{stem}#{number}", table, search, vectors, as_of))
        return f"{stem}#{number}"

    def _qualified_columns(self, found: References, text: SqlText) -> list[Edit]:
        """Drops catalog and schema from main.orders.id: the reference is known as orders alone."""
        edits: list[Edit] = []
        for chain in found.chains:
            if chain.parts[0] == self._schema and self._schema not in found.aliases:
                dropped = 1
            elif chain.parts[:2] == (self._catalog, self._schema) and self._catalog not in found.aliases:
                dropped = 2
            else:
                continue
            if len(chain.parts) >= dropped + 2 and chain.parts[dropped] in found.aliases:
                edits.append(Edit(text.start(chain.first), text.start(chain.first + 2 * dropped), []))
        return edits

    # Parameters

    def _parameters(self, text: SqlText) -> list[Edit]:
        return [
            Edit(text.start(i), text.end(i + (text.words[i] == "$")), [Slot(ordinal, text.start(i))])
            for i, ordinal in self.slots.items()
        ]


def _folded_functions(found: References, text: SqlText, searches: set[int]) -> Iterator[Edit]:
    """Lower-cases table functions, since DataFusion finds them as they are written."""
    for function in found.functions:
        begin = text.start(function.first)
        if function.first not in searches and text.tokens[function.first].text != function.name:
            yield Edit.replace(begin, text.end(function.first), function.name)


def _whole_name(text: SqlText, i: int) -> TableSite:
    """The table name that fills the rest of the statement from token `i` on."""
    if not text.is_name(i):
        raise text.error(i, "The name of a table is expected")
    first, parts = i, [text.name(i)]
    while text.words[i + 1] == "." and text.is_name(i + 2):
        i += 2
        parts.append(text.name(i))
    if i + 1 < len(text.tokens):
        raise text.error(i + 1, f"Unexpected {text.tokens[i + 1].text!r}")
    return TableSite(first, i, tuple(parts), has_alias=True)
