"""Makes rows of lists that relations have.

    SELECT t.id, u.tag FROM t CROSS JOIN UNNEST(t.tags) AS u(tag)
->  SELECT t.id, t."tag#1" AS tag FROM (SELECT t.id, t.tags, unnest(t.tags) AS "tag#1" FROM t) AS t

    FROM t LEFT JOIN UNNEST(t.tags) WITH ORDINALITY AS u(tag, n) ON TRUE
->  FROM (SELECT .., unnest(CASE WHEN array_length(t.tags) > 0 THEN t.tags ELSE [NULL] END) AS "tag#1",
    unnest(CASE WHEN .. THEN range(1, array_length(t.tags) + 1) ELSE [NULL] END) AS "n#2" FROM t) AS t

Lists that several relations make together, or of relations that an outer join may complete with NULL, are
joined by their values, as LATERAL is.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from lance_gateway.planner.sql.subqueries.scopes import Scopes
from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.subqueries.trees import (
    OWNER,
    SCOPE,
    aliased,
    all_of,
    call,
    column_of,
    derived,
    either,
    free_columns,
    identifier,
    is_volatile,
    name_unnested,
    number_of,
    read_unnest,
)


@dataclass(frozen=True)
class _Lists:
    """Lists that are rows of a relation.

    Attributes:
        expressions: of the lists.
        names: of the columns.
        is_numbered: whether the last column counts the rows.
    """

    expressions: tuple[exp.Expr, ...]
    names: tuple[str, ...]
    is_numbered: bool

    def outputs(self, *, keeps_empty: bool = False) -> list[exp.Expr]:
        """Return the columns as outputs of a SELECT.

        Args:
            keeps_empty: whether a row stays, with NULL, where all lists are empty.
        """
        lengths = [
            call("coalesce", call("array_length", one.copy()), number_of(0)) for one in self.expressions
        ]
        length = lengths[0] if len(lengths) == 1 else call("greatest", *lengths)
        lists = [one.copy() for one in self.expressions]
        if self.is_numbered:
            whole = exp.Cast(this=length.copy(), to=exp.DataType.build("BIGINT"))
            lists.append(call("range", number_of(1), exp.Add(this=whole, expression=number_of(1))))
        if keeps_empty:
            is_there = exp.GT(this=length, expression=number_of(0))
            lists = [either((is_there.copy(), one), default=call("make_array", exp.Null())) for one in lists]
        return [call("unnest", one) for one in lists]


def read_lists(item: exp.Expr) -> _Lists | None:
    """Return the lists of a relation; None for another relation.

    Raises:
        RewritingError: they may be others each time, or have no names.
    """
    unnest = read_unnest(item)
    if unnest is None:
        return None
    if is_volatile(unnest):
        msg = "UNNEST of a function that gives another value each time is not joined"
        raise RewritingError(msg)
    return _Lists(tuple(unnest.expressions), name_unnested(item), bool(unnest.args.get("offset")))


def select_lists(lists: _Lists) -> exp.Select:
    """Return a query whose rows are those of lists."""
    outputs = zip(lists.outputs(), lists.names, strict=True)
    return exp.Select(expressions=[aliased(one, name) for one, name in outputs])


def has_unnests(select: exp.Select) -> bool:
    """Return whether a SELECT reads lists that DataFusion does not: of columns, or with numbers."""
    found = (read_unnest(holder.this) for holder in _list_holders(select))
    return any(one is not None and bool(one.args.get("offset") or free_columns(one)) for one in found)


def join_unnests(select: exp.Select, scopes: Scopes) -> bool:
    """Put lists into the relations that have them; return whether there were any.

    Args:
        select: which is changed.
        scopes: of the statement.

    Raises:
        RewritingError: they can't be read.
    """
    is_changed = False
    for holder in _list_holders(select):
        lists = read_lists(holder.this)
        if lists is None:
            continue
        owner = _find_owner(select, holder, lists) if isinstance(holder, exp.Join) else None
        if owner is not None and isinstance(holder, exp.Join):
            _move_lists(select, scopes, holder, owner, lists)
            is_changed = True
        elif lists.is_numbered and not _read_columns(lists, select.meta[SCOPE]):
            holder.set("this", derived(select_lists(lists), holder.this.alias))
            is_changed = True
    return is_changed


def _list_holders(select: exp.Select) -> list[exp.From | exp.Join]:
    """Return FROM and the joins of a SELECT, each of which holds a relation."""
    source = select.args.get("from_")
    return [*([source] if source is not None else ()), *(select.args.get("joins") or ())]


def _read_columns(lists: _Lists, scope: int) -> list[exp.Column]:
    """Return the columns of relations of a SELECT that lists are made of."""
    return [
        column
        for one in lists.expressions
        for column in one.find_all(exp.Column)
        if column.meta.get(SCOPE) == scope
    ]


def _find_owner(select: exp.Select, join: exp.Join, lists: _Lists) -> exp.From | exp.Join | None:
    """Return what holds the relation that can have the lists as columns; None if none can."""
    if any(one.find(exp.Query) for one in lists.expressions):
        return None
    joins: list[exp.Join] = select.args["joins"]
    number = next(at for at, one in enumerate(joins) if one is join)
    owners = {column.meta[OWNER] for column in _read_columns(lists, select.meta[SCOPE])}
    later = any(one.side for one in joins[number + 1 :])
    is_condition = _condition(join) is not None and (join.side == "LEFT" or later)
    if len(owners) != 1 or is_condition or join.side not in {"", "LEFT"} or join.args.get("using"):
        return None
    (owner,) = owners
    before: list[exp.From | exp.Join] = [select.args["from_"], *joins[:number]]
    place = next((at for at, one in enumerate(before) if one.this.alias_or_name == owner), None)
    if place is None or before[place].this.args.get("joins"):
        return None
    is_kept = not place or not joins[place - 1].side
    completes = any(one.side in {"RIGHT", "FULL"} for one in joins[place:number])
    return before[place] if is_kept and not completes else None


def _condition(join: exp.Join) -> exp.Expr | None:
    on: exp.Expr | None = join.args.get("on")
    is_true = isinstance(on, exp.Boolean) and bool(on.this)
    return None if is_true else on


def _move_lists(
    select: exp.Select, scopes: Scopes, join: exp.Join, holder: exp.From | exp.Join, lists: _Lists
) -> None:
    """Make lists columns of the relation that a part of FROM holds."""
    scope, name = select.meta[SCOPE], holder.this.alias_or_name
    relation, number = join.this.alias, scopes.fresh.number()
    hidden = [scopes.fresh.name(one) for one in lists.names]
    columns = scopes.columns.get((scope, name))
    whole = exp.Column(this=exp.Star(), table=identifier(name))
    known = [whole] if columns is None else [column_of(name, one, number) for one in columns]
    outputs = zip(lists.outputs(keeps_empty=join.side == "LEFT"), hidden, strict=True)
    inner = exp.Select(
        expressions=[*known, *(aliased(one, alias) for one, alias in outputs)],
        from_=exp.From(this=holder.this.copy()),
    )
    inner.meta[SCOPE] = number
    for column in inner.find_all(exp.Column):
        if column.meta.get(SCOPE) == scope:
            column.meta[SCOPE] = number
    condition = _condition(join)
    if condition is not None:
        where = select.args.get("where")
        both = all_of([*([where.this] if where is not None else []), condition.copy()])
        select.set("where", exp.Where(this=both))
    select.set("joins", [one for one in select.args["joins"] if one is not join])
    holder.set("this", derived(inner, name))
    scopes.columns[number, name] = columns
    scopes.columns[scope, name] = None if columns is None else (*columns, *hidden)
    scopes.columns.pop((scope, relation), None)
    renamed = dict(zip(lists.names, hidden, strict=True))
    for column in list(select.find_all(exp.Column)):
        if column.meta.get(SCOPE) == scope and column.meta.get(OWNER) == relation:
            new: exp.Expr = column_of(name, renamed[column.name], scope)
            is_output = column.parent is select and column.arg_key == "expressions"
            column.replace(aliased(new, column.name) if is_output else new)
