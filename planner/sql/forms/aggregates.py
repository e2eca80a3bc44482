"""Clauses of aggregates: several values behind DISTINCT, WITHIN GROUP, and opposite orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from lance_gateway.planner.sql.tree.tree import Tree

_ORDERED: Final = frozenset({"ARRAY_AGG", "STRING_AGG", "LISTAGG"})


def counted_rows(tree: Tree) -> None:
    """Count distinct rows of several values, of which DataFusion takes only one.

        SELECT count(DISTINCT a, b) FROM t
    ->  SELECT count(DISTINCT CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN struct(a, b) END) FROM t

    Rows with a NULL are not counted, as in MySQL and Spark.
    """
    for call in _find_calls(tree, frozenset({"COUNT"})):
        distinct = call.expressions[0] if len(call.expressions) == 1 else None
        if not isinstance(distinct, exp.Distinct) or len(distinct.expressions) < 2:
            continue
        values = distinct.expressions
        known = [exp.Not(this=exp.Is(this=_enclose(one.copy()), expression=exp.null())) for one in values]
        row = exp.If(this=exp.and_(*known, copy=False), true=exp.Anonymous(this="struct", expressions=values))
        distinct.set("expressions", [exp.Case(ifs=[row])])
        tree.note_change()


def _enclose(value: exp.Expr) -> exp.Expr:
    is_open = isinstance(value, exp.Binary | exp.Unary | exp.Predicate)
    return exp.paren(value, copy=False) if is_open else value


def orders_within_groups(tree: Tree) -> None:
    """Move the order of texts and arrays into the brackets of the aggregate, where alone DataFusion has it.

        SELECT listagg(name, ', ') WITHIN GROUP (ORDER BY id) FROM t
    ->  SELECT string_agg(name, ', ' ORDER BY id) FROM t
    """
    for clause in tree.find_all(exp.WithinGroup):
        call, order = clause.this, clause.expression
        name = call.name.upper() if isinstance(call, exp.Anonymous) else ""
        if name not in _ORDERED or not call.expressions or not isinstance(order, exp.Order):
            continue
        if name == "LISTAGG":
            call.set("this", "string_agg")
            values = call.expressions[0] if isinstance(call.expressions[0], exp.Distinct) else call
            if len(values.expressions) == 1:
                values.append("expressions", exp.Literal.string(""))
        order.set("this", call.expressions[-1])
        call.set("expressions", [*call.expressions[:-1], order])
        tree.replace(clause, call)


def opposite_orders(tree: Tree) -> None:
    """Hide from DataFusion 55 that two aggregates of one query have opposite orders.

        SELECT array_agg(DISTINCT a ORDER BY a) AS x, array_agg(DISTINCT a ORDER BY a DESC) AS y FROM t
    ->  SELECT array_agg(DISTINCT a ORDER BY a) AS x,
        array_agg(DISTINCT nullif(a, NULL) ORDER BY nullif(a, NULL) DESC) AS y FROM t

    It sorts the rows once, and lets the second one read them backwards. Where only distinct values count,
    both then have the same order.
    """
    orders = [
        (call, call.expressions[-1])
        for call in _find_calls(tree, _ORDERED)
        if call.expressions and isinstance(call.expressions[-1], exp.Order)
    ]
    if len(orders) < 2 or not any(isinstance(order.this, exp.Distinct) for _, order in orders):
        return
    for call, order in orders:
        values = [key.this for key in order.expressions if key.args.get("desc")]
        if values and isinstance(order.this, exp.Distinct) and order.this.expressions[0] in values:
            values.append(order.this.expressions[0])
        for value in values:
            tree.replace(value, exp.Anonymous(this="nullif", expressions=[value.copy(), exp.null()]))
        output: exp.Expr = call
        while isinstance(output.parent, exp.Filter | exp.Window):
            output = output.parent
        if values and isinstance(output.parent, exp.Select) and output.arg_key == "expressions":
            output.replace(exp.alias_(output.copy(), call.name, quoted=True))


def _find_calls(tree: Tree, names: frozenset[str]) -> Iterator[exp.Anonymous]:
    yield from [call for call in tree.find_all(exp.Anonymous) if call.name.upper() in names]
