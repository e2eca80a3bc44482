"""Binds SQL text: every table reference gets a private name.

    SELECT o.id FROM orders o JOIN orders p ON o.id = p.parent
->  SELECT o.id FROM "orders#1" AS o JOIN "orders#2" AS p ON o.id = p.parent

DataFusion then sees one leaf per reference, and its optimizer pushes the conjuncts of each reference into its
leaf. Names that DataFusion resolves itself (CTEs, table functions, information_schema, the schema `system`)
are not changed. A statement that sqlglot cannot parse is passed to DataFusion, which reports the syntax
error.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    UnsupportedError,
    copy_error,
)
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
from lance_gateway.planner.binding.distance_operators import find_vector_names, rewrite_distances
from lance_gateway.planner.binding.key_query import KeyQuery, find_key_query
from lance_gateway.planner.binding.names import (
    CommonTables,
    Meaning,
    NameResolver,
    StatementNames,
    TableSite,
    ViewTrail,
)
from lance_gateway.planner.binding.row_lineage import LINEAGE_WORDS, hide_lineage, names_lineage_of
from lance_gateway.planner.binding.statement_kinds import classify_statement, find_prefix
from lance_gateway.planner.binding.tools.postgres_words import postgres_words
from lance_gateway.planner.binding.tools.session_functions import CurrentNames, write_current_names
from lance_gateway.planner.binding.tools.show_lists import LISTED, list_by_query, show_table, shows_table
from lance_gateway.planner.binding.value_types import find_computed, find_constants
from lance_gateway.planner.bridge.json.functions import JSON_FUNCTIONS
from lance_gateway.planner.search.search_call import (
    SearchFunction,
    find_search_function,
    read_call,
    render_subquery,
)
from lance_gateway.planner.sql.forms import FORMS, read_forms
from lance_gateway.planner.sql.text.as_of import AsOf, read_as_of
from lance_gateway.planner.sql.text.limits import (
    MAX_RELATIONS,
    SHALLOW_WORDS,
    SIZE_WORDS,
    check_brackets,
    check_depth,
    check_literal_sizes,
    find_sizes,
)
from lance_gateway.planner.sql.text.tokens import (
    VECTOR,
    CallSite,
    PlacedMessage,
    SqlText,
    fold,
    number_parameters,
    quote,
    tokenize,
)
from lance_gateway.planner.sql.tree.dialect import NO_SLOTS, parse_expression, parse_query, write_sql
from lance_gateway.planner.sql.tree.tree import Tree, read_name
from lance_gateway.planner.system.catalogs.functions import OWN_NAMES
from lance_gateway.planner.tables.state.extended_tables import Extension, split_extension

_ONLY_TABLES: Final = "Only tables are read as of a version or a time"
_PLACES: Final = ("start", "end")
_WRITES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})


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
    binder = _Binder(resolver, CurrentNames(user, CATALOG, schema))
    text = binder.list_by_query(tokenize(sql))
    nul = sql.find("\0")
    if nul >= 0:
        # DataFusion panics on NUL characters in the names of columns.
        raise InvalidInputError(PlacedMessage(sql.replace("\0", "\ufffd"), nul, "A NUL character"))
    kind, start = classify_statement(text)
    if start is not None:
        bound = binder.bind_query(text, start)
    elif kind is StatementKind.SHOW:
        bound = _Bound(binder.show(text))
    else:
        bound = binder.describe(text)
    names = binder.names
    return BoundStatement(
        sql,
        kind,
        tuple(names.references),
        binder.parameter_count,
        bound.key_query if kind is StatementKind.QUERY else None,
        bound.text,
        bound.root,
        system_tables=frozenset(names.system_tables),
        distances=frozenset(binder.distances),
        vectors=tuple(binder.vectors),
        sizes=bound.sizes,
        computed={} if bound.root is None else find_computed(bound.root),
        literals={} if bound.root is None else find_constants(bound.root),
        catalog_tables=frozenset(names.catalog_tables),
        catalog_functions=frozenset(binder.catalog_functions),
        json_functions=frozenset(binder.json_functions),
        makes_rows=binder.makes_rows,
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    """The text of a statement for DataFusion and the tree of its query; the root is None without a query."""

    text: str
    root: exp.Query | None = None
    key_query: KeyQuery | None = None
    sizes: Mapping[int, str] = field(default_factory=dict)


class _Binder:
    """The state of one call of `bind`."""

    def __init__(self, resolver: NameResolver, current: CurrentNames) -> None:
        self.names = StatementNames(resolver, current.schema)
        self._current = current
        self._slots: Mapping[int, int] = NO_SLOTS
        """Token -> ordinal of the parameter there."""
        self.parameter_count = 0
        self.vectors: list[tuple[float, ...]] = []  # constants that are not in the text
        self.makes_rows = False  # whether a table function does
        self.distances: set[str] = set()  # distance functions that are called
        self.json_functions: set[str] = set()  # functions that read JSON
        self.catalog_functions: set[str] = set()  # functions of pg_catalog that are called
        self._sites = 0  # number of table references, those of views once per expansion

    def list_by_query(self, text: SqlText) -> SqlText:
        """Return the query that a SHOW statement is equivalent to; other statements unchanged."""
        if text.words[0] == "SHOW" and text.words[1] in LISTED:
            return list_by_query(text)
        if not shows_table(text):
            return text
        meaning, first = self._resolve_rest(text, 3)
        if meaning is None or meaning.leaf or (text.words[2] == "VIEW" and meaning.table is not None):
            what = "view" if text.words[2] == "VIEW" else "table or view"
            raise text.error(first, f"The name of a {what} is expected, and it is none")
        return show_table(text, meaning.name, is_view=meaning.table is None)

    def bind_query(self, text: SqlText, first: int) -> _Bound:
        """Bind a query, or EXPLAIN or DESCRIBE with a query from token `first` on."""
        if "?" in text.words or "$" in text.words:
            self._slots, self.parameter_count = number_parameters(text)
        grows = text.has_any(SIZE_WORDS)
        if grows:
            check_literal_sizes(text)
        sizes = find_sizes(text, self._slots) if grows else {}
        tree = self._read(text, first, self._slots)
        if tree is None:
            _refuse_writes(text, first)
            return _Bound(text.sql)
        key_query = self._bind_tree(text, tree, ViewTrail())
        return _Bound(find_prefix(text, first) + write_sql(tree.root), tree.root, key_query, sizes)

    def describe(self, text: SqlText) -> _Bound:
        """Bind DESCRIBE of a table; a view is described through its query."""
        meaning, _ = self._resolve_rest(text, 2 if text.words[1] == "TABLE" else 1)
        if meaning is None:
            return _Bound(text.sql)
        if meaning.table is not None:
            return _Bound(f"DESCRIBE {quote(self.names.add_reference(meaning.name))}")
        if meaning.leaf:
            return _Bound(f"DESCRIBE {quote(meaning.leaf)}")
        alias = _make_alias(meaning.name.table)
        view = exp.Subquery(this=self._bind_view(meaning, ViewTrail(), {}), alias=alias)
        return _Bound(f"DESCRIBE {write_sql(exp.select('*').from_(view))}")

    def show(self, text: SqlText) -> str:
        """Return SHOW COLUMNS, with the whole name of a table that must exist, and SHOW FUNCTIONS."""
        if text.words[1] == "COLUMNS" and text.words[2] in {"FROM", "IN"}:
            meaning, _ = self._resolve_rest(text, 3)
            if meaning is not None:
                # Without a schema, DataFusion would show columns of tables of that name in all schemas.
                return f"SHOW COLUMNS FROM {meaning.name.sql}"
        return text.sql

    def _resolve_rest(self, text: SqlText, i: int) -> tuple[Meaning | None, int]:
        """Resolve a table name that fills the rest of the statement from token `i` on."""
        if not text.is_name(i):
            raise text.error(i, "The name of a table is expected")
        first, parts = i, [text.name(i)]
        while text.words[i + 1] == "." and text.is_name(i + 2):
            i += 2
            parts.append(text.name(i))
        if i + 1 < len(text.tokens):
            raise text.error(i + 1, f"Unexpected {text.tokens[i + 1].text!r}")
        return self.names.resolve(parts, lambda message: text.error(first, message), ViewTrail()), first

    # Trees

    def _read(self, text: SqlText, first: int, slots: Mapping[int, int]) -> Tree | None:
        """Return the tree of a query in forms that DataFusion has; None if sqlglot does not read it."""
        check_brackets(text, first)
        if len(text.words) > SHALLOW_WORDS:
            check_depth(text)
        return read_forms(text, (write_current_names(self._current), postgres_words, *FORMS), first, slots)

    def _bind_tree(self, text: SqlText, tree: Tree, trail: ViewTrail) -> KeyQuery | None:
        """Bind one query in place; return what it looks up, if it only looks up keys."""
        names = self.names
        schema = trail.schema or names.schema
        for into in tree.find_all(exp.Into):
            message = "SELECT ... INTO is not supported: use CREATE TABLE ... AS SELECT"
            raise tree.error(into, message, UnsupportedError)
        calls, relations = _list_relations(tree)
        common = CommonTables(tree, relations, names.common_tables if trail.names else ())
        names.common_tables |= common.names
        self._sites += len(relations)
        if trail.names and self._sites > MAX_RELATIONS:
            # Views that name other views twice multiply.
            raise trail.error(f"the statement reads more than the {MAX_RELATIONS} tables that are allowed")
        called = {read_name(node.this) for node in relations if isinstance(node.this, exp.Identifier)}
        called |= {read_name(alias.this) for alias in tree.find_all(exp.TableAlias) if alias.this is not None}
        sites = [_read_site(node, text, tree) for node in relations if node not in common]
        meanings = [names.resolve(site.parts, partial(tree.error, site.node), trail) for site in sites]
        key_query = None
        if not trail.names and not calls and len(sites) == len(relations) == 1:
            key_query = _find_key_query(tree.root, sites[0], meanings[0])
        columns: Sequence[exp.Column] = tree.find_all(exp.Column)
        aliases = names.find_aliases(sites, columns, schema)
        may_name_lineage = text.has_any(LINEAGE_WORDS)
        hidden: list[tuple[exp.Table, Sequence[str]]] = []
        views: list[tuple[exp.Table, exp.Subquery]] = []
        for site, meaning in zip(sites, meanings, strict=True):
            lineage: Sequence[str] = ()
            if may_name_lineage and meaning is not None and names_lineage_of(site.node, columns):
                lineage = self._find_lineage(meaning, site.as_of)
                hidden += [(site.node, lineage)] if lineage else []
            if meaning is not None and meaning.view:
                views.append((site.node, self._expand_view(site, meaning, tree, trail, aliases)))
            else:
                self._replace_table(site, meaning, tree, trail, aliases, has_lineage=bool(lineage))
        names.shorten_columns(sites, columns, schema, aliases, called)
        common.rename()
        hide_lineage(tree, hidden)
        for node in calls:
            self._replace_call(node, text, tree, trail)
        self.distances |= rewrite_distances(
            tree, lambda: find_vector_names(tree, names.find_vector_columns()), self._keep_vector
        )
        functions = {fold(call.name) for call in tree.find_all(exp.Anonymous)}
        self.catalog_functions |= OWN_NAMES.intersection(functions)
        self.json_functions |= JSON_FUNCTIONS.intersection(functions)
        if trail.names:
            _move(tree.root, trail.place)
        # Last, so that each view is walked once, however deep it is in others.
        for node, view in views:
            view.set("joins", node.args.get("joins"))
            tree.replace(node, view)
        return key_query

    def _keep_vector(self, numbers: list[float]) -> exp.Expr:
        """Keep a long vector as a constant, and return the expression that refers to it."""
        self.vectors.append(tuple(numbers))
        return parse_expression(f"CAST(${VECTOR}{len(self.vectors)} AS DOUBLE[])")

    # Tables

    def _find_lineage(self, meaning: Meaning, as_of: AsOf | None) -> Sequence[str]:
        """Return the columns of row lineage of a table; none for other relations."""
        if meaning.table is None or split_extension(meaning.name)[1] is not Extension.NONE:
            return ()
        return self.names.find_lineage_columns(meaning.name, as_of)

    def _replace_table(
        self,
        site: TableSite,
        meaning: Meaning | None,
        tree: Tree,
        trail: ViewTrail,
        aliases: Mapping[TableName, str],
        *,
        has_lineage: bool,
    ) -> None:
        """Replace the name of a table."""
        node = site.node
        if site.as_of is not None and (meaning is None or meaning.table is None):
            raise tree.error(node, f"{_ONLY_TABLES}, and not a system table")
        if meaning is None:
            schema = site.parts[-2] if len(site.parts) > 1 else trail.schema or self.names.schema
            # DataFusion has its system tables in a catalog of another name.
            if len(site.parts) != 2 and not (len(site.parts) > 2 and schema == SYSTEM_SCHEMA):
                node.set("catalog", None)
                node.set("db", exp.to_identifier(schema))
            return
        own = aliases.get(meaning.name, meaning.name.table)
        if meaning.leaf:
            _rename(site, meaning.leaf, own)
        else:
            if site.as_of is not None:
                self.names.table_schema(meaning.name, site.as_of)  # raises if there is no such version
            name = Extension.LINEAGE.extend_name(meaning.name) if has_lineage else meaning.name
            _rename(site, self.names.add_reference(name, as_of=site.as_of), own)

    def _expand_view(
        self,
        site: TableSite,
        view: Meaning,
        tree: Tree,
        trail: ViewTrail,
        aliases: Mapping[TableName, str],
    ) -> exp.Subquery:
        """Return a view as a derived table."""
        node = site.node
        if site.as_of is not None:
            raise tree.error(node, f"{_ONLY_TABLES}, and not a view (what it reads may say AS OF itself)")
        own = aliases.get(view.name, view.name.table)
        alias = node.args.get("alias") or (None if site.has_alias else _make_alias(own))
        query = self._bind_view(view, trail, node.this.meta)
        return exp.Subquery(this=query, alias=alias)

    def _bind_view(self, view: Meaning, trail: ViewTrail, place: Mapping[str, object]) -> exp.Query:
        """Return the query of a view, which is in the statement at the place of the view's name."""
        inner = trail.enter(view.name, self.names.resolver.view_path(view.name), place)
        text = inner.read(view.view.strip())
        tree = self._read(text, 0, NO_SLOTS)
        if tree is None:
            raise inner.error("its text has syntax that is not supported")
        self._bind_tree(text, tree, inner)
        return tree.root

    # Calls

    def _replace_call(self, node: exp.Expr, text: SqlText, tree: Tree, trail: ViewTrail) -> None:
        """Replace a call of a table function."""
        name = fold(node.this.name)
        function = find_search_function(name)
        if node.args.get("version"):
            raise tree.error(node, f"{_ONLY_TABLES}, and functions are not")
        if function is None and name not in STATE_FUNCTIONS:
            self.makes_rows = True
            node.this.set("this", name)  # as DataFusion spells it
            return
        first = _find_token(text, node.this)
        site = CallSite(first, first + 1, text.closing(first + 1), name)
        alias = node.args.get("alias") or _make_alias(name)
        if function is not None:
            private = self._add_search(site, function, text, trail)
            tree.replace(node, exp.Table(this=exp.to_identifier(private, quoted=True), alias=alias))
            return
        call = (read_changes_call if name == CHANGES else read_position_call)(text, site)
        reason = f"{name} reads tables, and {call.table!r} is none"
        table = self._resolve_named(call.table, site, text, trail, reason)
        if isinstance(call, PositionCall):
            query = write_position(table, call, self.names)
        else:
            query = write_changes(table, call, self.names)
        tree.replace(node, exp.Subquery(this=parse_query(query), alias=alias))

    def _add_search(self, site: CallSite, function: SearchFunction, text: SqlText, trail: ViewTrail) -> str:
        """Add the reference of a call of a search function, and return its private name."""
        slots = NO_SLOTS if trail.names else self._slots
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
        return self.names.add_reference(table, replace(call, table=table), vectors)

    def _resolve_named(
        self, name: str, site: CallSite, text: SqlText, trail: ViewTrail, reason: str
    ) -> TableName:
        """Return the name in the catalog of a table that the first argument of a call names.

        Raises:
            LanceGatewayError: there is none; the message says so, or `reason` for views and system tables.
        """
        parts = self._divide_name(name, trail.schema or self.names.schema)
        meaning = self.names.resolve(parts, lambda message: text.error(site.opening + 1, message), trail)
        if meaning is None or meaning.table is None:
            raise text.error(site.opening + 1, reason)
        return meaning.name

    def _divide_name(self, text: str, schema: str) -> tuple[str, ...]:
        """Return the parts of a name in a text, which may be that of a table with dots in its own name."""
        parts, find = split_name(text), self.names.resolver.find
        if len(parts) == 1 or find(TableName.qualify(parts[-1], parts[-2], schema)) is not None:
            return parts
        return parts if find(TableName(text, schema)) is None else (text,)


def _list_relations(tree: Tree) -> tuple[Sequence[exp.Expr], Sequence[exp.Table]]:
    """Return the calls of table functions and the named relations of a query, in the order of its text.

    Subqueries in calls of search functions are separate statements, and have none of them.
    """
    found = sorted(tree.find_all(exp.Table, exp.Lateral), key=_find_start)
    calls = [node for node in found if isinstance(node.this, exp.Anonymous)]
    searches = {id(node) for node in calls if find_search_function(fold(node.this.name)) is not None}

    def is_outside(node: exp.Expr) -> bool:
        around = node.parent
        while around is not None and id(around) not in searches:
            around = around.parent
        return around is None

    if searches:
        found, calls = list(filter(is_outside, found)), list(filter(is_outside, calls))
    return calls, [node for node in found if isinstance(node.this, exp.Identifier | exp.Dot)]


def _find_start(relation: exp.Expr) -> int:
    """Return where a relation begins in the text; behind its end if it is not there."""
    starts = (
        [node.meta["start"] for node in relation.this.walk() if "start" in node.meta] if relation.this else []
    )
    return min(starts, default=sys.maxsize)


def _find_token(text: SqlText, node: exp.Expr) -> int:
    """Return the token of an expression of one word."""
    return bisect_left(text.tokens, int(node.meta["start"]), key=lambda token: token.start)


def _read_site(node: exp.Table, text: SqlText, tree: Tree) -> TableSite:
    names = node.this.flatten() if isinstance(node.this, exp.Dot) else (node.this,)
    parts = (node.args.get("catalog"), node.args.get("db"), *names)
    has_alias = False
    around: exp.Expr | None = node
    # "(orders) AS o" is a table with an alias, and DataFusion refuses a second alias inside.
    while not has_alias and isinstance(around, exp.Table | exp.Subquery):
        has_alias = around.args.get("alias") is not None
        around = None if around.args.get("joins") else around.parent
    as_of = None
    if node.args.get("version") is not None:
        found = read_as_of(text, _find_token(text, node.this) + 1)
        as_of = None if found is None else found[0]
        node.set("version", None)
        tree.note_change()
    return TableSite(node, tuple(read_name(part) for part in parts if part), has_alias, as_of)


def _move(root: exp.Expr, place: Mapping[str, object]) -> None:
    """Let all expressions of a tree have one place in the text."""
    for node in root.walk():
        for key in _PLACES:
            if key in node.meta:
                del node.meta[key]
            if key in place:
                node.meta[key] = place[key]


def _make_alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def _rename(site: TableSite, name: str, alias: str) -> None:
    """Give a relation another name, and its own as alias if it has none."""
    node = site.node
    node.set("this", exp.to_identifier(name, quoted=True))
    node.set("db", None)
    node.set("catalog", None)
    if not site.has_alias:
        node.set("alias", _make_alias(alias))


def _find_key_query(root: exp.Query, site: TableSite, meaning: Meaning | None) -> KeyQuery | None:
    if meaning is None or meaning.table is None or not meaning.table.primary_key or site.as_of is not None:
        return None
    return find_key_query(
        root,
        site.parts,
        table=meaning.name,
        columns=meaning.table.declared_schema.names,
        primary_key=meaning.table.primary_key,
    )


def _refuse_writes(text: SqlText, first: int) -> None:
    """Refuse a statement that writes behind WITH."""
    if text.words[first] == "WITH":
        for i in text.level(first):
            if text.words[i] in _WRITES:
                message = f"{text.words[i]} is not a query, and a query is expected here"
                raise UnsupportedError(PlacedMessage(text.sql, text.start(i), message))
