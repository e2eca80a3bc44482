"""Clauses of aggregates and windows.

Several values behind DISTINCT, WITHIN GROUP, opposite orders, frames that leave out rows, and windows that
begin with the name of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.tree.groups import make_nullable
from lance_gateway.planner.sql.tree.tree import Tree, read_name

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
            tree.replace(value, make_nullable(value))
        output: exp.Expr = call
        while isinstance(output.parent, exp.Filter | exp.Window):
            output = output.parent
        if values and isinstance(output.parent, exp.Select) and output.arg_key == "expressions":
            output.replace(exp.alias_(output.copy(), call.name, quoted=True))


def _find_calls(tree: Tree, names: frozenset[str]) -> Iterator[exp.Anonymous]:
    yield from [call for call in tree.find_all(exp.Anonymous) if call.name.upper() in names]


_PARTS: Final = ("partition_by", "order", "spec")


def frame_exclusions(tree: Tree) -> None:
    """Leave EXCLUDE NO OTHERS out of window frames, which is the default.

        SELECT sum(n) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE NO OTHERS) FROM t
    ->  SELECT sum(n) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t

    Raises:
        UnsupportedError: a frame excludes rows.
    """
    for frame in tree.find_all(exp.WindowSpec):
        exclusion = frame.args.get("exclude")
        if exclusion is None:
            continue
        if exclusion.name.upper() != "NO OTHERS":
            raise tree.error(
                frame.parent or frame,
                "EXCLUDE in a window frame is not supported: subtract the value of the row, as in "
                "sum(n) OVER (..) - n, or use two frames, before and behind the row",
                UnsupportedError,
            )
        frame.set("exclude", None)
        tree.note_change()


def named_windows(tree: Tree) -> None:
    """Write out windows that begin with the name of another one, which DataFusion ignores.

        SELECT sum(n) OVER (w ORDER BY id) FROM t WINDOW w AS (PARTITION BY k)
    ->  SELECT sum(n) OVER (PARTITION BY k ORDER BY id) FROM t WINDOW w AS (PARTITION BY k)

    Raises:
        InvalidInputError: there is no window of that name, or it can't be added to.
    """
    for select in tree.find_all(exp.Select):
        definitions: list[exp.Window] = select.args.get("windows") or []
        named: dict[str, exp.Window] = {}
        for window in definitions:  # may name those before it
            _inherit(tree, window, named)
            named[read_name(window.this)] = window
        for window in select.find_all(exp.Window):
            if window.args.get("over") and window.parent_select is select:
                _inherit(tree, window, named)


def _inherit(tree: Tree, window: exp.Window, named: dict[str, exp.Window]) -> None:
    name = window.args.get("alias")
    if name is None:
        return
    base, own = named.get(read_name(name)), _find_parts(window)
    if base is None:
        raise tree.error(name, f"There is no window {read_name(name)!r}; it is named")
    what = ""
    if "partition_by" in own:
        what = "its own PARTITION BY"
    elif "order" in own and base.args.get("order"):
        what = "a second ORDER BY"
    elif own and base.args.get("spec"):
        what = "more than its name, since it has a frame"
    if what:
        raise tree.error(name, f"A window that begins with {read_name(name)!r} can't have {what}")
    for part in _find_parts(base):
        value = base.args[part]
        window.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
    window.set("alias", None)
    tree.note_change()


def _find_parts(window: exp.Window) -> list[str]:
    return [part for part in _PARTS if window.args.get(part)]
