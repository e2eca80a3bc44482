"""`^` raises to a power."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"\^")
def powers(tree: Tree) -> None:
    """Write `^` as a function.

    DataFusion takes `^` for the exclusive OR of bits.

        SELECT 2 ^ 3
    ->  SELECT power(2, 3)
    """
    for power in reversed(list(tree.root.find_all(exp.Pow))):
        operands = [power.this.unnest().copy(), power.expression.unnest().copy()]
        tree.replace(power, exp.Anonymous(this="power", expressions=operands))
