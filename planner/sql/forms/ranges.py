"""Ranges whose bounds come in any order."""

from __future__ import annotations

from sqlglot import exp

from memwal.errors import UnsupportedError
from planner.sql.rules.tree import Tree, for_texts, is_unstable


@for_texts(r"\ba?symmetric\b")
def symmetric_ranges(tree: Tree) -> None:
    """Write BETWEEN SYMMETRIC as two ranges; ASYMMETRIC is the default.

        SELECT id FROM t WHERE n BETWEEN SYMMETRIC $1 AND $2
    ->  SELECT id FROM t WHERE (n BETWEEN $1 AND $2 OR n BETWEEN $2 AND $1)

    Raises:
        UnsupportedError: a value would be computed twice, and changes.
    """
    for node in list(tree.root.find_all(exp.Between)):
        is_symmetric = node.args.get("symmetric")
        if is_symmetric is None:
            continue
        tree.is_changed = True
        node.set("symmetric", None)
        if not is_symmetric:
            continue
        if is_unstable(node):
            raise tree.error(
                node,
                "BETWEEN SYMMETRIC of values that change is not supported: compute them in a subquery; it is",
                UnsupportedError,
            )
        other = node.copy()
        other.set("low", node.args["high"].copy())
        other.set("high", node.args["low"].copy())
        tree.replace(node, exp.paren(exp.or_(node.copy(), other, copy=False), copy=False))
