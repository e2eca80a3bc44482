"""Divides a SELECT with groups or totals into two: groups and aggregates, and what is computed of them.

    SELECT a, sum(n) + 1 AS s FROM t GROUP BY a HAVING count(*) > (SELECT ..)
->  SELECT "rows#1"."group#2" AS a, "rows#1"."total#3" + 1 AS s
    FROM (SELECT a AS "group#2", sum(n) AS "total#3", count(*) AS "total#4" FROM t GROUP BY a) AS "rows#1"
    WHERE "rows#1"."total#4" > (SELECT ..)

The outer one has rows of a relation, which subqueries may be joined with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.subqueries.trees import (
    OUTPUT,
    OWNER,
    SCOPE,
    Fresh,
    aliased,
    column_of,
    key_of,
    name_of,
    replace,
    shown,
)
from lance_gateway.planner.sql.tree.queries import is_aggregate, whole_call

_ABOVE = ("order", "qualify", "windows", "limit", "offset", "distinct")


SETS: Final = (exp.Rollup, exp.Cube, exp.GroupingSets)
"""Keys of GROUP BY that mean several sets of groups."""


@dataclass(frozen=True)
class Totals:
    """A divided SELECT.

    Attributes:
        outer: what is computed, without FROM.
        inner: groups and aggregates.
        relation: the name that the inner one is to have in the outer one.
        counts: outputs of the inner one that are 0, and not NULL, where there are no rows.
    """

    outer: exp.Select
    inner: exp.Select
    relation: str
    counts: frozenset[str]


def divide_totals(select: exp.Select, fresh: Fresh, counts: frozenset[str]) -> Totals:
    """Divide a SELECT, which is changed and becomes the outer one.

    Args:
        select: with GROUP BY, HAVING or aggregates.
        fresh: gives names.
        counts: names of aggregates that are 0 where there are no rows.

    Raises:
        RewritingError: it reads columns beside its groups.
    """
    name_outputs(select, fresh)
    return _Division(select, fresh).divide(counts)


def name_outputs(select: exp.Select, fresh: Fresh) -> dict[str, str]:
    """Give each output of a SELECT a name of its own, but those of stars.

    Returns:
        The new names, each with the one that the output had, or that DataFusion would give it.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for item in list(select.expressions):
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            continue
        name = name_of(item)
        if not name or name in taken:
            old, name = name, fresh.name("item")
            names[name] = old or shown(item)
        taken.add(name)
        plain = item.this if isinstance(item, exp.Alias) else item
        item.replace(aliased(plain.copy(), name))
    return names


def list_groups(select: exp.Select) -> list[exp.Expr]:
    """Return the keys of GROUP BY, those of several sets included; places give way to the outputs there."""
    group = select.args.get("group")
    if group is None:
        return []
    keys: list[exp.Expr] = []
    for one in group.expressions:
        sets = one.expressions if isinstance(one, SETS) else [one]
        keys += [part for each in sets for part in _parts(each)] if isinstance(one, SETS) else sets
    for number, key in enumerate(keys):
        if isinstance(key, exp.Literal) and not key.is_string:
            item = _find_output(select, key)
            plain = (item.this if isinstance(item, exp.Alias) else item).copy()
            key.replace(plain)
            keys[number] = plain
    return keys


def _find_output(select: exp.Select, place: exp.Literal) -> exp.Expr:
    """Return the output that a number in GROUP BY means.

    Raises:
        RewritingError: there is none, or columns before it are not listed.
    """
    number = int(place.this) if place.this.isdecimal() else 0
    outputs: list[exp.Expr] = select.expressions[:number]
    if not 0 < number <= len(select.expressions) or any(one.is_star for one in outputs):
        msg = f"GROUP BY {place.this} names none of the outputs that are listed"
        raise RewritingError(msg)
    return outputs[-1]


class _Division:
    def __init__(self, select: exp.Select, fresh: Fresh) -> None:
        self._select, self._fresh = select, fresh
        self._scope: int = select.meta[SCOPE]
        self._outer_scope = fresh.number()
        self._relation = fresh.name("rows")
        self._groups: dict[str, str] = {}
        self._totals: dict[str, str] = {}
        self._items: list[exp.Alias] = []

    def divide(self, counts: frozenset[str]) -> Totals:
        select = self._select
        inner = exp.Select()
        inner.meta[SCOPE] = self._scope
        self._take_groups()
        for clause in ("from_", "joins", "where", "group"):
            if select.args.get(clause):
                inner.set(clause, select.args[clause])
                select.set(clause, None)
        counted: set[str] = set()
        self._rewrite_outputs(counts, counted)
        having = select.args.get("having")
        select.meta[SCOPE] = self._outer_scope
        if having is not None:
            select.set("having", None)
            select.set("where", exp.Where(this=having.this))
        if not self._items:
            self._items.append(aliased(exp.Literal.number(1), self._fresh.name("total")))
        inner.set("expressions", list(self._items))
        return Totals(select, inner, self._relation, frozenset(counted))

    def _take_groups(self) -> None:
        for key in list_groups(self._select):
            text = key_of(key)
            if text not in self._groups:
                self._groups[text] = self._fresh.name("group")
                self._items.append(aliased(key.copy(), self._groups[text]))

    def _rewrite_outputs(self, counts: frozenset[str], counted: set[str]) -> None:
        select = self._select
        for clause in ("expressions", "having", *_ABOVE):
            found = select.args.get(clause) or []
            for node in found if isinstance(found, list) else [found]:
                self._rewrite(node, counts, counted)

    def _rewrite(self, node: exp.Expr, counts: frozenset[str], counted: set[str]) -> None:
        """Let an expression read the groups and aggregates."""
        if isinstance(node, exp.Column) and node.meta.get(SCOPE) == OUTPUT:
            return
        if (
            not isinstance(
                node, exp.Select | exp.SetOperation | exp.Ordered | exp.Order | exp.Alias | exp.Literal
            )
            and self._groups
        ):
            own = [one for one in node.find_all(exp.Column) if one.meta.get(SCOPE) == self._scope]
            name = self._groups.get(key_of(node)) if own else None
            if name is not None:
                replace(node, column_of(self._relation, name, self._outer_scope))
                return
        if is_aggregate(node) and self._is_own(node):
            whole = whole_call(node)
            text = key_of(whole)
            name = self._totals.get(text)
            if name is None:
                name = self._totals[text] = self._fresh.name("total")
                self._items.append(aliased(whole.copy(), name))
                if node.name.lower() in counts:
                    counted.add(name)
            whole.replace(column_of(self._relation, name, self._outer_scope))
            return
        if isinstance(node, exp.Column) and node.meta.get(SCOPE) == self._scope:
            msg = f"{node.name} is neither a group nor within an aggregate"
            raise RewritingError(msg)
        for child in list(node.iter_expressions()):
            if isinstance(child, exp.Filter | exp.WithinGroup) and is_aggregate(_called(child)):
                self._rewrite(_called(child), counts, counted)
            else:
                self._rewrite(child, counts, counted)

    def _is_own(self, aggregate: exp.Expr) -> bool:
        """Return whether an aggregate is one of this SELECT, and not of a query in it."""
        columns = [one for one in whole_call(aggregate).find_all(exp.Column) if OWNER in one.meta]
        scopes = {one.meta[SCOPE] for one in columns}
        if self._scope in scopes:
            if scopes != {self._scope} and aggregate.parent_select is not self._select:
                msg = "an aggregate reads columns of several queries"
                raise RewritingError(msg)
            return True
        return aggregate.parent_select is self._select


def _called(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Filter | exp.WithinGroup):
        node = node.this
    return node


def _parts(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this] if isinstance(node, exp.Paren) else [node]
