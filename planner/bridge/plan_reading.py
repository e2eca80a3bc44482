"""Reads DataFusion's optimised plans: chains of nodes down to one leaf, and their expressions.

It also reads the plans of scalar subqueries, which DataFusion keeps inside of expressions.

    SELECT id FROM items WHERE id = (SELECT max(id) FROM lance_vector_search('items', ..) WHERE n % 2 = 1)

    Filter: items.id = (<subquery>)
      TableScan: items

The bindings don't show the plans of subqueries, but they show the inputs of joins, which an optimizer rule
makes of subqueries. So such an expression is selected from a table of one row, in a context with that rule
and without those that move filters and joins:

    Projection: __scalar_sq_1.max(items.id)
      Left Join: true
        TableScan: one_row
        SubqueryAlias: __scalar_sq_1
          Aggregate: max(items.id)
            Filter: items.n % 2 = 1
              TableScan: items

The rule also makes joins of subqueries in filters and projections of the subquery: see
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

Expression = Any
"""An expression of a plan, as DataFusion's bindings hand it out."""

WRONG_RULES = ("eliminate_duplicated_expr", "eliminate_group_by_constant")
"""Rules of DataFusion 55 that go wrong.

The first drops sort keys that depend on others in one input of a join, but not in the groups of its result.
The second fails where a key is a column and another one its cast.
"""
_LEAVES = frozenset({"Column", "Literal"})
_OF_OPERANDS = frozenset(
    {"Alias", "Between", "BinaryExpr", "Case", "Cast", "InList", "Like", "Negative", "Not", "ScalarFunction"}
    | {"IsFalse", "IsNotFalse", "IsNotNull", "IsNotTrue", "IsNotUnknown", "IsNull", "IsTrue", "IsUnknown"}
    | {"SimilarTo", "TryCast"}
)
"""Variants that read only their operands."""


def every_node(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """Yield the nodes of a plan, each before its inputs, without the plans inside of expressions."""
    yield plan
    for child in plan.inputs():
        yield from every_node(child)


def operands(expression: Expression) -> list[Expression]:
    """Return the operands of an expression; [] for columns and literals.

    Raises:
        ValueError: it may read more than its operands, as a subquery, an aggregate or a window does.
    """
    kind = expression.variant_name()
    if kind in _LEAVES:
        return []
    if kind not in _OF_OPERANDS:
        raise ValueError(kind)
    return list(expression.rex_call_operands())


def serialize_expression(expression: Expression) -> bytes | None:
    """Serialize an expression, with functions by their names, so that equal expressions give equal bytes.

    Returns:
        None if DataFusion can't serialize it.
    """
    try:
        serialized: bytes = Expr(expression).to_bytes(_serialization_context())
    except Exception:  # noqa: BLE001 - DataFusion's bindings raise no narrower type
        return None
    return serialized


@cache
def _serialization_context() -> SessionContext:
    # Without this, functions in Python would be pickled.
    return SessionContext().with_python_udf_inlining(enabled=False)


def literal_value(expression: Expression) -> object:
    """Return the value of a literal as a Python object."""
    value = expression.python_value()
    return value.as_py() if isinstance(value, pa.Scalar) else value


def columns_of(expression: Expression) -> Iterator[tuple[str | None, str]]:
    """Yield the columns that an expression reads, each as the name of its relation, or None, and its own.

    Raises:
        ValueError: as `operands`.
    """
    if expression.variant_name() == "Column":
        column = expression.to_variant()
        yield column.relation(), column.name()
    for operand in operands(expression):
        yield from columns_of(operand)


def reads_rows_alone(condition: Expression) -> bool:
    """Return whether a condition reads columns, and nothing but columns."""
    try:
        return bool(list(columns_of(condition)))  # to the end, where a subquery may stand
    except ValueError:
        return False


def split_conjuncts(expression: Expression) -> Iterator[Expression]:
    """Yield the conjuncts of an expression."""
    if expression.variant_name() == "BinaryExpr":
        node: BinaryExpr = expression.to_variant()
        if node.op() == "AND":
            yield from split_conjuncts(node.left())
            yield from split_conjuncts(node.right())
            return
    yield expression


@dataclass(frozen=True, eq=False, slots=True)
class Chain:
    """Nodes that only keep, drop and rename columns and rows of one leaf.

    Attributes:
        nodes: Projection, Filter and SubqueryAlias from the uppermost down, without the leaf.
        leaf: the scan at the end.
    """

    nodes: tuple[Projection | Filter | SubqueryAlias, ...]
    leaf: TableScan

    @property
    def table(self) -> str:
        """Return the name under which the leaf is registered."""
        return str(self.leaf.fqn()[-1])

    @property
    def filters(self) -> tuple[tuple[int, Filter], ...]:
        """Return the filters among the nodes, with their places."""
        return tuple((place, node) for place, node in enumerate(self.nodes) if isinstance(node, Filter))

    def definition(self, place: int, relation: str | None, name: str) -> tuple[int, Expression] | str | None:
        """Return the definition of a column of the output of node `place`.

        Args:
            place: of the node; the number of nodes is the place of the leaf.
            relation: of the column, if the plan names it.
            name: of the column.

        Returns:
            An expression, with the place of the node whose output it reads; or the name of a column of the
            leaf; or None if the column is ambiguous.
        """
        while place < len(self.nodes):
            node = self.nodes[place]
            place += 1
            if isinstance(node, SubqueryAlias):
                relation = None
            elif isinstance(node, Projection):
                expression = find_output(node, relation, name)
                return None if expression is None else (place, expression)
        return name

    def definitions(self, place: int, expression: Expression) -> Iterator[Expression]:
        """Yield an expression over the output of node `place`, and the definitions of its columns.

        Raises:
            ValueError: as `operands`.
        """
        yield expression
        for relation, name in columns_of(expression):
            match self.definition(place, relation, name):
                case (below, inner):
                    yield from self.definitions(below, inner)

    def stored_columns(self, place: int, expression: Expression) -> frozenset[str] | None:
        """Return the leaf's columns that an expression over the output of node `place` reads.

        Returns:
            None if they can't be determined.
        """
        names: set[str] = set()
        try:
            columns = list(columns_of(expression))
        except ValueError:
            return None
        for relation, name in columns:
            match self.definition(place, relation, name):
                case str(stored):
                    names.add(stored)
                case (below, inner):
                    deeper = self.stored_columns(below, inner)
                    if deeper is None:
                        return None
                    names |= deeper
                case _:
                    return None
        return frozenset(names)


def find_chain(plan: LogicalPlan) -> Chain | None:
    """Return the chain that begins at a node; None if other nodes are between it and a leaf."""
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
    """Yield the chains of a plan, one for each reading of a leaf, without those inside of expressions."""
    chain = find_chain(plan)
    if chain is not None:
        yield chain
        return
    for child in plan.inputs():
        yield from find_chains(child)


def find_output(node: Projection, relation: str | None, name: str) -> Expression | None:
    """Return the expression of a projection's column; None if the name is ambiguous."""
    same = [
        (_relation(expression), strip_aliases(expression))
        for expression in node.projections()
        if output_name(expression) == name
    ]
    exact = [expression for own_relation, expression in same if own_relation == relation]
    if len(exact) == 1:
        return exact[0]
    return same[0][1] if len(same) == 1 else None


def output_name(expression: Expression) -> str:
    """Return the name of a projection's output."""
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
    """Return an expression without its aliases."""
    while expression.variant_name() == "Alias":
        expression = expression.to_variant().expr()
    return expression


KEEPS_SUBQUERIES = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery"
"""Option that keeps subqueries without columns of the query around them out of joins."""
_OF_VALUES = frozenset({"ScalarSubquery"})
_SUBQUERIES = _OF_VALUES | {"InSubquery", "Exists", "SetComparison"}
_MOVING_RULES = (
    "push_down_filter",
    "eliminate_outer_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
)


def subquery_plans(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """Yield the plans of the scalar subqueries in a plan, also of nested ones.

    Subqueries that the bindings don't show are missing, such as those in FILTER and ORDER BY of an aggregate,
    and those that DataFusion can't join: it does not run them, or has found that they have no rows.

    Args:
        plan: optimised.
    """
    for node in every_node(plan):
        for expression in _expressions(node):
            for subquery in _find_subqueries(expression, _OF_VALUES):
                inner = _join_value(subquery)
                if inner is not None:
                    yield inner
                    yield from subquery_plans(inner)


def find_chains_filtered_by_subquery(plan: LogicalPlan) -> Iterator[Chain]:
    """Yield the chains of `subquery_plans` whose rows are compared with the value of a nested subquery.

    Such a comparison is a filter above a left join without a condition, with the value on its right.
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
    """Yield the chains of a plan whose rows are compared with the result of a subquery.

    Args:
        plan: not optimised, since optimizing makes joins of most subqueries.
    """
    for node in every_node(plan):
        condition = node.to_variant()
        if isinstance(condition, Filter) and any(_find_subqueries(condition.predicate(), _SUBQUERIES)):
            chain = find_chain(node.inputs()[0])
            if chain is not None:
                yield chain


def has_subqueries(node: LogicalPlan, kinds: AbstractSet[str]) -> bool:
    """Return whether expressions of a node have variants of some kinds, as far as the bindings show them."""
    return any(next(_find_subqueries(one, kinds), None) is not None for one in _expressions(node))


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
    """Yield the expressions of a node that the bindings show."""
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


def _join_value(subquery: Expression) -> LogicalPlan | None:
    """Return the plan of one row beside the value of a scalar subquery; None if they can't be joined."""
    try:
        plan = _one_row().select(Expr(subquery).alias("value")).optimized_logical_plan()
    except Exception:  # noqa: BLE001 - DataFusion joins no relation that it has emptied
        return None
    return plan if isinstance(plan.inputs()[0].to_variant(), Join) else None


@cache
def _one_row() -> DataFrame:
    context = SessionContext(SessionConfig().set(KEEPS_SUBQUERIES, "false"))
    for rule in (*WRONG_RULES, *_MOVING_RULES):
        context.remove_optimizer_rule(rule)
    return context.from_arrow(pa.table({"one": [1]}), name="one_row")
