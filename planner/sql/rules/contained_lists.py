"""Whether one list contains another is NULL if one of them is."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from planner.sql.rules.dialect import parse_expression
from planner.sql.rules.tree import Tree, for_texts

_FUNCTIONS: Final = frozenset(
    {"array_has_all", "list_has_all", "array_has_any", "list_has_any", "arrays_overlap"}
)


@for_texts(r"\b(?:array|list)_has_a|\barrays_overlap\b|@>|<@")
def contained_lists(tree: Tree) -> None:
    """Write a test of two lists that gives NULL if one of them is NULL.

    DataFusion takes NULL for an empty list if the list in question is empty.

        SELECT array_has_all(l, m) FROM t
    ->  SELECT CASE WHEN NOT l IS NULL AND NOT m IS NULL THEN array_has_all(l, m) END FROM t
    """
    for node in reversed(list(tree.root.walk())):
        if isinstance(node, exp.Anonymous) and node.name.casefold() in _FUNCTIONS:
            operands = node.expressions
        elif isinstance(node, exp.ArrayContainsAll | exp.ArrayContainedBy):
            operands = [node.this, node.expression]
        else:
            continue
        whole, part = reversed(operands) if isinstance(node, exp.ArrayContainedBy) else operands
        if _is_constant(part) and part.expressions:
            continue  # DataFusion is right about a NULL that is searched for something
        if any(isinstance(one, exp.Null) for one in operands):
            tree.replace(node, parse_expression("CAST(NULL AS BOOLEAN)"))
            continue
        known = [one.copy().is_(exp.null()).not_() for one in (whole, part) if not _is_constant(one)]
        if known:
            tree.replace(node, exp.Case(ifs=[exp.If(this=exp.and_(*known), true=node.copy())]))


def _is_constant(operand: exp.Expr) -> bool:
    """Return whether an operand is written as a list, which is never NULL."""
    is_call = isinstance(operand, exp.Anonymous) and operand.name.casefold() == "make_array"
    return is_call or isinstance(operand, exp.Array)
