"""Reading DataFusion's optimised plans: chains of nodes down to one leaf, and what their expressions are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from datafusion.expr import Alias, BinaryExpr, Column, Filter, Projection, SubqueryAlias, TableScan
from datafusion.plan import LogicalPlan

__all__ = [
    "Chain",
    "Expression",
    "chain_from",
    "columns_of",
    "conjuncts_of",
    "every_node",
    "literal_value",
    "operands",
    "output_name",
    "times_read",
]

Expression = Any
"""An expression of a plan, as DataFusion's bindings hand it out."""


def every_node(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """The plan's nodes, inputs after what reads them; plans inside expressions are not among them."""
    yield plan
    for child in plan.inputs():
        yield from every_node(child)


def times_read(plan: LogicalPlan, table: str) -> int:
    """How often a plan reads a table, subqueries included: a CTE is planned wherever it is named."""
    return len(re.findall(rf"TableScan: {re.escape(table)}(?=\s|$)", plan.display_indent()))


def operands(expression: Expression) -> list[Expression]:
    """What an expression is made of; [] for columns and literals.

    Raises:
        ValueError: it has a subquery in it.
    """
    if expression.variant_name() in {"Column", "Literal"}:
        return []
    try:
        return list(expression.rex_call_operands())
    except Exception as error:
        raise ValueError(str(expression)) from error


def literal_value(expression: Expression) -> object:
    """The value of a literal, as Python has it."""
    value = expression.python_value()
    return value.as_py() if isinstance(value, pa.Scalar) else value


def columns_of(expression: Expression) -> Iterator[tuple[str | None, str]]:
    """The columns that an expression reads: the relation's name, where it is told, and theirs.

    Raises:
        ValueError: it has a subquery in it.
    """
    if expression.variant_name() == "Column":
        column = expression.to_variant()
        yield column.relation(), column.name()
    for operand in operands(expression):
        yield from columns_of(operand)


def conjuncts_of(expression: Expression) -> Iterator[Expression]:
    """The operands of an AND, of any number of them."""
    if expression.variant_name() == "BinaryExpr":
        node: BinaryExpr = expression.to_variant()
        if node.op() == "AND":
            yield from conjuncts_of(node.left())
            yield from conjuncts_of(node.right())
            return
    yield expression


@dataclass(frozen=True, eq=False, slots=True)
class Chain:
    """Nodes that keep, drop and rename columns and rows of one leaf, and nothing else.

    Attributes:
        nodes: from the uppermost down, without the leaf: Projection, Filter and SubqueryAlias.
        leaf: the scan at the end.
    """

    nodes: tuple[Projection | Filter | SubqueryAlias, ...]
    leaf: TableScan

    @property
    def table(self) -> str:
        """The name under which the leaf is registered."""
        return str(self.leaf.table_name())

    @property
    def filters(self) -> tuple[tuple[int, Filter], ...]:
        """The filters among the nodes, with their places."""
        return tuple((place, node) for place, node in enumerate(self.nodes) if isinstance(node, Filter))

    def definition(self, place: int, relation: str | None, name: str) -> tuple[int, Expression] | str | None:
        """What a column of the input of node `place - 1` (that is: of the output of node `place`) is.

        Args:
            place: of the node whose output is looked at; the number of nodes stands for the leaf.
            relation: that the column belongs to, where that is told.
            name: of the column.

        Returns:
            The place at which an expression is to be read, and the expression; or the name of a column of the
            leaf; None where that can't be told.
        """
        while place < len(self.nodes):
            node = self.nodes[place]
            place += 1
            if isinstance(node, SubqueryAlias):
                relation = None
            elif isinstance(node, Projection):
                found = _output(node, relation, name)
                return None if found is None else (place, found)
        return name

    def stored_columns(self, place: int, expression: Expression) -> frozenset[str] | None:
        """The leaf's columns that an expression over the output of node `place` reads.

        Returns:
            None where that can't be told.
        """
        found: set[str] = set()
        try:
            columns = list(columns_of(expression))
        except ValueError:
            return None
        for relation, name in columns:
            match self.definition(place, relation, name):
                case str(stored):
                    found.add(stored)
                case (below, inner):
                    deeper = self.stored_columns(below, inner)
                    if deeper is None:
                        return None
                    found |= deeper
                case _:
                    return None
        return frozenset(found)


def chain_from(plan: LogicalPlan) -> Chain | None:
    """The chain that begins at a node; None where something else stands between it and a leaf."""
    nodes: list[Projection | Filter | SubqueryAlias] = []
    while True:
        node = plan.to_variant()
        if isinstance(node, TableScan):
            return Chain(tuple(nodes), node)
        if not isinstance(node, Projection | Filter | SubqueryAlias):
            return None
        nodes.append(node)
        (plan,) = plan.inputs()


def _output(node: Projection, relation: str | None, name: str) -> Expression | None:
    """The expression behind a column that a projection gives; None where several may be meant."""
    same = [(_relation(one), _without_alias(one)) for one in node.projections() if output_name(one) == name]
    exact = [one for of, one in same if of == relation]
    if len(exact) == 1:
        return exact[0]
    return same[0][1] if len(same) == 1 else None


def output_name(expression: Expression) -> str:
    """The name of a projection's output."""
    match expression.variant_name():
        case "Alias":
            alias: Alias = expression.to_variant()
            return str(alias.alias())
        case "Column":
            column: Column = expression.to_variant()
            return str(column.name())
    return str(expression.schema_name())


def _relation(expression: Expression) -> str | None:
    relation: str | None = (
        expression.to_variant().relation() if expression.variant_name() == "Column" else None
    )
    return relation


def _without_alias(expression: Expression) -> Expression:
    return expression.to_variant().expr() if expression.variant_name() == "Alias" else expression
