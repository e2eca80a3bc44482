"""Sort keys of several operations are sorted by their values alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from planner.sql.rules.mixed_bytes import write_null
from planner.sql.rules.tree import Tree, find_family, for_texts

_PLAIN: Final = (exp.Add, exp.Sub, exp.Mul)
"""Their order is derived rightly from plain operands, as is that of `1 - l2_distance(v, w)`."""
_PARTIAL: Final = frozenset({"LN", "LOG", "LOG2", "LOG10", "SQRT", "ACOS", "ASIN", "ACOSH", "ATANH"})
"""Functions of some numbers alone, whose order is not even derived rightly from a column."""


@for_texts(r"\border\s+by\b|\bpartition\s+by\b")
def computed_sort_keys(tree: Tree) -> None:
    """Hide how a sort key of several operations is computed.

    DataFusion derives the order of `exp(x / 10)` from that of its operands, does not find that rows which it
    has sorted are in order, and refuses its own plan (`SanityCheckPlan`). So it does with functions that are
    not defined for all numbers, as `ln(x)`. It derives nothing from `coalesce`.

        SELECT id FROM t ORDER BY exp(x / 10)
    ->  SELECT id FROM t ORDER BY coalesce(exp(x / 10), NULL)
    """
    for key in list(_find_keys(tree.root)):
        if _is_misleading(key):
            hidden = exp.Anonymous(this="coalesce", expressions=[key.copy(), _write_null(tree, key)])
            tree.replace(key, hidden)


def _write_null(tree: Tree, key: exp.Expr) -> exp.Expr:
    has_bytes = any(find_family(column.type) == "bytes" for column in tree.columns)
    return write_null(tree, key) if has_bytes else exp.Null()


def _is_misleading(key: exp.Expr) -> bool:
    """Return whether DataFusion may derive an order of an expression that it does not find again."""
    operation = key.unnest()
    if isinstance(operation, exp.Column) or not operation.find(exp.Column):
        return False
    operands = [operand.unnest() for operand in operation.iter_expressions()]
    if isinstance(operation, _PLAIN):
        return any(map(_is_misleading, operands))
    is_partial = isinstance(operation, exp.Anonymous) and operation.name.upper() in _PARTIAL
    return is_partial or any(not isinstance(one, exp.Column) and one.find(exp.Column) for one in operands)


def _find_keys(root: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the expressions by which queries and windows sort, but for those that must be outputs."""
    for node in root.find_all(exp.Select, exp.Window):
        order = node.args.get("order")
        if order is not None and not node.args.get("distinct"):
            yield from (key.this for key in order.expressions)
        yield from node.args.get("partition_by") or ()
