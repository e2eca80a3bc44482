"""A statement, and how its answers are compared."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz.sql.grammar.blocks import Query, Select, SetOperation, With
from tests.fuzz.sql.grammar.kinds import Kind
from tests.fuzz.sql.grammar.laws.trial import Trial
from tests.fuzz.sql.grammar.tree import Expression, Node, Parameter, with_values


@dataclass(frozen=True)
class Statement:
    """A query, and how its answers are compared.

    Attributes:
        node: The query.
        is_partial: Whether its limit leaves a choice among the rows of `superset`.
    """

    node: Node
    is_partial: bool = False

    @property
    def superset(self) -> Node | None:
        """What it returns some of, where its limit leaves a choice."""
        node = self.node
        return replace(node, limit=None, offset=None) if self.is_partial and isinstance(node, Query) else None

    @property
    def query(self) -> Query | None:
        """The outermost block, which has order and limit."""
        node = self.node
        while isinstance(node, With):
            node = node.body
        return node if isinstance(node, Query) else None

    @property
    def is_ordered(self) -> bool:
        """Whether the order of rows is known.

        They are sorted by all output columns, none of which is inexact, or by what tells them apart.
        """
        query = self.query
        if query is None or not query.order or self.is_inexact:
            return False
        block: Node | None = query
        while isinstance(block, SetOperation):
            block = block.left
        if not isinstance(block, Select) or block.star:
            return False
        return block.orders_rows or len(query.order) == len(block.items)

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
        return (self.node.whole(), *self.node.parts()) if isinstance(self.node, Trial) else (self.node,)

    def with_values(self, draw: Callable[[Kind], Any]) -> "Statement":
        """The statement with other values of its parameters."""
        return replace(self, node=with_values(self.node, draw))
