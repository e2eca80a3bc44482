"""Clauses of other dialects, which are rewritten before expressions, or refused."""

from __future__ import annotations

from sqlglot import exp

from lance_gateway.planner.sql.dialects.build import literal_number, native, raw
from lance_gateway.planner.sql.dialects.source import DialectSource

_REFUSED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.TableSample, "sampling is not supported"),
    (exp.Pivot, "PIVOT and UNPIVOT are not supported"),
    (exp.HistoricalData, "an older version of a table is read FOR VERSION AS OF n, or FOR TIMESTAMP AS OF t"),
    (exp.Into, "SELECT INTO is not supported"),
    (exp.Lock, "locking rows is not supported"),
    (exp.Sort, "SORT BY is not supported: use ORDER BY"),
    (exp.Cluster, "CLUSTER BY is not supported: use ORDER BY"),
    (exp.Distribute, "DISTRIBUTE BY is not supported"),
    (exp.Connect, "CONNECT BY is not supported: use WITH RECURSIVE"),
    (exp.MatchRecognize, "MATCH_RECOGNIZE is not supported"),
    (exp.SimilarTo, "SIMILAR TO is not supported: use a regular expression"),
    (exp.Glob, "GLOB is not supported: use LIKE"),
    (exp.Lambda, "functions of functions are not supported"),
    (exp.Comprehension, "list comprehensions are not supported"),
    (exp.Columns, "COLUMNS() is not supported: name the columns"),
    (exp.SafeFunc, "the prefix SAFE. is not supported"),
    (exp.BitwiseNot, "the operator ~ is not supported"),
    (exp.BitString, "bit strings are not supported"),
    (exp.ByteString, "byte strings are not supported"),
    (exp.UnicodeString, "strings of this kind are not supported"),
    (exp.Collate, "COLLATE is not supported"),
    (exp.SessionParameter, "session variables are not supported"),
    (exp.IntervalSpan, "intervals of two units are not supported"),
    (exp.Posexplode, "POSEXPLODE is not supported"),
)
_JOIN_METHODS = frozenset({"", "NATURAL"})


def prepare(tree: exp.Expr, source: DialectSource) -> None:
    """Rewrite clauses of all SELECTs in place.

    Raises:
        UnsupportedError: a construct that is not supported.
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
            source.refuse(node, "* RENAME is not supported")
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
        source.refuse(join, f"{join.args['method']} JOIN is not supported")
    if join.kind.startswith("STRAIGHT"):
        join.set("kind", None)
    elif join.kind in {"SEMI", "ANTI"} and not join.side:
        join.set("side", "LEFT")


def _fetch(fetch: exp.Fetch, source: DialectSource) -> None:
    options = fetch.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        source.refuse(fetch, "FETCH with PERCENT or WITH TIES is not supported")
    fetch.replace(exp.Limit(expression=fetch.args.get("count") or exp.Literal.number(1)))


def _select(select: exp.Select, source: DialectSource) -> None:
    if select.args.get("kind"):
        source.refuse(select, f"SELECT AS {select.args['kind']} is not supported")
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
        source.refuse(group, "WITH TOTALS is not supported: use GROUP BY ROLLUP (...)")
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
        source.refuse(ordered, "ORDER BY ALL with * is not supported: name the columns")
    places = []
    for number in range(1, len(select.expressions) + 1):
        place = ordered.copy()
        place.set("this", exp.Literal.number(number))
        places.append(place)
    select.args["order"].set("expressions", places)


def _unnest(select: exp.Select, source: DialectSource) -> None:
    """Write EXPLODE beside a table as UNNEST, and the plain ones as columns of their table.

    ``FROM t CROSS JOIN UNNEST(t.list) AS u(x)`` becomes
    ``FROM (SELECT t.*, UNNEST(t.list) AS x FROM t) AS t``, and `u.x` becomes `t.x`, if nothing else of the
    statement could mean another column then. `planner.sql.subqueries` plans the others, in fewer words.
    """
    for lateral in select.args.get("laterals") or ():
        if type(lateral.this) is not exp.Explode:
            source.refuse(lateral, "LATERAL VIEW is supported with EXPLODE alone")
        is_outer = bool(lateral.args.get("outer"))
        join = exp.Join(this=_read_explode(lateral, source), kind=None if is_outer else "CROSS")
        if is_outer:
            join.set("side", "LEFT")
            join.set("on", exp.Boolean(this=True))
        select.append("joins", join)
    select.set("laterals", None)
    for join in select.args.get("joins") or ():
        if isinstance(join.this, exp.Lateral) and not isinstance(join.this.this, exp.Subquery):
            if type(join.this.this) not in {exp.Explode, exp.Unnest}:
                source.refuse(join, "this table function is not supported")
            join.set("this", _read_explode(join.this, source))
        is_numbered = isinstance(join.this, exp.Unnest) and bool(join.this.args.get("offset"))
        if is_numbered and source.dialect == "bigquery":
            source.refuse(join, "WITH OFFSET is not supported, since it counts from 0: use generate_series()")
    while _fold_first(select):
        pass


def _read_explode(lateral: exp.Expr, source: DialectSource) -> exp.Unnest:
    """Return the UNNEST that EXPLODE or LATERAL UNNEST is."""
    function, alias = lateral.this, lateral.args.get("alias")
    if isinstance(function, exp.Unnest):
        return exp.Unnest(**{**function.args, "alias": alias})
    if alias is not None and len(alias.args.get("columns") or ()) > 1:
        source.refuse(lateral, "EXPLODE is supported with one list")
    if alias is None or not alias.args.get("columns"):
        name = exp.to_identifier("col", quoted=True)
        alias = exp.TableAlias(this=alias.this if alias is not None else name, columns=[name])
    return exp.Unnest(expressions=[function.this], alias=alias)


def _fold_first(select: exp.Select) -> bool:
    """Make the list behind the first table a column of it; return False where it can't be one."""
    joins: list[exp.Join] = list(select.args.get("joins") or ())
    origin = select.args.get("from_")
    unnest = joins[0].this if joins else None
    if not isinstance(unnest, exp.Unnest) or origin is None or not origin.this.alias_or_name:
        return False
    alias, values = unnest.args.get("alias"), unnest.expressions
    columns = [] if alias is None else [one.name for one in alias.args.get("columns") or ()]
    name = "" if alias is None or alias.this is None else alias.this.name
    column = columns[0] if columns else name
    read = {one.name for value in values for one in value.find_all(exp.Column)}
    is_plain = not (joins[0].side or joins[0].args.get("on") or unnest.args.get("offset"))
    is_one = len(values) == 1 and len(columns) < 2 and bool(column)
    has_star = any(isinstance(one, exp.Star) or one.is_star for one in select.expressions)
    if not is_plain or not is_one or not read or column in read or has_star:
        return False
    table = exp.to_identifier(origin.this.alias_or_name, quoted=True)
    whole = exp.Column(this=exp.Star(), table=table.copy())
    inner = exp.Select(
        expressions=[whole, exp.alias_(exp.Explode(this=values[0].copy()), column, quoted=True)]
    )
    inner.set("from_", exp.From(this=origin.this.copy()))
    for used in select.find_all(exp.Column):
        if name and used.table == name and used.this.name == column:
            used.set("table", table.copy())
    origin.set("this", inner.subquery(table, copy=False))
    select.set("joins", joins[1:] or None)
    return True


def keep_qualify(select: exp.Select) -> None:
    """Keep QUALIFY, which sqlglot's generator would rewrite, as text behind HAVING."""
    qualify = select.args.get("qualify")
    if qualify is not None:
        having = native(select.args.get("having")).strip()
        text = f"{having} QUALIFY {native(qualify.this)}".strip()
        select.set("having", raw(f" {text}"))
        select.set("qualify", None)
