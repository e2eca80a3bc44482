"""Orders and numbers of rows: ORDER BY ALL and by numbers, orders of DISTINCT, FETCH, FETCH .. WITH TIES."""

from __future__ import annotations

from sqlglot import exp

from lance_gateway.memwal.errors import LanceGatewayError, UnsupportedError
from lance_gateway.planner.sql.tree.queries import find_aggregates
from lance_gateway.planner.sql.tree.tree import Tree, is_unstable, read_name


def order_by_all(tree: Tree) -> None:
    """Sort by the numbers of the outputs instead of by ALL, which DataFusion reads as a column.

        SELECT k, n FROM t ORDER BY ALL DESC
    ->  SELECT k, n FROM t ORDER BY 1 DESC, 2 DESC

    Raises:
        UnsupportedError: there is a *, whose columns are not known yet, or no SELECT.
    """
    for query in tree.find_all(exp.Query):
        order = query.args.get("order")
        keys: list[exp.Expr] = [] if order is None else order.expressions
        if order is None or len(keys) != 1 or not _is_all(keys[0].this):
            continue
        if not query.selects or query.is_star:
            raise tree.error(
                keys[0],
                "ORDER BY ALL is not supported but for a SELECT that names its columns: name them",
                UnsupportedError,
            )
        numbered = [keys[0].copy() for _ in query.selects]
        for number, key in enumerate(numbered, start=1):
            key.set("this", exp.Literal.number(number))
        order.set("expressions", numbered)
        tree.note_change()


def numbered_orders(tree: Tree) -> None:
    """Sort rows of aggregates by the expression of an output instead of by its number.

        SELECT k, max(n) + 1 FROM t GROUP BY k ORDER BY 2 DESC
    ->  SELECT k, max(n) + 1 FROM t GROUP BY k ORDER BY max(n) + 1 DESC

    DataFusion does not find an output that it computes from aggregates or groups, unless it has a name.
    """
    for select in tree.find_all(exp.Select):
        order = select.args.get("order")
        if order is None or select.args.get("distinct"):
            continue
        if not select.args.get("group") and not any(map(find_aggregates, select.expressions)):
            continue
        for key in order.expressions:
            output = _find_numbered(key.this, select)
            if output is not None and not isinstance(output, exp.Alias) and not is_unstable(output):
                is_number = isinstance(output, exp.Literal)
                tree.replace(key.this, exp.paren(output.copy()) if is_number else output.copy())


def orders_of_distinct(tree: Tree) -> None:
    """Sort distinct rows by the number of an output that a key repeats; DataFusion sorts by columns alone.

        SELECT DISTINCT lower(s) AS x FROM t ORDER BY lower(s) DESC
    ->  SELECT DISTINCT lower(s) AS x FROM t ORDER BY 1 DESC
    """
    for select in tree.find_all(exp.Select):
        order = select.args.get("order")
        if order is None or not select.args.get("distinct") or select.is_star:
            continue
        outputs = [output.unalias() for output in select.selects]
        for key in order.expressions:
            if not isinstance(key.this, exp.Column | exp.Literal) and key.this in outputs:
                key.set("this", exp.Literal.number(outputs.index(key.this) + 1))
                tree.note_change()


def _is_all(key: exp.Expr) -> bool:
    if not isinstance(key, exp.Column) or key.table or key.this.args.get("quoted"):
        return False
    return key.name.upper() == "ALL"


def fetch_with_ties(tree: Tree) -> None:
    """Keep the rows that tie with the last one by their rank.

        SELECT id, n FROM t ORDER BY n DESC OFFSET 2 ROWS FETCH FIRST 3 ROWS WITH TIES
    ->  SELECT id, n FROM t QUALIFY rank() OVER (ORDER BY n DESC) <= 3 + 2 ORDER BY n DESC OFFSET 2

    Raises:
        InvalidInputError: there is no ORDER BY.
        UnsupportedError: the ranks of the rows can't be written there.
    """
    for fetch in tree.find_all(exp.Fetch):
        options, query = fetch.args.get("limit_options"), fetch.parent
        if options is None or query is None or not options.args.get("with_ties"):
            continue
        _refuse_percent(tree, fetch)
        if not isinstance(query, exp.Select):
            raise _refuse_ties(tree, query, f"behind {type(query).__name__.upper()}")
        order = query.args.get("order")
        if order is None:
            raise tree.error(query, "FETCH WITH TIES needs ORDER BY, which decides what ties")
        if query.args.get("distinct") or query.args.get("qualify"):
            raise _refuse_ties(tree, query, "of DISTINCT rows or with QUALIFY")
        keys = [_resolve(tree, key, query) for key in order.expressions]
        count = fetch.args.get("count") or exp.Literal.number(1)
        offset = query.args.get("offset")
        if offset is not None:
            count = exp.Add(this=count.copy(), expression=offset.expression.copy())
        rank = exp.Window(this=exp.Anonymous(this="rank"), order=exp.Order(expressions=keys))
        query.set("qualify", exp.Qualify(this=exp.LTE(this=rank, expression=count)))
        query.set("limit", None)
        tree.note_change()


def _resolve(tree: Tree, key: exp.Ordered, select: exp.Select) -> exp.Ordered:
    """Return a sort key in which the expression of an output is in the place of its name or number."""
    copy, meant = key.copy(), key.this
    output = None
    if isinstance(meant, exp.Literal) and meant.is_int:
        output = _find_numbered(meant, select)
        if output is None:
            raise _refuse_ties(tree, key, "by the number of an output behind *")
    elif isinstance(meant, exp.Column) and not meant.table:
        output = next((one for one in select.expressions if _is_named(one, meant)), None)
    if output is not None:
        copy.set("this", output.unalias().copy())
    return copy


def _find_numbered(key: exp.Expr, select: exp.Select) -> exp.Expr | None:
    """Return the output with the number that a key is, if it is one, and no * is before the output."""
    if not (isinstance(key, exp.Literal) and key.is_int):
        return None
    before: list[exp.Expr] = select.expressions[: int(key.name)]
    if not 0 < int(key.name) == len(before) or any(one.is_star for one in before):
        return None
    return before[-1]


def _is_named(output: exp.Expr, column: exp.Column) -> bool:
    return isinstance(output, exp.Alias) and read_name(output.args["alias"]) == read_name(column.this)


def _refuse_ties(tree: Tree, node: exp.Expr, what: str) -> LanceGatewayError:
    way_out = "rank the rows in a subquery, and keep those with rank() <= n"
    return tree.error(node, f"FETCH WITH TIES {what} is not supported: {way_out}", UnsupportedError)


def _refuse_percent(tree: Tree, fetch: exp.Fetch) -> None:
    if fetch.args["limit_options"].args.get("percent"):
        message = "FETCH with PERCENT is not supported: fetch a number of rows"
        raise tree.error(fetch, message, UnsupportedError)


def fetch(tree: Tree) -> None:
    """Write FETCH as LIMIT, the only form that DataFusion has.

        SELECT id FROM t ORDER BY id OFFSET 20 ROWS FETCH NEXT $1 ROWS ONLY
    ->  SELECT id FROM t ORDER BY id LIMIT $1 OFFSET 20

    Raises:
        UnsupportedError: FETCH with PERCENT.
    """
    for clause in tree.find_all(exp.Fetch):
        if clause.args.get("limit_options") is None:
            continue  # a syntax error
        _refuse_percent(tree, clause)
        count = clause.args.get("count") or exp.Literal.number(1)
        tree.replace(clause, exp.Limit(expression=count))
