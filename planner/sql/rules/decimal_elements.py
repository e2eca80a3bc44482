"""A number with a fraction that is looked for in a list of decimals is one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.decimal_literals import find_literals
from planner.sql.rules.tree import Tree, for_texts

_FUNCTIONS: Final = frozenset(
    f"{kind}_{what}" for kind in ("ARRAY", "LIST") for what in ("HAS", "CONTAINS", "POSITION", "REMOVE")
)


@for_texts(r"array_|list_|\bany\b|\bsome\b", r"decimal", r"\.\d")
def decimal_elements(tree: Tree) -> None:
    """Give a literal the type of the decimals in a list, if that holds its digits.

    DataFusion finds no function for a list of decimals and a double, or a decimal of other digits.

        SELECT id FROM p WHERE array_has(prices, 4.44)
    ->  SELECT id FROM p WHERE array_has(prices, CAST('4.44' AS DECIMAL(10, 2)))
    """
    for values, element in list(_find_pairs(tree)):
        if isinstance(element, exp.Literal) and find_literals(element):
            kind = tree.find_type(values)
            item = kind.value_type if kind is not None and pa.types.is_list(kind) else None
            digits = len(element.name.partition(".")[2])
            if item is not None and pa.types.is_decimal(item) and digits <= item.scale:
                target = exp.DataType.build(f"DECIMAL({item.precision}, {item.scale})")
                tree.replace(element, exp.Cast(this=exp.Literal.string(element.name), to=target))


def _find_pairs(tree: Tree) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yield lists, each with what is looked for in it."""
    for node in tree.root.find_all(exp.EQ, exp.Anonymous):
        if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
            yield node.expression.this.unnest(), node.this
        elif (
            isinstance(node, exp.Anonymous) and node.name.upper() in _FUNCTIONS and len(node.expressions) > 1
        ):
            yield node.expressions[0], node.expressions[1]
