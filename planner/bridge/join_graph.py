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
through groups, limits and windows. Below a union, keys tell of the rows of each part; no part has all keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from datafusion.expr import Filter, Join, Projection, SubqueryAlias, TableScan, Union
from datafusion.plan import LogicalPlan

from lance_gateway.planner.bridge.plan_reading import (
    Expression,
    find_output,
    output_name,
    reads_rows_alone,
    split_conjuncts,
    strip_aliases,
)

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

    Conditions with subqueries are left out: these hold leaves, with what the planned statement has read.
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
            self.own.append(tuple(filter(reads_rows_alone, variant.filters())))
            self.above.append(())
            return _Node(variant, (), len(self.leaves) - 1)
        node = _Node(variant, tuple(self.read(child) for child in plan.inputs()))
        if isinstance(variant, Join):
            self.edges.update(dict.fromkeys(_read_join(variant, *node.inputs)))
        elif isinstance(variant, Filter) and (leaf := node.inputs[0].leaf) is not None:
            scan: TableScan = node.inputs[0].variant
            # Of some rows, those that fail must be among them.
            if scan.fetch() is None:
                self.above[leaf] = tuple(filter(reads_rows_alone, split_conjuncts(variant.predicate())))
        return node


class _Found(NamedTuple):
    """Columns of leaves that have the values of a column of a plan.

    Attributes:
        columns: one, or one for each part of a union that has one.
        is_whole: whether no other value comes from elsewhere, but for NULL.
    """

    columns: tuple[LeafColumn, ...] = ()
    is_whole: bool = False


_NOTHING: Final = _Found()


def _read_join(join: Join, left: _Node, right: _Node) -> Iterator[Edge]:
    to_right, to_left = _DIRECTIONS.get(str(join.join_type()), (False, False))
    if not (to_right or to_left) or join.null_equals_null():
        return
    for first_key, second_key in join.on():
        firsts, seconds = _find_column(left, first_key), _find_column(right, second_key)
        if to_right:
            yield from _link(firsts, seconds)
        if to_left:
            yield from _link(seconds, firsts)


def _link(sources: _Found, targets: _Found) -> Iterator[Edge]:
    if sources.is_whole:
        (source,) = sources.columns
        yield from (Edge(source, target) for target in targets.columns)


def _find_column(node: _Node, expression: Expression) -> _Found:
    """Return the columns of leaves that an expression over the rows of a node is; none if it is computed."""
    expression = strip_aliases(expression)
    if expression.variant_name() != "Column":
        return _NOTHING
    column = expression.to_variant()
    return _find_named(node, column.relation(), column.name())


def _find_named(node: _Node, relation: str | None, name: str) -> _Found:
    match node.variant:
        case TableScan() as scan:
            is_there = relation in {None, str(scan.fqn()[-1])} and name in _names_of(node)
            return _find_at(node, _names_of(node).index(name)) if is_there else _NOTHING
        case SubqueryAlias() as alias:
            return _find_named(node.inputs[0], None, name) if relation in {None, alias.alias()} else _NOTHING
        case Projection() as projection:
            found = find_output(projection, relation, name)
            return _NOTHING if found is None else _find_column(node.inputs[0], found)
        case Filter():
            return _find_named(node.inputs[0], relation, name)
        case Union():
            names = _names_of(node)
            return _find_at(node, names.index(name)) if names.count(name) == 1 else _NOTHING
        case Join() as join if relation is not None or _is_transparent(node):
            outputs = _OUTPUTS.get(str(join.join_type()), ())
            sides = [_find_named(node.inputs[side], relation, name) for side in outputs]
            found_sides = [side for side in sides if side.columns]
            return found_sides[0] if len(found_sides) == 1 else _NOTHING
    return _NOTHING


def _find_at(node: _Node, place: int) -> _Found:
    """Return the columns of leaves that a column of a node is, by its place."""
    match node.variant:
        case TableScan() as scan:
            if node.leaf is None or scan.fetch() is not None:
                return _NOTHING
            return _Found((LeafColumn(node.leaf, _names_of(node)[place]),), is_whole=True)
        case Projection() as projection:
            return _find_column(node.inputs[0], projection.projections()[place])
        case SubqueryAlias() | Filter():
            return _find_at(node.inputs[0], place)
        case Union():
            return _Found(tuple(one for part in node.inputs for one in _find_at(part, place).columns))
    return _NOTHING


def _names_of(node: _Node) -> list[str]:
    """Return the names of a node's columns; [] if they are not known."""
    match node.variant:
        case TableScan() as scan:
            return [name for _, name in scan.projection()]
        case Projection() as projection:
            return list(map(output_name, projection.projections()))
        case SubqueryAlias() | Filter() | Union():
            return _names_of(node.inputs[0])
    return []


def _is_transparent(node: _Node) -> bool:
    """Return whether all columns of a node's rows can be found in leaves, if they are columns of leaves."""
    known = isinstance(node.variant, TableScan | SubqueryAlias | Projection | Filter | Join)
    return known and all(map(_is_transparent, node.inputs))
