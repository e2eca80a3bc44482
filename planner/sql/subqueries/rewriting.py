"""Writes a statement whose subqueries DataFusion does not plan, or plans wrongly, with joins."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.subqueries.blocks import Block
from lance_gateway.planner.sql.subqueries.expressions import Expressions
from lance_gateway.planner.sql.subqueries.relations.laterals import (
    has_laterals,
    has_mistaken_laterals,
    join_laterals,
    move_conditions,
)
from lance_gateway.planner.sql.subqueries.relations.unnests import has_unnests, join_unnests
from lance_gateway.planner.sql.subqueries.repeatable import READ_ONCE
from lance_gateway.planner.sql.subqueries.scopes import Scopes
from lance_gateway.planner.sql.subqueries.sites import Site, find_sites, find_sites_in
from lance_gateway.planner.sql.subqueries.statements import RewritingError, settle_query
from lance_gateway.planner.sql.subqueries.totals import divide_totals, list_groups, name_outputs
from lance_gateway.planner.sql.subqueries.trees import (
    Fresh,
    aliased,
    derived,
    has_aggregates,
    key_of,
    queries_in,
    shown,
)
from lance_gateway.planner.sql.tree.dialect import find_query, read_query, write_sql
from lance_gateway.planner.sql.tree.tree import Tree

_BESIDE: Final = re.compile(r"\b(?:LATERAL|UNNEST)\b", re.IGNORECASE)
_NESTED: Final = re.compile(r"\((?:\s|--[^\n]*\n|/\*.*?\*/)*+(?:SELECT|WITH)\b", re.IGNORECASE | re.DOTALL)
_ENDS: Final = re.compile(r"\b(?:OFFSET|LIMIT|FETCH|HAVING|FILTER|OVER|LEFT|RIGHT|FULL)\b", re.IGNORECASE)
"""Words around or in a subquery that DataFusion may answer wrongly."""
_LATERAL: Final = re.compile(r"\bLATERAL\b", re.IGNORECASE)


class MistakenSubqueryError(UnsupportedError):
    """DataFusion would answer a subquery wrongly, and it is not joined."""


@dataclass(frozen=True)
class JoinedStatement:
    """A statement with joins in place of its subqueries.

    Attributes:
        sql: its text.
        names: results that have other names in it, each with the one that it had.
    """

    sql: str
    names: Mapping[str, str]


def join_subqueries(
    sql: str,
    schemas: Mapping[str, pa.Schema],
    find_schema: Callable[[str], pa.Schema],
    *,
    joins_all: bool = False,
    read_once: Collection[str] = (),
    read: Callable[[str], exp.Query | None] = read_query,
) -> JoinedStatement:
    """Return a statement with joins in place of subqueries.

    Args:
        sql: the text for DataFusion.
        schemas: name of a table in the text -> its columns.
        find_schema: plans a query over the same tables, and returns the schema of its result.
        joins_all: whether those are joined that DataFusion refuses, besides those that it answers wrongly.
        read_once: names of the tables that must not be read twice.
        read: returns a tree of the query in the text, which is changed; None if sqlglot does not read it.

    Returns:
        The statement; the same text if there is nothing to join.

    Raises:
        RewritingError: all are to be joined, and some can't be; the text has the reason.
        MistakenSubqueryError: DataFusion would answer a subquery wrongly, and it can't be joined.
    """
    is_suspect = _BESIDE.search(sql) or (_NESTED.search(sql) and _ENDS.search(sql))
    if not (joins_all or is_suspect):
        return JoinedStatement(sql, {})
    is_mistaken, has_lists = _LATERAL.search(sql) is not None, False
    try:
        root = settle_query(read(sql))
        lists = root.find_all(exp.Unnest)
        has_lists = any(one.args.get("offset") or one.find(exp.Column) for one in lists)
        is_mistaken = has_lists or root.find(exp.Lateral) is not None
        for table in root.find_all(exp.Table):
            table.meta[READ_ONCE] = table.name in read_once
        scopes = Scopes(Tree(root, find_schema, schemas), Fresh())
        scopes.read(root)
        is_mistaken = any(map(_is_mistaken, root.find_all(exp.Select)))
        return (
            _join(sql[: find_query(sql)], root, scopes)
            if is_mistaken or joins_all
            else JoinedStatement(sql, {})
        )
    except RecursionError:
        failure = RewritingError("it is nested too deeply")
    except RewritingError as error:
        failure = error
    if joins_all:
        raise failure
    if is_mistaken:
        if not has_lists:
            _refuse_as_written(sql, find_schema)
        what = "UNNEST beside a relation can't be planned in this statement"
        if not has_lists:
            what = "DataFusion would answer a subquery of this statement wrongly, and it is not joined"
        raise MistakenSubqueryError(f"{what}: {failure}")
    return JoinedStatement(sql, {})


def _refuse_as_written(sql: str, find_schema: Callable[[str], pa.Schema]) -> None:
    """Raise what is wrong with the names, types or syntax of a statement."""
    with suppress(RewritingError):
        find_schema(sql)


def _is_mistaken(select: exp.Select) -> bool:
    if has_unnests(select) or has_mistaken_laterals(select):
        return True
    return any(site.is_mistaken(select) for site in find_sites(select))


def _join(before: str, root: exp.Query, scopes: Scopes) -> JoinedStatement:
    """Return a query, which is changed, with joins in place of its subqueries."""
    commons = {common.alias: common.this for common in root.find_all(exp.CTE)}
    rewriting = _Rewriting(scopes.fresh, scopes, commons)
    names = name_results(root, scopes.fresh)
    rewriting.rewrite(root)
    if not rewriting.is_changed:
        msg = "it has no subquery that is joined"
        raise RewritingError(msg)
    return JoinedStatement(before + write_sql(root), names)


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
            on = join.args.get("on")
            if on is not None and not all(one.is_planned(select) for one in find_sites_in(on, "on")):
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
        for item in [one for one in select.expressions if not isinstance(one, exp.Alias)]:
            if next(find_sites_in(item, "expressions"), None) is not None:
                item.replace(aliased(item.copy(), shown(item)))
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


def _is_next(site: Site) -> bool:
    """Return whether no other subquery is to be replaced before."""
    return site.subject is None or next(find_sites_in(site.subject, site.clause), None) is None
