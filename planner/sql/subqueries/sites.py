"""Finds the subqueries of a SELECT that are values and conditions, and which of them DataFusion plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sqlglot import exp

from lance_gateway.planner.sql.subqueries.trees import bare, free_columns, has_aggregates, key_of
from lance_gateway.planner.sql.tree.queries import conjuncts, is_aggregate, without_subqueries

_CLAUSES: Final = ("expressions", "where", "group", "having", "qualify", "windows", "order", "distinct")
_ABOVE_TOTALS: Final = frozenset({"expressions", "having", "qualify", "windows", "order", "distinct"})
"""Clauses that are computed of groups and aggregates."""
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


class Kind(Enum):
    """What a subquery is asked for."""

    VALUE = "its only row's only column"
    EXISTS = "whether it has rows"
    MEMBER = "whether a value is among its rows"
    COMPARED = "whether a comparison holds for any or all of its rows"


@dataclass(frozen=True)
class Site:
    """A subquery with what is asked of it.

    Attributes:
        kind: of the question.
        node: the whole expression.
        query: the subquery, without brackets.
        clause: of the SELECT in which it stands.
    """

    kind: Kind
    node: exp.Expr
    query: exp.Query
    clause: str

    @property
    def subject(self) -> exp.Expr | None:
        """The value that is compared with its rows."""
        return self.node.this if self.kind in {Kind.MEMBER, Kind.COMPARED} else None

    @property
    def is_correlated(self) -> bool:
        """Whether it reads columns of the query around it."""
        return bool(free_columns(self.query))

    def is_planned(self, select: exp.Select) -> bool:
        """Whether DataFusion plans it, and rightly."""
        clauses = self.query.args
        if self.kind is not Kind.VALUE and clauses.get("having") and not clauses.get("group"):
            return False
        if not self.is_correlated:
            if self.clause in {"where", "having"}:
                return True
            is_output = (
                self.kind is Kind.VALUE and self.clause == "expressions" and not select.args.get("group")
            )
            return is_output and not self.is_within_aggregate(select) and not self.is_within_window(select)
        if self.kind not in {Kind.EXISTS, Kind.MEMBER} or self.clause != "where" or not _is_plain(self.query):
            return False
        where = select.args["where"].this
        for condition in conjuncts(where):
            plain = condition.unnest()
            if plain is self.node:
                return True
            if isinstance(plain, exp.Not) and plain.this is self.node:
                return self.kind is Kind.EXISTS
        return False

    def is_mistaken(self, select: exp.Select) -> bool:
        """Whether DataFusion may plan it, and wrongly, or finds out too late that it can't."""
        if self.is_within_aggregate(select) or self.is_within_window(select):
            return True
        if any(_is_within_outer_join(column, self.query) for column in free_columns(self.query)):
            return True
        clauses = {name for name in ("offset", "limit", "having", "group") if self.query.args.get(name)}
        if self.kind is Kind.EXISTS:
            return "offset" in clauses and self.is_correlated
        if self.kind is Kind.VALUE and clauses & {"having", "limit"}:
            return ("having" in clauses or "group" in clauses) and self.is_correlated
        return False

    def is_above_totals(self, select: exp.Select, groups: frozenset[str]) -> bool:
        """Whether it is computed of groups and totals.

        Args:
            select: with groups or totals.
            groups: the keys of its groups, as `key_of` gives them.
        """
        if self.clause not in _ABOVE_TOTALS or self.is_within_aggregate(select):
            return False
        node: exp.Expr | None = self.node
        while node is not None and node is not select:
            if (
                not isinstance(node, exp.Alias | exp.Ordered | exp.Order | exp.Having)
                and key_of(node) in groups
            ):
                return False
            node = node.parent
        return True

    def is_within_aggregate(self, select: exp.Select) -> bool:
        """Whether it is computed for each row of a group."""
        return any(is_aggregate(node) or isinstance(node, exp.Filter) for node in self._nodes_around(select))

    def is_within_window(self, select: exp.Select) -> bool:
        """Whether it is part of a window function."""
        return any(isinstance(node, exp.Window) for node in self._nodes_around(select))

    def _nodes_around(self, select: exp.Select) -> Iterator[exp.Expr]:
        node = self.node.parent
        while node is not None and node is not select:
            yield node
            node = node.parent


def find_sites(select: exp.Select) -> Iterator[Site]:
    """Yield the subqueries of a SELECT, without those in its FROM clause and those within others."""
    for clause in _CLAUSES:
        found = select.args.get(clause) or []
        for node in found if isinstance(found, list) else [found]:
            yield from find_sites_in(node, clause)


def find_sites_in(node: exp.Expr, clause: str) -> Iterator[Site]:
    """Yield the subqueries of an expression."""
    for one in without_subqueries(node):
        if isinstance(one, exp.Exists):
            yield Site(Kind.EXISTS, one, bare(one.this), clause)
        elif isinstance(one, exp.In) and one.args.get("query") is not None:
            yield Site(Kind.MEMBER, one, bare(one.args["query"]), clause)
        elif isinstance(one, _COMPARISONS) and isinstance(one.expression, exp.Any | exp.All):
            compared = one.expression.this
            if isinstance(compared, exp.Query):
                yield Site(Kind.COMPARED, one, bare(compared), clause)
        elif isinstance(one, exp.Subquery) and not _is_of_rows(one):
            yield Site(Kind.VALUE, one, bare(one), clause)


def _is_of_rows(query: exp.Expr) -> bool:
    """Return whether a subquery is asked for rows, and not for a value."""
    if isinstance(query.parent, exp.In):
        return query.arg_key == "query"
    return isinstance(query.parent, exp.Exists | exp.Any | exp.All)


def _is_plain(query: exp.Query) -> bool:
    """Return whether a query only filters and joins, and reads columns around it only to filter."""
    if not isinstance(query, exp.Select) or has_aggregates(query):
        return False
    if any(
        query.args.get(clause) for clause in ("distinct", "limit", "offset", "with_", "qualify", "windows")
    ):
        return False
    joins = query.args.get("joins") or []
    if any(join.side or isinstance(join.this, exp.Lateral) for join in joins):
        return False
    parts = [*query.expressions, *([query.args["from_"]] if query.args.get("from_") else []), *joins]
    if any(_reads_around(part, query) for part in parts):
        return False
    where = query.args.get("where")
    return where is None or next(find_sites_in(where, "where"), None) is None


def _is_within_outer_join(column: exp.Column, query: exp.Query) -> bool:
    """Return whether a column is read by an outer join of a query, or by what it fills up with NULL.

    DataFusion moves conditions with such columns above the join.
    """
    node: exp.Expr = column
    while node is not query and (parent := node.parent) is not None:
        if isinstance(node, exp.Join) and node.side:
            return True
        if isinstance(node, exp.Join | exp.From):
            joins = parent.args.get("joins") or []
            later = joins[joins.index(node) + 1 :] if isinstance(node, exp.Join) else joins
            if any(join.side in {"RIGHT", "FULL"} for join in later):
                return True
        node = parent
    return False


def _reads_around(part: exp.Expr, query: exp.Query) -> bool:
    around = {id(column) for column in free_columns(query)}
    return any(id(column) in around for column in part.find_all(exp.Column))
