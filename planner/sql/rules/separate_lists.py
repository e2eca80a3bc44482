"""Lists of values that DataFusion 55 would combine wrongly."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from memwal.errors import UnsupportedError
from planner.sql.rules.dialect import write_sql
from planner.sql.rules.tree import Tree, for_texts

_MOST: Final = 100
_LITERAL: Final = r"\s*(?:'[^']*'|-?[\d.]+|\$\d+|true|false)\s*"
_COMPUTED: Final = rf"\bin\s*\((?!{_LITERAL}(?:,{_LITERAL})*\))(?!\s*(?:select|with)\b)"


@for_texts(
    rf"{_COMPUTED}.*\b(?:in|or)\b|\b(?:in|or)\b.*{_COMPUTED}|null parameters.*\bin\b.*\b(?:in|or)\b"
    r"|null parameters.*\bor\b.*\bin\b"
)
def separate_lists(tree: Tree) -> None:
    """Hide from the simplifier that lists with more than literals have one operand.

    It combines two lists for one operand, and compares their elements as expressions: NULL is lost, and a
    column equals only itself. Equalities joined with OR become lists. The optimizer moves conditions, so
    lists of different clauses may be combined as well.

        SELECT id FROM t WHERE i IN (1, 2) AND i NOT IN (NULL, 2)
    ->  SELECT id FROM t WHERE i IN (1, 2) AND nullif(i, NULL) NOT IN (NULL, 2)

    Raises:
        UnsupportedError: there are too many such lists.
    """
    lists = [node for node in tree.root.find_all(exp.In) if node.expressions]
    operands = {id(node): _find_names(node.this) for node in lists}
    sides = [side for node in tree.root.find_all(exp.EQ) for side in (node.this, node.expression)]
    compared = [side.name.casefold() for side in sides if isinstance(side, exp.Column)]
    has_or = tree.root.find(exp.Or) is not None
    # Equal conditions are changed equally: one may be a result, and the other its group.
    depths: dict[str, int] = {}
    for node in lists:
        if all(_is_literal(tree, element) for element in node.expressions):
            continue
        names = operands[id(node)]
        meets = any(one is not node and names & operands[id(one)] for one in lists)
        if not meets and not (has_or and sum(name in names for name in compared) > 1):
            continue
        depth = depths.setdefault(write_sql(node), len(depths) + 1)
        if depth > _MOST:
            msg = f"More than {_MOST} lists with NULL or computed values are not supported"
            raise UnsupportedError(msg)
        for _ in range(depth):
            nullified = exp.Anonymous(this="nullif", expressions=[node.this.copy(), exp.null()])
            tree.replace(node.this, nullified)


def _find_names(operand: exp.Expr) -> frozenset[str]:
    """Return the columns of an operand, or the operand itself if it has none."""
    names = frozenset(column.name.casefold() for column in operand.find_all(exp.Column))
    return names or frozenset({write_sql(operand)})


def _is_literal(tree: Tree, element: exp.Expr) -> bool:
    while isinstance(element, exp.Paren | exp.Neg | exp.Cast):
        element = element.this
    if isinstance(element, exp.Parameter):
        return element.name not in tree.nulls
    return isinstance(element, exp.Literal | exp.Boolean | exp.HexString | exp.Interval)
