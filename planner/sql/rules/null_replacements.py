"""Functions that replace NULL keep the types of their arguments."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"\b(?:nvl2?|ifnull)\s*\(")
def null_replacements(tree: Tree) -> None:
    """Write `nvl` and `ifnull` as `coalesce`, and `nvl2` as CASE.

    DataFusion makes doubles of decimals in `nvl`, and texts of dates, times, bytes and lists.

        SELECT nvl(price, 0), nvl2(day, 1, 2) FROM t
    ->  SELECT coalesce(price, 0), CASE WHEN NOT day IS NULL THEN 1 ELSE 2 END FROM t
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        name, arguments = call.name.casefold(), [one.copy() for one in call.expressions]
        if name in {"nvl", "ifnull"} and len(arguments) == 2:
            tree.replace(call, exp.Anonymous(this="coalesce", expressions=arguments))
        elif name == "nvl2" and len(arguments) == 3:
            tested, true, default = arguments
            is_known = tested.is_(exp.null()).not_()
            tree.replace(call, exp.Case(ifs=[exp.If(this=is_known, true=true)], default=default))
