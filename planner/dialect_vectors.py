"""Distances between vectors in other dialects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from planner.dialect_source import DialectSource
from planner.dialect_text import Rule, call, native

_VISIBLY_A_VECTOR = re.compile(r"(?:CAST\()?(?:ARRAY\[|'\s*\[)")
_ALWAYS_A_DISTANCE = frozenset({"duckdb"})
"""Where `<=>` is nothing else."""


def _cosine_distance(node: exp.Expr, source: DialectSource) -> exp.Expr:
    if source.dialect == "snowflake":
        # What is read as a distance here is a similarity there.
        source.refuse(node, "VECTOR_COSINE_SIMILARITY is not offered; write cosine_similarity(a, b)")
    return call("cosine_distance", node.this, node.expression)


def _function(name: str) -> Rule:
    def rule(node: exp.Expr, source: DialectSource) -> exp.Expr:  # noqa: ARG001 - the same in every dialect
        return call(name, node.this, node.expression)

    return rule


def _null_safe(node: exp.Expr, source: DialectSource) -> exp.Expr | None:
    """`a <=> b` and `a IS NOT DISTINCT FROM b` are read alike; of vectors, the former is a distance."""
    if "<=>" not in source.text:
        return None
    is_vector = any(_VISIBLY_A_VECTOR.match(native(one)) for one in (node.this, node.expression))
    if source.dialect in _ALWAYS_A_DISTANCE and not is_vector:
        if re.search(r"\bDISTINCT\s+FROM\b", source.text, re.IGNORECASE):
            source.refuse(node, "<=> beside IS NOT DISTINCT FROM is not offered; write cosine_distance(a, b)")
        is_vector = True
    return call("cosine_distance", node.this, node.expression) if is_vector else None


RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        exp.CosineDistance: _cosine_distance,
        exp.EuclideanDistance: _function("l2_distance"),
        exp.DotProduct: _function("inner_product"),
        exp.NullSafeEQ: _null_safe,
    }
)
