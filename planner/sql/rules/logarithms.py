"""Logarithms to a base are computed, and not derived from their text."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"\blog\s*\([^()]*[,(]")
def logarithms(tree: Tree) -> None:
    """Write a logarithm to a base as a quotient.

    DataFusion takes `log(b, 1)` for 0 and `log(b, b)` for 1 also where the logarithm of b is NaN, and gives
    another type to a logarithm of constants than to one over rows.

        SELECT log(b, 1) FROM t
    ->  SELECT (ln(1) / ln(b)) FROM t
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        if call.name.casefold() == "log" and len(call.expressions) == 2:
            base, number = (exp.Anonymous(this="ln", expressions=[one.copy()]) for one in call.expressions)
            quotient = exp.Div(this=number, expression=base, typed=True, safe=False)
            tree.replace(call, exp.Paren(this=quotient))
