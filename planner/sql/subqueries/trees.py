"""Questions that are asked of trees, and small trees."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.transforms.determinism import has_unstable_call
from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.tree.dialect import write_sql
from lance_gateway.planner.sql.tree.queries import is_aggregate, whole_call, without_subqueries

SCOPE: Final = "scope"
"""Of a SELECT its number; of a column the number of the SELECT whose relation has it."""
OWNER: Final = "owner"
"""Of a column the relation that has it."""
OUTPUT: Final = -1
"""The scope of a name that an output of the SELECT has."""
COUNTS: Final = frozenset({"count", "approx_distinct", "regr_count"})
"""Aggregates that are 0 where there are no rows; the others are NULL there."""
_SERIES: Final = frozenset({"generate_series", "range"})


class Fresh:
    """Numbers for the names and scopes of one statement."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """Return a number that was not given out before."""
        return next(self._numbers)

    def name(self, stem: str) -> str:
        """Return a name that was not given out before; no name of a client's is likely to have its form."""
        return f"{stem}#{self.number()}"


def identifier(name: str) -> exp.Identifier:
    """Return a quoted name."""
    return exp.Identifier(this=name, quoted=True)


def column_of(relation: str, name: str, scope: int) -> exp.Column:
    """Return a column of a relation of a SELECT."""
    column = exp.Column(this=identifier(name), table=identifier(relation) if relation else None)
    column.meta[SCOPE] = scope
    column.meta[OWNER] = relation
    return column


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Return the call of a function."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def number_of(value: int) -> exp.Literal:
    """Return a literal."""
    return exp.Literal(this=str(value), is_string=False)


def aliased(expression: exp.Expr, name: str) -> exp.Alias:
    """Return an expression with a name."""
    return exp.Alias(this=expression, alias=identifier(name))


def derived(query: exp.Query, alias: str, columns: Sequence[str] = ()) -> exp.Subquery:
    """Return a query as a relation."""
    names = [identifier(name) for name in columns]
    return exp.Subquery(this=query, alias=exp.TableAlias(this=identifier(alias), columns=names or None))


def either(*branches: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Case:
    """Return CASE with conditions and their values."""
    return exp.Case(ifs=[exp.If(this=when, true=then) for when, then in branches], default=default)


def same(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return a comparison that takes NULL for a value, in brackets: AND binds stronger in DataFusion."""
    return exp.Paren(this=exp.NullSafeEQ(this=left, expression=right))


def all_of(conditions: Iterable[exp.Expr | None]) -> exp.Expr | None:
    """Return conditions connected with AND; None for none."""
    found: exp.Expr | None = None
    for condition in conditions:
        if condition is None:
            continue
        found = condition if found is None else exp.And(this=_apart(found), expression=_apart(condition))
    return found


def _apart(condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=condition) if isinstance(condition, exp.Or) else condition


def bare(query: exp.Expr) -> exp.Query:
    """Return a query without brackets around it.

    Raises:
        RewritingError: they have clauses of their own, or it is not a query.
    """
    while isinstance(query, exp.Subquery):
        if any(value for key, value in query.args.items() if key not in {"this", "alias"}):
            msg = "brackets around a query have ORDER BY or LIMIT of their own"
            raise RewritingError(msg)
        query = query.this
    if not isinstance(query, exp.Query):
        msg = "a query is expected"
        raise RewritingError(msg)
    return query


def queries_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the queries in an expression, without those within them."""
    return (one for one in without_subqueries(node) if isinstance(one, exp.Query))


def is_volatile(node: exp.Expr) -> bool:
    """Return whether an expression or query calls a function whose value changes."""
    return has_unstable_call(one.name for one in node.find_all(exp.Anonymous))


def is_series(table: exp.Table) -> bool:
    """Return whether a relation is a call of a function whose arguments tell its rows, in one column."""
    return isinstance(table.this, exp.Anonymous) and table.this.name.lower() in _SERIES


def read_unnest(item: exp.Expr) -> exp.Unnest | None:
    """Return the UNNEST that a relation is; None for another one."""
    unnest = item.this if isinstance(item, exp.Lateral) else item
    return unnest if isinstance(unnest, exp.Unnest) else None


def name_unnested(item: exp.Expr) -> tuple[str, ...]:
    """Return the names of the columns of UNNEST: those that are listed, or the alias.

    Raises:
        RewritingError: there are several lists, and no names for each.
    """
    unnest = read_unnest(item)
    assert unnest is not None  # noqa: S101 - it is one
    alias, offset = item.args.get("alias"), unnest.args.get("offset")
    listed = [one.name for one in alias.columns] if alias is not None else []
    count = len(unnest.expressions)
    if isinstance(offset, exp.Identifier):
        listed = [*[*listed, item.alias][:count], offset.name]
    elif not listed and count == 1:
        listed = [item.alias or "unnest"]
    if offset and len(listed) == count:
        listed.append("ordinality")
    if len(listed) != count + bool(offset):
        msg = f"UNNEST of {count} lists needs a name for each column, as in AS u (a, b)"
        raise RewritingError(msg)
    return tuple(listed)


def has_aggregates(select: exp.Select) -> bool:
    """Return whether a SELECT has one row for each group, or one for all rows."""
    if select.args.get("group") or select.args.get("having"):
        return True
    keys = [
        *select.expressions,
        *(select.args[name] for name in ("order", "qualify") if select.args.get(name)),
    ]
    if any(is_aggregate(one) for key in keys for one in without_subqueries(key)):
        return True
    # An aggregate in a subquery that reads only columns of this SELECT is one of this SELECT.
    scope = select.meta.get(SCOPE)
    return any(
        is_aggregate(one)
        and (columns := [*whole_call(one).find_all(exp.Column)])
        and all(column.meta.get(SCOPE) == scope for column in columns)
        for key in keys
        for one in key.find_all(exp.Anonymous)
    )


def free_columns(query: exp.Expr) -> list[exp.Column]:
    """Return the columns in a query that relations around it have."""
    found: list[exp.Column] = []

    def visit(node: exp.Expr, scopes: frozenset[int]) -> None:
        if isinstance(node, exp.Select):
            scopes |= {node.meta.get(SCOPE, 0)}
        if isinstance(node, exp.Column) and node.meta.get(SCOPE) not in scopes | {OUTPUT, None}:
            found.append(node)
        for child in node.iter_expressions():
            visit(child, scopes)

    visit(query, frozenset())
    return found


def key_of(node: exp.Expr) -> str:
    """Return a text that equal expressions have in common, however their columns are written."""
    node = node.copy()
    for column in list(node.find_all(exp.Column)):
        owner = column.meta.get(OWNER)
        if owner is not None:
            column.set("table", exp.Identifier(this=f"{column.meta[SCOPE]}.{owner}", quoted=True))
    return write_sql(node)


def name_of(item: exp.Expr) -> str:
    """Return the name of an output; "" if it has none of its own."""
    return str(item.alias_or_name) if isinstance(item, exp.Alias | exp.Column) else ""


def shown(node: exp.Expr) -> str:
    """Return the name of an output that has none, as DataFusion would call it."""
    if isinstance(node, exp.Exists):
        return "EXISTS"
    if isinstance(node, exp.Subquery):
        first = node.this
        while isinstance(first, exp.Subquery | exp.SetOperation):
            first = first.this
        if isinstance(first, exp.Select) and first.expressions:
            return name_of(first.expressions[0]) or shown(first.expressions[0])
    node = node.copy()
    for name in node.find_all(exp.Identifier):
        name.args["quoted"] = False
    for function in node.find_all(exp.Anonymous):
        function.set("this", function.name.lower())
    return write_sql(node)


def replace(node: exp.Expr, new: exp.Expr) -> exp.Expr:
    """Put an expression in the place of another one, in brackets if it is an operation."""
    if isinstance(new, exp.Binary | exp.Not | exp.Is) and isinstance(
        node.parent, exp.Binary | exp.Unary | exp.Is
    ):
        new = exp.Paren(this=new)
    node.replace(new)
    return new
