"""Comparisons with the constant on the left."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts

_OPPOSITES: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.EQ: exp.EQ,
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
}
_CONDITIONS: Final = (exp.Where, exp.Join, exp.Having, exp.Qualify)


@for_texts(
    r"(?:\b\d[\w.]*|'|\b(?:END|NULL|TRUE|FALSE|CURRENT_\w+))\s*(?:=|<(?!>)|>)"
    r"|[)\]}]\s*(?:=|[<>]=?)\s*(?![\d'$>=])"
)
def constant_sides(tree: Tree) -> None:
    """Put the constants of comparisons in conditions on the right.

        SELECT t.id FROM t JOIN w ON 1 < w.u WHERE w.u >= 1
    ->  SELECT t.id FROM t JOIN w ON w.u > 1 WHERE w.u >= 1

    DataFusion 55 combines the comparisons of a column with constants: `id = 1 AND 1 = id` becomes false, and
    of `1 < id AND id >= 1` only the second is left. Simplifying exchanges the sides first, but not in
    conditions of joins, nor where the constant is yet to be computed.
    """
    for node in list(tree.root.find_all(*_OPPOSITES)):
        clause = node.find_ancestor(*_CONDITIONS, exp.Select)
        constant, value = node.this, node.expression
        # DataFusion reads TRUE = a < 1 as (TRUE = a) < 1.
        is_simple = not isinstance(constant, exp.Predicate) and not isinstance(value, exp.Predicate)
        is_condition = is_simple and isinstance(clause, _CONDITIONS)
        if not is_condition or constant.find(exp.Column, exp.Query, exp.Star, exp.Window):
            continue
        if value.find(exp.Column) and not value.find(exp.Query, exp.Any, exp.All):
            tree.replace(node, _OPPOSITES[type(node)](this=value, expression=constant))
