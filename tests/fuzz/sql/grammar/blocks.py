"""Nodes of whole queries: relations, SELECT blocks, set operations and common table expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.fuzz.sql.grammar.tree import Expression, Node, Reader, Spelled, Text, quoted


@dataclass(frozen=True)
class Relation(Node):
    """A table, view or common table expression under an alias.

    Attributes:
        spelled: How the gateway names it, where that is not by its name.
    """

    name: str
    alias: str
    spelled: str = ""

    def write(self, text: Text) -> None:
        is_named = text.reader is not Reader.GATEWAY or not self.spelled
        text.put(quoted(self.name) if is_named else self.spelled)
        text.put(f" AS {self.alias}" if self.alias != self.name else "")


@dataclass(frozen=True)
class Derived(Node):
    """A query that stands as a relation."""

    query: Node
    alias: str
    is_lateral: bool = False

    def write(self, text: Text) -> None:
        text.put("LATERAL (" if self.is_lateral else "(", self.query, f") AS {self.alias}")


@dataclass(frozen=True)
class Join(Node):
    """Two relations side by side."""

    kind: Spelled
    left: Node
    right: Node
    condition: Expression | None = None
    using: tuple[str, ...] = ()

    def write(self, text: Text) -> None:
        text.put(self.left, " ", self.kind, " ", self.right)
        if self.using:
            text.put(" USING (", ", ".join(map(quoted, self.using)), ")")
        elif self.condition is not None:
            text.put(" ON ", self.condition)

    def own_variants(self) -> Iterator[Node]:
        yield self.left
        if not (isinstance(self.right, Derived) and self.right.is_lateral):
            yield self.right
        for number in range(len(self.using) if len(self.using) > 1 else 0):
            yield replace(self, using=(*self.using[:number], *self.using[number + 1 :]))


@dataclass(frozen=True)
class Item(Node):
    """An output column."""

    expression: Expression
    name: str

    def write(self, text: Text) -> None:
        text.put(self.expression, " AS ", quoted(self.name))


@dataclass(frozen=True)
class Order(Node):
    """A sort key."""

    key: Expression
    direction: str = ""

    def write(self, text: Text) -> None:
        text.put(self.key, self.direction)

    def own_variants(self) -> Iterator[Node]:
        if self.direction:
            yield replace(self, direction="")


@dataclass(frozen=True)
class Grouping(Node):
    """GROUP BY: plain, or ROLLUP, CUBE, GROUPING SETS over tuples of keys."""

    sets: tuple[GroupingSet, ...]
    word: str = ""

    def write(self, text: Text) -> None:
        text.put(" GROUP BY ")
        if self.word:
            text.put(self.word, " (")
            text.put_list(self.sets)
            text.put(")")
        else:
            text.put_list(tuple(key for one in self.sets for key in one.keys))

    def own_variants(self) -> Iterator[Node]:
        if self.word:
            yield replace(self, word="")
        for number in range(len(self.sets) if len(self.sets) > 1 else 0):
            yield replace(self, sets=(*self.sets[:number], *self.sets[number + 1 :]))


@dataclass(frozen=True)
class GroupingSet(Node):
    """Keys that are grouped by together."""

    keys: tuple[Expression, ...]
    is_bare: bool = False

    def write(self, text: Text) -> None:
        if self.is_bare:
            text.put_list(self.keys)
        else:
            text.put("(")
            text.put_list(self.keys)
            text.put(")")


@dataclass(frozen=True)
class Query(Node):
    """Whatever returns rows.

    Attributes:
        order: Sort keys; where rows are limited, all output columns, so that the rows are determined.
    """

    order: tuple[Order, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None

    def write_end(self, text: Text) -> None:
        """Append what stands behind the rows."""
        if self.order:
            text.put(" ORDER BY ")
            text.put_list(self.order)
        if self.limit is not None:
            text.put(" LIMIT ", self.limit)
        if self.offset is not None:
            text.put(" OFFSET ", self.offset)

    def end_variants(self) -> Iterator[Query]:
        """Without limit, offset and order."""
        if self.limit is not None or self.offset is not None:
            yield replace(self, limit=None, offset=None, order=())
            yield replace(self, limit=None)
            yield replace(self, offset=None)
        elif self.order:
            yield replace(self, order=())

    @property
    def is_determined(self) -> bool:
        """Whether limits leave no choice of rows, here: the order is total, or there is no limit."""
        return bool(self.order) or (self.limit is None and self.offset is None)


@dataclass(frozen=True)
class Select(Query):
    """One query block.

    Attributes:
        orders_rows: Whether its order is by what tells each row of its source from all others.
    """

    items: tuple[Item, ...] = ()
    source: Node | None = None
    where: Expression | None = None
    grouping: Grouping | None = None
    having: Expression | None = None
    distinct: bool = False
    star: Spelled | None = None
    orders_rows: bool = False

    def write(self, text: Text) -> None:
        text.put("SELECT DISTINCT " if self.distinct else "SELECT ")
        if self.star is not None:
            text.put(self.star)
        else:
            text.put_list(self.items)
        if self.source is not None:
            text.put(" FROM ", self.source)
        if self.where is not None:
            text.put(" WHERE ", self.where)
        if self.grouping is not None:
            text.put(self.grouping)
        if self.having is not None:
            text.put(" HAVING ", self.having)
        self.write_end(text)

    def own_variants(self) -> Iterator[Node]:
        if isinstance(self.source, Derived) and not self.source.is_lateral:
            yield self.source.query
        yield from self.end_variants()
        for name in ("where", "having", "grouping"):
            if getattr(self, name) is not None:
                yield replace(self, **{name: None})
        if self.distinct:
            yield replace(self, distinct=False)
        if len(self.items) > 1:
            for item in self.items:
                yield self.with_items((item,))
            for number in range(len(self.items)):
                yield self.with_items((*self.items[:number], *self.items[number + 1 :]))

    def with_items(self, items: tuple[Item, ...]) -> Select:
        """With these of its output columns, and an order by no others, unless it is one of all rows."""
        if self.orders_rows:
            return replace(self, items=items)
        if not self.order or self.limit is None:
            return replace(self, items=items, order=())
        order = tuple(Order(Expression(item.expression.family, (quoted(item.name),))) for item in items)
        return replace(self, items=items, order=order)


@dataclass(frozen=True)
class SetOperation(Query):
    """Rows of two queries with the same columns."""

    operator: str = "UNION ALL"
    left: Node | None = None
    right: Node | None = None

    def write(self, text: Text) -> None:
        assert self.left is not None
        assert self.right is not None
        for number, side in enumerate((self.left, self.right)):
            is_bare = (
                isinstance(side, Select) and not side.order and side.limit is None and side.offset is None
            )
            text.put(f" {self.operator} " if number else "")
            text.put(side) if is_bare else text.put("(", side, ")")
        self.write_end(text)

    def own_variants(self) -> Iterator[Node]:
        for side in (self.left, self.right):
            if side is not None:
                yield side
        yield from self.end_variants()
        left, right = self.left, self.right
        if isinstance(left, Select) and isinstance(right, Select) and len(left.items) > 1:
            for number in range(len(left.items)):
                sides = [
                    one.with_items((*one.items[:number], *one.items[number + 1 :])) for one in (left, right)
                ]
                yield replace(self, left=sides[0], right=sides[1], order=(), limit=None, offset=None)


@dataclass(frozen=True)
class ValuesList(Node):
    """Rows of constants as a relation."""

    rows: tuple[GroupingSet, ...]
    alias: str
    names: tuple[str, ...]

    def write(self, text: Text) -> None:
        text.put("(VALUES ")
        text.put_list(self.rows)
        text.put(f") AS {self.alias} ({', '.join(map(quoted, self.names))})")

    def own_variants(self) -> Iterator[Node]:
        for number in range(len(self.rows) if len(self.rows) > 1 else 0):
            yield replace(self, rows=(*self.rows[:number], *self.rows[number + 1 :]))


@dataclass(frozen=True)
class Common(Node):
    """One named query of a WITH clause."""

    name: str
    query: Node
    columns: tuple[str, ...] = ()

    def write(self, text: Text) -> None:
        names = f" ({', '.join(map(quoted, self.columns))})" if self.columns else ""
        text.put(quoted(self.name), names, " AS (", self.query, ")")


@dataclass(frozen=True)
class With(Node):
    """A query behind common table expressions."""

    commons: tuple[Common, ...]
    body: Node
    is_recursive: bool = False

    def write(self, text: Text) -> None:
        text.put("WITH RECURSIVE " if self.is_recursive else "WITH ")
        text.put_list(self.commons)
        text.put(" ", self.body)

    def own_variants(self) -> Iterator[Node]:
        yield self.body
        for common in self.commons:
            yield common.query
        for number in range(len(self.commons) if len(self.commons) > 1 else 0):
            yield replace(self, commons=(*self.commons[:number], *self.commons[number + 1 :]))


def is_beyond_datafusion(node: Node) -> bool:
    """Whether DataFusion refuses outputs that share a name, does not count rows, or lacks a function."""
    return any(
        (isinstance(one, Select) and len({item.name for item in one.items}) < len(one.items))
        or (isinstance(one, SetOperation) and one.operator in {"EXCEPT ALL", "INTERSECT ALL"})
        or (isinstance(one, Spelled) and one.is_own)
        for one in node.walk()
    )


__all__ = [
    "Common", "Derived", "Grouping", "GroupingSet", "Item", "Join", "Order", "Query", "Reader", "Relation",
    "Select", "SetOperation", "ValuesList", "With", "is_beyond_datafusion",
]  # fmt: skip
