"""Random statements over relations that are known."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz.sql.grammar.blocks import (
    Common,
    Grouping,
    GroupingSet,
    Item,
    Order,
    Query,
    Relation,
    Select,
    SetOperation,
    With,
)
from tests.fuzz.sql.grammar.expressions import Expressions, Scope
from tests.fuzz.sql.grammar.kinds import CANONICAL, COMMON, Family, Kind
from tests.fuzz.sql.grammar.partitions import Law, Partition
from tests.fuzz.sql.grammar.sources import Shape, Sources
from tests.fuzz.sql.grammar.subqueries import Subqueries, conjunction
from tests.fuzz.sql.grammar.tree import (
    Column,
    Expression,
    Literal,
    Node,
    Pair,
    Parameter,
    Spelled,
    quoted,
    with_values,
)

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


@dataclass(frozen=True)
class Statement:
    """A query, and how its answers are compared.

    Attributes:
        node: The query.
        superset: What it returns some of, where its limit leaves a choice.
    """

    node: Node
    superset: Node | None = None

    @property
    def query(self) -> Query | None:
        """The outermost block, which has order and limit."""
        node = self.node
        while isinstance(node, With):
            node = node.body
        return node if isinstance(node, Query) else None

    @property
    def is_ordered(self) -> bool:
        """Whether the order of rows is known: all output columns are sorted by."""
        query = self.query
        if query is None or not query.order:
            return False
        block: Node | None = query
        while isinstance(block, SetOperation):
            block = block.left
        return isinstance(block, Select) and not block.star and len(query.order) == len(block.items)

    @property
    def is_inexact(self) -> bool:
        """Whether last digits depend on the order in which rows are added."""
        return any(isinstance(one, Expression) and one.inexact for one in self.node.walk())

    @property
    def has_parameters(self) -> bool:
        """Whether values are bound."""
        return any(isinstance(one, Parameter) for one in self.node.walk())

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What is asked in the end."""
        return (self.node.whole(), *self.node.parts()) if isinstance(self.node, Partition) else (self.node,)

    def with_values(self, draw: Callable[[Kind], Any]) -> "Statement":
        """The statement with other values of its parameters."""
        node, superset = with_values(Pair(self.node, self.superset), draw).both
        return Statement(node, superset)


class Queries:
    """Draws statements.

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
        self._expressions = Expressions(self._rng, parametrised)
        self._sources = Sources(self._rng, self._shapes, self._expressions, self._derive)
        self._subqueries = Subqueries(self._rng, self._expressions, self._sources)
        self._expressions.subquery = self._subqueries.anywhere

    def statement(self) -> Statement:
        """A statement of any sort."""
        chance = self._rng.random()
        self._begin(parametrised=self._rng.random() < 0.15)
        if chance < 0.12:
            return Statement(self._lookup())
        if chance < 0.22:
            return Statement(self._counted())
        if chance < 0.27:
            return self._some()
        if chance < 0.34:
            return Statement(self._with())
        return Statement(self._finished(self._block(2)))

    def partition(self) -> Statement:
        """A condition that parts rows; another statement where there is none."""
        law = self._rng.choice(tuple(Law))
        self._begin(parametrised=False)
        source = self._sources.source(1)
        columns = source.scope.of(*COMMON)
        if law is Law.COUNTS:
            columns = source.scope.of(Family.INTEGER, Family.TEXT, Family.DATE)
        if not columns:
            return self.statement()
        if law is Law.COMPUTED:
            # DataFusion refuses EXISTS among output columns.
            self._expressions.subquery = None
        condition = self._expressions.condition(source.scope, 2)
        chosen = tuple(dict.fromkeys(self._rng.choice(columns) for _ in range(self._rng.randint(1, 3))))
        if law is Law.HAVING:
            condition = self._condition_of_group(source.scope, chosen)
        return Statement(Partition(law, source.node, condition, chosen))

    def _condition_of_group(self, scope: Scope, keys: Sequence[Column]) -> Expression:
        if self._rng.random() < 0.4:
            return self._expressions.comparison(Scope(tuple(keys)))
        bound = Literal(Family.INTEGER, self._rng.choice((0, 1, 2, 5)))
        self._expressions.subquery = None
        aggregate = self._expressions.aggregate(scope, Family.INTEGER)
        return Expression(Family.TRUTH, ("(", aggregate, self._rng.choice((" > ", " = ")), bound, ")"))

    def view(self) -> tuple[Node, Columns]:
        """The query of a view, and its columns."""
        self._begin(parametrised=False)
        node, columns = self._derive(1)
        return node, columns

    # Sorts of statements

    def _lookup(self) -> Select:
        """By key: all of its columns, or some, among which are several values."""
        source = self._sources.named(self._rng.choice(self._tables))
        conjuncts = []
        chance = self._rng.random
        for column in source.identity or source.scope.columns[:1]:
            if column.family not in CANONICAL or chance() < 0.1:
                continue
            values = [
                self._expressions.constant(column.family, column.kind)
                for _ in range(self._rng.choice((1, 1, 1, 2, 4)))
            ]
            if len(values) == 1:
                conjuncts.append(Expression(Family.TRUTH, ("(", column, " = ", values[0], ")")))
            else:
                conjuncts.append(Expression(Family.TRUTH, ("(", column, " IN (", *_separated(values), "))")))
        if chance() < 0.3:
            conjuncts.append(self._expressions.condition(source.scope, 1))
        where = conjunction(conjuncts)
        if chance() < 0.3:
            return Select(
                items=(Item(Expression(Family.INTEGER, ("count(*)",)), self._name(0)),),
                source=source.node,
                where=where,
            )
        if chance() < 0.3:
            is_agreed = all(one.family in CANONICAL for one in source.scope.columns)
            return Select(source=source.node, where=where, star=Spelled("*", "*" if is_agreed else None))
        columns = self._rng.sample(
            source.scope.columns, self._rng.randint(1, min(4, len(source.scope.columns)))
        )
        items = tuple(Item(one, one.name) for one in columns)
        return Select(items=items, source=source.node, where=where)

    def _counted(self) -> Select:
        """Shapes that are near to the mere number of a table's rows."""
        chance = self._rng.random
        source = (
            self._sources.named(self._rng.choice(self._shapes)) if chance() < 0.7 else self._sources.source(1)
        )
        where = self._where(source.scope, 1) if chance() < 0.5 else None
        items = tuple(
            Item(
                Expression(Family.INTEGER, ("count(*)",))
                if chance() < 0.3
                else self._expressions.aggregate(source.scope, Family.INTEGER),
                self._name(number),
            )
            for number in range(self._rng.choice((1, 1, 1, 2, 3)))
        )
        having = None
        if chance() < 0.15:
            having = Expression(
                Family.TRUTH,
                (
                    "(",
                    self._expressions.aggregate(source.scope, Family.INTEGER),
                    " > ",
                    Literal(Family.INTEGER, self._rng.choice((0, 3, 100))),
                    ")",
                ),
            )
        select = Select(items=items, source=source.node, where=where, having=having)
        if chance() < 0.15:
            return replace(
                select,
                limit=Literal(Family.INTEGER, self._rng.choice((0, 1, 5))),
                order=(Order(Expression(Family.INTEGER, ("1",))),) if len(items) == 1 else (),
            )
        if chance() < 0.1:
            return replace(select, distinct=True)
        return select

    def _some(self) -> Statement:
        """Some of the rows: a limit without order."""
        source = self._sources.named(self._rng.choice(self._shapes))
        where = self._where(source.scope, 1) if self._rng.random() < 0.6 else None
        items = self._items(source.scope, self._rng.randint(1, 3), 1)
        everything = Select(items=items, source=source.node, where=where)
        limit = Literal(Family.INTEGER, self._rng.choice((0, 1, 3, 10, 1000)))
        offset = Literal(Family.INTEGER, self._rng.choice((0, 1, 5))) if self._rng.random() < 0.4 else None
        return Statement(replace(everything, limit=limit, offset=offset), everything)

    def _with(self) -> With:
        """Common table expressions, each of which may be read more than once."""
        if self._rng.random() < 0.15:
            return self._recursive()
        commons = []
        for number in range(self._rng.choice((1, 1, 2))):
            query, columns = self._derive(1)
            commons.append(Common(f"c{number}", query))
            self._sources.commons.append(Shape(f"c{number}", columns))
        return With(tuple(commons), self._finished(self._block(1)))

    def _recursive(self) -> With:
        """Numbers up to one that is read from a table, joined with rows."""
        source = self._sources.named(self._rng.choice(self._shapes))
        start, step = self._rng.choice((0, 1)), self._rng.choice((1, 2))
        # As it stands: without its condition it would have no end.
        numbers = Spelled(
            f"SELECT CAST({start} AS BIGINT) AS n UNION ALL "
            f"SELECT n + {step} AS n FROM numbers WHERE n < {self._rng.choice((3, 9))}"
        )
        common = Common("numbers", numbers)
        column = Column(Family.INTEGER, CANONICAL[Family.INTEGER], "numbers", "n")
        body = Select(
            items=(
                Item(column, "n"),
                Item(Expression(Family.INTEGER, ("(SELECT count(*) FROM ", source.node, ")")), "c"),
            ),
            source=Relation("numbers", "numbers"),
        )
        return With((common,), body, is_recursive=True)

    # Blocks

    def _block(self, depth: int, *, derived: bool = False) -> Query:
        chance = self._rng.random()
        if depth > 0 and chance < 0.1:
            return self._combined(depth)
        if chance < 0.4:
            return self._aggregated(depth, grouped=derived)
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
        return Select(items=items, source=source.node, where=where, distinct=rng.random() < 0.12)

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
        # DataFusion 54 would apply another condition on the same column to the rows of NOT IN, also to NULLs.
        if chance < 0.06 or " NOT IN (" in member.parts:
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
                expression = self._in_items(scope, self._expressions.family(), depth)
            items.append(Item(expression, self._name(number)))
        # As in `_aggregated`: the relation may be a query with groups.
        return tuple(sorted(items, key=lambda item: not isinstance(item.expression, Column)))

    def _in_items(self, scope: Scope, family: Family, depth: int) -> Expression:
        """Without EXISTS, which DataFusion refuses among output columns."""
        subquery = self._expressions.subquery
        self._expressions.subquery = self._subqueries.scalar
        found = self._expressions.scalar(scope, family, depth)
        self._expressions.subquery = subquery
        return found

    def _aggregated(
        self, depth: int, families: Sequence[Family] | None = None, *, grouped: bool = False
    ) -> Select:
        source = self._sources.source(depth)
        rng, scope = self._rng, source.scope
        subquery, self._expressions.subquery = self._expressions.subquery, None
        columns = [one for one in scope.columns if one.family in _SORTABLE]
        keys: list[Expression] = []
        # DataFusion 54 loses conditions on a relation of one row whose columns nobody needs.
        for _ in range(rng.choice((1, 1, 2) if grouped else (0, 1, 1, 2))):
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
            # Keys come first: DataFusion 54 takes a column for the key that has its place among plain columns,
            # and then sorts and groups by it alone.
            items = [Item(key, f"g{number}") for number, key in enumerate(keys)] + items
        return Select(items=tuple(items), source=source.node, where=where, grouping=grouping, having=having)

    def _grouping(self, keys: Sequence[Expression], *, may_total: bool) -> Grouping:
        """Plain, or with totals, but over what may be constant: DataFusion 54 does not sort totals there."""
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
        operator = self._rng.choice(("UNION", "UNION ALL", "UNION ALL", "EXCEPT", "INTERSECT"))
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
        if chance > 0.4 or not isinstance(block, Select) or block.star:
            return query
        if not all(item.expression.family in _SORTABLE for item in block.items):
            return query
        if isinstance(query, SetOperation) and _has_constants(query):
            # DataFusion 54 takes a column for constant that is so in each part of a union.
            return query
        directions = ("", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST")
        names = list(range(len(block.items)))
        self._rng.shuffle(names)
        order = tuple(
            Order(
                Expression(block.items[number].expression.family, (quoted(block.items[number].name),)),
                self._rng.choice(directions),
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
        query = self._finished(self._block(depth, derived=True))
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


def _has_constants(node: Node | None) -> bool:
    """Whether a part of a set operation has an output column that follows from no column."""
    if isinstance(node, SetOperation):
        return _has_constants(node.left) or _has_constants(node.right)
    assert isinstance(node, Select)
    return not all(any(isinstance(one, Column) for one in item.walk()) for item in node.items)


def _separated(nodes: Sequence[Node]) -> list[str | Node]:
    parts: list[str | Node] = []
    for number, node in enumerate(nodes):
        parts += [", ", node] if number else [node]
    return parts
