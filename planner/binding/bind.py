"""SQL text -> bound statement: every table reference gets a private name of its own.

    SELECT o.id FROM orders o JOIN orders p ON o.id = p.parent
->  SELECT o.id FROM "orders#1" o JOIN "orders#2" p ON o.id = p.parent

DataFusion then sees one leaf per reference, and its optimizer pushes each reference's own conjuncts into its
own leaf. The original text is spliced at token positions, never regenerated, so all of DataFusion's syntax
survives; names that DataFusion finds by itself (CTEs, table functions, information_schema, the schema
`system`) are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memwal.errors import InvalidInputError, LanceGatewayError
from planner.access.visible_catalog import SYSTEM_SCHEMA
from planner.binding.bound_statement import (
    BoundStatement,
    StatementKind,
    TableReference,
    VectorsStatement,
    classify_statement,
)
from planner.binding.distance_operators import SPLIT_OPERATORS, find_vector_names
from planner.binding.key_query import KeyQuery, find_key_query
from planner.binding.names import INFORMATION_SCHEMA, Meaning, NameResolver, StatementNames, ViewTrail
from planner.binding.rewrites import REWRITES, Names
from planner.sql.dialects.names import NamedTable
from planner.sql.limits import GROWING, SHALLOW_WORDS, check_depth, check_literal_sizes
from planner.sql.pieces import VECTOR, Edit, Piece, Slot, splice
from planner.sql.references import MAX_RELATIONS, FunctionSite, References, TableSite, find_references
from planner.sql.rewrites.misread_clauses import MISREAD, refuse_misread
from planner.sql.search_call import (
    SearchFunction,
    exclude_subqueries,
    find_search_function,
    read_call,
    render_subquery,
)
from planner.sql.tokens import SqlText, at_position, number_parameters, quote, tokenize

__all__ = ["BoundStatement", "KeyQuery", "NameResolver", "StatementKind", "TableReference", "bind"]


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
    if not GROWING.isdisjoint(text.words):
        check_literal_sizes(text)
    kind, start = classify_statement(text)
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
    names = binder.names
    key_query = None
    if kind is StatementKind.QUERY and len(names.references) == 1 and binder.base_site is not None:
        (reference,) = names.references
        site, table = binder.base_site
        if table.primary_key and reference.as_of is None:
            key_query = find_key_query(
                text,
                site,
                table=reference.table,
                columns=table.declared_schema.names,
                primary_key=table.primary_key,
                slots=binder.slots,
            )
    return BoundStatement(
        sql,
        kind,
        tuple(names.references),
        binder.parameter_count,
        key_query,
        tuple(pieces),
        frozenset(names.system_tables),
        frozenset(binder.distances),
        tuple(binder.vectors),
    )


class _Binder:
    """The state of one bind call: what has been numbered and collected so far."""

    def __init__(self, resolver: NameResolver, catalog: str, schema: str) -> None:
        self.names = StatementNames(resolver, catalog, schema)
        self.base_site: tuple[TableSite, NamedTable] | None = None
        """The last base table that the statement's own text names."""
        self.slots: dict[int, int] = {}  # token index -> parameter ordinal
        self.parameter_count = 0
        self.vectors: list[tuple[float, ...]] = []  # constants that are not in the text
        self.distances: set[str] = set()  # distance functions that are called
        self._sites = 0  # names of tables that were read, in views as often as these are expanded

    def query(self, text: SqlText, start: int) -> list[Piece | Slot]:
        """The pieces of a query, or of EXPLAIN or DESCRIBE with a query from token `start` on."""
        if "?" in text.words or "$" in text.words:
            self.slots, self.parameter_count = number_parameters(text)
        return self._rewrite(text, start, ViewTrail())

    def describe(self, text: SqlText) -> list[Piece | Slot]:
        """DESCRIBE table: a view is described through its query."""
        i = 2 if text.words[1] == "TABLE" else 1
        site = _read_whole_name(text, i)
        named = self.names.resolve(site, text, ViewTrail())
        if named is None:
            return [Piece(text.sql, 0, verbatim=True)]
        origin = text.start(site.first)
        if named.table is not None:
            private = self.names.add_reference(named.name)
            return [Piece(f"DESCRIBE {quote(private)}", origin, verbatim=False)]
        pieces: list[Piece | Slot] = [Piece("DESCRIBE SELECT * FROM ", origin, verbatim=False)]
        return pieces + self._expand_view(named, origin, ViewTrail(), alias=True)

    def show(self, text: SqlText) -> list[Piece | Slot]:
        """SHOW TABLES and its siblings go to DataFusion as they are; a table that they name must exist."""
        if text.words[1] == "COLUMNS" and text.words[2] in {"FROM", "IN"}:
            self.names.resolve(_read_whole_name(text, 3), text, ViewTrail())
        return [Piece(text.sql, 0, verbatim=True)]

    def _rewrite(self, text: SqlText, start: int, trail: ViewTrail) -> list[Piece | Slot]:
        """Splices one text; inside a view (a trail of names) the origin of all is where the view is named."""
        names, tokens = self.names, text.tokens
        split = (one for one in SPLIT_OPERATORS if one in text.sql)
        words = frozenset(text.words).union(map(str.upper, text.names.values()), split)
        found = find_references(
            text, start, taken=frozenset(names.common_tables) if trail.names else frozenset()
        )
        _refuse_dangerous(text, words)
        names.common_tables |= found.common_tables
        self._sites += len(found.tables)
        if trail.names and self._sites > MAX_RELATIONS:
            # Views that name others twice multiply.
            raise trail.error(f"the statement reads more than the {MAX_RELATIONS} tables that are allowed")
        edits: list[Edit] = []
        searches: list[tuple[FunctionSite, SearchFunction]] = []
        if found.functions:
            found, searches = exclude_subqueries(found)
        for site in found.tables:
            pieces = self._rewrite_table(site, text, trail)
            if pieces is not None:
                edits.append(Edit(tokens[site.first].start, tokens[site.last].end + 1, pieces))
        called: list[tuple[int, int]] = []
        for call, searched in searches:
            pieces = self._rewrite_search(call, searched, text, trail)
            called.append((tokens[call.first].start, tokens[call.closing].end + 1))
            edits.append(Edit(*called[-1], pieces))
        edits.extend(_respell_names(found, text))
        if found.chains:
            edits.extend(names.shorten_columns(found, text))
        tell = Names(
            relations=found.aliases,
            find_names_among=lambda tokens: names.find_names_among(found, tokens),
            find_number_columns=names.find_number_columns,
            find_vectors=lambda: find_vector_names(text, names.find_vector_columns()),
            keep_vector=self._keep_vector,
            replaced=[(call.first, call.closing) for call, _ in searches],
            distances=self.distances,
        )
        for one in REWRITES:
            if not words.isdisjoint(one.words):
                edits.extend(one.edits(text, tell))
        if not trail.names:
            for i, ordinal in self.slots.items():
                begin, last = tokens[i].start, tokens[i + (text.words[i] == "$")]
                edits.append(Edit(begin, last.end + 1, [Slot(ordinal, begin)]))
        if called:
            edits = [
                one for one in edits if not any(begin < one.begin and one.end <= end for begin, end in called)
            ]
        return splice(text.sql, edits)

    def _keep_vector(self, numbers: list[float]) -> str:
        """What stands for a long vector."""
        self.vectors.append(tuple(numbers))
        return f"CAST(${VECTOR}{len(self.vectors)} AS DOUBLE[])"

    # Tables

    def _rewrite_table(self, site: TableSite, text: SqlText, trail: ViewTrail) -> list[Piece | Slot] | None:
        """What stands in place of a table's name; None leaves it alone."""
        origin = text.tokens[site.first].start
        if site.common_table is not None:
            self._refuse_as_of(site, text, "a common table expression")
            if site.common_table == site.parts[0]:
                return None
            alias = "" if site.has_alias else f" AS {quote(site.parts[-1])}"
            return [Piece(quote(site.common_table) + alias, origin, verbatim=False)]
        named = self.names.resolve(site, text, trail)
        if named is None:
            self._refuse_as_of(site, text, "a system table")
            # The catalog's name is ours; DataFusion keeps its system tables under its own.
            if len(site.parts) == 2 or site.parts[-2] == SYSTEM_SCHEMA:
                return None
            return [Piece(f"{INFORMATION_SCHEMA}.{quote(site.parts[-1])}", origin, verbatim=False)]
        if named.table is None:
            self._refuse_as_of(site, text, "a view (what it reads may say AS OF itself)")
            return self._expand_view(named, origin, trail, alias=not site.has_alias)
        if not trail.names:
            self.base_site = site, named.table
        if site.as_of is not None:
            self.names.table_schema(named.name, site.as_of)
        private = self.names.add_reference(named.name, as_of=site.as_of)
        alias = "" if site.has_alias else f" AS {quote(site.parts[-1])}"
        return [Piece(f'"{private}"{alias}', origin, verbatim=False)]

    def _refuse_as_of(self, site: TableSite, text: SqlText, kind: str) -> None:
        if site.as_of is not None:
            raise text.error(site.first, f"Only tables are read as of a version or a time; {kind} stands")

    def _rewrite_search(
        self, site: FunctionSite, function: SearchFunction, text: SqlText, trail: ViewTrail
    ) -> list[Piece | Slot]:
        """What stands in place of a search function's call."""
        slots = {} if trail.names else self.slots
        call = read_call(text, function, site.opening, site.closing, slots)
        vectors = None
        if call.subquery is not None:
            sql, ordinals = render_subquery(text, call.subquery, slots)
            try:
                asked = bind(sql, self.names.resolver, catalog=self.names.catalog, schema=self.names.schema)
            except LanceGatewayError as error:
                msg = f"{function.value}: in its subquery, which is a statement of its own: {error}"
                raise type(error)(msg) from error
            vectors = VectorsStatement(asked, ordinals)
        is_whole = self.names.resolver.find(call.table) is not None
        parts = (call.table,) if is_whole else tuple(call.table.split("."))
        site_of_table = TableSite(site.opening + 1, site.opening + 1, parts, has_alias=True)
        named = self.names.resolve(site_of_table, text, trail)
        if named is None or named.table is None:
            message = (
                f"{function.value} searches tables, and {call.table!r} is none (views have no indexes); it"
            )
            raise text.error(site.opening + 1, message)
        alias = "" if site.has_alias else f" AS {quote(site.name)}"
        private = self.names.add_reference(named.name, replace(call, table=named.name), vectors)
        return [Piece(quote(private) + alias, text.start(site.first), verbatim=False)]

    def _expand_view(
        self, view: Meaning, origin: int, trail: ViewTrail, *, alias: bool
    ) -> list[Piece | Slot]:
        """A view as a derived table. The line break ends a comment that ends the view's text."""
        inner = trail.enter(view.name)
        pieces = self._rewrite(inner.read(view.view.strip()), 0, inner)
        body = [
            Piece(piece.text, origin, verbatim=False, mend=piece.mend)
            for piece in pieces
            if isinstance(piece, Piece)
        ]
        after = "\n)" + (f" AS {quote(view.name)}" if alias else "")
        return [Piece("(", origin, verbatim=False), *body, Piece(after, origin, verbatim=False)]


def _refuse_dangerous(text: SqlText, words: frozenset[str]) -> None:
    """Refuse what DataFusion would not survive, or read otherwise."""
    if len(text.words) > SHALLOW_WORDS:
        check_depth(text)
    if not words.isdisjoint(MISREAD):
        refuse_misread(text)


def _respell_names(found: References, text: SqlText) -> Iterator[Edit]:
    """Common table expressions by the names that they get, and functions as DataFusion finds them."""
    names = list(found.renamed.items())
    names += [(one.first, one.name) for one in found.functions if find_search_function(one.name) is None]
    for index, name in names:
        token = text.tokens[index]
        shown = quote(name) if index in found.renamed else name
        if token.text != shown:
            yield Edit.replace(token.start, token.end + 1, shown)


def _read_whole_name(text: SqlText, i: int) -> TableSite:
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
