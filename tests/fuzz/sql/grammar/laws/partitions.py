"""A condition that parts rows.

It parts the rows of a relation into those for which it is true, false and NULL (ternary logic
partitioning). As many rows pass WHERE as there are for which the condition is true when it is merely
computed, and not optimised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.fuzz.sql.grammar.blocks import Grouping, GroupingSet, Item, Select
from tests.fuzz.sql.grammar.kinds import Family
from tests.fuzz.sql.grammar.laws.trial import Law, Trial
from tests.fuzz.sql.grammar.tree import Expression, Node
from tests.fuzz.sql.judges.answers import Rows


@dataclass(frozen=True)
class Partition(Trial):
    """A relation, a condition on its rows, and a law.

    Attributes:
        columns: Of the relation, that are selected; the first one is aggregated by the others.
    """

    law: Law
    source: Node
    condition: Expression
    columns: tuple[Expression, ...]

    def whole(self) -> Select:
        if self.law is Law.COMPUTED:
            truth = ("coalesce(sum(CASE WHEN ", self.condition, " THEN 1 ELSE 0 END), 0)")
            return Select(items=(Item(Expression(Family.INTEGER, truth), "n"),), source=self.source)
        return self._select(None)

    def parts(self) -> tuple[Select, ...]:
        if self.law is Law.COMPUTED:
            count = Item(Expression(Family.INTEGER, ("count(*)",)), "n")
            return (Select(items=(count,), source=self.source, where=self.condition),)
        return tuple(self._select(one) for one in list_parts(self.condition))

    def holds(self, whole: Rows, parts: tuple[Rows, ...]) -> bool:
        together = [row for part in parts for row in part]
        match self.law:
            case Law.DISTINCT:
                return len(whole) == len(set(whole)) and set(whole) == set(together)
            case Law.COUNTS:
                together = _combine(together, len(self.columns) - 1)
        return super().holds(whole, (together,))

    def _select(self, condition: Expression | None) -> Select:
        items = tuple(Item(one, f"o{number}") for number, one in enumerate(self.columns))
        match self.law:
            case Law.HAVING:
                return Select(
                    items=items, source=self.source, grouping=_group(self.columns), having=condition
                )
            case Law.COUNTS:
                column, *keys = self.columns
                totals = _list_totals(column)
                items = tuple(Item(one, f"o{number}") for number, one in enumerate((*keys, *totals)))
                grouping = _group(keys) if keys else None
                return Select(items=items, source=self.source, where=condition, grouping=grouping)
        return Select(items=items, source=self.source, where=condition, distinct=self.law is Law.DISTINCT)


def list_parts(condition: Expression) -> tuple[Expression, Expression, Expression]:
    """Conditions that each row meets exactly one of."""
    denied = Expression(Family.TRUTH, ("(NOT ", condition, ")"))
    return condition, denied, Expression(Family.TRUTH, ("(", condition, " IS NULL)"))


def _group(keys: Sequence[Expression]) -> Grouping:
    return Grouping(tuple(GroupingSet((one,), is_bare=True) for one in keys))


def _list_totals(column: Expression) -> list[Expression]:
    calls: list[tuple[str | Node, ...]] = [("count(*)",)]
    calls += [(f"{name}(", column, ")") for name in ("count", "min", "max")]
    if column.family is Family.INTEGER:
        calls.append(("sum(CAST((", column, " % 1000) AS BIGINT))"))
    return [Expression(column.family, one) for one in calls]


def _combine(rows: Rows, keys: int) -> Rows:
    """The totals of all rows from those of parts, by so many keys before them."""
    groups: defaultdict[tuple[Any, ...], Rows] = defaultdict(list)
    for row in rows:
        groups[row[:keys]].append(row[keys:])
    return [(*key, *_total(parts)) for key, parts in groups.items()]


def _total(parts: Rows) -> tuple[Any, ...]:
    numbers, counts, least, most, *sums = (
        [one for one in column if one is not None] for column in zip(*parts, strict=True)
    )
    return (
        sum(numbers),
        sum(counts),
        min(least, default=None, key=_bytes),
        max(most, default=None, key=_bytes),
        *(sum(one) if one else None for one in sums),
    )


def _bytes(value: object) -> object:
    """Texts sort by their bytes."""
    return value.encode() if isinstance(value, str) else value
