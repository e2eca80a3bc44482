"""A query for each of many values of the columns around it, which become columns of its rows.

    SELECT x FROM u WHERE u.b < t.v ORDER BY x LIMIT 2    for the values SELECT DISTINCT t.v AS "key#1" FROM t
->  SELECT x, "key#1" FROM (
        SELECT x, "key#1", row_number() OVER (PARTITION BY "key#1" ORDER BY x) AS "rank#3" FROM (
            SELECT x, "rows#2"."key#1" FROM (SELECT DISTINCT t.v AS "key#1" FROM t) AS "rows#2" CROSS JOIN u
            WHERE u.b < "rows#2"."key#1"
        )
    ) WHERE "rank#3" <= 2

Totals have a row where there are no rows: the values are joined with them once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.subqueries.totals import SETS, divide_totals, name_outputs
from lance_gateway.planner.sql.subqueries.trees import (
    COUNTS,
    OUTPUT,
    OWNER,
    SCOPE,
    Fresh,
    aliased,
    all_of,
    bare,
    call,
    column_of,
    derived,
    has_aggregates,
    key_of,
    number_of,
    same,
)
from lance_gateway.planner.sql.tree.queries import without_subqueries


@dataclass(frozen=True)
class Domain:
    """Values of the columns that a query reads of those around it.

    Attributes:
        query: gives each combination of values once.
        keys: names of its outputs.
        columns: columns around it, in the order of the keys.
    """

    query: exp.Select
    keys: tuple[str, ...]
    columns: tuple[exp.Column, ...]

    def key_for(self, column: exp.Column) -> str | None:
        """Return the key that has the values of a column; None if there is none."""
        place = (column.meta.get(SCOPE), column.meta.get(OWNER), column.name)
        for key, one in zip(self.keys, self.columns, strict=True):
            if place == (one.meta[SCOPE], one.meta[OWNER], one.name):
                return key
        return None

    def match(self, relation: str, scope: int) -> list[exp.Expr]:
        """Return the conditions that join a relation that has the keys with the columns around it."""
        pairs = zip(self.keys, self.columns, strict=True)
        return [same(column_of(relation, key, scope), column.copy()) for key, column in pairs]


class Extension:
    """Extends queries by the keys of a domain, which become their last outputs.

    Args:
        fresh: gives names.
        domain: the values.
    """

    def __init__(self, fresh: Fresh, domain: Domain) -> None:
        self._fresh, self._domain = fresh, domain

    def extend(self, query: exp.Query, *, breaks_ties: bool = False) -> exp.Query:
        """Return a query, which is changed, with the keys; all of its outputs have names.

        Args:
            query: without the values of the columns around it.
            breaks_ties: whether LIMIT takes the same rows whenever it is run.

        Raises:
            RewritingError: it has clauses that can't be extended.
        """
        query = bare(query)
        if query.args.get("with_"):
            _inline_commons(query)
        is_limited = any(query.args.get(key) for key in ("limit", "offset"))
        if not is_limited:
            query.set("order", None)
        elif query.args.get("limit") and not isinstance(query.args["limit"], exp.Limit):
            query.set("limit", _as_limit(query.args["limit"]))
        if isinstance(query, exp.Select):
            name_outputs(query, self._fresh)
            return self._limited(query, breaks_ties=breaks_ties) if is_limited else self._select(query)
        if isinstance(query, exp.SetOperation):
            if query.args.get("by_name"):
                msg = "UNION BY NAME is not joined"
                raise RewritingError(msg)
            if is_limited:
                return self._limited(query, breaks_ties=breaks_ties)
            self._extend_sides(query)
            return query
        msg = f"{type(query).__name__} is not joined"
        raise RewritingError(msg)

    def _extend_sides(self, query: exp.SetOperation) -> None:
        for side in ("this", "expression"):
            extended = self.extend(query.args[side])
            if extended.args.get("with_") or isinstance(extended, exp.SetOperation):
                names = output_names(extended)
                alias, scope = self._fresh.name("rows"), self._fresh.number()
                extended = select_from(
                    [column_of(alias, name, scope) for name in names], derived(extended, alias), scope
                )
            query.set(side, extended)

    # One SELECT

    def _select(self, select: exp.Select) -> exp.Query:
        if isinstance(select.args.get("distinct"), exp.Distinct) and select.args["distinct"].args.get("on"):
            msg = "DISTINCT ON is not joined"
            raise RewritingError(msg)
        if has_aggregates(select):
            group = select.args.get("group")
            if group is None:
                return self._totals(select)
            if group.args.get("all") or any(isinstance(one, SETS) for one in group.expressions):
                msg = "ROLLUP, CUBE and GROUPING SETS are not joined"
                raise RewritingError(msg)
        alias = self._bring_in(select)
        keys = self._keys(alias, select.meta[SCOPE])
        group = select.args.get("group")
        if group is not None:
            group.set("expressions", [*group.expressions, *keys])
        self._divide_windows(select, keys)
        select.set("expressions", [*select.expressions, *self._keys(alias, select.meta[SCOPE])])
        return select

    def _totals(self, select: exp.Select) -> exp.Query:
        """Extend totals, which have a row for each of the values."""
        totals = divide_totals(select, self._fresh, COUNTS)
        inner, outer, relation = totals.inner, totals.outer, totals.relation
        scope = outer.meta[SCOPE]
        alias = self._bring_in(inner)
        keys = self._keys(alias, inner.meta[SCOPE])
        inner.set("group", exp.Group(expressions=keys))
        inner.set("expressions", [*inner.expressions, *self._keys(alias, inner.meta[SCOPE])])
        values = self._fresh.name("rows")
        self._replace_columns(outer, self._keys(values, scope))
        for column in [one for one in outer.find_all(exp.Column) if one.meta.get(OWNER) == relation]:
            if column.name in totals.counts:
                column.replace(call("coalesce", column.copy(), number_of(0)))
        pairs = zip(self._keys(relation, scope), self._keys(values, scope), strict=True)
        join = exp.Join(this=derived(inner, relation), side="LEFT", on=all_of(same(*pair) for pair in pairs))
        outer.set("from_", exp.From(this=derived(self._domain.query.copy(), values)))
        outer.set("joins", [join])
        self._divide_windows(outer, self._keys(values, scope))
        outer.set("expressions", [*outer.expressions, *self._keys(values, scope)])
        return outer

    def _bring_in(self, select: exp.Select) -> str:
        """Join the values with the relations of a SELECT; return the name that they have there."""
        scope = select.meta[SCOPE]
        alias = self._fresh.name("rows")
        source: exp.From | None = select.args.get("from_")
        joins = list(select.args.get("joins") or ())
        self._mark_laterals(select)
        first: exp.Expr | None = None if source is None else source.this
        if any(join.side in {"RIGHT", "FULL"} for join in joins):
            assert source is not None  # noqa: S101 - there are joins
            if any(self._reads(one) for one in (source, *joins)):
                return self._bring_in_twice(select)
            scoped = source.this.copy()
            scoped.set("joins", [join.copy() for join in joins])
            first = exp.Subquery(this=scoped)
            joins = []
        self._replace_columns(select, self._keys(alias, scope))
        joins = joins and list(select.args.get("joins") or ())
        joins = [as_cross_join(join) for join in joins]
        values = derived(self._domain.query.copy(), alias)
        select.set("from_", exp.From(this=values))
        if first is not None:
            joins.insert(0, exp.Join(this=first, kind="CROSS"))
        select.set("joins", joins or None)
        return alias

    def _bring_in_twice(self, select: exp.Select) -> str:
        """Join the values with both sides of outer joins, which have rows that only one of them has.

            FROM a FULL JOIN b ON a.id = b.id AND b.y = o.k
        ->  FROM values AS v CROSS JOIN a FULL JOIN (values AS w CROSS JOIN b)
            ON v.k IS NOT DISTINCT FROM w.k AND a.id = b.id AND b.y = v.k
            JOIN values AS x ON x.k IS NOT DISTINCT FROM coalesce(v.k, w.k)
        """
        scope = select.meta[SCOPE]
        first, last = self._fresh.name("rows"), self._fresh.name("rows")
        keys = self._keys(first, scope)
        relations = [exp.Join(this=select.args["from_"].this, kind="CROSS")]
        for join in map(as_cross_join, select.args["joins"]):
            relations.append(join)
            if join.side in {"RIGHT", "FULL"}:
                keys = self._bring_into_side(join, keys, scope)
            else:
                self._replace_columns(join, keys)
        pairs = zip(self._keys(last, scope), keys, strict=True)
        values = derived(self._domain.query.copy(), last)
        relations.append(exp.Join(this=values, kind="INNER", on=all_of(same(*pair) for pair in pairs)))
        self._replace_columns(relations[0], self._keys(first, scope))
        # The values read columns that are replaced in the rest of the query.
        for clause in ("from_", "joins"):
            select.set(clause, None)
        self._replace_columns(select, self._keys(last, scope))
        select.set("from_", exp.From(this=derived(self._domain.query.copy(), first)))
        select.set("joins", relations)
        return last

    def _bring_into_side(self, join: exp.Join, keys: list[exp.Expr], scope: int) -> list[exp.Expr]:
        """Join the values with the right side of an outer join; return the keys of its rows.

        Args:
            join: RIGHT or FULL, which is changed.
            keys: of the rows of its left side.
            scope: of the SELECT.
        """
        item, on = join.this, join.args.get("on")
        if on is None:
            msg = "a RIGHT or FULL JOIN with USING that reads columns of the query around it is not joined"
            raise RewritingError(msg)
        if isinstance(item, exp.Lateral):
            alias = item.alias
            query = Extension(self._fresh, self._domain).extend(item.this.this)
            join.set("this", exp.Subquery(this=query, alias=item.args.get("alias")))
        else:
            alias = self._fresh.name("rows")
            values = derived(self._domain.query.copy(), alias)
            values.set("joins", [exp.Join(this=item.copy(), kind="CROSS")])
            join.set("this", exp.Subquery(this=values))
        own = self._keys(alias, scope)
        self._replace_columns(on, keys)
        pairs = (same(*pair) for pair in zip(keys, own, strict=True))
        join.set("on", all_of([*pairs, join.args["on"]]))
        return [call("coalesce", left.copy(), right.copy()) for left, right in zip(keys, own, strict=True)]

    def _reads(self, node: exp.Expr) -> bool:
        return any(self._domain.key_for(column) for column in node.find_all(exp.Column))

    def _mark_laterals(self, select: exp.Select) -> None:
        """Let relations that read the columns around read the values beside them."""
        source = select.args.get("from_")
        for holder in [*([source] if source is not None else []), *(select.args.get("joins") or ())]:
            item = holder.this
            if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Query) and self._reads(item.this):
                holder.set(
                    "this", exp.Lateral(this=exp.Subquery(this=item.this), alias=item.args.get("alias"))
                )
            elif isinstance(item, exp.Subquery | exp.Table | exp.Unnest | exp.Values) and self._reads(item):
                if isinstance(item, exp.Unnest):
                    continue
                msg = "joins in brackets, VALUES and functions that read columns around them are not joined"
                raise RewritingError(msg)

    def _replace_columns(self, node: exp.Expr, keys: Sequence[exp.Expr]) -> None:
        for column in list(node.find_all(exp.Column)):
            key = self._domain.key_for(column)
            if key is not None:
                column.replace(keys[self._domain.keys.index(key)].copy())

    def _keys(self, alias: str, scope: int) -> list[exp.Expr]:
        return [column_of(alias, key, scope) for key in self._domain.keys]

    def _divide_windows(self, select: exp.Select, keys: Sequence[exp.Expr]) -> None:
        """Let windows end where other values begin."""
        for clause in ("expressions", "qualify", "order", "windows"):
            found = select.args.get(clause) or []
            for node in found if isinstance(found, list) else [found]:
                for window in [one for one in without_subqueries(node) if isinstance(one, exp.Window)]:
                    if clause == "windows" or not window.args.get("alias"):
                        old = window.args.get("partition_by") or []
                        window.set("partition_by", [*(key.copy() for key in keys), *old])

    # LIMIT

    def _limited(self, query: exp.Query, *, breaks_ties: bool) -> exp.Query:
        """Extend a query, and number its rows for each of the values."""
        order, limit, offset = (query.args.get(key) for key in ("order", "limit", "offset"))
        for key in ("order", "limit", "offset"):
            query.set(key, None)
        names = output_names(query)
        sorting = self._sort_by_outputs(query, names, order.expressions if order is not None else [])
        if isinstance(query, exp.Select):
            extended: exp.Query = self._select(query)
        else:
            assert isinstance(query, exp.SetOperation)  # noqa: S101 - as `extend` has found
            self._extend_sides(query)
            extended = query
        inner, middle, scope, outer_scope = (
            self._fresh.name("rows"),
            self._fresh.name("rows"),
            *self._scopes(),
        )
        rank = self._fresh.name("rank")
        if breaks_ties:
            sorting += [
                exp.Ordered(this=exp.Column(this=exp.Identifier(this=name, quoted=True))) for name in names
            ]
        for one in sorting:
            one.set("this", column_of(inner, one.this.name, scope))
        window = exp.Window(
            this=call("row_number"),
            partition_by=self._keys(inner, scope),
            order=exp.Order(expressions=sorting) if sorting else None,
        )
        kept = [column_of(inner, name, scope) for name in (*names, *self._domain.keys)]
        ranked = select_from([*kept, aliased(window, rank)], derived(extended, inner), scope)
        conditions: list[exp.Expr] = []
        number = column_of(middle, rank, outer_scope)
        first = _count(offset)
        if first is not None:
            conditions.append(exp.GT(this=number.copy(), expression=first))
        last = _count(limit)
        if last is not None:
            bound = last if first is None else exp.Add(this=last, expression=first.copy())
            conditions.append(exp.LTE(this=number.copy(), expression=bound))
        outputs = [column_of(middle, name, outer_scope) for name in (*names, *self._domain.keys)]
        found = select_from(outputs, derived(ranked, middle), outer_scope)
        found.set("where", exp.Where(this=all_of(conditions)))
        return found

    def _scopes(self) -> tuple[int, int]:
        return self._fresh.number(), self._fresh.number()

    def _sort_by_outputs(
        self, query: exp.Query, names: list[str], order: Sequence[exp.Ordered]
    ) -> list[exp.Ordered]:
        """Return the keys of an order as outputs of the query, which gets those that it does not have."""
        sorting: list[exp.Ordered] = []
        for ordered in order:
            key = ordered.this
            if isinstance(key, exp.Literal) and not key.is_string:
                if not (key.this.isdecimal() and 0 < int(key.this) <= len(names)):
                    msg = f"ORDER BY {key.this} names none of the outputs"
                    raise RewritingError(msg)
                name = names[int(key.this) - 1]
            elif isinstance(key, exp.Column) and key.meta.get(SCOPE) == OUTPUT:
                name = key.name
            elif isinstance(query, exp.Select):
                name = self._add_output(query, key)
            else:
                msg = "the order of a set operation is not one of its outputs"
                raise RewritingError(msg)
            copy = ordered.copy()
            copy.set("this", exp.Column(this=exp.Identifier(this=name, quoted=True)))
            sorting.append(copy)
        return sorting

    def _add_output(self, select: exp.Select, key: exp.Expr) -> str:
        text = key_of(key)
        for item in select.expressions:
            if key_of(item.this if isinstance(item, exp.Alias) else item) == text:
                return str(item.alias_or_name)
        if select.args.get("distinct"):
            msg = "DISTINCT rows are sorted by what they do not have"
            raise RewritingError(msg)
        name = self._fresh.name("sort")
        select.set("expressions", [*select.expressions, aliased(key.copy(), name)])
        return name


def output_names(query: exp.Query) -> list[str]:
    """Return the names of the outputs of a query.

    Raises:
        RewritingError: there is a star among them.
    """
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    names = [str(item.alias_or_name) for item in query.expressions]
    if "*" in names:
        msg = "* in a subquery has columns that are not known"
        raise RewritingError(msg)
    return names


def as_cross_join(join: exp.Join) -> exp.Join:
    """Return a join in place of a comma, which binds weaker than JOIN."""
    is_comma = not (join.side or join.kind or join.method or join.args.get("on") or join.args.get("using"))
    if is_comma:
        join.set("kind", "CROSS")
    return join


def select_from(outputs: Sequence[exp.Expr], source: exp.Expr, scope: int) -> exp.Select:
    """Return a SELECT of a relation, with the number of its scope."""
    select = exp.Select(expressions=list(outputs), from_=exp.From(this=source))
    select.meta[SCOPE] = scope
    return select


def _count(clause: exp.Expr | None) -> exp.Expr | None:
    """Return the number of a LIMIT or OFFSET."""
    if clause is None:
        return None
    number = clause.expression
    if isinstance(number, exp.Paren):
        number = number.this
    if not isinstance(number, exp.Literal | exp.Parameter):
        msg = "LIMIT and OFFSET take a number in a subquery that is joined"
        raise RewritingError(msg)
    return number.copy()


def _as_limit(fetch: exp.Expr) -> exp.Limit:
    options = fetch.args.get("limit_options")
    if options is not None and any(options.args.values()):
        rows = {key for key, value in options.args.items() if value}
        if rows - {"rows"}:
            msg = "FETCH with PERCENT or WITH TIES is not joined"
            raise RewritingError(msg)
    return exp.Limit(expression=fetch.args.get("count") or number_of(1))


def _inline_commons(query: exp.Query) -> None:
    """Put the common table expressions of a query where they are read."""
    clause = query.args["with_"]
    if clause.args.get("recursive"):
        msg = "a recursive subquery is not joined"
        raise RewritingError(msg)
    query.set("with_", None)
    commons: dict[str, exp.CTE] = {}
    for common in clause.expressions:
        _inline_into(common.this, commons)
        commons[common.alias] = common
    _inline_into(query, commons)


def _inline_into(tree: exp.Expr, commons: dict[str, exp.CTE]) -> None:
    for table in [one for one in tree.find_all(exp.Table) if one.name in commons and not one.db]:
        common = commons[table.name]
        alias = table.args.get("alias")
        columns = (alias.columns if alias is not None else None) or common.args["alias"].columns
        relation = derived(common.this.copy(), table.alias_or_name, [one.name for one in columns])
        if table.args.get("joins"):
            relation.set("joins", table.args["joins"])
        table.replace(relation)
