"""Joins relations that read the relations before them, by the values that they read.

    FROM t, LATERAL (SELECT .. FROM u WHERE u.id = t.id ORDER BY n LIMIT 2) AS l
->  FROM t JOIN (.. for each of SELECT DISTINCT t.id AS "key#1" FROM t ..) AS l
    ON l."key#1" IS NOT DISTINCT FROM t.id
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from lance_gateway.planner.sql.subqueries.blocks import Block
from lance_gateway.planner.sql.subqueries.domains import Extension, output_names
from lance_gateway.planner.sql.subqueries.relations.unnests import read_lists, select_lists
from lance_gateway.planner.sql.subqueries.repeatable import REPEATABLE, check_repeatable
from lance_gateway.planner.sql.subqueries.scopes import Scopes
from lance_gateway.planner.sql.subqueries.sites import find_sites_in
from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.subqueries.trees import (
    OWNER,
    SCOPE,
    all_of,
    column_of,
    free_columns,
    has_aggregates,
    identifier,
    is_volatile,
)
from lance_gateway.planner.sql.tree.queries import conjuncts


def move_conditions(select: exp.Select, scopes: Scopes) -> None:
    """Move subqueries out of the conditions of joins.

    Those of inner joins become conditions of the rows; those of a LEFT JOIN become conditions of a relation
    that reads the relations before it.

    Raises:
        RewritingError: they are conditions of a RIGHT or FULL JOIN.
    """
    joins = select.args.get("joins") or []
    moved: list[exp.Expr] = []
    for number, join in enumerate(joins):
        on = join.args.get("on")
        if on is None or next(find_sites_in(on, "on"), None) is None:
            continue
        if join.side == "LEFT" and not join.kind:
            _make_lateral(select, join, scopes)
            continue
        if (
            join.side
            or join.kind not in {"", "INNER"}
            or any(later.side in {"RIGHT", "FULL"} for later in joins[number + 1 :])
        ):
            msg = "a subquery among the conditions of a RIGHT, FULL, SEMI or ANTI JOIN is not joined"
            raise RewritingError(msg)
        parts = conjuncts(on)
        moved += [one for one in parts if next(find_sites_in(one, "on"), None)]
        rest = all_of([one.copy() for one in parts if not next(find_sites_in(one, "on"), None)])
        join.set("on", rest)
        if rest is None:
            join.set("kind", "CROSS")
    if moved:
        where = select.args.get("where")
        condition = all_of([*([where.this] if where is not None else []), *(one.copy() for one in moved)])
        select.set("where", exp.Where(this=condition))


def _make_lateral(select: exp.Select, join: exp.Join, scopes: Scopes) -> None:
    """Put the condition of a LEFT JOIN into its relation."""
    item = join.this
    scope = select.meta[SCOPE]
    name = item.alias_or_name if isinstance(item, exp.Table) else item.alias
    columns = scopes.columns.get((scope, name))
    if columns is None or not name or item.args.get("joins"):
        msg = "the columns of a relation whose LEFT JOIN has a subquery among its conditions are not known"
        raise RewritingError(msg)
    number = scopes.fresh.number()
    inner = exp.Select(
        expressions=[column_of(name, column, number) for column in columns],
        from_=exp.From(this=item.copy()),
        where=exp.Where(this=join.args["on"].copy()),
    )
    inner.meta[SCOPE] = number
    scopes.columns[number, name] = columns
    for column in inner.find_all(exp.Column):
        if column.meta.get(SCOPE) == scope and column.meta.get(OWNER) == name:
            column.meta[SCOPE] = number
    alias = exp.TableAlias(this=identifier(name))
    join.set("this", exp.Lateral(this=exp.Subquery(this=inner), alias=alias))
    join.set("on", exp.Boolean(this=True))


def has_mistaken_laterals(select: exp.Select) -> bool:
    """Return whether a relation of a SELECT reads others of it in a way that DataFusion gets wrong.

    It keeps windows, LIMIT and DISTINCT as they are while it moves conditions out of them.
    """
    return any(
        (query := _read_relation(join.this)) is not None and not _is_plain_lateral(query)
        for join in select.args.get("joins") or ()
    )


def _is_plain_lateral(query: exp.Query) -> bool:
    if not isinstance(query, exp.Select) or not query.args.get("from_"):
        return False
    kept = {"expressions", "from_", "where"}
    if any(value for key, value in query.args.items() if key not in kept) or query.find(exp.Window):
        return False
    where = query.args.get("where")
    if not isinstance(query.args["from_"].this, exp.Table) or where is None or where.find(exp.Query):
        return False
    around = {id(column) for column in free_columns(query)}
    return not has_aggregates(query) and not any(
        id(column) in around for item in query.expressions for column in item.find_all(exp.Column)
    )


def has_laterals(select: exp.Select) -> bool:
    """Return whether a relation of a SELECT reads others of it."""
    return any(_read_relation(join.this) is not None for join in select.args.get("joins") or ())


def join_laterals(select: exp.Select, make_block: Callable[[], Block]) -> None:
    """Join the relations of a SELECT that read those before them.

    Args:
        select: which is changed.
        make_block: returns the SELECT as it is then.
    """
    for number, join in enumerate(select.args.get("joins") or ()):
        relation = _read_relation(join.this)
        if relation is None:
            continue
        _join_lateral(select, number, join, relation, make_block())


def _read_relation(item: exp.Expr) -> exp.Query | None:
    """Return the query of a relation that reads others beside it."""
    if isinstance(item, exp.Lateral) and isinstance(item.this, exp.Subquery):
        query = item.this.this
        return query if free_columns(query) else None
    lists = read_lists(item)
    return None if lists is None or not free_columns(item) else select_lists(lists)


def _join_lateral(select: exp.Select, number: int, join: exp.Join, query: exp.Query, block: Block) -> None:
    item, scope, fresh = join.this, block.scope, block.fresh
    if SCOPE not in query.meta and isinstance(query, exp.Select):
        query.meta[SCOPE] = fresh.number()
    if join.side not in {"", "LEFT"} or join.args.get("using") or join.method:
        msg = "a relation that reads those before it is joined by JOIN, LEFT JOIN or CROSS JOIN"
        raise RewritingError(msg)
    domain = block.make_domain(query, first=number + 1, conditions=_conditions_before(select, number))
    assert domain is not None  # noqa: S101 - it reads others
    if is_volatile(query):
        msg = "a relation with a function that gives another value each time is not joined"
        raise RewritingError(msg)
    is_repeatable = _is_repeatable(query, block)
    extended = Extension(fresh, domain).extend(query.copy(), breaks_ties=is_repeatable)
    names = output_names(extended)
    alias = item.args.get("alias")
    name = item.alias or fresh.name("rows")
    listed = [one.name for one in alias.columns] if alias is not None else []
    own = names[: len(names) - len(domain.keys)]
    listed += own[len(listed) :]
    renamed = exp.TableAlias(
        this=identifier(name), columns=[identifier(one) for one in (*listed, *domain.keys)]
    )
    join.set("this", exp.Subquery(this=extended, alias=renamed))
    if is_repeatable:
        join.this.meta[REPEATABLE] = True
    on = join.args.get("on")
    join.set("on", all_of([*domain.match(name, scope), on if not _is_true(on) else None]))
    join.set("kind", None if join.side else "INNER")
    block.hide(domain.keys)
    _hide_of_relation(select, name, domain.keys)


def _is_repeatable(query: exp.Query, block: Block) -> bool:
    """Return whether a query gives the same rows whenever it is read, if LIMIT takes the same of them."""
    if not query.args.get("limit"):
        return False
    whole = query.copy()
    for clause in ("limit", "order"):
        whole.set(clause, None)
    try:
        check_repeatable([whole], output_names(whole), block.commons)
    except RewritingError:
        return False
    return True


def _hide_of_relation(select: exp.Select, name: str, keys: tuple[str, ...]) -> None:
    """Keep columns out of relation.*."""
    for item in select.expressions:
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) and item.table == name:
            old = item.this.args.get("except_") or []
            item.this.set("except_", [*old, *(identifier(key) for key in keys)])


def _is_true(on: exp.Expr | None) -> bool:
    return on is None or (isinstance(on, exp.Boolean) and bool(on.this))


def _conditions_before(select: exp.Select, number: int) -> list[exp.Expr]:
    """Return the conditions of WHERE that the relations before a join decide."""
    joins = select.args.get("joins") or []
    where = select.args.get("where")
    if where is None or any(join.side for join in joins):
        return []
    before = [select.args["from_"].this, *(join.this for join in joins[:number])]
    names = {one.alias_or_name if isinstance(one, exp.Table) else one.alias for one in before}
    return [
        condition
        for condition in conjuncts(where.this)
        if not condition.find(exp.Query, exp.Anonymous, exp.Window)
        and {column.meta.get(OWNER) for column in condition.find_all(exp.Column)} <= names
    ]
