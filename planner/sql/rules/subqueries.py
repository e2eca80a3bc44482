"""Memberships in subqueries, subqueries that are values, and names of the relations around them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.rules.values import hide_value
from lance_gateway.planner.sql.tree.dialect import parse_expression, write_sql
from lance_gateway.planner.sql.tree.groups import make_nullable
from lance_gateway.planner.sql.tree.queries import (
    Truth,
    bare,
    conjuncts,
    find_aggregates,
    find_truth,
    has_one_row,
    has_totals,
    is_value,
    sources,
    without_subqueries,
)
from lance_gateway.planner.sql.tree.tree import Tree, is_unstable, read_name

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_COUNTS: Final = "CASE WHEN count(*) = 0 THEN 0 WHEN count(*) = count(member) THEN 1 ELSE 2 END"
_MEMBERS: Final = 'AS "membership"(member)'


def quantified_comparisons(tree: Tree) -> None:
    """Write memberships and comparisons with rows in forms whose NULL DataFusion gets right.

        SELECT id FROM t AS o WHERE id = ANY (SELECT n FROM p)
    ->  SELECT id FROM t AS o WHERE id IN (SELECT n FROM p)
        SELECT id FROM t WHERE NOT i IN (SELECT n FROM p)
    ->  SELECT id FROM t WHERE NOT nullif(nullif(i, NULL), NULL) IN (SELECT n FROM p)
        SELECT id FROM t WHERE i IN (SELECT n FROM p) IS NULL
    ->  SELECT id FROM t WHERE CASE WHEN i IN (SELECT member FROM (SELECT n FROM p) AS "membership"(member))
        THEN TRUE ELSE CASE (
            SELECT CASE WHEN count(*) = 0 THEN 0 WHEN count(*) = count(member) THEN 1 ELSE 2 END
            FROM (SELECT n FROM p) AS "membership"(member)
        ) WHEN 0 THEN FALSE WHEN 1 THEN CASE WHEN NOT i IS NULL THEN FALSE END END END IS NULL
        SELECT id FROM t WHERE i IN (SELECT count(*) FROM p WHERE p.n = t.id)
    ->  SELECT id FROM t WHERE i = (SELECT count(*) FROM p WHERE p.n = t.id)
        SELECT id FROM t WHERE i >= ALL (SELECT i FROM t)
    ->  SELECT id FROM t WHERE i >= ALL (SELECT * FROM (SELECT i FROM t) AS "quantified#1")
        SELECT id FROM t WHERE 7 IN (SELECT n FROM p WHERE n = 7)
    ->  SELECT id FROM t WHERE CASE WHEN random() < 2 THEN 7 END IN (SELECT n FROM p WHERE n = 7)

    DataFusion plans membership as a join that gives true or false, never NULL, which is correct if only true
    matters. NOT IN as a conjunct is a null-aware anti join, but conditions on the column `i` are pushed into
    the subquery, where they drop NULL, and NULLs of the subquery are ignored if `i` is not nullable. A
    nullable expression in place of the column prevents both. In other positions, the join finds the members,
    and the value for other rows follows from whether the subquery has rows and NULLs. This reads the subquery
    twice, so it must be repeatable and not correlated. Otherwise, a comparison with ALL or ANY is correct,
    but slower, since it compares every pair of rows. A constant as a member becomes a condition of the
    subquery, which DataFusion combines wrongly with others there, unless its value may change. What totals
    have for no rows would be lost in a join: they are values.

    Comparisons are joins that keep names: if the subquery reads a relation with the name of an outer one,
    `t.i >= t.i` would compare a column with itself.

    Raises:
        UnsupportedError: a subquery that has one row or none is not compared.
    """
    for node in tree.find_all(exp.In, *_COMPARISONS)[::-1]:
        quantifier = node if isinstance(node, exp.In) else node.expression
        query = quantifier.args.get("query" if isinstance(node, exp.In) else "this")
        if not isinstance(quantifier, exp.In | exp.Any | exp.All) or not isinstance(query, exp.Query):
            continue
        if has_one_row(query):
            if bare(query).args.get("having"):
                msg = "HAVING without GROUP BY below IN, ANY and ALL is not supported: write x = (SELECT ..)"
                raise UnsupportedError(msg)
            kind = exp.EQ if isinstance(node, exp.In) else type(node)
            tree.replace(node, kind(this=node.this.copy(), expression=_in_brackets(query)))
            continue
        compared: exp.Expr | None = node
        if isinstance(node, exp.In):
            compared = _write_membership(tree, node)
        elif type(node) is (exp.NEQ if isinstance(quantifier, exp.All) else exp.EQ):
            member = exp.In(this=node.this.copy(), query=_in_brackets(query))
            tree.replace(node, member if isinstance(node, exp.EQ) else exp.Not(this=member))
            compared = _write_membership(tree, member)
        if compared is not None:
            _hide_names(tree, compared)


def _in_brackets(query: exp.Expr) -> exp.Expr:
    return query.copy() if isinstance(query, exp.Subquery) else exp.Subquery(this=query.copy())


def _write_membership(tree: Tree, member: exp.In) -> exp.Expr | None:
    """Write IN; return the comparison with ANY or ALL, if it becomes one."""
    subject, query, truth = member.this, member.args["query"], find_truth(member)
    if truth in {Truth.OUTPUT, Truth.CONJUNCT, Truth.TRUE}:
        if not subject.find(exp.Column, exp.Query):
            tree.replace(subject, hide_value(subject))
        return None
    whole, shown = bare(query), write_sql(subject)
    assert isinstance(whole, exp.Query)  # noqa: S101 - IN has one
    is_of_columns = (
        subject.find(exp.Column) and not subject.find(exp.Query, exp.Tuple) and not _has_null(tree, subject)
    )
    if is_of_columns and tree.is_closed(whole):
        if truth is Truth.DENIED_CONJUNCT:
            tree.replace(subject, make_nullable(make_nullable(subject)))
            return None
        if _is_repeatable(whole):
            relation = f"({write_sql(whole)}) {_MEMBERS}"
            hit = f"{shown} IN (SELECT member FROM {relation})"  # noqa: S608 - a part of a statement
            state = f"SELECT {_COUNTS} FROM {relation}"  # noqa: S608 - a part of a statement
            miss = f"CASE WHEN ({shown}) IS NOT NULL THEN FALSE END"
            case = (
                f"CASE WHEN {hit} THEN TRUE ELSE CASE ({state}) WHEN 0 THEN FALSE WHEN 1 THEN {miss} END END"
            )
            tree.replace(member, parse_expression(case))
            return None
    whole_member = member.parent if isinstance(member.parent, exp.Not) else member
    compared = (
        exp.NEQ(this=subject.copy(), expression=exp.All(this=whole.copy()))
        if whole_member is not member
        else exp.EQ(this=subject.copy(), expression=exp.Any(this=whole.copy()))
    )
    tree.replace(whole_member, exp.Paren(this=compared))
    return compared


def _has_null(tree: Tree, subject: exp.Expr) -> bool:
    """Return whether an operand is NULL, so that DataFusion may find that the whole is, and forget it."""
    constants = subject.find_all(exp.Null, exp.Parameter)
    return any(
        one.name in tree.nulls if isinstance(one, exp.Parameter) else not isinstance(one.parent, exp.Is)
        for one in constants
    )


def _is_repeatable(query: exp.Expr) -> bool:
    """Return whether a query is one SELECT that certainly gives the same rows whenever it is read."""
    is_alone = isinstance(query, exp.Select) and sum(1 for _ in query.find_all(exp.Query)) == 1
    choices = query.find(exp.Window, exp.Limit, exp.Offset, exp.Fetch)
    are_tables = all(isinstance(one.this, exp.Identifier) for one in query.find_all(exp.Table))
    return is_alone and are_tables and choices is None and not is_unstable(query)


def _hide_names(tree: Tree, comparison: exp.Expr) -> None:
    """Put a subquery that reads a relation with the name of an outer one into another one."""
    query = comparison.expression.this
    inside = {one.alias_or_name for one in query.find_all(exp.Table, exp.Subquery)}
    around: set[str] = set()
    select = comparison.parent_select
    while select is not None:
        around |= {one.alias_or_name for one in sources(select)} if isinstance(select, exp.Select) else set()
        select = select.parent_select
    if inside & around - {""}:
        taken = sum(1 for one in tree.find_all(exp.Subquery) if one.alias.startswith("quantified#"))
        relation = exp.Subquery(
            this=bare(query).copy(), alias=exp.to_identifier(f"quantified#{taken + 1}", quoted=True)
        )
        tree.replace(query, exp.select("*").from_(relation))


_SIMPLIFIED: Final = frozenset({"count", "coalesce", "nvl", "ifnull"})
"""Functions of expressions that may become simpler ones without aggregates, and may never be NULL."""


def scalar_subqueries(tree: Tree) -> None:
    """Write subqueries that are values, and EXISTS of totals, in forms whose NULL DataFusion gets right.

        SELECT id FROM t WHERE (SELECT 5 FROM p WHERE n = 7) IS NULL
    ->  SELECT id FROM t WHERE nullif((SELECT 5 FROM p WHERE n = 7), NULL) IS NULL
        SELECT (SELECT 5 + 0 * count(*) FROM p WHERE p.n = t.id) FROM t
    ->  SELECT nullif((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE 5 + 0 * count(*) END FROM p ..), NULL)
        FROM t
        SELECT coalesce((SELECT count(*) FROM p HAVING count(*) > 9), 0)
    ->  SELECT coalesce(nullif((SELECT CASE WHEN count(*) < 0 THEN NULL WHEN count(*) > 9 THEN count(*) END
        FROM p HAVING count(*) >= 0 OR (count(*) > 9)), NULL), 0)
        SELECT id FROM t WHERE EXISTS(SELECT 1 FROM p WHERE p.n = t.id HAVING count(*) = 0)
    ->  SELECT id FROM t WHERE coalesce(
            (SELECT CASE WHEN count(*) < 0 THEN NULL ELSE count(*) = 0 END FROM p WHERE p.n = t.id), FALSE)

    DataFusion takes a subquery for never NULL if its column is never NULL, though there may be no row. What
    nullif() gives is nullable.

    DataFusion joins correlated subqueries, and computes what they give for no rows from the aggregates in it.
    Those that simplifying leaves out, as in `0 * count(*)`, give NULL then. count() without the row around it
    is taken to be never NULL, though HAVING or LIMIT may leave no row. HAVING that is true of no rows is
    forgotten: it becomes part of the column.
    """
    for node in tree.find_all(exp.Exists, exp.Subquery)[::-1]:
        if isinstance(node, exp.Exists) and has_one_row(node.this):
            select = bare(node.this)
            having = select.args.get("having")
            wanted = write_sql(having.this) if having else "TRUE"
            select.set("having", None)
            case = parse_expression(f"CASE WHEN count(*) < 0 THEN NULL ELSE ({wanted}) END")
            select.set("expressions", [case])
            tree.replace(node, parse_expression(f"coalesce(({write_sql(select)}), FALSE)"))
        elif is_value(node):
            select = bare(node)
            item, is_nullable = _find_only_output(select), False
            if isinstance(select, exp.Select) and item is not None:
                is_nullable = not select.args.get("group") and _is_nullable(item)
                _keep_row(tree, select, item)
            if not is_nullable:
                tree.replace(node, make_nullable(node))


def _find_only_output(query: exp.Expr) -> exp.Expr | None:
    """Return the only output of a SELECT from a relation, without its name."""
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or not query.args.get("from_"):
        return None
    (item,) = query.expressions
    return None if query.args.get("distinct") or item.is_star else item.unalias()


def _is_nullable(item: exp.Expr) -> bool:
    """Return whether DataFusion knows that an output may be NULL."""
    if item.find(exp.Is, exp.Case, exp.Exists, exp.NullSafeEQ, exp.NullSafeNEQ) or _is_simplified(item):
        return False
    return bool(find_aggregates(item))


def _is_simplified(item: exp.Expr) -> bool:
    return any(one.name.lower() in _SIMPLIFIED for one in item.find_all(exp.Anonymous))


def _keep_row(tree: Tree, select: exp.Select, item: exp.Expr) -> None:
    """Let an output of totals depend on the row that they have."""
    having, shown = select.args.get("having"), write_sql(item)
    calls = find_aggregates(item)
    if having is not None and has_one_row(select):
        condition = write_sql(having.this)
        text = f"CASE WHEN count(*) < 0 THEN NULL WHEN ({condition}) THEN ({shown}) END"
        having.set("this", parse_expression(f"count(*) >= 0 OR ({condition})"))
    elif calls == [item]:
        call = item.this if isinstance(item, exp.Filter) else item
        may_go = any(select.args.get(clause) for clause in ("having", "limit", "offset"))
        if call.name.lower() != "count" or not may_go:
            return
        text = f"CASE WHEN count(*) < 0 THEN NULL ELSE ({shown}) END"
    elif calls and (_is_simplified(item) or item.find(exp.Case)):
        text = f"CASE WHEN count(*) < 0 THEN NULL ELSE ({shown}) END"
    else:
        return
    order = select.args.get("order")
    for key in order.expressions if order is not None else ():
        if isinstance(key.this, exp.Literal) and key.name == "1":
            key.set("this", item.copy())  # what the output was is sorted by
    tree.replace(item, parse_expression(text))


_ALL_ROWS: Final = 2**63 - 1


def conditions_above_totals(tree: Tree) -> None:
    """Keep conditions above totals, whose row is there even if nothing is below.

        SELECT n FROM (SELECT count(*) AS n FROM t) AS s WHERE n = 1 AND n = 2
    ->  SELECT n FROM (SELECT count(*) AS n FROM t LIMIT 1) AS s WHERE n = 1 AND n = 2
        SELECT max(i) FROM t HAVING (SELECT max(id) FROM p) < 0
    ->  SELECT * EXCLUDE ("having#") FROM (
            SELECT max(i), (SELECT max(id) FROM p) < 0 AS "having#" FROM t LIMIT 1
        ) AS "totals#" WHERE "having#"

    DataFusion 55 moves a condition that reads no columns, as a contradiction does once it is simplified,
    below the aggregate, where it takes away what is counted instead of the row. It moves none below LIMIT.
    """
    has_conditions = tree.find_all(exp.Where, exp.Having) or any(
        join.args.get("on") for join in tree.find_all(exp.Join)
    )
    for select in tree.find_all(exp.Select)[::-1] if has_conditions else ():
        sets = has_totals(select)
        if not (sets or _is_whole(select)):
            continue
        is_uncorrelated, having = _is_uncorrelated(select), select.args.get("having")
        limit = exp.Limit(expression=exp.Literal.number(_ALL_ROWS if sets else 1))
        if having is not None and is_uncorrelated and not (sets and select.args.get("order")):
            tree.replace(select, _write_having_as_output(select, limit))
            continue
        is_limited = any(select.args.get(clause) for clause in ("limit", "offset"))
        if not is_limited and _is_relation(select) and (is_uncorrelated or tree.is_closed(select)):
            limited = select.copy()
            limited.set("limit", limit)
            is_side = isinstance(select.parent, exp.SetOperation)
            tree.replace(select, exp.Subquery(this=limited) if is_side else limited)


def _write_having_as_output(select: exp.Select, limit: exp.Limit) -> exp.Select:
    """Return a SELECT of what a SELECT with HAVING gives, where its condition is an output.

    Memberships stay where they are: they become joins.
    """
    whole = select.copy()
    aliases = {read_name(one.args["alias"]): one.this for one in whole.selects if isinstance(one, exp.Alias)}
    for node in list(without_subqueries(whole.args["having"])):
        if isinstance(node, exp.Column) and not node.table and (meant := aliases.get(read_name(node.this))):
            node.replace(exp.paren(meant.copy()))
    parts = conjuncts(whole.args["having"].this)
    members = [one for one in parts if any(map(_is_membership, without_subqueries(one)))]
    outer = exp.Select(**{key: whole.args.get(key) for key in ("with_", "limit", "offset")})
    for key in ("having", "order", "with_", "offset"):
        whole.set(key, None)
    if members:
        whole.set("having", exp.Having(this=exp.and_(*members)))
    whole.set("limit", limit)
    others = [one for one in parts if one not in members] or [exp.true()]
    whole.append("expressions", exp.alias_(exp.and_(*others), "having#", quoted=True))
    shown = exp.Star(except_=[exp.to_identifier("having#", quoted=True)])
    return outer.select(shown).from_(whole.subquery("totals#")).where(exp.column("having#", quoted=True))


def _is_membership(node: exp.Expr) -> bool:
    is_in = isinstance(node, exp.In) and node.args.get("query") is not None
    return is_in or isinstance(node, exp.Exists | exp.Any | exp.All)


def _is_whole(select: exp.Select) -> bool:
    """Return whether all rows of a SELECT are one group."""
    if select.args.get("group"):
        return False
    return bool(select.args.get("having") or any(map(find_aggregates, select.expressions)))


def _is_relation(select: exp.Select) -> bool:
    """Return whether a SELECT, or a set operation of which it is a side, is a relation that is read."""
    node: exp.Expr = select
    while isinstance(node.parent, exp.SetOperation | exp.Subquery):
        node = node.parent
    return isinstance(node.parent, exp.From | exp.Join | exp.CTE)


def _is_uncorrelated(select: exp.Select) -> bool:
    """Return whether a query can't read columns of others: it is a relation, as are all around it."""
    node: exp.Expr = select
    while node.parent is not None:
        if isinstance(node, exp.Query) and not isinstance(
            node.parent, exp.From | exp.Join | exp.CTE | exp.With | exp.Query
        ):
            return False
        if isinstance(node.parent, exp.Lateral):
            return False
        node = node.parent
    return True


QUALIFIER: Final = '"#"'
"""The schema that such names get."""


def _has_field(kind: pa.DataType, column: exp.Column) -> bool:
    """Return whether a value has a field that is called as a column; a map has those of no relation."""
    if not pa.types.is_map(kind):
        return bool(pa.types.is_struct(kind) and kind.get_field_index(column.name) >= 0)
    select = column.parent_select
    while select is not None and column.table not in {one.alias_or_name for one in sources(select)}:
        select = select.parent_select
    return select is None


def outer_qualifiers(tree: Tree) -> None:
    """Give names of columns of relations around a subquery a schema.

        SELECT s FROM c WHERE EXISTS (SELECT 1 FROM o WHERE o.c = c.id)
    ->  SELECT s FROM c WHERE EXISTS (SELECT 1 FROM o WHERE o.c = "#".c.id)

    DataFusion takes `c.id` for a field of the column `o.c` before it looks at the relations around the
    subquery. A name of three parts is no such field. Its schema is not compared with that of an alias, which
    has none, and results are not called after it. What is a field of that column stays one, but for keys
    of a map.
    """
    if len(tree.find_all(exp.Select)) < 2:
        return
    columns = tree.find_all(exp.Column)
    names = {column.name.casefold() for column in columns} | {one.name.casefold() for one in tree.columns}
    for column in columns:
        if column.table.casefold() not in names or column.args.get("db"):
            continue
        select = column.parent_select
        while isinstance(select, exp.Select):
            relations = sources(select)
            if column.table in {one.alias_or_name for one in relations}:
                break
            found = (one for relation in relations for one in tree.find_columns(relation))
            if any(one.name == column.table and not _has_field(one.type, column) for one in found):
                column.set("db", exp.to_identifier("#", quoted=True))
                tree.note_change()
                break
            select = select.parent_select
