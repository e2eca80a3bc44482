"""Reads statements as trees whose names are folded, and writes them again."""

from __future__ import annotations

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.text.tokens import fold


class RewritingError(UnsupportedError):
    """A statement that can't be written without its correlated subqueries; the text has the reason."""


def settle_query(tree: exp.Query | None) -> exp.Query:
    """Fold names without quotes in the tree of a query, and give them quotes.

    Raises:
        RewritingError: there is no tree, since sqlglot does not read the query.
    """
    if tree is None:
        msg = "its syntax is not read here"
        raise RewritingError(msg)
    for node in list(tree.walk()):
        _settle(node)
    return tree


def _settle(node: exp.Expr) -> None:
    """Give a node the form in which subqueries are rewritten."""
    if isinstance(node, exp.Identifier) and not node.quoted:
        node.set("this", fold(node.this))
        node.args["quoted"] = True
    elif (
        isinstance(node, exp.Lateral)
        and isinstance(node.this, exp.Subquery)
        and isinstance(node.this.this, exp.Values)
    ):
        node.this.set("this", _unite(node.this.this))
    elif isinstance(node, exp.Join) and node.kind in {"SEMI", "ANTI"}:
        node.set("kind", f"{node.side or 'LEFT'} {node.kind}")
        node.set("side", None)


def _unite(values: exp.Values) -> exp.Query:
    """Return the rows of VALUES as queries without relations."""
    rows: list[exp.Query] = []
    for row in values.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row]
        items = [
            exp.Alias(this=part, alias=exp.Identifier(this=f"column{number}", quoted=True))
            for number, part in enumerate(parts, start=1)
        ]
        rows.append(exp.Select(expressions=items))
    query = rows[0]
    for row in rows[1:]:
        query = exp.Union(this=query, expression=row, distinct=False)
    return query
