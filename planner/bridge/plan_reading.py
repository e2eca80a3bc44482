"""Reading DataFusion's optimised plans: chains of nodes down to one leaf, and what their expressions are.

The plans of subqueries that stand for a value, which DataFusion keeps inside of expressions.

    SELECT id FROM items WHERE id = (SELECT max(id) FROM lance_vector_search('items', ..) WHERE n % 2 = 1)

    Filter: items.id = (<subquery>)
      TableScan: items

The bindings show no plan of a subquery. But an optimizer rule makes joins of subqueries, and the inputs of a
join are shown. So such an expression is selected from a table of one row, in a context in which that rule
applies, and others that would move filters and joins don't:

    Projection: __scalar_sq_1.max(items.id)
      Left Join: true
        TableScan: one_row
        SubqueryAlias: __scalar_sq_1
          Aggregate: max(items.id)
            Filter: items.n % 2 = 1
              TableScan: items

The rule takes subqueries inside of the subquery in the same go, those in filters and projections: see
`find_chains_filtered_by_subquery`.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionConfig, SessionContext
from datafusion.expr import (
    Aggregate,
    Alias,
    BinaryExpr,
    Column,
    Filter,
    Join,
    Projection,
    Sort,
    SubqueryAlias,
    TableScan,
)
from datafusion.plan import LogicalPlan

__all__ = [
    "Chain",
    "Expression",
    "columns_of",
    "every_node",
    "find_chain",
    "find_chains",
    "find_chains_compared_with_subquery",
    "find_chains_filtered_by_subquery",
    "literal_value",
    "operands",
    "output_name",
    "schema_of",
    "serialize_expression",
    "split_conjuncts",
    "strip_aliases",
    "subquery_plans",
]

Expression = Any
"""An expression of a plan, as DataFusion's bindings hand it out."""

_LEAVES = frozenset({"Column", "Literal"})
_OF_OPERANDS = frozenset(
    {"Alias", "Between", "BinaryExpr", "Case", "Cast", "InList", "Like", "Negative", "Not", "ScalarFunction"}
    | {"IsFalse", "IsNotFalse", "IsNotNull", "IsNotTrue", "IsNotUnknown", "IsNull", "IsTrue", "IsUnknown"}
    | {"SimilarTo", "TryCast"}
)
"""Variants that read nothing but their operands."""


def every_node(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """The plan's nodes, inputs after what reads them; plans inside expressions are not among them."""
    yield plan
    for child in plan.inputs():
        yield from every_node(child)


def operands(expression: Expression) -> list[Expression]:
    """What an expression is made of; [] for columns and literals.

    Raises:
        ValueError: it may read something else, as a subquery, an aggregate or a window does.
    """
    kind = expression.variant_name()
    if kind in _LEAVES:
        return []
    if kind not in _OF_OPERANDS:
        raise ValueError(kind)
    return list(expression.rex_call_operands())


def serialize_expression(expression: Expression) -> bytes | None:
    """All that an expression says, as DataFusion would send it to another process; equal for equal ones.

    Functions stand in it by their names.

    Returns:
        None where DataFusion can't serialize it.
    """
    try:
        told: bytes = Expr(expression).to_bytes(_serialization_context())
    except Exception:  # noqa: BLE001 - DataFusion's bindings raise nothing more special
        return None
    return told


@cache
def _serialization_context() -> SessionContext:
    # Otherwise functions in Python would be pickled.
    return SessionContext().with_python_udf_inlining(enabled=False)


def schema_of(plan: LogicalPlan) -> pa.Schema:
    """Return the columns that a plan gives."""
    return _serialization_context().create_dataframe_from_logical_plan(plan).schema()


def literal_value(expression: Expression) -> object:
    """The value of a literal, as Python has it."""
    value = expression.python_value()
    return value.as_py() if isinstance(value, pa.Scalar) else value


def columns_of(expression: Expression) -> Iterator[tuple[str | None, str]]:
    """The columns that an expression reads: the relation's name, where it is told, and theirs.

    Raises:
        ValueError: see `operands`.
    """
    if expression.variant_name() == "Column":
        column = expression.to_variant()
        yield column.relation(), column.name()
    for operand in operands(expression):
        yield from columns_of(operand)


def split_conjuncts(expression: Expression) -> Iterator[Expression]:
    """The operands of an AND, of any number of them."""
    if expression.variant_name() == "BinaryExpr":
        node: BinaryExpr = expression.to_variant()
        if node.op() == "AND":
            yield from split_conjuncts(node.left())
            yield from split_conjuncts(node.right())
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
        return str(self.leaf.fqn()[-1])

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
                found = _find_output(node, relation, name)
                return None if found is None else (place, found)
        return name

    def definitions(self, place: int, expression: Expression) -> Iterator[Expression]:
        """An expression over the output of node `place`, and those further down that it is made of.

        Raises:
            ValueError: see `operands`.
        """
        yield expression
        for relation, name in columns_of(expression):
            match self.definition(place, relation, name):
                case (below, inner):
                    yield from self.definitions(below, inner)

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


def find_chain(plan: LogicalPlan) -> Chain | None:
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


def find_chains(plan: LogicalPlan) -> Iterator[Chain]:
    """The chains of a plan, from their uppermost nodes: one for each time that a leaf is read.

    What is read inside of expressions is not among them; see `planner.bridge.plan_reading`.
    """
    chain = find_chain(plan)
    if chain is not None:
        yield chain
        return
    for child in plan.inputs():
        yield from find_chains(child)


def _find_output(node: Projection, relation: str | None, name: str) -> Expression | None:
    """The expression behind a column that a projection gives; None where several may be meant."""
    same = [(_relation(one), strip_aliases(one)) for one in node.projections() if output_name(one) == name]
    exact = [one for of, one in same if of == relation]
    if len(exact) == 1:
        return exact[0]
    return same[0][1] if len(same) == 1 else None


def output_name(expression: Expression) -> str:
    """The name of a projection's output, by which DataFusion refers to it as well."""
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


def strip_aliases(expression: Expression) -> Expression:
    """Return what aliases give a name to."""
    while expression.variant_name() == "Alias":
        expression = expression.to_variant().expr()
    return expression


_KEEPS_SUBQUERIES = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery"
_OF_VALUES = frozenset({"ScalarSubquery"})
_SUBQUERIES = _OF_VALUES | {"InSubquery", "Exists", "SetComparison"}
_MOVING_RULES = (
    "push_down_filter",
    "eliminate_outer_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
)


def subquery_plans(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """The plans of the subqueries that stand for values in a plan, each with those inside of it.

    Not among them are those that the bindings don't show at all: in the FILTER and ORDER BY of an aggregate,
    for example.

    Args:
        plan: optimised.
    """
    for node in every_node(plan):
        for expression in _expressions(node):
            for subquery in _find_subqueries(expression, _OF_VALUES):
                shown = _one_row().select(Expr(subquery).alias("value")).optimized_logical_plan()
                yield shown
                yield from subquery_plans(shown)


def find_chains_filtered_by_subquery(plan: LogicalPlan) -> Iterator[Chain]:
    """The chains of `subquery_plans` whose rows are compared with the value of a subquery further inside.

    Such a comparison has become a filter above a left join without a condition, with the value on its right.
    """
    for node in every_node(plan):
        if not isinstance(node.to_variant(), Filter):
            continue
        (below,) = node.inputs()
        is_joined = False
        while _joins_a_value(below.to_variant()):
            below, is_joined = below.inputs()[0], True
        chain = find_chain(below) if is_joined else None
        if chain is not None:
            yield chain


def find_chains_compared_with_subquery(plan: LogicalPlan) -> Iterator[Chain]:
    """The chains of a plan whose rows are compared with what a subquery gives.

    Args:
        plan: not optimised: optimizing makes joins of most subqueries, like those that a statement asks for.
    """
    for node in every_node(plan):
        condition = node.to_variant()
        if isinstance(condition, Filter) and any(_find_subqueries(condition.predicate(), _SUBQUERIES)):
            chain = find_chain(node.inputs()[0])
            if chain is not None:
                yield chain


def _joins_a_value(node: object) -> bool:
    if not isinstance(node, Join) or node.on():
        return False
    condition = node.filter()
    return condition is None or (condition.variant_name() == "Literal" and literal_value(condition) is True)


def _find_subqueries(expression: Expression, wanted: AbstractSet[str]) -> Iterator[Expression]:
    kind = expression.variant_name()
    if kind in wanted:
        yield expression
    elif kind not in {"Column", "Literal", "ScalarVariable", "LambdaVariable"}:
        try:
            operands = expression.rex_call_operands()
        except Exception:  # noqa: BLE001 - of some variants the bindings show none, and raise nothing special
            return
        for operand in operands:
            yield from _find_subqueries(operand, wanted)


def _expressions(plan: LogicalPlan) -> Iterator[Expression]:
    """The expressions of a node, as far as the bindings show them."""
    match plan.to_variant():
        case Projection() as node:
            yield from node.projections()
        case Filter() as node:
            yield node.predicate()
        case Sort() as node:
            yield from (key.expr() for key in node.sort_exprs())
        case Aggregate() as node:
            yield from node.group_by_exprs()
            yield from node.aggregate_exprs()
        case TableScan() as node:
            yield from node.filters()
        case Join() as node:
            for pair in node.on():
                yield from pair
            if (condition := node.filter()) is not None:
                yield condition


@cache
def _one_row() -> DataFrame:
    context = SessionContext(SessionConfig().set(_KEEPS_SUBQUERIES, "false"))
    for rule in _MOVING_RULES:
        context.remove_optimizer_rule(rule)
    return context.from_arrow(pa.table({"one": [1]}), name="one_row")
