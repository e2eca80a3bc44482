"""Sort keys of several operations are sorted by their values alone."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"\border\s+by\b|\bpartition\s+by\b")
def computed_sort_keys(tree: Tree) -> None:
    """Hide how a sort key of several operations is computed.

    DataFusion derives the order of `exp(x / 10)` from that of its operands, does not find that rows which it
    has sorted are in order, and refuses its own plan (`SanityCheckPlan`). It derives nothing from `coalesce`.

        SELECT id FROM t ORDER BY exp(x / 10)
    ->  SELECT id FROM t ORDER BY coalesce(exp(x / 10), NULL)
    """
    for key in list(_find_keys(tree.root)):
        operands = (operand.unnest() for operand in key.unnest().iter_expressions())
        if any(not isinstance(operand, exp.Column) and operand.find(exp.Column) for operand in operands):
            hidden = exp.Anonymous(this="coalesce", expressions=[key.copy(), exp.Null()])
            tree.replace(key, hidden)


def _find_keys(root: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the expressions by which queries and windows sort, but for those that must be outputs."""
    for node in root.find_all(exp.Select, exp.Window):
        order = node.args.get("order")
        if order is not None and not node.args.get("distinct"):
            yield from (key.this for key in order.expressions)
        yield from node.args.get("partition_by") or ()
