"""Random subqueries: scalar ones, EXISTS, and membership; correlated or not."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.sql.grammar.blocks import Item, Select
from tests.fuzz.sql.grammar.expressions import Expressions, Scope
from tests.fuzz.sql.grammar.kinds import Family
from tests.fuzz.sql.grammar.sources import Source, Sources
from tests.fuzz.sql.grammar.tree import Expression, Literal, Node, Reader, Text

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
        inner = self._inner()
        where = self._condition(inner, depth, scope, correlated=0.5)
        item = Item(Literal(Family.INTEGER, 1), "one")
        select = Select(items=(item,), source=inner.node, where=where, having=self._having(inner))
        found = Expression(Family.TRUTH, ("EXISTS (", select, ")"))
        return found if self.rng.random() < 0.6 else Expression(Family.TRUTH, ("(NOT ", found, ")"))

    def membership(self, scope: Scope, depth: int) -> Expression | None:
        """IN, NOT IN or ANY, for a conjunct of WHERE."""
        inner = self._inner()
        columns = inner.scope.of(*_KEYED)
        if not columns:
            return None
        column = self.rng.choice(columns)
        subject = self.expressions.leaf(scope, column.family)
        operator = self.rng.choice((" IN (", " IN (", " = ANY (", _NotIn(), _NotIn()))
        where = self._condition(inner, depth, scope, correlated=0.4)
        total = self._total(inner, column.family) if self.rng.random() < 0.2 else None
        select = Select(items=(Item(total or column, "one"),), source=inner.node, where=where)
        return Expression(Family.TRUTH, ("(", subject, operator, select, "))"))

    def scalar(self, scope: Scope, family: Family, depth: int) -> Expression | None:
        """An aggregate over other rows."""
        if family is Family.TRUTH:
            return None
        inner = self._inner()
        total = self._total(inner, family)
        if total is None:
            return None
        where = self._condition(inner, depth, scope, correlated=0.5)
        select = Select(
            items=(Item(total, "one"),), source=inner.node, where=where, having=self._having(inner)
        )
        return Expression(family, ("(", select, ")"))

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
        """Correlated by an equality, restricted by the inner rows, both or neither."""
        conjuncts = []
        pairs = [
            (one, two) for one in inner.scope.of(*_KEYED) for two in scope.columns if one.family is two.family
        ]
        if pairs and self.rng.random() < correlated:
            one, two = self.rng.choice(pairs)
            conjuncts.append(Expression(Family.TRUTH, ("(", one, " = ", two, ")")))
        if self.rng.random() < 0.6:
            subquery, self.expressions.subquery = self.expressions.subquery, None
            conjuncts.append(self.expressions.condition(inner.scope, min(depth, 1)))
            self.expressions.subquery = subquery
        return conjunction(conjuncts)


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
