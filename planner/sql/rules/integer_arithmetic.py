"""Integers of fewer than 64 bits are added and multiplied as BIGINT."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import Use, find_groups, recast
from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"(?:\bu?int(?:8|16|32)\b|\buint64\b|\b(?:tinyint|smallint|int|integer|unsigned)\b).*[-+*]")
def integer_arithmetic(tree: Tree) -> None:
    """Add, subtract and multiply integers as BIGINT, and unsigned ones of 64 bits as decimals.

    DataFusion wraps around: 100000 * 100000 of INT columns is 1410065408, and 1 - 4 without signs 4294967293.

        SELECT a * b FROM t
    ->  SELECT CAST(a AS BIGINT) * CAST(b AS BIGINT) FROM t
    """
    for group in find_groups(tree):
        is_exact = isinstance(group.node, exp.Add | exp.Sub | exp.Mul)
        if group.use is not Use.COMPUTED or not is_exact or not tree.may_mix(group.members, "integer"):
            continue
        kinds = [tree.find_type(member) for member in group.members]
        target = _choose_type(kinds)
        if target is not None:
            for member in group.members:
                recast(tree, member, partial(_cast, target=target))


def _choose_type(kinds: Sequence[pa.DataType | None]) -> str | None:
    """Return the type that holds all results; None where nothing is to be cast."""
    if not all(kind is not None and pa.types.is_integer(kind) for kind in kinds):
        return None
    if pa.uint64() in kinds and all(map(pa.types.is_unsigned_integer, kinds)):
        return "DECIMAL(20, 0)"
    return "BIGINT" if all(kind is not None and kind.bit_width < 64 for kind in kinds) else None


def _cast(expression: exp.Expr, target: str) -> exp.Expr:
    return exp.Cast(this=expression, to=exp.DataType.build(target))
