"""Rows of values, which DataFusion compares as structs, and lists of VALUES."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.tree.tree import Tree, is_unstable

_STRICT: Final[dict[type[exp.Expr], type[exp.Expr]]] = {exp.LTE: exp.LT, exp.GTE: exp.GT}
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_SIMPLE: Final = (exp.Column, exp.Literal, exp.Parameter, exp.Anonymous, exp.Paren, exp.Null, exp.Boolean)


def listed_values(tree: Tree) -> None:
    """Write VALUES behind IN as a list.

        SELECT id FROM t WHERE n IN (VALUES (1), (2))
    ->  SELECT id FROM t WHERE n IN ((1), (2))
    """
    for condition in tree.find_all(exp.In):
        members = condition.expressions
        if len(members) != 1 or not isinstance(members[0], exp.Values):
            continue
        rows = [one.expressions if isinstance(one, exp.Tuple) else [one] for one in members[0].expressions]
        listed = [exp.paren(row[0].unnest()) if len(row) == 1 else exp.Tuple(expressions=row) for row in rows]
        condition.set("expressions", listed)
        tree.note_change()


def selected_values(tree: Tree) -> None:
    """Write VALUES as queries where subqueries are among the values.

        SELECT x FROM (VALUES ((SELECT max(id) FROM t)), (2)) AS v(x)
    ->  SELECT x FROM (SELECT (SELECT max(id) FROM t) AS column1 UNION ALL SELECT 2 AS column1) AS v(x)

    DataFusion 55 computes VALUES before it runs subqueries, which is an internal error.
    """
    for values in tree.find_all(exp.Values)[::-1]:
        rows = [one.expressions if isinstance(one, exp.Tuple) else [one] for one in values.expressions]
        if values.find(exp.Query) is None or len(set(map(len, rows))) > 1:
            continue
        named = [
            [exp.Alias(this=item, alias=exp.to_identifier(f"column{n}")) for n, item in enumerate(row, 1)]
            for row in rows
        ]
        query: exp.Query = exp.select(*named[0])
        for row in named[1:]:
            query = exp.Union(this=query, expression=exp.select(*row), distinct=False)
        alias = values.args.get("alias")
        is_named = isinstance(values.parent, exp.Subquery) and alias is None
        tree.replace(values, query if is_named else exp.Subquery(this=query, alias=alias))


def row_values(tree: Tree) -> None:
    """Compare rows field by field, as the standard does.

        SELECT id FROM t WHERE (a, b) < (1, 2)
    ->  SELECT id FROM t WHERE (a < 1 OR (a = 1 AND b < 2))

        SELECT id FROM t WHERE (a, b) NOT IN (SELECT x, y FROM u)
    ->  SELECT id FROM t WHERE NOT EXISTS(SELECT 1 FROM (SELECT x, y FROM u) AS "row#"("field#1", "field#2")
        WHERE NOT (a = "row#"."field#1" AND b = "row#"."field#2") IS FALSE)

    Comparisons of single columns are also what tables are pruned by, and what keys are looked up with.

    Raises:
        InvalidInputError: rows of different lengths are compared.
        UnsupportedError: a row is compared in a way that has no counterpart.
    """
    for node in tree.find_all(*_COMPARISONS, exp.In, exp.Between)[::-1]:
        left = _read_row(node.this)
        if left is None:
            continue
        replacement: exp.Expr | None = None
        if isinstance(node, exp.In):
            replacement = _find_member(tree, node, left)
        elif isinstance(node, exp.Between):
            low, high = (_read_row(node.args[bound]) for bound in ("low", "high"))
            if low is not None and high is not None:
                pair = [_compare(tree, exp.GTE, left, low), _compare(tree, exp.LTE, left, high)]
                replacement = _connect(exp.And, pair)
        elif (right := _read_row(node.expression)) is not None:
            replacement = _compare(tree, type(node), left, right)
        if replacement is not None:
            tree.replace(node, replacement)


def _read_row(node: exp.Expr) -> Sequence[exp.Expr] | None:
    """Return the values of a row of two or more; None for something else."""
    is_row = isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.upper() == "ROW")
    return node.expressions if is_row and len(node.expressions) > 1 else None


def _find_member(tree: Tree, node: exp.In, left: Sequence[exp.Expr]) -> exp.Expr | None:
    """Return a condition for a row that is looked for in a list or in a subquery."""
    query = node.args.get("query")
    if query is None:
        rows = [_read_row(one) for one in node.expressions]
        known = [_compare(tree, exp.EQ, left, row) for row in rows if row is not None]
        return _connect(exp.Or, known) if known and len(known) == len(rows) else None
    names = [exp.to_identifier(f"field#{number}", quoted=True) for number in range(1, len(left) + 1)]
    fields = [exp.Column(this=name.copy(), table=exp.to_identifier("row#", quoted=True)) for name in names]
    condition = _compare(tree, exp.EQ, left, fields)
    if _is_denied(tree, node):
        # Rows stay only if no row of the subquery may be equal.
        condition = exp.Not(this=exp.Is(this=condition, expression=exp.false()))
    alias = exp.TableAlias(this=exp.to_identifier("row#", quoted=True), columns=names)
    relation = exp.Subquery(this=query.unnest(), alias=alias)
    return exp.Exists(this=exp.select("1").from_(relation, copy=False).where(condition, copy=False))


def _is_denied(tree: Tree, node: exp.In) -> bool:
    """Return whether NULL counts as true in the condition that a membership is part of, not as false.

    Raises:
        UnsupportedError: it is part of a value, so that NULL is neither.
    """
    is_denied = False
    inner: exp.Expr = node
    outer = node.parent
    while isinstance(outer, exp.Paren | exp.Not | exp.And | exp.Or):
        is_denied ^= isinstance(outer, exp.Not)
        inner, outer = outer, outer.parent
    case = outer.parent if isinstance(outer, exp.If) and inner.arg_key == "this" else None
    is_case = isinstance(case, exp.Case) and case.this is None
    if not is_case and not isinstance(outer, exp.Where | exp.Having | exp.Join | exp.Qualify):
        message = "(a, b) IN (SELECT ..) as a value is not supported: write EXISTS in a condition"
        raise tree.error(node, message, UnsupportedError)
    return is_denied


def _compare(
    tree: Tree, kind: type[exp.Expr], left: Sequence[exp.Expr], right: Sequence[exp.Expr]
) -> exp.Expr:
    if len(left) != len(right):
        counts = f"{len(left)} and {len(right)}"
        raise tree.error(right[0], f"Rows of {counts} values can't be compared")
    for field in (*left, *right):
        if is_unstable(field):
            message = "A row with a function whose values change can't be compared: compute it in a subquery"
            raise tree.error(field, f"{message}", UnsupportedError)
    pairs = [(_enclose(one), _enclose(other)) for one, other in zip(left, right, strict=True)]
    if kind in {exp.EQ, exp.NEQ}:
        connector = exp.And if kind is exp.EQ else exp.Or
        return _connect(connector, [kind(this=one, expression=other) for one, other in pairs])
    *rest, (one, other) = pairs
    condition = kind(this=one, expression=other)
    for one, other in reversed(rest):
        less = _STRICT.get(kind, kind)(this=one, expression=other)
        equal = exp.EQ(this=one.copy(), expression=other.copy())
        condition = _connect(exp.Or, [less, _connect(exp.And, [equal, condition])])
    return condition


def _enclose(field: exp.Expr) -> exp.Expr:
    return field.copy() if isinstance(field, _SIMPLE) else exp.paren(field)


def _connect(connector: type[exp.Connector], conditions: Sequence[exp.Expr]) -> exp.Expr:
    """Connect conditions as a balanced tree, since DataFusion limits the depth of expressions."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    sides = [_connect(connector, half) for half in (conditions[:middle], conditions[middle:])]
    return exp.paren(connector(this=sides[0], expression=sides[1]), copy=False)
