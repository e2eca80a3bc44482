"""Random subqueries: scalar ones, EXISTS, membership and laterals; correlated or not."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.fuzz.sql.grammar.blocks import Grouping, GroupingSet, Item, Order, Select, SetOperation
from tests.fuzz.sql.grammar.expressions import Expressions, Scope
from tests.fuzz.sql.grammar.kinds import CANONICAL, Family, Kind
from tests.fuzz.sql.grammar.sources import Source, Sources
from tests.fuzz.sql.grammar.tree import Column, Expression, Literal, Node, Reader, Text

_KEYED = (Family.INTEGER, Family.TEXT, Family.DATE)
"""Families that subqueries are correlated and compared by."""


@dataclass(frozen=True)
class _NotIn(Node):
    """Membership denied. DataFusion's own words for it forget rows that are correlated by NULL."""

    def write(self, text: Text) -> None:
        text.put(" <> ALL (" if text.reader is Reader.DATAFUSION else " NOT IN (")


@dataclass(frozen=True)
class Subqueries:
    """Draws expressions with subqueries over named relations."""

    rng: random.Random
    expressions: Expressions
    sources: Sources

    def anywhere(self, scope: Scope, family: Family, depth: int) -> Expression | None:
        """An expression of the family, or None where none comes to mind."""
        if family is not Family.TRUTH:
            return self.scalar(scope, family, depth)
        if self.rng.random() < 0.4:
            return self.membership(scope, depth)
        inner = self._inner()
        where = self._condition(inner, depth, scope, correlated=0.6)
        item = Item(Literal(Family.INTEGER, 1), "one")
        select = Select(items=(item,), source=inner.node, where=where, having=self._having(inner))
        if select.having is None and self.rng.random() < 0.15:
            select = replace(select, offset=Literal(Family.INTEGER, self.rng.choice((0, 1, 2))))
        found = Expression(Family.TRUTH, ("EXISTS (", select, ")"))
        return found if self.rng.random() < 0.6 else Expression(Family.TRUTH, ("(NOT ", found, ")"))

    def membership(self, scope: Scope, depth: int) -> Expression | None:
        """IN, NOT IN, or a comparison with ANY or ALL."""
        inner = self._inner()
        columns = inner.scope.of(*_KEYED)
        if not columns:
            return None
        column = self.rng.choice(columns)
        subject = self.expressions.leaf(scope, column.family)
        operator: str | Node = self.rng.choice((" IN (", " IN (", " = ANY (", _NotIn(), _NotIn()))
        if self.rng.random() < 0.3:
            sign = self.rng.choice((" < ", " >= ", " <> ", " = "))
            operator = f"{sign}{self.rng.choice(('ANY', 'ALL'))} ("
        query = self._members(inner, column, scope, depth)
        return Expression(Family.TRUTH, ("(", subject, operator, query, "))"))

    def _members(self, inner: Source, column: Column, scope: Scope, depth: int) -> Node:
        """Rows of one column."""
        where = self._condition(inner, depth, scope, correlated=0.5)
        total = self._total(inner, column.family) if self.rng.random() < 0.15 else None
        select = Select(items=(Item(total or column, "one"),), source=inner.node, where=where)
        chance = self.rng.random()
        if total is not None or chance < 0.6:
            return select
        if chance < 0.7:
            return replace(select, distinct=True)
        if chance < 0.8:
            return replace(select, grouping=Grouping((GroupingSet((column,), is_bare=True),)))
        if chance < 0.9 and inner.identity:
            return self._first(select, inner, self.rng.choice((1, 2, 3)))
        other = self._inner()
        others = [one for one in other.scope.columns if one.kind == column.kind]
        if not others:
            return select
        right = Select(
            items=(Item(self.rng.choice(others), "one"),),
            source=other.node,
            where=self._condition(other, depth, scope, correlated=0.5),
        )
        return SetOperation(
            operator=self.rng.choice(("UNION", "UNION ALL", "EXCEPT")), left=select, right=right
        )

    def scalar(self, scope: Scope, family: Family, depth: int) -> Expression | None:
        """An aggregate over other rows, or the value of the first of them."""
        if family is Family.TRUTH:
            return self.anywhere(scope, family, depth)
        inner = self._inner()
        where = self._condition(inner, depth, scope, correlated=0.65)
        columns = [one for one in inner.scope.of(family) if one.kind == CANONICAL.get(family)]
        if inner.identity and columns and self.rng.random() < 0.35:
            item = Item(self.rng.choice(columns), "one")
            first = self._first(Select(items=(item,), source=inner.node, where=where), inner, 1)
            return Expression(family, ("(", first, ")"))
        total = self._total(inner, family)
        if total is None:
            return None
        select = Select(
            items=(Item(total, "one"),), source=inner.node, where=where, having=self._having(inner)
        )
        return Expression(family, ("(", select, ")"))

    def lateral(self, scope: Scope, depth: int) -> tuple[Node, tuple[tuple[str, Kind], ...]] | None:
        """A query that reads relations before it, and its columns; None where none comes to mind."""
        inner = self._inner()
        columns = [one for one in inner.scope.columns if one.family in _KEYED]
        where = self._condition(inner, depth, scope, correlated=0.9)
        if not columns or where is None:
            return None
        chance = self.rng.random()
        if chance < 0.25:
            total = self._total(inner, Family.INTEGER)
            if total is not None:
                select = Select(items=(Item(total, "l0"),), source=inner.node, where=where)
                return select, (("l0", CANONICAL[Family.INTEGER]),)
        chosen = self.rng.sample(columns, self.rng.randint(1, min(2, len(columns))))
        items = tuple(Item(one, f"l{number}") for number, one in enumerate(chosen))
        select = Select(items=items, source=inner.node, where=where, distinct=chance > 0.85)
        names = tuple((item.name, one.kind) for item, one in zip(items, chosen, strict=True))
        if inner.identity and not select.distinct and chance < 0.65:
            return self._first(select, inner, self.rng.choice((1, 2, 3))), names
        return select, names

    def _first(self, select: Select, inner: Source, count: int) -> Select:
        """Some of the rows in an order that leaves no choice."""
        keys = list(inner.identity or ())
        sortable = inner.scope.of(*_KEYED)
        if sortable and self.rng.random() < 0.5:
            keys.insert(0, self.rng.choice(sortable))
        order = tuple(Order(key, self.rng.choice(("", " DESC", " NULLS FIRST"))) for key in keys)
        offset = Literal(Family.INTEGER, 1) if self.rng.random() < 0.2 else None
        return replace(select, order=order, limit=Literal(Family.INTEGER, count), offset=offset)

    def _total(self, inner: Source, family: Family) -> Expression | None:
        """An aggregate of the family, without subqueries; None where none comes to mind."""
        subquery, self.expressions.subquery = self.expressions.subquery, None
        aggregate = self.expressions.aggregate(inner.scope, family)
        self.expressions.subquery = subquery
        return aggregate if aggregate.family is family else None

    def _having(self, inner: Source) -> Expression | None:
        """Rarely a condition on all rows, which no rows may meet."""
        total = self._total(inner, Family.INTEGER) if self.rng.random() < 0.15 else None
        if total is None:
            return None
        wanted = self.rng.choice((" = 0)", " < 2)", " IS NULL)", " > 1)", " >= 0)"))
        return Expression(Family.TRUTH, ("(", total, wanted))

    def _inner(self) -> Source:
        return self.sources.named(self.rng.choice(self.sources.shapes))

    def _condition(self, inner: Source, depth: int, scope: Scope, *, correlated: float) -> Expression | None:
        """Correlated, restricted by the inner rows, both or neither."""
        conjuncts = []
        pairs = [
            (one, two)
            for one in inner.scope.of(*_KEYED)
            for two in (*scope.columns, *scope.outer)
            if one.family is two.family
        ]
        if pairs and self.rng.random() < correlated:
            conjuncts.append(self._compared(pairs))
            if self.rng.random() < 0.25:
                conjuncts.append(self._compared(pairs))
        if self.rng.random() < 0.6:
            subquery = self.expressions.subquery
            if depth <= 0 or self.rng.random() < 0.7:
                self.expressions.subquery = None
            around = (*scope.columns, *scope.outer)
            conjuncts.append(self.expressions.condition(replace(inner.scope, outer=around), min(depth, 1)))
            self.expressions.subquery = subquery
        return conjunction(conjuncts)

    def _compared(self, pairs: Sequence[tuple[Column, Column]]) -> Expression:
        """A column of the inner rows beside one of the rows around them."""
        one, two = self.rng.choice(pairs)
        operators = (" = ", " = ", " = ", " < ", " >= ", " <> ", " IS NOT DISTINCT FROM ")
        found = Expression(Family.TRUTH, ("(", one, self.rng.choice(operators), two, ")"))
        if self.rng.random() < 0.1:
            three, four = self.rng.choice(pairs)
            other = Expression(Family.TRUTH, ("(", three, " = ", four, ")"))
            return Expression(Family.TRUTH, ("(", found, " OR ", other, ")"))
        return found


def conjunction(conjuncts: Sequence[Expression]) -> Expression | None:
    """All of them; None for none."""
    if not conjuncts:
        return None
    if len(conjuncts) == 1:
        return conjuncts[0]
    parts: list[str | Node] = []
    for number, conjunct in enumerate(conjuncts):
        parts += [" AND " if number else "", conjunct]
    return Expression(Family.TRUTH, tuple(parts))
