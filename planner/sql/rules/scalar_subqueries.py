"""Subqueries that are values, and totals below EXISTS."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from memwal.errors import UnsupportedError
from planner.sql.rules.dialect import find_query, parse_expression, parse_query, write_sql
from planner.sql.rules.queries import SUBQUERIES, bare, find_aggregates, has_one_row, is_value
from planner.sql.rules.tree import Tree, for_texts

_SIMPLIFIED: Final = frozenset({"count", "coalesce", "nvl", "ifnull"})
"""Functions of expressions that may become simpler ones without aggregates, and may never be NULL."""


@for_texts(SUBQUERIES)
def scalar_subqueries(tree: Tree) -> None:
    """Write subqueries that are values, and EXISTS of totals, in forms whose NULL DataFusion gets right.

        SELECT id FROM t WHERE (SELECT 5 FROM p WHERE n = 7) IS NULL
    ->  SELECT id FROM t WHERE nullif((SELECT 5 FROM p WHERE n = 7), NULL) IS NULL
        SELECT (SELECT 5 + 0 * count(*) FROM p WHERE p.n = t.id) FROM t
    ->  SELECT nullif((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE 5 + 0 * count(*) END FROM p ..), NULL)
        FROM t
        SELECT coalesce((SELECT count(*) FROM p HAVING count(*) > 9), 0)
    ->  SELECT coalesce(nullif((SELECT CASE WHEN count(*) < 0 THEN NULL WHEN count(*) > 9 THEN count(*) END
        FROM p HAVING count(*) >= 0 OR (count(*) > 9)), NULL), 0)
        SELECT id FROM t WHERE EXISTS(SELECT 1 FROM p WHERE p.n = t.id HAVING count(*) = 0)
    ->  SELECT id FROM t WHERE coalesce(
            (SELECT CASE WHEN count(*) < 0 THEN NULL ELSE count(*) = 0 END FROM p WHERE p.n = t.id), FALSE)

    DataFusion takes a subquery for never NULL if its column is never NULL, though there may be no row. What
    nullif() gives is nullable.

    DataFusion joins correlated subqueries, and computes what they give for no rows from the aggregates in it.
    Those that simplifying leaves out, as in `0 * count(*)`, give NULL then. count() without the row around it
    is taken to be never NULL, though HAVING or LIMIT may leave no row. HAVING that is true of no rows is
    forgotten: it becomes part of the column.
    """
    for node in list(tree.root.find_all(exp.Exists, exp.Subquery))[::-1]:
        if isinstance(node, exp.Exists) and has_one_row(node.this):
            select = bare(node.this)
            having = select.args.get("having")
            wanted = write_sql(having.this) if having else "TRUE"
            select.set("having", None)
            case = parse_expression(f"CASE WHEN count(*) < 0 THEN NULL ELSE ({wanted}) END")
            select.set("expressions", [case])
            tree.replace(node, parse_expression(f"coalesce(({write_sql(select)}), FALSE)"))
        elif is_value(node):
            select = bare(node)
            item, is_nullable = _find_only_output(select), False
            if isinstance(select, exp.Select) and item is not None:
                is_nullable = not select.args.get("group") and _is_nullable(item)
                _keep_row(tree, select, item)
            if not is_nullable:
                tree.replace(node, parse_expression(f"nullif({write_sql(node)}, NULL)"))


def _find_only_output(query: exp.Expr) -> exp.Expr | None:
    """Return the only output of a SELECT from a relation, without its name."""
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or not query.args.get("from_"):
        return None
    (item,) = query.expressions
    return None if query.args.get("distinct") or item.is_star else item.unalias()


def _is_nullable(item: exp.Expr) -> bool:
    """Return whether DataFusion knows that an output may be NULL."""
    if item.find(exp.Is, exp.Case, exp.Exists, exp.NullSafeEQ, exp.NullSafeNEQ) or _is_simplified(item):
        return False
    return bool(find_aggregates(item))


def _is_simplified(item: exp.Expr) -> bool:
    return any(one.name.lower() in _SIMPLIFIED for one in item.find_all(exp.Anonymous))


def _keep_row(tree: Tree, select: exp.Select, item: exp.Expr) -> None:
    """Let an output of totals depend on the row that they have."""
    having, shown = select.args.get("having"), write_sql(item)
    calls = find_aggregates(item)
    if having is not None and has_one_row(select):
        condition = write_sql(having.this)
        text = f"CASE WHEN count(*) < 0 THEN NULL WHEN ({condition}) THEN ({shown}) END"
        having.set("this", parse_expression(f"count(*) >= 0 OR ({condition})"))
    elif calls == [item]:
        call = item.this if isinstance(item, exp.Filter) else item
        may_go = any(select.args.get(clause) for clause in ("having", "limit", "offset"))
        if call.name.lower() != "count" or not may_go:
            return
        text = f"CASE WHEN count(*) < 0 THEN NULL ELSE ({shown}) END"
    elif calls and (_is_simplified(item) or item.find(exp.Case)):
        text = f"CASE WHEN count(*) < 0 THEN NULL ELSE ({shown}) END"
    else:
        return
    tree.replace(item, parse_expression(text))


def keep_conditions_in_place(sql: str) -> str:
    """Return a statement whose conditions stay above the aggregates that they are written above.

        SELECT n FROM (SELECT count(*) AS n FROM t WHERE a > 1) WHERE (SELECT max(id) FROM u) < 0
    ->  SELECT n FROM (SELECT count(*) AS n FROM t WHERE nullif(a > 1, random() > 2))
        WHERE nullif((SELECT max(id) FROM u) < 0, random() > 2)

    Physical plans move a condition on constants into a filter below, unless its value may change. False
    becomes NULL.

    Raises:
        UnsupportedError: sqlglot does not read it.
    """
    start = find_query(sql)
    root = parse_query(sql[start:])
    if root is None:
        msg = (
            "a condition on constants above an aggregate is not supported beside the syntax of this statement"
        )
        raise UnsupportedError(msg)
    for clause in list(root.find_all(exp.Where, exp.Having))[::-1]:
        if isinstance(clause.parent, exp.Filter):
            continue
        condition = clause.this
        values = [one for one in condition.find_all(exp.Subquery) if is_value(one)]
        queries = {id(bare(one)) for one in condition.find_all(exp.Query)}
        if queries <= {id(bare(value)) for value in values}:
            clause.set("this", parse_expression(f"nullif({write_sql(condition)}, random() > 2)"))
            continue
        # Joins with subqueries must stay conjuncts.
        for value in values[::-1]:
            value.replace(parse_expression(f"CASE WHEN random() < 2 THEN {write_sql(value)} END"))
    return sql[:start] + write_sql(root)
