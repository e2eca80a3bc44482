"""Random query blocks: plain, with groups, and combined by set operations."""

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.fuzz.sql.grammar.blocks import Grouping, GroupingSet, Item, Order, Query, Select, SetOperation
from tests.fuzz.sql.grammar.expressions import Expressions, Scope
from tests.fuzz.sql.grammar.kinds import CANONICAL, COMMON, Family, Kind
from tests.fuzz.sql.grammar.sources import Shape, Sources
from tests.fuzz.sql.grammar.subqueries import Subqueries, conjunction
from tests.fuzz.sql.grammar.tree import Column, Expression, Literal, Node, quoted

_DIRECTIONS = ("", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST")
_ODD_NAMES = (
    "EmptyRelation",
    "TableScan: t",
    "Aggregate: groupBy=[[]]",
    "count(Int64(1))",
    "a b",
    "count(*)",
)
_SORTABLE = frozenset(COMMON)
Columns = tuple[tuple[str, Kind], ...]


class Selects:
    """Draws query blocks.

    Args:
        rng: all of them follow from its state.
        shapes: tables and views.
    """

    def __init__(self, rng: random.Random, shapes: Sequence[Shape]) -> None:
        self._rng = rng
        self._shapes = tuple(shapes)
        self._tables = tuple(one for one in shapes if one.key) or self._shapes
        self._begin(parametrised=False)

    def _begin(self, *, parametrised: bool) -> None:
        self._expressions = Expressions(self._rng, parametrised, writes_json=True)
        self._sources = Sources(self._rng, self._shapes, self._expressions, self._derive)
        self._subqueries = Subqueries(self._rng, self._expressions, self._sources)
        self._expressions.subquery = self._subqueries.anywhere
        self._sources.lateral = self._subqueries.lateral

    def _block(self, depth: int) -> Query:
        chance = self._rng.random()
        if depth > 0 and chance < 0.1:
            return self._combined(depth)
        if chance < 0.4:
            return self._aggregated(depth)
        return self._select(depth)

    def _select(
        self, depth: int, families: Sequence[Family] | None = None, outer: tuple[Column, ...] = ()
    ) -> Select:
        source = self._sources.source(depth, outer)
        rng, scope = self._rng, source.scope
        items = (
            tuple(
                Item(self._expressions.scalar(scope, one, 1), f"o{number}")
                for number, one in enumerate(families)
            )
            if families
            else self._items(scope, rng.randint(1, 4), 2)
        )
        if source.identity and not families and rng.random() < 0.08:
            items = (*items, Item(self._expressions.window(scope, source.identity), "w"))
        where = self._where(scope, 2) if rng.random() < 0.7 else None
        select = Select(items=items, source=source.node, where=where, distinct=rng.random() < 0.12)
        if not source.identity or families or select.distinct or rng.random() > 0.15:
            return select
        # By what may be no output, but leaves no choice.
        order = tuple(Order(column, rng.choice(_DIRECTIONS)) for column in source.identity)
        return replace(select, order=order, orders_rows=True)

    def _where(self, scope: Scope, depth: int) -> Expression:
        """A condition, or a membership in a subquery, or both."""
        chance = self._rng.random()
        if chance > 0.98:
            return Expression(Family.TRUTH, ("CAST(NULL AS BOOLEAN)",))
        if chance > 0.1:
            return self._expressions.condition(scope, depth)
        member = self._subqueries.membership(scope, depth)
        if member is None:
            return self._expressions.condition(scope, depth)
        if chance < 0.04:
            return member
        found = conjunction([member, self._expressions.condition(scope, depth)])
        assert found is not None
        return found

    def _items(self, scope: Scope, count: int, depth: int) -> tuple[Item, ...]:
        items: list[Item] = []
        for number in range(count):
            if scope.columns and self._rng.random() < 0.55:
                expression: Expression = self._rng.choice(scope.columns)
            else:
                expression = self._expressions.scalar(scope, self._expressions.family(), depth)
            items.append(Item(expression, self._name(number)))
        return tuple(items)

    def _aggregated(self, depth: int, families: Sequence[Family] | None = None) -> Select:
        source = self._sources.source(depth)
        rng, scope = self._rng, source.scope
        subquery, self._expressions.subquery = self._expressions.subquery, None
        columns = [one for one in scope.columns if one.family in _SORTABLE]
        keys: list[Expression] = []
        for _ in range(rng.choice((0, 1, 1, 2))):
            key: Expression | None = rng.choice(columns) if columns else None
            if rng.random() < 0.2 and columns:
                key = self._expressions.scalar(
                    scope, rng.choice((Family.INTEGER, Family.TEXT, Family.TRUTH)), 1
                )
                if not any(isinstance(one, Column) for one in key.walk()):
                    key = rng.choice(columns)
            if key is not None and key not in keys:
                keys.append(key)
        items = []
        for number, one in enumerate(
            families or [self._expressions.family() for _ in range(rng.randint(1, 3))]
        ):
            aggregate = self._expressions.aggregate(scope, one)
            items.append(Item(aggregate, self._name(number)))
        having = None
        if rng.random() < 0.2:
            bound = Literal(Family.INTEGER, rng.choice((0, 1, 2, 5)))
            having = Expression(
                Family.TRUTH,
                (
                    "(",
                    self._expressions.aggregate(scope, Family.INTEGER),
                    rng.choice((" > ", " <= ", " = ")),
                    bound,
                    ")",
                ),
            )
        self._expressions.subquery = subquery
        where = self._where(scope, 2) if rng.random() < 0.5 else None
        is_table = source.shape is not None and bool(source.shape.key)
        grouping = self._grouping(keys, may_total=is_table) if keys else None
        if not families:
            items = [Item(key, f"g{number}") for number, key in enumerate(keys)] + items
            rng.shuffle(items)
        return Select(items=tuple(items), source=source.node, where=where, grouping=grouping, having=having)

    def _grouping(self, keys: Sequence[Expression], *, may_total: bool) -> Grouping:
        """Plain, or with totals, but over what may be constant: that is refused."""
        sets = tuple(GroupingSet((key,), is_bare=True) for key in keys)
        chance = self._rng.random()
        if chance < 0.7 or not may_total or not all(isinstance(one, Column) for one in keys):
            return Grouping(sets)
        if chance < 0.83:
            return Grouping(sets, "ROLLUP")
        if chance < 0.9:
            return Grouping(sets, "CUBE")
        return Grouping((GroupingSet(tuple(keys)), GroupingSet(())), "GROUPING SETS")

    def _combined(self, depth: int) -> SetOperation:
        families = [self._rng.choice(COMMON) for _ in range(self._rng.randint(1, 3))]
        operators = ("UNION", "UNION ALL", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")
        operator = self._rng.choice(operators)
        left = self._cast(self._select(depth - 1, families), families)
        right = self._cast(self._select(depth - 1, families), families)
        return SetOperation(operator=operator, left=left, right=right)

    def _cast(self, select: Select, families: Sequence[Family]) -> Select:
        """With the same types on both sides."""
        items = tuple(
            Item(Expression(family, ("CAST(", item.expression, f" AS {CANONICAL[family].sql})")), item.name)
            for item, family in zip(select.items, families, strict=True)
        )
        return replace(select, items=items)

    def _finished(self, query: Query) -> Query:
        """With an order, and perhaps a limit, where all columns can be sorted by."""
        chance = self._rng.random()
        block: Node | None = query
        while isinstance(block, SetOperation):
            block = block.left
        if chance > 0.4 or not isinstance(block, Select) or block.star or query.order:
            return query
        if not all(item.expression.family in _SORTABLE for item in block.items):
            return query
        names = list(range(len(block.items)))
        self._rng.shuffle(names)
        order = tuple(
            Order(
                Expression(block.items[number].expression.family, (quoted(block.items[number].name),)),
                self._rng.choice(_DIRECTIONS),
            )
            for number in names
        )
        query = replace(query, order=order)
        if chance < 0.25:
            query = replace(query, limit=self._limit((1, 3, 10)))
        if chance < 0.1:
            query = replace(query, offset=self._limit((0, 1, 2)))
        return query

    def _limit(self, values: Sequence[int]) -> Expression:
        return Literal(Family.INTEGER, self._rng.choice(values))

    def _derive(self, depth: int) -> tuple[Node, Columns]:
        """A query, and the names and kinds of its columns."""
        query = self._finished(self._block(depth))
        block: Node | None = query
        while isinstance(block, SetOperation):
            block = block.left
        assert isinstance(block, Select)
        columns = tuple(
            (
                item.name,
                item.expression.kind
                if isinstance(item.expression, Column)
                else CANONICAL[item.expression.family],
            )
            for item in block.items
        )
        return query, columns

    def _name(self, number: int) -> str:
        return f"{self._rng.choice(_ODD_NAMES)}{number or ''}" if self._rng.random() < 0.03 else f"o{number}"
