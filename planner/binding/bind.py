"""Binds SQL text: every table reference gets a private name.

    SELECT o.id FROM orders o JOIN orders p ON o.id = p.parent
->  SELECT o.id FROM "orders#1" o JOIN "orders#2" p ON o.id = p.parent

DataFusion then sees one leaf per reference, and its optimizer pushes the conjuncts of each reference into its
leaf. The text is edited at token positions and never regenerated, so all syntax of DataFusion is supported.
Names that DataFusion resolves itself (CTEs, table functions, information_schema, the schema `system`) are not
changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, copy_error
from lance_gateway.memwal.storage.table_names import CATALOG, MAIN_SCHEMA, TableName, split_name
from lance_gateway.planner.access.visible_catalog import SYSTEM_SCHEMA
from lance_gateway.planner.binding.bound_statement import (
    BoundStatement,
    StatementKind,
    VectorsStatement,
)
from lance_gateway.planner.binding.changes.calls import CHANGES, read_changes_call, write_changes
from lance_gateway.planner.binding.changes.positions import (
    STATE_FUNCTIONS,
    PositionCall,
    read_position_call,
    write_position,
)
from lance_gateway.planner.binding.distance_operators import (
    DISTANCE_WORDS,
    SPLIT_OPERATORS,
    find_called_distances,
    find_vector_names,
    rewrite_distances,
)
from lance_gateway.planner.binding.key_query import find_key_query
from lance_gateway.planner.binding.names import Meaning, NameResolver, StatementNames, ViewTrail
from lance_gateway.planner.binding.row_lineage import LINEAGE_WORDS, LineageScopes
from lance_gateway.planner.binding.statement_kinds import classify_statement, drop_format
from lance_gateway.planner.binding.tools.postgres_words import postgres_words
from lance_gateway.planner.binding.tools.session_functions import CurrentNames, write_current_names
from lance_gateway.planner.binding.tools.show_lists import LISTED, list_by_query, show_table, shows_table
from lance_gateway.planner.binding.value_types import find_computed
from lance_gateway.planner.bridge.json.functions import JSON_FUNCTIONS
from lance_gateway.planner.search.search_call import (
    SearchFunction,
    exclude_subqueries,
    find_search_function,
    read_call,
    render_subquery,
)
from lance_gateway.planner.sql.dialects.names import NamedTable
from lance_gateway.planner.sql.forms import FORMS, read_forms
from lance_gateway.planner.sql.text.edits import Edit, Piece, Slot, splice
from lance_gateway.planner.sql.text.limits import (
    SHALLOW_WORDS,
    SIZE_WORDS,
    check_depth,
    check_literal_sizes,
    find_sizes,
)
from lance_gateway.planner.sql.text.references import (
    MAX_RELATIONS,
    FunctionSite,
    References,
    TableSite,
    find_references,
)
from lance_gateway.planner.sql.text.tokens import (
    VECTOR,
    PlacedMessage,
    SqlText,
    number_parameters,
    quote,
    tokenize,
)
from lance_gateway.planner.system.catalogs.functions import OWN_NAMES
from lance_gateway.planner.tables.state.extended_tables import Extension, split_extension


def bind(
    sql: str, resolver: NameResolver, *, schema: str = MAIN_SCHEMA, user: str = "anonymous"
) -> BoundStatement:
    """Resolve the names of one statement.

    Args:
        sql: one statement; a trailing semicolon is allowed.
        resolver: resolves table names.
        schema: of names without one.
        user: who asks.

    Raises:
        InvalidInputError: a syntax error that is found without DataFusion (unbalanced brackets, unterminated
            text, a NUL, parameters that are mixed or have gaps), with line, column and excerpt.
        NotFoundError: a table, schema or catalog does not exist.
        UnsupportedError: the statement is not supported.
    """
    current = CurrentNames(user, CATALOG, schema)
    binder = _Binder(resolver, current)
    text, root = binder.spell_out(tokenize(sql))
    grows = text.has_any(SIZE_WORDS)
    if grows:
        check_literal_sizes(text)
    kind, start = classify_statement(text)
    if kind is StatementKind.SHOW:
        pieces = binder.show(text)
    elif kind is StatementKind.DESCRIBE and start is None:
        pieces = binder.describe(text)
    else:
        pieces = binder.query(text, start or 0)
    nul = sql.find("\0")
    if nul >= 0:
        # DataFusion panics on NUL characters in the names of columns.
        raise InvalidInputError(PlacedMessage(sql.replace("\0", "\ufffd"), nul, "A NUL character"))
    names = binder.names
    sizes = find_sizes(text, binder.slots) if grows else {}
    key_query = None
    is_query = kind is StatementKind.QUERY and len(names.references) == 1
    if root is not None and is_query and binder.base_site is not None:
        (reference,) = names.references
        site, table = binder.base_site
        if table.primary_key and reference.as_of is None:
            key_query = find_key_query(
                root,
                site.parts,
                table=reference.table,
                columns=table.declared_schema.names,
                primary_key=table.primary_key,
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
        sizes,
        {} if root is None else find_computed(root),
        spelled=text.sql,
        catalog_tables=frozenset(names.catalog_tables),
        catalog_functions=frozenset(binder.catalog_functions),
        json_functions=frozenset(binder.json_functions),
        makes_rows=binder.makes_rows,
    )


class _Binder:
    """The state of one call of `bind`."""

    def __init__(self, resolver: NameResolver, current: CurrentNames) -> None:
        self.names = StatementNames(resolver, current.schema)
        self._current = current
        self.base_site: tuple[TableSite, NamedTable] | None = None
        """The last base table in the text of the statement, views excluded."""
        self.slots: dict[int, int] = {}  # token index -> parameter ordinal
        self.parameter_count = 0
        self.vectors: list[tuple[float, ...]] = []  # constants that are not in the text
        self.makes_rows = False  # whether a table function does
        self.distances: set[str] = set()  # distance functions that are called
        self.json_functions: set[str] = set()  # functions that read JSON
        self.catalog_functions: set[str] = set()  # functions of pg_catalog that are called
        self._sites = 0  # number of table references, those of views once per expansion

    def spell_out(self, text: SqlText) -> tuple[SqlText, exp.Query | None]:
        """Return a text in forms that DataFusion has, and its tree; see `read_forms`."""
        if text.words[0] == "SHOW" and text.words[1] in LISTED:
            text = list_by_query(text)
        elif shows_table(text):
            site = _read_whole_name(text, 3)
            meaning = self.names.resolve(site, text, ViewTrail())
            if meaning is None or meaning.leaf or (text.words[2] == "VIEW" and meaning.table is not None):
                what = "view" if text.words[2] == "VIEW" else "table or view"
                raise text.error(site.first, f"The name of a {what} is expected, and it is none")
            text = show_table(text, meaning.name, is_view=meaning.table is None)
        text, root = read_forms(text, (write_current_names(self._current), postgres_words, *FORMS))
        self.catalog_functions |= OWN_NAMES.intersection(text.names.values())
        return text, root

    def query(self, text: SqlText, start: int) -> list[Piece | Slot]:
        """Return the pieces of a query, or of EXPLAIN or DESCRIBE with a query from token `start` on."""
        if "?" in text.words or "$" in text.words:
            self.slots, self.parameter_count = number_parameters(text)
        return self._rewrite(text, start, ViewTrail())

    def describe(self, text: SqlText) -> list[Piece | Slot]:
        """Return the pieces of DESCRIBE table; a view is described through its query."""
        i = 2 if text.words[1] == "TABLE" else 1
        site = _read_whole_name(text, i)
        meaning = self.names.resolve(site, text, ViewTrail())
        if meaning is None:
            return [Piece(text.sql, 0, verbatim=True)]
        origin = text.start(site.first)
        if meaning.table is not None:
            private = self.names.add_reference(meaning.name)
            return [Piece(f"DESCRIBE {quote(private)}", origin, verbatim=False)]
        if meaning.leaf:
            return [Piece(f"DESCRIBE {quote(meaning.leaf)}", origin, verbatim=False)]
        pieces: list[Piece | Slot] = [Piece("DESCRIBE SELECT * FROM ", origin, verbatim=False)]
        return pieces + self._expand_view(meaning, origin, ViewTrail(), meaning.name.table)

    def show(self, text: SqlText) -> list[Piece | Slot]:
        """Return SHOW COLUMNS, with the whole name of a table that must exist, and SHOW FUNCTIONS."""
        if text.words[1] == "COLUMNS" and text.words[2] in {"FROM", "IN"}:
            site = _read_whole_name(text, 3)
            meaning = self.names.resolve(site, text, ViewTrail())
            if meaning is not None:
                # Without a schema, DataFusion would show columns of tables of that name in all schemas.
                return [Piece(f"SHOW COLUMNS FROM {meaning.name.sql}", 0, verbatim=False)]
        return [Piece(text.sql, 0, verbatim=True)]

    def _rewrite(self, text: SqlText, start: int, trail: ViewTrail) -> list[Piece | Slot]:
        """Edit one text; pieces of a view's text have their origin where the statement names the view."""
        names, tokens = self.names, text.tokens
        schema = trail.schema or names.schema
        split_operators = (operator for operator in SPLIT_OPERATORS if operator in text.sql)
        words = frozenset(text.words).union(map(str.upper, text.names.values()), split_operators)
        references = find_references(
            text, start, taken=frozenset(names.common_tables) if trail.names else frozenset()
        )
        if len(text.words) > SHALLOW_WORDS:
            check_depth(text)
        names.common_tables |= references.common_tables
        self._sites += len(references.tables)
        if trail.names and self._sites > MAX_RELATIONS:
            # Views that name other views twice multiply.
            raise trail.error(f"the statement reads more than the {MAX_RELATIONS} tables that are allowed")
        edits = drop_format(text, start)
        searches: list[tuple[FunctionSite, SearchFunction]] = []
        changes: list[FunctionSite] = []
        if references.functions:
            references, searches = exclude_subqueries(references)
            changes = [call for call in references.functions if call.name in STATE_FUNCTIONS]
            self.makes_rows |= len(references.functions) > len(searches) + len(changes)
        aliases = names.find_aliases(references, text, schema)
        edits.extend(self._rewrite_tables(references, text, trail, aliases))
        calls: list[tuple[int, int]] = []
        for call, function in searches:
            pieces = self._rewrite_search(call, function, text, trail)
            calls.append((tokens[call.first].start, tokens[call.closing].end + 1))
            edits.append(Edit(*calls[-1], pieces))
        for call in changes:
            calls.append((tokens[call.first].start, tokens[call.closing].end + 1))
            edits.append(Edit(*calls[-1], self._rewrite_changes(call, text, trail)))
        edits.extend(_respell_names(references, text))
        if references.chains:
            edits.extend(names.shorten_columns(references, text, schema, aliases))
        self.json_functions |= JSON_FUNCTIONS.intersection(text.names.values())
        if not words.isdisjoint(DISTANCE_WORDS):
            self.distances |= set(find_called_distances(text))
            replaced = [(call.first, call.closing) for call in (*(call for call, _ in searches), *changes)]
            edits.extend(
                rewrite_distances(
                    text,
                    lambda: find_vector_names(text, names.find_vector_columns()),
                    self._keep_vector,
                    replaced,
                )
            )
        if not trail.names:
            for i, ordinal in self.slots.items():
                begin, last = tokens[i].start, tokens[i + (text.words[i] == "$")]
                edits.append(Edit(begin, last.end + 1, [Slot(ordinal, begin)]))
        if calls:
            edits = [
                edit
                for edit in edits
                if not any(begin < edit.begin and edit.end <= end for begin, end in calls)
            ]
        return splice(text.sql, edits)

    def _keep_vector(self, numbers: list[float]) -> str:
        """Keep a long vector as a constant, and return the text that stands for it."""
        self.vectors.append(tuple(numbers))
        return f"CAST(${VECTOR}{len(self.vectors)} AS DOUBLE[])"

    # Tables

    def _rewrite_tables(
        self, references: References, text: SqlText, trail: ViewTrail, aliases: Mapping[TableName, str]
    ) -> Iterator[Edit]:
        """Yield edits that replace table names, and keep their row lineage out of what * stands for."""
        scopes = LineageScopes(text) if text.has_any(LINEAGE_WORDS) else None
        with_lineage: list[tuple[TableSite, Sequence[str]]] = []
        for site in references.tables:
            columns = self._find_lineage(site, text, trail, scopes)
            if columns:
                with_lineage.append((site, columns))
            pieces = self._rewrite_table(site, text, trail, aliases, has_lineage=bool(columns))
            if pieces is not None:
                yield Edit(text.start(site.first), text.end(site.last), pieces)
        if scopes is not None:
            yield from scopes.hide(with_lineage)

    def _find_lineage(
        self, site: TableSite, text: SqlText, trail: ViewTrail, scopes: LineageScopes | None
    ) -> Sequence[str]:
        """Return the columns of row lineage of a table, if the text names one; () for other relations."""
        if scopes is None or site.common_table is not None or not scopes.names_lineage_of(site):
            return ()
        meaning = self.names.resolve(site, text, trail)
        if meaning is None or meaning.table is None or split_extension(meaning.name)[1] is not Extension.NONE:
            return ()
        return self.names.find_lineage_columns(meaning.name, site.as_of)

    def _rewrite_table(
        self,
        site: TableSite,
        text: SqlText,
        trail: ViewTrail,
        aliases: Mapping[TableName, str],
        *,
        has_lineage: bool,
    ) -> list[Piece | Slot] | None:
        """Return the pieces that replace a table name; None leaves it unchanged."""
        origin = text.tokens[site.first].start
        if site.common_table is not None:
            self._refuse_as_of(site, text, "a common table expression")
            if site.common_table == site.parts[0]:
                return None
            alias = "" if site.has_alias else f" AS {quote(site.parts[-1])}"
            return [Piece(quote(site.common_table) + alias, origin, verbatim=False)]
        meaning = self.names.resolve(site, text, trail)
        if meaning is None:
            self._refuse_as_of(site, text, "a system table")
            schema = site.parts[-2] if len(site.parts) > 1 else trail.schema or self.names.schema
            # DataFusion has its system tables in a catalog of another name.
            if len(site.parts) == 2 or (len(site.parts) > 2 and schema == SYSTEM_SCHEMA):
                return None
            return [Piece(f"{schema}.{quote(site.parts[-1])}", origin, verbatim=False)]
        if meaning.leaf:
            self._refuse_as_of(site, text, "a system table")
            shown = "" if site.has_alias else f" AS {quote(aliases.get(meaning.name, meaning.name.table))}"
            return [Piece(quote(meaning.leaf) + shown, origin, verbatim=False)]
        if meaning.table is None:
            self._refuse_as_of(site, text, "a view (what it reads may say AS OF itself)")
            own = aliases.get(meaning.name, meaning.name.table)
            return self._expand_view(meaning, origin, trail, None if site.has_alias else own)
        if not trail.names:
            self.base_site = site, meaning.table
        if site.as_of is not None:
            self.names.table_schema(meaning.name, site.as_of)  # raises if there is no such version
        name = Extension.LINEAGE.extend_name(meaning.name) if has_lineage else meaning.name
        private = self.names.add_reference(name, as_of=site.as_of)
        shown = "" if site.has_alias else f" AS {quote(aliases.get(meaning.name, meaning.name.table))}"
        return [Piece(f'"{private}"{shown}', origin, verbatim=False)]

    def _refuse_as_of(self, site: TableSite, text: SqlText, kind: str) -> None:
        if site.as_of is not None:
            raise text.error(site.first, f"Only tables are read as of a version or a time, and not {kind}")

    def _rewrite_search(
        self, site: FunctionSite, function: SearchFunction, text: SqlText, trail: ViewTrail
    ) -> list[Piece | Slot]:
        """Return the pieces that replace a call of a search function."""
        slots = {} if trail.names else self.slots
        call = read_call(text, function, site.opening, site.closing, slots)
        vectors = None
        if call.subquery is not None:
            sql, ordinals = render_subquery(text, call.subquery, slots)
            try:
                current, resolver = self._current, self.names.resolver
                bound = bind(sql, resolver, schema=current.schema, user=current.user)
            except LanceGatewayError as error:
                msg = f"{function.value}: in its subquery, which is a statement of its own: {error}"
                raise copy_error(error, msg) from error
            vectors = VectorsStatement(bound, ordinals)
        reason = f"{function.value} searches tables, and {call.table!r} is none (views have no indexes)"
        table = self._resolve_named(call.table, site, text, trail, reason)
        alias = "" if site.has_alias else f" AS {quote(site.name)}"
        private = self.names.add_reference(table, replace(call, table=table), vectors)
        return [Piece(quote(private) + alias, text.start(site.first), verbatim=False)]

    def _rewrite_changes(self, site: FunctionSite, text: SqlText, trail: ViewTrail) -> list[Piece | Slot]:
        """Return the pieces that replace a call that is about states of a table: a query over these."""
        call = (read_changes_call if site.name == CHANGES else read_position_call)(text, site)
        reason = f"{site.name} reads tables, and {call.table!r} is none"
        table = self._resolve_named(call.table, site, text, trail, reason)
        alias = "" if site.has_alias else f" AS {quote(site.name)}"
        if isinstance(call, PositionCall):
            query = write_position(table, call, self.names)
        else:
            query = write_changes(table, call, self.names)
        return [Piece(query + alias, text.start(site.first), verbatim=False)]

    def _resolve_named(
        self, name: str, site: FunctionSite, text: SqlText, trail: ViewTrail, reason: str
    ) -> TableName:
        """Return the name in the catalog of a table that the first argument of a call names.

        Raises:
            LanceGatewayError: there is none; the message says so, or `reason` for views and system tables.
        """
        parts = self._divide_name(name, trail.schema or self.names.schema)
        site_of_table = TableSite(site.opening + 1, site.opening + 1, parts, has_alias=True)
        meaning = self.names.resolve(site_of_table, text, trail)
        if meaning is None or meaning.table is None:
            raise text.error(site.opening + 1, reason)
        return meaning.name

    def _divide_name(self, text: str, schema: str) -> tuple[str, ...]:
        """Return the parts of a name in a text, which may be that of a table with dots in its own name."""
        parts, find = split_name(text), self.names.resolver.find
        if len(parts) == 1 or find(TableName.qualify(parts[-1], parts[-2], schema)) is not None:
            return parts
        return parts if find(TableName(text, schema)) is None else (text,)

    def _expand_view(
        self, view: Meaning, origin: int, trail: ViewTrail, alias: str | None
    ) -> list[Piece | Slot]:
        """Return a view as a derived table."""
        resolver = self.names.resolver
        path = resolver.view_path(view.name)
        inner = trail.enter(view.name, path)
        text, _ = self.spell_out(inner.read(view.view.strip()))
        pieces = self._rewrite(text, 0, inner)
        body = [Piece(piece.text, origin, verbatim=False) for piece in pieces if isinstance(piece, Piece)]
        # The line break ends a comment at the end of the view's text.
        after = "\n)" + ("" if alias is None else f" AS {quote(alias)}")
        return [Piece("(", origin, verbatim=False), *body, Piece(after, origin, verbatim=False)]


def _respell_names(references: References, text: SqlText) -> Iterator[Edit]:
    """Yield edits that rename common table expressions, and spell table functions as DataFusion does."""
    names = list(references.renamed.items())
    names += [
        (call.first, call.name)
        for call in references.functions
        if call.name not in STATE_FUNCTIONS and not find_search_function(call.name)
    ]
    for index, name in names:
        token = text.tokens[index]
        spelling = quote(name) if index in references.renamed else name
        if token.text != spelling:
            yield Edit.replace(token.start, token.end + 1, spelling)


def _read_whole_name(text: SqlText, i: int) -> TableSite:
    """Read a table name that fills the rest of the statement from token `i` on."""
    if not text.is_name(i):
        raise text.error(i, "The name of a table is expected")
    first, parts = i, [text.name(i)]
    while text.words[i + 1] == "." and text.is_name(i + 2):
        i += 2
        parts.append(text.name(i))
    if i + 1 < len(text.tokens):
        raise text.error(i + 1, f"Unexpected {text.tokens[i + 1].text!r}")
    return TableSite(first, i, tuple(parts), has_alias=True)
