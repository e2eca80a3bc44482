"""Reads from a plan by which columns its leaves are joined, and whose keys tell which rows of another count.

    Inner Join: o.customer = c.id          keys of c tell which rows of o count, and the other way round
      Left Join: o.id = l.order            keys of o tell which rows of l count
        TableScan: o
        TableScan: l
      TableScan: c

A row of a leaf counts unless a join would drop all rows that are made of it. A join drops a row where its key
is NULL or equals none of the other side; what an outer join adds for rows that are not there any more has
NULL in that place. So an edge holds wherever the two leaves lie below the join, as long as their columns
come up to it as they are: through conditions, projections, other joins and names of subqueries, but not
through groups, limits, unions and windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from datafusion.expr import Filter, Join, Projection, SubqueryAlias, TableScan
from datafusion.plan import LogicalPlan

from planner.bridge.plan_reading import Expression, find_output, strip_aliases

_DIRECTIONS: Final[Mapping[str, tuple[bool, bool]]] = MappingProxyType(
    {
        "Inner": (True, True),
        "LeftSemi": (True, True),
        "RightSemi": (True, True),
        "Left": (True, False),
        "Right": (False, True),
    }
)
"""Kind of join -> whether keys of the left side tell of the right one, and the other way round."""
_OUTPUTS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {"Inner": (0, 1), "Left": (0, 1), "Right": (0, 1), "Full": (0, 1)}
    | {"LeftSemi": (0,), "LeftAnti": (0,), "RightSemi": (1,), "RightAnti": (1,)}
)
"""Kind of join -> inputs whose columns come through it."""


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """A column of a leaf.

    Attributes:
        leaf: number of the leaf in the plan.
        name: of the column.
    """

    leaf: int
    name: str


@dataclass(frozen=True, slots=True)
class Edge:
    """Rows of `target` count only if their value is among those of `source`."""

    source: LeafColumn
    target: LeafColumn


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """The leaves of a plan, and how they are joined.

    Attributes:
        leaves: name of the table of each, in the order of the plan.
        edges: between them.
        own: conditions that each leaf applies by itself.
        above: conditions on the rows of each leaf that stand just above it.
    """

    leaves: tuple[str, ...]
    edges: tuple[Edge, ...]
    own: tuple[tuple[Expression, ...], ...] = ()
    above: tuple[tuple[Expression, ...], ...] = ()


def read_join_graph(plan: LogicalPlan) -> JoinGraph:
    """Read the leaves and joins of an optimised plan, without those inside of expressions."""
    reader = _Reader()
    reader.read(plan)
    return JoinGraph(tuple(reader.leaves), tuple(reader.edges), tuple(reader.own), tuple(reader.above))


@dataclass(frozen=True, eq=False, slots=True)
class _Node:
    """A node of a plan, with its inputs; `leaf` is its number, if it is a leaf."""

    variant: Any
    inputs: tuple[_Node, ...]
    leaf: int | None = None


class _Reader:
    """Reads a plan from its leaves up."""

    def __init__(self) -> None:
        self.leaves: list[str] = []
        self.edges: dict[Edge, None] = {}
        self.own: list[tuple[Expression, ...]] = []
        self.above: list[tuple[Expression, ...]] = []

    def read(self, plan: LogicalPlan) -> _Node:
        """Read a plan."""
        variant = plan.to_variant()
        if isinstance(variant, TableScan):
            self.leaves.append(str(variant.fqn()[-1]))
            self.own.append(tuple(variant.filters()))
            self.above.append(())
            return _Node(variant, (), len(self.leaves) - 1)
        node = _Node(variant, tuple(self.read(child) for child in plan.inputs()))
        if isinstance(variant, Join):
            self.edges.update(dict.fromkeys(_read_join(variant, *node.inputs)))
        elif isinstance(variant, Filter) and (leaf := node.inputs[0].leaf) is not None:
            scan: TableScan = node.inputs[0].variant
            # Of some rows, those that fail must be among them.
            if scan.fetch() is None:
                self.above[leaf] = (variant.predicate(),)
        return node


def _read_join(join: Join, left: _Node, right: _Node) -> Iterator[Edge]:
    to_right, to_left = _DIRECTIONS.get(str(join.join_type()), (False, False))
    if not (to_right or to_left) or join.null_equals_null():
        return
    for pair in join.on():
        first, second = (_find_column(side, key) for side, key in zip((left, right), pair, strict=True))
        if first is None or second is None:
            continue
        if to_right:
            yield Edge(first, second)
        if to_left:
            yield Edge(second, first)


def _find_column(node: _Node, expression: Expression) -> LeafColumn | None:
    """Return the column of a leaf that an expression over the rows of a node is; None if it is none."""
    expression = strip_aliases(expression)
    if expression.variant_name() != "Column":
        return None
    column = expression.to_variant()
    return _find_named(node, column.relation(), column.name())


def _find_named(node: _Node, relation: str | None, name: str) -> LeafColumn | None:
    match node.variant:
        case TableScan() as scan:
            is_there = relation in {None, str(scan.fqn()[-1])} and any(
                name == one for _, one in scan.projection()
            )
            if node.leaf is None or not is_there or scan.fetch() is not None:
                return None
            return LeafColumn(node.leaf, name)
        case SubqueryAlias() as alias:
            return _find_named(node.inputs[0], None, name) if relation in {None, alias.alias()} else None
        case Projection() as projection:
            found = find_output(projection, relation, name)
            return None if found is None else _find_column(node.inputs[0], found)
        case Filter():
            return _find_named(node.inputs[0], relation, name)
        case Join() as join if relation is not None or _is_transparent(node):
            sides = [
                found
                for side in _OUTPUTS.get(str(join.join_type()), ())
                if (found := _find_named(node.inputs[side], relation, name)) is not None
            ]
            return sides[0] if len(sides) == 1 else None
    return None


def _is_transparent(node: _Node) -> bool:
    """Return whether all columns of a node's rows can be found in leaves, if they are columns of leaves."""
    known = isinstance(node.variant, TableScan | SubqueryAlias | Projection | Filter | Join)
    return known and all(map(_is_transparent, node.inputs))
