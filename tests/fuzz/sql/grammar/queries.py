"""Random statements over relations that are known."""

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.fuzz.sql.grammar.blocks import Common, Item, Order, Query, Relation, Select, With
from tests.fuzz.sql.grammar.expressions import Scope
from tests.fuzz.sql.grammar.kinds import CANONICAL, COMMON, Family
from tests.fuzz.sql.grammar.laws.changes import Style, Writing, WritingTrial
from tests.fuzz.sql.grammar.laws.joins import JoinTrial
from tests.fuzz.sql.grammar.laws.partitions import Partition
from tests.fuzz.sql.grammar.laws.trial import Law, Trial
from tests.fuzz.sql.grammar.selects import Columns, Selects
from tests.fuzz.sql.grammar.sources import ANTI, FULL, JOIN, LEFT, RIGHT, SEMI, Shape
from tests.fuzz.sql.grammar.statement import Statement
from tests.fuzz.sql.grammar.subqueries import conjunction
from tests.fuzz.sql.grammar.tree import Column, Expression, Literal, Node, Spelled


class Queries(Selects):
    """Draws statements.

    Args:
        rng: all of them follow from its state.
        shapes: tables and views.
        writes: whether the tables may be written.
    """

    def __init__(self, rng: random.Random, shapes: Sequence[Shape], *, writes: bool = False) -> None:
        super().__init__(rng, shapes)
        self._writable = [one for one in shapes if one.assignable] if writes else []

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
        return Statement(self._repeated(self._finished(self._block(2))))

    def _repeated(self, query: Query) -> Query:
        """A query whose outputs share a name, now and then."""
        if not isinstance(query, Select) or query.order or len(query.items) < 2 or self._rng.random() > 0.03:
            return query
        name = query.items[0].name
        return replace(query, items=tuple(replace(item, name=name) for item in query.items))

    def trial(self) -> Statement:
        """Statements whose answers check each other; another statement where none come to mind."""
        self._begin(parametrised=False)
        chance = self._rng.random()
        if chance < 0.25:
            drawn: Trial | None = self._join_trial()
        elif chance < 0.5 and self._writable:
            drawn = self._writing_trial()
        else:
            drawn = self._partition()
        return self.statement() if drawn is None else Statement(drawn)

    def _partition(self) -> Partition | None:
        """A condition that parts rows, those of a whole query among them."""
        law = self._rng.choice((Law.ROWS, Law.DISTINCT, Law.COUNTS, Law.HAVING, Law.COMPUTED))
        source = self._sources.derived(2) if self._rng.random() < 0.3 else self._sources.source(1)
        columns = source.scope.of(*COMMON)
        if law is Law.COUNTS:
            columns = source.scope.of(Family.INTEGER, Family.TEXT, Family.DATE)
        if not columns:
            return None
        condition = self._expressions.condition(source.scope, 2)
        chosen = self._chosen(columns)
        if law is Law.HAVING:
            condition = self._condition_of_group(source.scope, chosen)
        return Partition(law, source.node, condition, chosen)

    def _join_trial(self) -> JoinTrial | None:
        """Two relations, one of which may be a join."""
        law = self._rng.choice((Law.ON, Law.CROSSED, Law.OUTER, Law.OUTER, Law.MATCHED))
        kinds = {Law.OUTER: (LEFT, RIGHT, FULL), Law.MATCHED: (SEMI, ANTI)}
        kind = self._rng.choice(kinds.get(law, (JOIN,)))
        left, right = self._sources.source(1), self._sources.relation(1)
        both = left.scope.joined(right.scope)
        columns = (left.scope if law is Law.MATCHED else both).of(*COMMON)
        if not columns:
            return None
        on = self._sources.condition(kind, left.scope, right.scope)
        condition = self._expressions.condition(both, 2)
        return JoinTrial(law, kind, left.node, right.node, on, condition, self._chosen(columns))

    def _writing_trial(self) -> WritingTrial | None:
        """A statement that changes the rows of a table which meet a condition."""
        shape = self._rng.choice(self._writable)
        source = self._sources.named(shape)
        assert isinstance(source.node, Relation)
        assert source.identity is not None
        free = [
            one for one in source.scope.columns if one.name in shape.assignable and one.family in CANONICAL
        ]
        if not free:
            return None
        changed = self._rng.choice(free)
        is_plain = changed.kind in CANONICAL.values() and changed.family is not Family.JSON
        if is_plain and self._rng.random() < 0.5:
            value = self._expressions.scalar(source.scope, changed.family, 1)
        else:
            value = self._rng.choice([one for one in source.scope.columns if one.kind == changed.kind])
        condition = self._where(source.scope, 2)
        style = self._rng.choice(tuple(Style))
        writing = Writing(
            style, source.node, source.scope.columns, source.identity, condition, changed, value
        )
        law = self._rng.choice((Law.CHANGED, Law.SEEN, Law.SEEN, Law.RETURNED, Law.AFFECTED))
        query = self._lookup(shape) if self._rng.random() < 0.4 else self._block(1)
        return WritingTrial(law, writing, query)

    def _chosen(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        return tuple(dict.fromkeys(self._rng.choice(columns) for _ in range(self._rng.randint(1, 3))))

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

    def _lookup(self, shape: Shape | None = None) -> Select:
        """By key: all of its columns, or some, among which are several values."""
        shape = shape or self._rng.choice(self._tables)
        source = self._sources.named(shape)
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
        if chance() < 0.3 and not shape.spelled:
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
        limit = Literal(Family.INTEGER, self._rng.choice((0, 1, 3, 10, 1000)))
        offset = Literal(Family.INTEGER, self._rng.choice((0, 1, 5))) if self._rng.random() < 0.4 else None
        select = Select(items=items, source=source.node, where=where, limit=limit, offset=offset)
        return Statement(select, is_partial=True)

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


def _separated(nodes: Sequence[Node]) -> list[str | Node]:
    parts: list[str | Node] = []
    for number, node in enumerate(nodes):
        parts += [", ", node] if number else [node]
    return parts
