"""Clauses of other dialects, which are rewritten before expressions, or refused."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.dialects.build import literal_number, native, raw
from planner.sql.dialects.source import DialectSource

_REFUSED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.TableSample, "sampling is not offered"),
    (exp.Pivot, "PIVOT and UNPIVOT are not offered"),
    (exp.HistoricalData, "an older version of a table is read FOR VERSION AS OF n, or FOR TIMESTAMP AS OF t"),
    (exp.Into, "SELECT INTO is not offered"),
    (exp.Lock, "locking rows is not offered"),
    (exp.Sort, "SORT BY is not offered: use ORDER BY"),
    (exp.Cluster, "CLUSTER BY is not offered: use ORDER BY"),
    (exp.Distribute, "DISTRIBUTE BY is not offered"),
    (exp.Connect, "CONNECT BY is not offered: use WITH RECURSIVE"),
    (exp.MatchRecognize, "MATCH_RECOGNIZE is not offered"),
    (exp.SimilarTo, "SIMILAR TO is not offered: use a regular expression"),
    (exp.Glob, "GLOB is not offered: use LIKE"),
    (exp.Lambda, "functions of functions are not offered"),
    (exp.Comprehension, "list comprehensions are not offered"),
    (exp.Columns, "COLUMNS() is not offered: name the columns"),
    (exp.SafeFunc, "the prefix SAFE. is not offered"),
    (exp.BitwiseNot, "the operator ~ is not offered"),
    (exp.BitString, "bit strings are not offered"),
    (exp.ByteString, "byte strings are not offered"),
    (exp.UnicodeString, "strings of this kind are not offered"),
    (exp.Collate, "COLLATE is not offered"),
    (exp.SessionParameter, "session variables are not offered"),
    (exp.IntervalSpan, "intervals of two units are not offered"),
    (exp.Posexplode, "POSEXPLODE is not offered"),
)
_JOIN_METHODS = frozenset({"", "NATURAL"})


def prepare(tree: exp.Expr, source: DialectSource) -> None:
    """Rewrite clauses of all SELECTs in place.

    Raises:
        UnsupportedError: a construct that is not offered.
    """
    for node in list(tree.walk()):
        if isinstance(node, exp.Hint):
            node.pop()  # hints to the optimizer of another system
            continue
        for kind, why in _REFUSED:
            if isinstance(node, kind):
                source.refuse(node, why)
        if isinstance(node, exp.Table):
            node.set("hints", None)
            _series(node, source)
        elif isinstance(node, exp.Join):
            _join(node, source)
        elif isinstance(node, exp.Fetch):
            _fetch(node, source)
        elif isinstance(node, exp.Star) and node.args.get("rename"):
            source.refuse(node, "* RENAME is not offered")
    for select in list(tree.find_all(exp.Select)):
        _select(select, source)


def _series(table: exp.Table, source: DialectSource) -> None:
    """Name the column of a series in FROM as the dialect does."""
    function = table.this
    if isinstance(function, exp.GenerateSeries):
        name = "range" if function.args.get("is_end_exclusive") else "generate_series"
        arguments = [function.args.get(one) for one in ("start", "end", "step")]
        numbers = exp.Anonymous(
            this=name, expressions=[argument.copy() for argument in arguments if argument is not None]
        )
        table.set("this", numbers)
    elif isinstance(function, exp.Anonymous) and function.name.upper() == "RANGE":
        name = "id" if source.dialect == "spark" else "range"
    else:
        return
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
    if not alias.args.get("columns"):
        alias.set("columns", [exp.to_identifier(name)])
    table.set("alias", alias)


def _join(join: exp.Join, source: DialectSource) -> None:
    if (join.args.get("method") or "").upper() not in _JOIN_METHODS:
        source.refuse(join, f"{join.args['method']} JOIN is not offered")
    if join.kind.startswith("STRAIGHT"):
        join.set("kind", None)
    elif join.kind in {"SEMI", "ANTI"} and not join.side:
        join.set("side", "LEFT")


def _fetch(fetch: exp.Fetch, source: DialectSource) -> None:
    options = fetch.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        source.refuse(fetch, "FETCH with PERCENT or WITH TIES is not offered")
    fetch.replace(exp.Limit(expression=fetch.args.get("count") or exp.Literal.number(1)))


def _select(select: exp.Select, source: DialectSource) -> None:
    if select.args.get("kind"):
        source.refuse(select, f"SELECT AS {select.args['kind']} is not offered")
    group = select.args.get("group")
    if group is not None:
        _group(group, select, source)
    order = select.args.get("order")
    if order is not None and len(order.expressions) == 1:
        _order_by_all(select, order.expressions[0], source)
    _unnest(select, source)


def _group(group: exp.Group, select: exp.Select, source: DialectSource) -> None:
    """Rewrite GROUP BY a, b WITH ROLLUP as GROUP BY ROLLUP (a, b)."""
    if group.args.get("totals"):
        source.refuse(group, "WITH TOTALS is not offered: use GROUP BY ROLLUP (...)")
    for key in ("rollup", "cube"):
        for total in group.args.get(key) or ():
            if not total.expressions:
                total.set(
                    "expressions", [_resolve_position(expression, select) for expression in group.expressions]
                )
                group.set("expressions", None)


def _resolve_position(one: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return the expression of a position in the select list, since ROLLUP and CUBE take no positions."""
    place = literal_number(one)
    if place is not None and 0 < place <= len(select.expressions):
        named: exp.Expr = select.expressions[place - 1].unalias().copy()
        return named
    return one.copy()


def _order_by_all(select: exp.Select, ordered: exp.Expr, source: DialectSource) -> None:
    """Rewrite ORDER BY ALL as ORDER BY 1, 2, ..."""
    if not isinstance(ordered.this, exp.Var | exp.Column) or ordered.this.name.upper() != "ALL":
        return
    if isinstance(ordered.this, exp.Column) and ordered.this.this.quoted:
        return
    if select.is_star:
        source.refuse(ordered, "ORDER BY ALL with * is not offered: name the columns")
    places = []
    for number in range(1, len(select.expressions) + 1):
        place = ordered.copy()
        place.set("this", exp.Literal.number(number))
        places.append(place)
    select.args["order"].set("expressions", places)


def _unnest(select: exp.Select, source: DialectSource) -> None:
    """Move a correlated UNNEST or EXPLODE beside a table into a derived table that projects it.

    ``FROM t CROSS JOIN UNNEST(t.list) AS u(x)`` becomes
    ``FROM (SELECT t.*, UNNEST(t.list) AS x FROM t) AS t``, and `u.x` becomes `t.x`: DataFusion does not run
    the first form.
    """
    joins: list[exp.Join] = list(select.args.get("joins") or ())
    laterals: list[exp.Lateral] = list(select.args.get("laterals") or ())
    found: list[tuple[exp.Expr, exp.Expr]] = []
    for join in joins:
        inner = join.this
        function = inner.this if isinstance(inner, exp.Lateral) else inner
        if isinstance(function, exp.Unnest | exp.Explode) and _is_correlated(function):
            if join.side or join.args.get("on") is not None or join is not joins[len(found)]:
                source.refuse(
                    join, "UNNEST of a column is offered right after its table, and as a CROSS JOIN"
                )
            found.append((function, inner))
        elif isinstance(inner, exp.Lateral) and not isinstance(inner.this, exp.Subquery):
            source.refuse(join, "this table function is not offered")
    for lateral in laterals:
        if lateral.args.get("outer") or not isinstance(lateral.this, exp.Explode) or joins:
            source.refuse(lateral, "LATERAL VIEW is offered with EXPLODE, without OUTER and without joins")
        found.append((lateral.this, lateral))
    if not found:
        return
    origin = select.args.get("from_") or select.args.get("from")
    if origin is None:
        source.refuse(select, "UNNEST of a column needs a table before it")
    for function, place in found:
        _fold(select, origin, function, place, source)
    select.set("joins", joins[len(found) if not laterals else 0 :] or None)
    select.set("laterals", None)


def _is_correlated(function: exp.Expr) -> bool:
    values = function.expressions if isinstance(function, exp.Unnest) else [function.this]
    return any(value.find(exp.Column) is not None for value in values)


def _fold(
    select: exp.Select, origin: exp.Expr, function: exp.Expr, place: exp.Expr, source: DialectSource
) -> None:
    values = function.expressions if isinstance(function, exp.Unnest) else [function.this]
    alias = place.args.get("alias")
    columns = [] if alias is None else [one.name for one in alias.args.get("columns") or ()]
    if len(values) != 1 or function.args.get("offset") or len(columns) > 1:
        source.refuse(function, "UNNEST is offered with one list, and without ordinality")
    name = "" if alias is None or alias.this is None else alias.this.name
    column = columns[0] if columns else name or "col"
    table = origin.this.alias_or_name
    if not table:
        source.refuse(function, "the table before UNNEST needs an alias")
    inner = exp.Select(
        expressions=[
            exp.Column(this=exp.Star(), table=exp.to_identifier(table, quoted=True)),
            exp.alias_(exp.Explode(this=values[0].copy()), column, quoted=True),
        ]
    )
    inner.set("from_", exp.From(this=origin.this.copy()))
    for used in select.find_all(exp.Column):
        if name and used.table == name and used.this.name == column:
            used.set("table", exp.to_identifier(table, quoted=True))
    origin.set("this", inner.subquery(exp.to_identifier(table, quoted=True), copy=False))


def keep_qualify(select: exp.Select) -> None:
    """Keep QUALIFY, which sqlglot's generator would rewrite, as text behind HAVING."""
    qualify = select.args.get("qualify")
    if qualify is not None:
        having = native(select.args.get("having")).strip()
        text = f"{having} QUALIFY {native(qualify.this)}".strip()
        select.set("having", raw(f" {text}"))
        select.set("qualify", None)
