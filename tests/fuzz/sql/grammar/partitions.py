"""Statements whose answers check each other, without a reference.

A condition parts the rows of a relation into those for which it is true, false and NULL (ternary logic
partitioning). As many rows pass WHERE as there are for which the condition is true when it is merely
computed, and not optimised.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from tests.fuzz.sql.grammar.blocks import Grouping, GroupingSet, Item, Select
from tests.fuzz.sql.grammar.kinds import Family
from tests.fuzz.sql.grammar.tree import Expression, Node, Text
from tests.fuzz.sql.judges.answers import Rows


class Law(Enum):
    """What must hold."""

    ROWS = "the three parts are all rows"
    DISTINCT = "the distinct rows of the three parts are all distinct rows"
    COUNTS = "counts, sums and extremes of the three parts make those of all rows"
    HAVING = "the groups of three HAVING are all groups"
    COMPUTED = "WHERE passes the rows for which the condition is true"


@dataclass(frozen=True)
class Partition(Node):
    """A relation, a condition on its rows, and a law.

    Attributes:
        columns: Of the relation, that are selected or aggregated.
    """

    law: Law
    source: Node
    condition: Expression
    columns: tuple[Expression, ...]

    def write(self, text: Text) -> None:
        text.put_list((self.whole(), *self.parts()), "; ")

    def whole(self) -> Select:
        """All rows."""
        if self.law is Law.COMPUTED:
            truth = ("coalesce(sum(CASE WHEN ", self.condition, " THEN 1 ELSE 0 END), 0)")
            return Select(items=(Item(Expression(Family.INTEGER, truth), "n"),), source=self.source)
        return self._select(None)

    def parts(self) -> tuple[Select, ...]:
        """What is put together and compared with it."""
        if self.law is Law.COMPUTED:
            count = Item(Expression(Family.INTEGER, ("count(*)",)), "n")
            return (Select(items=(count,), source=self.source, where=self.condition),)
        return tuple(
            self._select(Expression(Family.TRUTH, parts))
            for parts in (
                (self.condition,),
                ("(NOT ", self.condition, ")"),
                ("(", self.condition, " IS NULL)"),
            )
        )

    def holds(self, whole: Rows, parts: tuple[Rows, ...]) -> bool:
        """Whether the law holds of these answers."""
        together = [row for part in parts for row in part]
        match self.law:
            case Law.ROWS | Law.HAVING | Law.COMPUTED:
                return Counter(whole) == Counter(together)
            case Law.DISTINCT:
                return len(whole) == len(set(whole)) and set(whole) == set(together)
            case Law.COUNTS:
                return whole == [_combined(together)]

    def _select(self, condition: Expression | None) -> Select:
        items = tuple(Item(one, f"o{number}") for number, one in enumerate(self.columns))
        match self.law:
            case Law.HAVING:
                keys = tuple(GroupingSet((one,), is_bare=True) for one in self.columns)
                return Select(items=items, source=self.source, grouping=Grouping(keys), having=condition)
            case Law.COUNTS:
                (column,) = self.columns[:1]
                calls = ("count(*)", ("min(", column, ")"), ("max(", column, ")"), ("count(", column, ")"))
                items = tuple(
                    Item(Expression(column.family, (one,) if isinstance(one, str) else one), f"o{number}")
                    for number, one in enumerate(calls)
                )
        return Select(items=items, source=self.source, where=condition, distinct=self.law is Law.DISTINCT)


def _combined(rows: Rows) -> tuple[object, ...]:
    least = [row[1] for row in rows if row[1] is not None]
    most = [row[2] for row in rows if row[2] is not None]
    return (
        sum(row[0] for row in rows),
        min(least, default=None, key=_bytes),
        max(most, default=None, key=_bytes),
        sum(row[3] for row in rows),
    )


def _bytes(value: object) -> object:
    """Texts sort by their bytes."""
    return value.encode() if isinstance(value, str) else value
