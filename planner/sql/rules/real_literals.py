"""Compared with a REAL, a number with a fraction is a REAL."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.decimal_literals import find_literals
from planner.sql.rules.groups import Use, find_groups, find_unions
from planner.sql.rules.tree import Tree, find_family, for_texts


@for_texts(r"\.\d", r"\bfloat(?:4|16|32)?\b|halffloat|\breal\b")
def real_literals(tree: Tree) -> None:
    """Cast a literal with a fraction to REAL where it is compared with one, or is one of its results.

    DataFusion compares both as doubles, in which no REAL is 4.44. A literal with an exponent
    remains a double.

        SELECT id FROM p WHERE r = 4.44
    ->  SELECT id FROM p WHERE r = CAST(4.44 AS REAL)
    """
    for group in find_groups(tree):
        literals = [one for member in group.members for one in find_literals(member) or ()]
        others = [member for member in group.members if not find_literals(member)]
        if group.use is not Use.COMPUTED and literals and tree.may_mix(others, "floating"):
            _replace_literals(tree, literals, [tree.find_type(member) for member in others])
    for branches in find_unions(tree):
        for at in range(len(branches[0].fields)):
            found = [find_literals(branch.items[at]) if branch.items else None for branch in branches]
            kinds = [branch.fields[at].type for branch, one in zip(branches, found, strict=True) if not one]
            _replace_literals(tree, [one for literals in found for one in literals or ()], kinds)


def _replace_literals(
    tree: Tree, literals: Sequence[exp.Literal], kinds: Sequence[pa.DataType | None]
) -> None:
    """Replace literals where what is beside them is of type REAL, or an integer."""
    names = {str(kind) for kind in kinds if kind is not None and find_family(kind) != "integer"} - {"null"}
    if names in ({"float"}, {"halffloat"}):
        for literal in literals:
            target = exp.DataType(this=exp.DType.FLOAT)
            tree.replace(literal, exp.Cast(this=literal.copy(), to=target))
