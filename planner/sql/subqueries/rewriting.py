"""Writes a statement whose subqueries DataFusion does not plan in another way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from memwal.storage.table_names import SearchPath, TableName
from planner.sql.dialects.names import KnownNames
from planner.sql.subqueries.blocks import Block
from planner.sql.subqueries.dialect import RewritingError, parse_query, write_query
from planner.sql.subqueries.expressions import Expressions
from planner.sql.subqueries.relations.laterals import (
    has_laterals,
    has_mistaken_laterals,
    join_laterals,
    move_conditions,
)
from planner.sql.subqueries.relations.unnests import has_unnests, join_unnests
from planner.sql.subqueries.scopes import Scopes, name_of_table
from planner.sql.subqueries.sites import Site, find_sites, find_sites_in
from planner.sql.subqueries.totals import divide_totals, list_groups, name_outputs
from planner.sql.subqueries.trees import Fresh, derived, has_aggregates, identifier, key_of, queries_in

_MAX_VIEWS = 64


class NameResolver(KnownNames, Protocol):
    """The tables and views of a catalog."""

    def view_sql(self, name: TableName) -> str | None:
        """Return the SELECT statement of a view; None if there is no view of this name."""

    def view_path(self, name: TableName) -> str:
        """Return the schema of names without one in a view."""


@dataclass(frozen=True)
class ReadStatement:
    """A statement whose columns are known to belong to its relations."""

    tree: exp.Query
    fresh: Fresh
    scopes: Scopes


def read_statement(tree: exp.Query, resolver: NameResolver, schema: str) -> ReadStatement:
    """Read a statement, in which views give way to their queries.

    Args:
        tree: the statement, which is changed.
        resolver: of the names in it.
        schema: of names without one.

    Raises:
        RewritingError: a column can't be told to belong to a relation.
    """
    fresh = Fresh()
    scopes = Scopes(resolver, fresh, schema)
    inline_views(tree, resolver, schema)
    scopes.read(tree)
    return ReadStatement(tree, fresh, scopes)


def has_mistaken_subqueries(statement: ReadStatement, *, correlated: bool = False) -> bool:
    """Return whether DataFusion may answer a subquery wrongly; `correlated` leaves out all others."""
    for select in statement.tree.find_all(exp.Select):
        if (
            has_unnests(select)
            or has_mistaken_laterals(select)
            or any(
                site.is_mistaken(select) and (site.is_correlated or not correlated)
                for site in find_sites(select)
            )
        ):
            return True
    return False


@dataclass(frozen=True)
class JoinedStatement:
    """A statement with joins in place of its subqueries.

    Attributes:
        sql: its text.
        names: results that have other names in it, each with the one that it had.
    """

    sql: str
    names: Mapping[str, str]


def join_subqueries(statement: ReadStatement) -> JoinedStatement:
    """Return a statement, whose tree is changed, with joins in place of its subqueries.

    Raises:
        RewritingError: it can't be written so, or has no such subquery; the text tells why.
    """
    tree = statement.tree
    commons = {common.alias: common.this for common in tree.find_all(exp.CTE)}
    rewriting = _Rewriting(statement.fresh, statement.scopes, commons)
    names = name_results(tree, statement.fresh)
    try:
        rewriting.rewrite(tree)
    except RecursionError:
        msg = "it is nested too deeply"
        raise RewritingError(msg) from None
    if not rewriting.is_changed:
        msg = "it has no subquery that is joined"
        raise RewritingError(msg)
    return JoinedStatement(write_query(tree), names)


def name_results(tree: exp.Expr, fresh: Fresh) -> dict[str, str]:
    """Give the results of a statement names that stay, whatever stands in their place.

    Returns:
        The new names, each with the one that the result had.
    """
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    if not isinstance(tree, exp.Select) or not (has_unnests(tree) or next(find_sites(tree), None)):
        return {}
    return name_outputs(tree, fresh)


def inline_views(tree: exp.Query, resolver: NameResolver, schema: str, depth: int = 0) -> None:
    """Put the queries of views in their place.

    Raises:
        RewritingError: a view can't be read, or reads a table with the name of a common table expression.
    """
    commons = {common.alias for common in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier) or (table.name in commons and not table.db):
            continue
        if table.args.get("version"):
            continue  # a view has no past: binding raises it
        name = name_of_table(table, schema)
        view = None if resolver.find(name) is not None else resolver.view_sql(name)
        if view is None:
            continue
        query = parse_query(view)
        named = {one.name for one in query.find_all(exp.Table)}
        if depth > _MAX_VIEWS or named & commons or (commons and query.find(exp.CTE)):
            msg = f"the view {table.name} has names of common table expressions, or of too many views"
            raise RewritingError(msg)
        path = resolver.view_path(name)
        if path != schema or isinstance(path, SearchPath) or isinstance(schema, SearchPath):
            _add_schema(query, path)
        inline_views(query, resolver, schema, depth + 1)
        alias = table.args.get("alias")
        relation = derived(query, table.alias_or_name, [one.name for one in alias.columns] if alias else [])
        for key in ("joins",):
            if table.args.get(key):
                relation.set(key, table.args[key])
        table.replace(relation)


def _add_schema(query: exp.Query, schema: str) -> None:
    """Add the schema to the names in a view that have none."""
    commons = {common.alias for common in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not table.db and table.name not in commons:
            table.set("db", identifier(TableName(table.name, schema).schema))


class _Rewriting:
    def __init__(self, fresh: Fresh, scopes: Scopes, commons: dict[str, exp.Query]) -> None:
        self._fresh, self._scopes, self._commons = fresh, scopes, commons
        self.is_changed = False

    def rewrite(self, query: exp.Expr) -> None:
        """Rewrite a query without columns of others, and those in it."""
        if isinstance(query, exp.Select):
            self._rewrite_select(query)
        for child in list(query.iter_expressions()):
            for inner in list(queries_in(child)):
                self.rewrite(inner)

    def _rewrite_select(self, select: exp.Select) -> None:
        for join in select.args.get("joins") or ():
            if join.args.get("on") and any(
                not _stays(one, select) for one in find_sites_in(join.args["on"], "on")
            ):
                move_conditions(select, self._scopes)
                self.is_changed = True
                break
        if join_unnests(select, self._scopes):
            self.is_changed = True
        if has_laterals(select):
            join_laterals(select, lambda: self._block(select))
            self.is_changed = True
        if has_aggregates(select):
            self._divide(select)
        if all(site.is_planned(select) for site in find_sites(select)):
            return
        self.is_changed = True
        expressions = Expressions(self._block(select))
        while True:
            site = next(
                (one for one in find_sites(select) if not one.is_planned(select) and _is_next(one)), None
            )
            if site is None:
                return
            expressions.replace(site)

    def _divide(self, select: exp.Select) -> None:
        """Divide a SELECT with totals if subqueries are computed of them."""
        waiting = [site for site in find_sites(select) if not site.is_planned(select)]
        groups = frozenset(map(key_of, list_groups(select))) if waiting else frozenset()
        if any(site.is_above_totals(select, groups) for site in waiting):
            totals = divide_totals(select, self._fresh, frozenset())
            select.set("from_", exp.From(this=derived(totals.inner, totals.relation)))

    def _block(self, select: exp.Select) -> Block:
        return Block(select, self._fresh, self._commons)


def _stays(site: Site, select: exp.Select) -> bool:
    return site.is_planned(select)


def _is_next(site: Site) -> bool:
    """Return whether no other subquery is to be replaced before."""
    return site.subject is None or next(find_sites_in(site.subject, site.clause), None) is None
