"""Conditions on two lists of one value keep their NULL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from sqlglot import exp

from planner.sql.rules.dialect import write_sql
from planner.sql.rules.tree import Tree, for_texts

_Membership: TypeAlias = tuple[exp.Expr, str]
"""A condition, and the value that is in its list."""


@for_texts(r"(?:\bin\s*\(|\bor\b).*(?:\bin\s*\(|\bor\b)")
def disjoint_lists(tree: Tree) -> None:
    """Keep the lists of one value apart where NULL is not FALSE.

    DataFusion makes one list of two. If that is empty, it replaces both conditions by TRUE or FALSE, also for
    rows in which the value is NULL.

        SELECT NOT (i IN (1) AND i IN (2)) FROM t
    ->  SELECT NOT (nullif(i IN (1), NULL) AND nullif(i IN (2), NULL)) FROM t
    """
    found = list(_find_memberships(tree.root))
    renamed = {one.alias for one in tree.root.find_all(exp.Alias, exp.TableAlias)}
    renamed |= {column.name for one in tree.root.find_all(exp.TableAlias) for column in one.columns}
    is_read = sum(1 for _ in tree.root.find_all(exp.Select)) > 1
    values = Counter("" if value in renamed else value for _, value in found)
    for condition, value in found:
        may_be_any = value in renamed or (is_read and _is_output(condition))
        others = len(found) if may_be_any else values[value] + values[""]
        if others > 1 and not _may_be_false(condition):
            whole = _with_negation(condition)
            tree.replace(whole, exp.Anonymous(this="nullif", expressions=[whole.copy(), exp.null()]))


def _find_memberships(root: exp.Expr) -> Iterator[_Membership]:
    """Yield conditions that are lists for DataFusion: IN, and `=` of one value that OR connects."""
    commons: dict[int, frozenset[str]] = {}  # of each OR; a chain of them is found once

    def find_common(node: exp.Expr) -> frozenset[str]:
        """Return the values that are compared in all operands of OR."""
        node = node.unnest()
        if isinstance(node, exp.Or):
            if id(node) not in commons:
                commons[id(node)] = find_common(node.this) & find_common(node.expression)
            return commons[id(node)]
        if isinstance(node, exp.EQ):
            sides = (node.this, node.expression)
            return frozenset(_name(side) for side in sides if not isinstance(side, exp.Literal))
        return frozenset({_name(node.this)} if isinstance(node, exp.In) else ())

    for node in root.walk(prune=lambda node: isinstance(node, exp.Or) and bool(find_common(node))):
        if isinstance(node, exp.In) and not node.args.get("query") and not node.args.get("unnest"):
            yield node, _name(node.this)
        elif isinstance(node, exp.Or) and (common := find_common(node)):
            yield node, min(common)


def _name(value: exp.Expr) -> str:
    """Return the text of an expression without the names of relations."""
    value = value.unnest().copy()
    for column in value.find_all(exp.Column):
        column.replace(exp.column(column.this.name.casefold()))
    return value.name.casefold() if isinstance(value, exp.Column) else write_sql(value)


def _with_negation(condition: exp.Expr) -> exp.Expr:
    """Return NOT of a list, which is a list for DataFusion, too; the condition itself for others."""
    above = condition.parent
    return above if isinstance(condition, exp.In) and isinstance(above, exp.Not) else condition


def _may_be_false(condition: exp.Expr) -> bool:
    """Return whether a row is left out if the condition is FALSE in the place of NULL, and never TRUE."""
    inner = _with_negation(condition)
    is_negated, is_any = inner is not condition, False
    while isinstance(above := inner.parent, exp.And | exp.Or | exp.Paren):
        inner = above
        is_any |= isinstance(above, exp.Or)
    is_condition = isinstance(above, exp.Where | exp.Having | exp.Qualify) or inner.arg_key == "on"
    return is_condition and not (is_any and is_negated)


def _is_output(condition: exp.Expr) -> bool:
    """Return whether a column of a query may have the condition as a part, and may be read elsewhere."""
    node = condition
    while node.parent is not None and not isinstance(node.parent, exp.Query):
        node = node.parent
    return node.arg_key == "expressions"
