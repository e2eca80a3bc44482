"""Random FROM clauses: tables, views, derived tables and VALUES, alone or joined."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fuzz.sql.grammar.blocks import Derived, GroupingSet, Join, Relation, ValuesList
from tests.fuzz.sql.grammar.expressions import Expressions, Scope
from tests.fuzz.sql.grammar.kinds import CANONICAL, COMMON, Family, Kind, draw_value
from tests.fuzz.sql.grammar.tree import Column, Expression, Literal, Node, Spelled

JOIN, LEFT, RIGHT = Spelled("JOIN"), Spelled("LEFT JOIN"), Spelled("RIGHT JOIN")
FULL, CROSS = Spelled("FULL JOIN"), Spelled("CROSS JOIN")
SEMI, ANTI = Spelled("LEFT SEMI JOIN", "SEMI JOIN"), Spelled("LEFT ANTI JOIN", "ANTI JOIN")
_JOINS = (JOIN, JOIN, LEFT, LEFT, RIGHT, FULL, CROSS, SEMI, ANTI)
# Types whose equality the engines agree on, whatever their widths.
_JOINABLE = (Family.INTEGER, Family.TEXT, Family.DATE, Family.DECIMAL, Family.TRUTH, Family.MOMENT)


_Columns = tuple[tuple[str, Kind], ...]
Lateral = Callable[[Scope, int], tuple[Node, _Columns] | None]


@dataclass(frozen=True)
class Shape:
    """What a statement may know of a relation with a name.

    Attributes:
        key: Columns that identify a row; empty where none are known to.
        assignable: Columns that UPDATE may change; empty where nothing is written.
        spelled: How the gateway names it, where that is not by its name.
    """

    name: str
    columns: tuple[tuple[str, Kind], ...]
    key: tuple[str, ...] = ()
    assignable: tuple[str, ...] = ()
    spelled: str = ""

    def __str__(self) -> str:
        columns = ", ".join(f"{name!r} {kind.arrow}" for name, kind in self.columns)
        return f"{self.name} ({columns}{f'; key {self.key}' if self.key else ''})"


@dataclass(frozen=True)
class Source:
    """A FROM clause.

    Attributes:
        identity: Columns that identify its rows; None where there are none.
        shape: The relation, where it is one alone.
    """

    node: Node
    scope: Scope
    identity: tuple[Column, ...] | None = None
    shape: Shape | None = None


@dataclass
class Sources:
    """Draws FROM clauses.

    Attributes:
        derive: Draws a query and the names and kinds of its columns.
        lateral: Draws one that reads the columns of a scope.
        commons: Common table expressions that are in scope.
    """

    rng: random.Random
    shapes: tuple[Shape, ...]
    expressions: Expressions
    derive: Callable[[int], tuple[Node, tuple[tuple[str, Kind], ...]]]
    lateral: Lateral | None = None
    commons: list[Shape] = field(default_factory=list)
    aliases: int = 0

    def source(self, depth: int, outer: tuple[Column, ...] = ()) -> Source:
        """One relation, or several joined."""
        found = self.relation(depth)
        joins = self.rng.choice((0, 0, 0, 0, 1, 1, 2)) if depth > 0 else 0
        for _ in range(joins):
            found = self._joined(found, self.relation(depth - 1))
        if depth > 0 and self.rng.random() < 0.06:
            found = self._with_lateral(found, depth - 1)
        return Source(found.node, Scope(found.scope.columns, outer), found.identity, found.shape)

    def relation(self, depth: int) -> Source:
        """A relation under an alias of its own."""
        chance = self.rng.random()
        alias = self.alias()
        if depth > 0 and chance < 0.12:
            return self.derived(depth - 1, alias)
        if chance < 0.16:
            return self._values(alias)
        known = self.commons if self.commons and chance < 0.5 else self.shapes
        return self.named(self.rng.choice(known), alias)

    def derived(self, depth: int, alias: str | None = None) -> Source:
        """A query."""
        alias = alias or self.alias()
        query, columns = self.derive(depth)
        return Source(Derived(query, alias), _scope(alias, columns))

    def named(self, shape: Shape, alias: str | None = None) -> Source:
        """A relation that has a name."""
        alias = alias or self.alias()
        scope = _scope(alias, shape.columns)
        key = tuple(one for one in scope.columns if one.name in shape.key)
        return Source(Relation(shape.name, alias, shape.spelled), scope, key or None, shape)

    def _with_lateral(self, left: Source, depth: int) -> Source:
        """With a relation that reads it."""
        drawn = None if self.lateral is None else self.lateral(left.scope, depth)
        if drawn is None:
            return left
        query, columns = drawn
        alias = self.alias()
        kind = self.rng.choice((CROSS, JOIN, LEFT, LEFT))
        condition = None if kind is CROSS else Expression(Family.TRUTH, ("TRUE",))
        node = Join(kind, left.node, Derived(query, alias, is_lateral=True), condition)
        return Source(node, left.scope.joined(_scope(alias, columns)))

    def alias(self) -> str:
        """One that the statement does not have yet."""
        self.aliases += 1
        return f"r{self.aliases}"

    def _values(self, alias: str) -> Source:
        families = [self.rng.choice(COMMON) for _ in range(self.rng.randint(1, 3))]
        rows = tuple(
            GroupingSet(
                tuple(
                    Literal(one, draw_value(self.rng, CANONICAL[one]))
                    if self.rng.random() < 0.9 or not number
                    else Expression(one, (f"CAST(NULL AS {CANONICAL[one].sql})",))
                    for one in families
                )
            )
            for number in range(self.rng.randint(1, 4))
        )
        columns = tuple((f"v{number}", CANONICAL[one]) for number, one in enumerate(families))
        return Source(ValuesList(rows, alias, tuple(name for name, _ in columns)), _scope(alias, columns))

    def _joined(self, left: Source, right: Source) -> Source:
        kind = self.rng.choice(_JOINS)
        scope = left.scope.joined(right.scope)
        identity = None if left.identity is None or right.identity is None else left.identity + right.identity
        if kind is SEMI or kind is ANTI:
            scope_after, identity = left.scope, left.identity
        else:
            scope_after = scope
        if kind is CROSS:
            return Source(Join(kind, left.node, right.node), scope_after, identity)
        shared = self._shared(left, right)
        is_plain = kind in (JOIN, LEFT)
        if shared and is_plain and self.rng.random() < 0.15:
            return Source(Join(kind, left.node, right.node, using=shared), scope_after, identity)
        return Source(
            Join(kind, left.node, right.node, self.condition(kind, left.scope, right.scope)),
            scope_after,
            identity,
        )

    def _shared(self, left: Source, right: Source) -> tuple[str, ...]:
        """A column of both that no other relation of the join has."""
        if left.shape is None or right.shape is None:
            return ()
        kinds = dict(right.shape.columns)
        names = [
            name
            for name, kind in left.shape.columns
            if name in kinds and kinds[name] == kind and kind.family in _JOINABLE
        ]
        return (self.rng.choice(names),) if names else ()

    def condition(self, kind: Spelled, left: Scope, right: Scope) -> Expression:
        """An equality mostly, and conjuncts of both sides, of one, and of none."""
        conjuncts: list[Expression] = []
        pairs = [
            (one, two)
            for one in left.columns
            for two in right.columns
            if one.family is two.family
            and one.family in _JOINABLE
            # Moments of two units beside each other are refused.
            and (one.family is not Family.MOMENT or one.kind == two.kind)
            # DataFusion 55 takes a filter on the left column of a RIGHT JOIN for one on the right column of
            # the same name, where they are equated.
            and (kind is not RIGHT or one.name != two.name)
        ]
        chance = self.rng.random
        if pairs and chance() < 0.9:
            for _ in range(self.rng.choice((1, 1, 1, 2))):
                one, two = self.rng.choice(pairs)
                operator = (
                    " = "
                    if chance() < 0.9
                    else self.rng.choice((" < ", " >= ", " <> ", " IS NOT DISTINCT FROM "))
                )
                conjuncts.append(Expression(Family.TRUTH, ("(", one, operator, two, ")")))
        subquery, self.expressions.subquery = self.expressions.subquery, None
        conjuncts += [
            self.expressions.condition(scope) for scope in (left, right, left.joined(right)) if chance() < 0.2
        ]
        if not conjuncts:
            conjuncts.append(self.expressions.comparison(left.joined(right)))
        self.expressions.subquery = subquery
        parts: list[str | Node] = []
        for number, conjunct in enumerate(conjuncts):
            parts += [" AND " if number else "", conjunct]
        return Expression(Family.TRUTH, tuple(parts)) if len(conjuncts) > 1 else conjuncts[0]


def _scope(alias: str, columns: tuple[tuple[str, Kind], ...]) -> Scope:
    return Scope(tuple(Column(kind.family, kind, alias, name) for name, kind in columns))
