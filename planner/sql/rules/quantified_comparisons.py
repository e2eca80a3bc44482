"""Memberships in subqueries, and comparisons with ANY and ALL of their rows."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from memwal.errors import UnsupportedError
from planner.sql.rules.dialect import parse_expression, write_sql
from planner.sql.rules.queries import QUANTIFIED, Truth, bare, find_truth, has_one_row, sources
from planner.sql.rules.tree import Tree, for_texts, is_unstable

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_COUNTS: Final = "CASE WHEN count(*) = 0 THEN 0 WHEN count(*) = count(member) THEN 1 ELSE 2 END"
_MEMBERS: Final = 'AS "membership"(member)'


@for_texts(QUANTIFIED)
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
    for node in list(tree.root.find_all(exp.In, *_COMPARISONS))[::-1]:
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
            tree.replace(subject, parse_expression(f"CASE WHEN random() < 2 THEN {write_sql(subject)} END"))
        return None
    whole, shown = bare(query), write_sql(subject)
    assert isinstance(whole, exp.Query)  # noqa: S101 - IN has one
    is_of_columns = subject.find(exp.Column) and not subject.find(exp.Query, exp.Tuple)
    if is_of_columns and tree.is_closed(whole):
        if truth is Truth.DENIED_CONJUNCT:
            tree.replace(subject, parse_expression(f"nullif(nullif({shown}, NULL), NULL)"))
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
        taken = sum(1 for one in tree.root.find_all(exp.Subquery) if one.alias.startswith("quantified#"))
        relation = exp.Subquery(
            this=bare(query).copy(), alias=exp.to_identifier(f"quantified#{taken + 1}", quoted=True)
        )
        tree.replace(query, exp.select("*").from_(relation))
