"""A rounded decimal beside others has the type that its values have."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import find_groups, find_unions, recast, recast_outputs
from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"(?:decimal|numeric|\bdec\b).*\bround\s*\(|\bround\s*\(.*(?:decimal|numeric|\bdec\b)")
def rounded_decimals(tree: Tree) -> None:
    """Cast a rounded decimal to its type.

    DataFusion decides on the type of a comparison before it knows to how many digits a decimal is rounded.

        SELECT id FROM p WHERE round(price, 1) <> price
    ->  SELECT id FROM p WHERE CAST(round(price, 1) AS DECIMAL(10, 1)) <> price
    """
    for group in find_groups(tree):
        members = group.members if len(group.members) > 1 else ()
        for member in members:
            kind = tree.find_type(member) if _is_rounded(member) else None
            if kind is not None and pa.types.is_decimal(kind):
                recast(tree, member, partial(_cast, kind=kind))
    for branch in (branch for branches in find_unions(tree) for branch in branches):
        items = zip(branch.fields, branch.items or (), strict=False)
        kinds = {at: field.type for at, (field, item) in enumerate(items) if _is_rounded(item)}
        decimals = {at: kind for at, kind in kinds.items() if pa.types.is_decimal(kind)}
        recast_outputs(tree, branch, {at: partial(_cast, kind=kind) for at, kind in decimals.items()})


def _is_rounded(member: exp.Expr) -> bool:
    call = member.unnest()
    return isinstance(call, exp.Anonymous) and call.name.upper() == "ROUND"


def _cast(expression: exp.Expr, kind: pa.DataType) -> exp.Expr:
    target = exp.DataType.build(f"DECIMAL({kind.precision}, {kind.scale})")
    return exp.Cast(this=expression, to=target)
