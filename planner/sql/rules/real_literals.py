"""Compared with a REAL, a number with a fraction is a REAL."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.decimal_literals import find_literals
from planner.sql.rules.groups import Use, find_groups
from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"\.\d", r"\bfloat4?\b|halffloat|\breal\b")
def real_literals(tree: Tree) -> None:
    """Cast a literal with a fraction to REAL where it is compared with one.

    DataFusion compares both as doubles, in which no REAL is 4.44. A literal with an exponent
    remains a double.

        SELECT id FROM p WHERE r = 4.44
    ->  SELECT id FROM p WHERE r = CAST(4.44 AS REAL)
    """
    for group in find_groups(tree):
        literals = [one for member in group.members for one in find_literals(member) or ()]
        others = [member for member in group.members if not find_literals(member)]
        if group.use is not Use.COMPARED or not literals or not tree.may_mix(others, "floating"):
            continue
        kinds = {str(tree.find_type(member)) for member in others} - {"None"}
        if kinds in ({"float"}, {"halffloat"}):
            for literal in literals:
                target = exp.DataType(this=exp.DType.FLOAT)
                tree.replace(literal, exp.Cast(this=literal.copy(), to=target))
