"""Differences of unsigned integers may be negative."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import Use, find_groups, recast
from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"(?:\buint(?:8|16|32|64)|\bunsigned\b).*-|-.*\bunsigned\b")
def unsigned_differences(tree: Tree) -> None:
    """Subtract unsigned integers as BIGINT, and those of 64 bits as decimals.

    DataFusion wraps around: 1 - 4 of unsigned integers is 4294967293.

        SELECT a - b FROM t
    ->  SELECT CAST(a AS BIGINT) - CAST(b AS BIGINT) FROM t
    """
    for group in find_groups(tree):
        if group.use is not Use.COMPUTED or not isinstance(group.node, exp.Sub):
            continue
        if not tree.may_mix(group.members, "integer", "integer"):
            continue
        kinds = [tree.find_type(member) for member in group.members]
        if all(kind is not None and pa.types.is_unsigned_integer(kind) for kind in kinds):
            target = "DECIMAL(20, 0)" if pa.uint64() in kinds else "BIGINT"
            for member in group.members:
                recast(tree, member, partial(_cast, target=target))


def _cast(expression: exp.Expr, target: str) -> exp.Expr:
    return exp.Cast(this=expression, to=exp.DataType.build(target))
