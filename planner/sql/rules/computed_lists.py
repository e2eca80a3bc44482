"""Lists with values that DataFusion 55 would compute once, before it has a row."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts, is_unstable

_CONDITIONAL: Final = frozenset({"COALESCE", "NVL", "NVL2", "IFNULL"})


@for_texts(r"\bin\s*\((?!\s*(?:select|with)\b).*\b(?:case|coalesce|nvl2?|ifnull|select)\b")
def computed_lists(tree: Tree) -> None:
    """Compare with CASE, and what becomes CASE, outside of lists.

    To learn whether a list is constant, DataFusion evaluates it over no rows. CASE then gives one value
    instead of a column of none, which is taken for that of every row.

        SELECT id FROM t WHERE i IN (coalesce(id, 1), 5)
    ->  SELECT id FROM t WHERE (i IN (5) OR i = coalesce(id, 1))
    """
    for node in list(tree.root.find_all(exp.In))[::-1]:
        computed = [one for one in node.expressions if _is_conditional(one)]
        if len(node.expressions) < 2 or not computed or is_unstable(node.this):
            continue
        rest = [one.copy() for one in node.expressions if one not in computed]
        tests: list[exp.Expr] = [exp.In(this=node.this.copy(), expressions=rest)] if rest else []
        tests += [exp.EQ(this=node.this.copy(), expression=one.copy()) for one in computed]
        tree.replace(node, exp.paren(exp.or_(*tests, copy=False), copy=False))


def _is_conditional(element: exp.Expr) -> bool:
    """Return whether an element is computed by CASE, of columns."""
    if element.find(exp.Query) is not None:
        return True
    calls = (call.name.upper() for call in element.find_all(exp.Anonymous))
    is_case = element.find(exp.Case) is not None or not _CONDITIONAL.isdisjoint(calls)
    return is_case and element.find(exp.Column) is not None
