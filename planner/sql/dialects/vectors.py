"""Distances between vectors in other dialects."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from lance_gateway.planner.sql.dialects.build import Rule, call, from_template, literal_text
from lance_gateway.planner.sql.dialects.source import DialectSource, is_written_null_safe
from lance_gateway.planner.sql.value_texts import read_vector

_ALWAYS_A_DISTANCE = frozenset({"duckdb"})
"""Dialects in which `<=>` has no other meaning."""
_DISTANCE = "is a distance"


def _cosine_distance(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if source.dialect == "snowflake":
        # sqlglot reads this similarity as a distance.
        source.refuse(node, "VECTOR_COSINE_SIMILARITY is not supported; write cosine_similarity(a, b)")
    return call("cosine_distance", node.this, node.expression)


def _mark_distance(node: exp.Expr, source: DialectSource) -> None:
    """Mark `a <=> b` as a distance if one side is visibly a vector."""
    if is_written_null_safe(node):
        node.meta[_DISTANCE] = (
            source.dialect in _ALWAYS_A_DISTANCE
            or _is_visibly_a_vector(node.this)
            or _is_visibly_a_vector(node.expression)
        )


def _is_visibly_a_vector(node: exp.Expr) -> bool:
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    text = literal_text(node)
    return isinstance(node, exp.Array) if text is None else read_vector(text) is not None


def _null_safe(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    if node.meta.get(_DISTANCE):
        return call("cosine_distance", node.this, node.expression)
    return _set_apart(node, source)


def _set_apart(node: exp.Expr, source: DialectSource) -> exp.Expr | None:  # noqa: ARG001 - in every dialect
    """Put IS [NOT] DISTINCT FROM in parentheses: DataFusion reads a following AND or OR as its right side."""
    operands = exp.Binary | exp.Unary | exp.Between | exp.In
    stands_alone = isinstance(node.parent, exp.Paren) or not isinstance(node.parent, operands)
    return None if stands_alone else exp.Paren(this=node.copy())


BEFORE: Mapping[type[exp.Expr], Rule] = MappingProxyType({exp.NullSafeEQ: _mark_distance})
"""Rules that look at operands before these are translated."""

RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        exp.CosineDistance: _cosine_distance,
        exp.EuclideanDistance: from_template("l2_distance({this}, {expression})"),
        exp.DotProduct: from_template("inner_product({this}, {expression})"),
        exp.NullSafeEQ: _null_safe,
        exp.NullSafeNEQ: _set_apart,
    }
)
