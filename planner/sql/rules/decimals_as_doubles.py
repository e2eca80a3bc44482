"""A decimal beside a double is a double, as in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.sql.rules.groups import Cast, Kinds, unify_types
from planner.sql.rules.tree import Tree, find_family, for_texts


@for_texts(r"decimal|numeric|\bdec\b", r"double|float|real|\d\.|\.\d|\de|\d{20}|\^|(?<!decimal\d\d\d)\(")
def decimals_as_doubles(tree: Tree) -> None:
    """Cast a decimal to DOUBLE beside a number that is one.

    DataFusion brings both to a decimal of more digits, in which 4.44 is another number.

        SELECT id FROM p JOIN q ON p.price = q.f
    ->  SELECT id FROM p JOIN q ON CAST(p.price AS DOUBLE) = q.f
    """
    unify_types(tree, ("decimal", "floating"), _choose)


def _choose(kinds: Kinds) -> Sequence[Cast | None]:
    families = [None if kind is None else find_family(kind) for kind in kinds]
    is_mixed = "decimal" in families and "floating" in families
    return [_cast if is_mixed and family == "decimal" else None for family in families]


def _cast(expression: exp.Expr) -> exp.Expr:
    return exp.Cast(this=expression, to=exp.DataType(this=exp.DType.DOUBLE))
