"""One SELECT whose subqueries become joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from lance_gateway.planner.sql.subqueries.domains import Domain, Extension, as_cross_join
from lance_gateway.planner.sql.subqueries.repeatable import check_repeatable
from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.subqueries.trees import (
    OWNER,
    SCOPE,
    Fresh,
    aliased,
    all_of,
    derived,
    free_columns,
    identifier,
    is_volatile,
    queries_in,
)
from lance_gateway.planner.sql.tree.queries import conjuncts, without_subqueries


class Block:
    """A SELECT whose relations are read once more, for the values that subqueries take from them.

    Args:
        select: without columns of queries around it.
        fresh: gives names.
        commons: the common table expressions of the statement.
    """

    def __init__(self, select: exp.Select, fresh: Fresh, commons: Mapping[str, exp.Query]) -> None:
        self.select, self.fresh, self.commons = select, fresh, commons
        self.scope: int = select.meta[SCOPE]
        if not select.args.get("from_"):
            one = exp.Select(expressions=[aliased(exp.Literal.number(1), fresh.name("one"))])
            one.meta[SCOPE] = fresh.number()
            select.set("from_", exp.From(this=derived(one, fresh.name("rows"))))
        joins = select.args.get("joins") or []
        outer = [number for number, join in enumerate(joins) if join.side in {"RIGHT", "FULL"}]
        for number, join in enumerate(joins):
            was = join.args.get("kind")
            as_cross_join(join)
            if was != join.args.get("kind") and any(number < later for later in outer):
                msg = "RIGHT and FULL JOIN behind a comma are not told from those of all relations"
                raise RewritingError(msg)
        self._relations = [select.args["from_"].this, *joins]
        self._relations = [one.copy() for one in self._relations]
        where = select.args.get("where")
        self._conditions = [
            condition.copy()
            for condition in conjuncts(where.this if where else None)
            if _is_simple(condition)
        ]

    def make_domain(
        self, query: exp.Expr, *, first: int | None = None, conditions: Sequence[exp.Expr] | None = None
    ) -> Domain | None:
        """Return the values of the columns that a query reads of this SELECT; None if it reads none.

        Args:
            query: below it.
            first: so many of its relations have these columns; all by default.
            conditions: of the rows whose values are needed; all simple ones of WHERE by default.

        Raises:
            RewritingError: the relations must not be read twice.
        """
        columns: dict[tuple[str, str], exp.Column] = {}
        for column in free_columns(query):
            if column.meta[SCOPE] != self.scope:
                msg = f"{column.name} belongs to a query further outside"
                raise RewritingError(msg)
            columns.setdefault((column.meta[OWNER], column.name), column)
        if not columns:
            return None
        keys = tuple(self.fresh.name("key") for _ in columns)
        outputs = [aliased(column.copy(), key) for column, key in zip(columns.values(), keys, strict=True)]
        source, *joins = self._relations if first is None else self._relations[:first]
        check_repeatable([source, *joins], {name for _, name in columns}, self.commons)
        wanted = self._conditions if conditions is None else conditions
        condition = all_of(one.copy() for one in wanted)
        values = exp.Select(
            expressions=outputs,
            distinct=exp.Distinct(),
            from_=exp.From(this=source.copy()),
            joins=[join.copy() for join in joins] or None,
            where=None if condition is None else exp.Where(this=condition),
        )
        values.meta[SCOPE] = self.scope
        return Domain(values, keys, tuple(column.copy() for column in columns.values()))

    def extend(self, query: exp.Query, domain: Domain, *, breaks_ties: bool = False) -> exp.Query:
        """Return a copy of a query for each of the values of a domain."""
        return Extension(self.fresh, domain).extend(query.copy(), breaks_ties=breaks_ties)

    def join(
        self,
        query: exp.Query,
        names: Sequence[str],
        conditions: Sequence[exp.Expr],
        alias: str,
        renamed: Sequence[str] = (),
    ) -> None:
        """Join a query that has at most one row for each row of the SELECT.

        Args:
            query: which is joined.
            names: of its columns, which no relation of the SELECT may have.
            conditions: of the join.
            alias: name of the relation.
            renamed: the same names where the query gives its columns others.
        """
        on = all_of(conditions)
        joins = self.select.args.get("joins") or []
        added = exp.Join(this=derived(query, alias, renamed), side="LEFT" if on is not None else None, on=on)
        if on is None:
            added.set("kind", "CROSS")
        self.select.set("joins", [*joins, added])
        self.hide(names)

    def hide(self, names: Sequence[str]) -> None:
        """Keep columns out of *."""
        for item in self.select.expressions:
            if isinstance(item, exp.Star):
                old = item.args.get("except_") or []
                item.set("except_", [*old, *(identifier(name) for name in names)])


def _is_simple(condition: exp.Expr) -> bool:
    if is_volatile(condition) or next(queries_in(condition), None) is not None:
        return False
    return not any(isinstance(one, exp.Window) for one in without_subqueries(condition))
