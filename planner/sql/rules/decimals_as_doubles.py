"""A decimal beside a double is a double, as in PostgreSQL."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.groups import Use, find_groups, find_unions, recast, recast_outputs
from planner.sql.rules.tree import Tree, find_family, for_texts


@for_texts(r"decimal|numeric|\bdec\b")
def decimals_as_doubles(tree: Tree) -> None:
    """Cast a decimal to DOUBLE beside a number that is one.

    DataFusion brings both to a decimal of more digits, in which 4.44 is another number.

        SELECT id FROM p JOIN q ON p.price = q.f
    ->  SELECT id FROM p JOIN q ON CAST(p.price AS DOUBLE) = q.f
    """
    for group in find_groups(tree):
        # DataFusion computes with doubles.
        if group.use is Use.COMPUTED or not tree.may_mix(group.members, "decimal", "floating"):
            continue
        kinds = [tree.find_type(member) for member in group.members]
        families = [None if kind is None else find_family(kind) for kind in kinds]
        if "decimal" in families and "floating" in families:
            for member, family in zip(group.members, families, strict=True):
                if family == "decimal":
                    recast(tree, member, _cast)
    for branches in find_unions(tree):
        columns = zip(
            *([find_family(field.type) for field in branch.fields] for branch in branches), strict=True
        )
        mixed = [at for at, families in enumerate(columns) if {"decimal", "floating"} <= set(families)]
        for branch in branches:
            decimals = [at for at in mixed if find_family(branch.fields[at].type) == "decimal"]
            recast_outputs(tree, branch, dict.fromkeys(decimals, _cast))


def _cast(expression: exp.Expr) -> exp.Expr:
    return exp.Cast(this=expression, to=exp.DataType(this=exp.DType.DOUBLE))
