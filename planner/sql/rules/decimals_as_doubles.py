"""A decimal beside a double is a double, as in PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import Cast, Kinds, Use, find_groups, recast, unify_types
from planner.sql.rules.tree import Tree, find_family, for_texts

_LARGE: Final = re.compile(r"\d{19}")


@for_texts(
    r"decimal|numeric|\bdec\b|uint64|unsigned|\d{19}",
    r"double|float|real|\d\.|\.\d|\de|\d{19}|\^|int|(?<!decimal\d\d\d)\(",
)
def decimals_as_doubles(tree: Tree) -> None:
    """Cast a decimal to DOUBLE beside a number that is one.

    DataFusion brings both to a decimal of more digits, in which 4.44 is another number, and so it does with
    integers that have no common type but a decimal. In arithmetic it makes a REAL of a decimal beside one.

        SELECT id FROM p JOIN q ON p.price = q.f
    ->  SELECT id FROM p JOIN q ON CAST(p.price AS DOUBLE) = q.f
    """
    unify_types(tree, ("decimal", "floating"), _choose)
    is_large = any(one.type == pa.uint64() for one in tree.columns)
    if is_large or any(_LARGE.search(one.name) for one in tree.root.find_all(exp.Literal)):
        unify_types(tree, ("integer", "floating"), _choose)
    for group in find_groups(tree):
        if group.use is Use.COMPUTED and tree.may_mix(group.members, "decimal", "floating"):
            kinds = [tree.find_type(member) for member in group.members]
            for member, cast in zip(group.members, _choose(kinds), strict=True):
                if cast is not None and pa.float64() not in kinds:
                    recast(tree, member, cast)


def _choose(kinds: Kinds) -> Sequence[Cast | None]:
    families = [None if kind is None else find_family(kind) for kind in kinds]
    is_signed = any(kind is not None and pa.types.is_signed_integer(kind) for kind in kinds)
    is_cast = [
        family == "decimal" or (is_signed and kind == pa.uint64())
        for family, kind in zip(families, kinds, strict=True)
    ]
    return [_cast if one and "floating" in families else None for one in is_cast]


def _cast(expression: exp.Expr) -> exp.Expr:
    return exp.Cast(this=expression, to=exp.DataType(this=exp.DType.DOUBLE))
