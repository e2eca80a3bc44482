"""Logarithms are computed with doubles, and not derived from their text."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"\blog\s*\(")
def logarithms(tree: Tree) -> None:
    """Write a logarithm to a base as a quotient, and one without a base as that to 10.

    DataFusion takes `log(b, 1)` for 0 and `log(b, b)` for 1 also where the logarithm of b is NaN, and gives
    another type to a logarithm of constants than to one over rows. It has none of a DECIMAL(5, 4), since
    that does not hold 10.

        SELECT log(b, 1), log(x) FROM t
    ->  SELECT (ln(1) / ln(b)), log10(x) FROM t
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        if call.name.casefold() != "log":
            continue
        if len(call.expressions) == 1:
            tree.replace(call, exp.Anonymous(this="log10", expressions=[call.expressions[0].copy()]))
        elif len(call.expressions) == 2:
            base, number = (exp.Anonymous(this="ln", expressions=[one.copy()]) for one in call.expressions)
            quotient = exp.Div(this=number, expression=base, typed=True, safe=False)
            tree.replace(call, exp.Paren(this=quotient))
