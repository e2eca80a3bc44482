"""Recognize ORDER BY distance LIMIT k in DataFusion's optimised plan.

    SELECT id FROM items WHERE n > 5 ORDER BY l2_distance(vec, [0.1, 0.2]) LIMIT 10 OFFSET 3

    Sort: l2_distance(CAST(items.vec AS List(Float64)), List([0.1, 0.2])) ASC NULLS LAST, fetch=13
      TableScan: items projection=[id, vec], full_filters=[items.n > 5]

The leaf then gives the 13 nearest rows that fulfil the conditions, found by an index where there is one. The
plan above it stays as it is: it computes their distances, sorts and cuts them. So whatever is not recognised
still gets its answer, from all rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
from datafusion import Expr
from datafusion.expr import BinaryExpr, Negative, Sort
from datafusion.plan import LogicalPlan

from lance_gateway.planner.bridge.distance_functions import DISTANCES, Distance
from lance_gateway.planner.bridge.plan_reading import (
    Chain,
    Expression,
    every_node,
    find_chain,
    find_chains,
    literal_value,
    operands,
    serialize_expression,
    split_conjuncts,
)
from lance_gateway.planner.search.conditions.residual import PlannedCondition, plan_condition

MAX_ROWS = 10_000
"""More rows than this are better sorted as a whole."""

_METRICS: Mapping[Distance, tuple[str, bool]] = MappingProxyType(
    {
        Distance.L2: ("l2", True),
        Distance.COSINE: ("cosine", True),
        Distance.COSINE_SIMILARITY: ("cosine", False),
        Distance.NEGATIVE_PRODUCT: ("dot", True),
        Distance.PRODUCT: ("dot", False),
        Distance.HAMMING: ("hamming", True),
    }
)
"""What Lance calls a distance, and whether it grows as rows get farther away."""
_VECTOR_TYPES = (pa.list_(pa.float64()), pa.list_(pa.uint8()))
"""What distance functions take."""
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Ranking:
    """Order of rows by distance.

    Attributes:
        metric: as Lance calls it.
        column: of the table.
        vector: that it is compared with.
    """

    metric: str
    column: str
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Nearest:
    """Rows that a leaf has to produce.

    Attributes:
        ranking: by what.
        rows: how many of the nearest rows.
        nulls_first: whether rows without a distance come before all others.
        conditions: that rows must fulfil, besides those that the leaf is handed.
    """

    ranking: Ranking
    rows: int
    nulls_first: bool
    conditions: tuple[PlannedCondition, ...]


@dataclass(frozen=True, slots=True)
class _RankedValue:
    """Value that only increases, or only decreases, with the distance."""

    ranking: Ranking
    grows: bool

    @property
    def turned(self) -> _RankedValue:
        return _RankedValue(self.ranking, not self.grows)


def find_nearest(plan: LogicalPlan) -> Mapping[str, Nearest]:
    """Find the leaves of which a plan needs only the nearest rows.

    Args:
        plan: optimised.

    Returns:
        Name of the leaf's table -> what is needed of it, unless a subquery in an expression reads it as well.
    """
    found: dict[str, Nearest] = {}
    reads = Counter(chain.table for chain in find_chains(plan))
    for node in every_node(plan):
        sort = node.to_variant()
        if not isinstance(sort, Sort):
            continue
        (below,) = node.inputs()
        chain = find_chain(below)
        nearest = None if chain is None else _read_sort(sort, chain)
        if chain is not None and nearest is not None and reads[chain.table] == 1:
            found[chain.table] = nearest
    return found


def _read_sort(sort: Sort, chain: Chain) -> Nearest | None:
    rows = sort.get_fetch_val()
    keys = sort.sort_exprs()
    if rows is None or not 0 < rows <= MAX_ROWS or len(keys) != 1:
        return None
    ranked = _read_ranking(keys[0].expr(), chain, 0)
    if ranked is None or ranked.grows != keys[0].ascending():
        return None
    has_bound = False
    conditions = []
    for place, node in chain.filters:
        others = []
        for conjunct in split_conjuncts(node.predicate()):
            if _is_bound(conjunct, chain, place + 1, ranked.ranking):
                has_bound = True
            else:
                others.append(conjunct)
        for conjunct in others:
            condition = plan_condition(chain, place, conjunct)
            if condition is None:
                return None
            conditions.append(condition)
    # Rows without a distance don't stay within a bound.
    if keys[0].nulls_first() and not has_bound and ranked.ranking.metric == "cosine":
        return None  # vectors of length zero have no distance, and are not counted
    return Nearest(ranked.ranking, rows, keys[0].nulls_first() and not has_bound, tuple(conditions))


def _is_bound(conjunct: Expression, chain: Chain, place: int, ranking: Ranking) -> bool:
    """Return whether a condition keeps the rows up to a distance, and so the nearest ones."""
    if conjunct.variant_name() != "BinaryExpr":
        return False
    node: BinaryExpr = conjunct.to_variant()
    left, right, operator = node.left(), node.right(), node.op()
    if left.variant_name() == "Literal":
        left, right, operator = right, left, _MIRRORED.get(operator, "")
    if right.variant_name() != "Literal" or operator not in _MIRRORED:
        return False
    ranked = _read_ranking(left, chain, place)
    return ranked is not None and ranked.ranking == ranking and ranked.grows == (operator in {"<", "<="})


def _read_ranking(expression: Expression, chain: Chain, place: int) -> _RankedValue | None:
    """Read an expression over the output of node `place` as a function of a distance, or return None."""
    match expression.variant_name():
        case "Alias":
            return _read_ranking(expression.to_variant().expr(), chain, place)
        case "Column":
            column = expression.to_variant()
            defined = chain.definition(place, column.relation(), column.name())
            return _read_ranking(defined[1], chain, defined[0]) if isinstance(defined, tuple) else None
        case "Negative":
            negative: Negative = expression.to_variant()
            inner = _read_ranking(negative.expr(), chain, place)
            return None if inner is None else inner.turned
        case "BinaryExpr":
            return _read_arithmetic(expression.to_variant(), chain, place)
        case "ScalarFunction":
            return _read_distance(expression, chain, place)
    return None


def _read_arithmetic(node: BinaryExpr, chain: Chain, place: int) -> _RankedValue | None:
    """Read `1 - distance`, `distance * -1` and the like: sums with and multiples by constants."""
    left, right, operator = node.left(), node.right(), node.op()
    constant_first = left.variant_name() == "Literal"
    inner, constant = (right, left) if constant_first else (left, right)
    value = _read_number(constant)
    if value is None or (ranked := _read_ranking(inner, chain, place)) is None:
        return None
    if operator == "+" or (operator == "-" and not constant_first):
        return ranked
    if operator == "-":
        return ranked.turned
    if operator == "*" and value:
        return ranked if value > 0 else ranked.turned
    return None


def _read_number(expression: Expression) -> float | None:
    if expression.variant_name() != "Literal":
        return None
    value = literal_value(expression)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _read_distance(expression: Expression, chain: Chain, place: int) -> _RankedValue | None:
    """Read a call of a distance function with one column of the table and one constant vector."""
    distance = DISTANCES.get(expression.rex_call_operator())
    if distance is None or distance not in _METRICS:
        return None
    metric, grows = _METRICS[distance]
    arguments = operands(expression)
    constants = [argument for argument in arguments if argument.variant_name() == "Literal"]
    others = [argument for argument in arguments if argument.variant_name() != "Literal"]
    if len(constants) != 1 or len(others) != 1:
        return None
    column = _find_vector_column(others[0], chain, place)
    vector = literal_value(constants[0])
    if column is None or not isinstance(vector, list) or not vector:
        return None
    if not all(isinstance(one, int | float) and math.isfinite(one) for one in vector):
        return None
    return _RankedValue(Ranking(metric, column, tuple(map(float, vector))), grows)


def _find_vector_column(expression: Expression, chain: Chain, place: int) -> str | None:
    """Return the table's column behind an argument, which may be cast and renamed."""
    kind = expression.variant_name()
    if kind == "Alias" or (kind == "Cast" and _is_vector_cast(expression)):
        return _find_vector_column(expression.to_variant().expr(), chain, place)
    if kind != "Column":
        return None
    column = expression.to_variant()
    match chain.definition(place, column.relation(), column.name()):
        case str(stored):
            return stored
        case (below, inner):
            return _find_vector_column(inner, chain, below)
    return None


def _is_vector_cast(cast: Expression) -> bool:
    """Return whether a cast, serialized, is to an argument type of distance functions."""
    text, operand = serialize_expression(cast), cast.to_variant().expr()
    return text is not None and any(
        text == serialize_expression(Expr(operand).cast(kind).expr) for kind in _VECTOR_TYPES
    )
