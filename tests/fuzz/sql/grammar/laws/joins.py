"""Joins, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.fuzz.sql.grammar.blocks import Derived, Item, Join, Relation, Select, ValuesList
from tests.fuzz.sql.grammar.kinds import Family
from tests.fuzz.sql.grammar.laws.partitions import list_parts
from tests.fuzz.sql.grammar.laws.trial import Law, Trial
from tests.fuzz.sql.grammar.sources import ANTI, CROSS, FULL, JOIN, LEFT, RIGHT, SEMI
from tests.fuzz.sql.grammar.tree import Column, Expression, Literal, Node, Spelled


@dataclass(frozen=True)
class JoinTrial(Trial):
    """Two relations, what they are joined by, and a law.

    Attributes:
        kind: Of the join, where the law holds of several.
        condition: That parts the pairs.
        columns: Of both relations.
    """

    law: Law
    kind: Spelled
    left: Node
    right: Node
    on: Expression
    condition: Expression
    columns: tuple[Column, ...]

    def whole(self) -> Select:
        return self._select(self.kind, self.on)

    def parts(self) -> tuple[Select, ...]:
        match self.law:
            case Law.ON:
                return tuple(self._select(JOIN, self._both(one)) for one in list_parts(self.condition))
            case Law.CROSSED:
                return (replace(self._select(CROSS, None), where=self.on),)
            case Law.MATCHED:
                found = self._exists(self.right, "EXISTS (" if self.kind is SEMI else "NOT EXISTS (")
                return (Select(items=self._items(self.columns), source=self.left, where=found),)
        parts = [self._select(JOIN, self.on)]
        if self.kind in (LEFT, FULL):
            found = Join(ANTI, self.left, self.right, self.on)
            parts.append(Select(items=self._items(self._beside_null(self.left)), source=found))
        if self.kind in (RIGHT, FULL):
            none = self._exists(self.left, "NOT EXISTS (")
            items = self._items(self._beside_null(self.right))
            parts.append(Select(items=items, source=self.right, where=none))
        return tuple(parts)

    def _both(self, condition: Expression) -> Expression:
        return Expression(Family.TRUTH, (self.on, " AND ", condition))

    def _exists(self, side: Node, word: str) -> Expression:
        one = Item(Literal(Family.INTEGER, 1), "one")
        return Expression(Family.TRUTH, (word, Select(items=(one,), source=side, where=self.on), ")"))

    def _select(self, kind: Spelled, on: Expression | None) -> Select:
        return Select(items=self._items(self.columns), source=Join(kind, self.left, self.right, on))

    def _beside_null(self, side: Node) -> list[Expression]:
        """The columns of one side, and NULL in the place of the others."""
        aliases = {one.alias for one in side.walk() if isinstance(one, Relation | Derived | ValuesList)}
        return [one if one.relation in aliases else Expression(one.family, ("NULL",)) for one in self.columns]

    def _items(self, columns: Sequence[Expression]) -> tuple[Item, ...]:
        return tuple(Item(one, f"o{number}") for number, one in enumerate(columns))
