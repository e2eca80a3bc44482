"""A text that is padded to fewer than no characters is empty."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts

_FUNCTIONS: Final = frozenset({"lpad", "rpad"})


@for_texts(r"\b[lr]pad\s*\(")
def padded_texts(tree: Tree) -> None:
    """Pad to a length of rows that is not negative; DataFusion takes a negative one for a very large one.

        SELECT lpad(s, n) FROM t
    ->  SELECT lpad(s, CASE WHEN n < 0 THEN 0 ELSE n END) FROM t
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        if call.name.casefold() not in _FUNCTIONS or len(call.expressions) < 2:
            continue
        length = call.expressions[1]
        if not isinstance(length, exp.Literal | exp.Null):
            zero = exp.Literal.number(0)
            is_negative = exp.LT(this=exp.paren(length.copy()), expression=zero)
            branch = exp.If(this=is_negative, true=zero.copy())
            tree.replace(length, exp.Case(ifs=[branch], default=length.copy()))
