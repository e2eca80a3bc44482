"""Right joins, constants in the sides of outer joins, and what is unique in the groups of joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.rules.values import find_name, hide_value, select_from
from lance_gateway.planner.sql.tree.queries import conjuncts, equates_columns, has_totals, sources
from lance_gateway.planner.sql.tree.tree import Tree, read_name

_ONE_SIDED: Final = frozenset({"SEMI", "ANTI"})
"""Joins that have no columns of the other side."""
_OUTER: Final = frozenset({"LEFT", "FULL"})
_UNIQUE: Final = (exp.Group, exp.Distinct, exp.Window)


def right_joins(tree: Tree) -> None:
    """Exchange the sides of right joins.

        SELECT * FROM x RIGHT JOIN y ON x.a = y.a WHERE x.c IS NULL
    ->  SELECT x.*, y.* FROM y LEFT JOIN x ON x.a = y.a WHERE x.c IS NULL

    Physical plans of DataFusion 55 know columns by name alone. A condition above a RIGHT join goes down to
    the right side, as a condition on a namesake of its column, if there is a filter or a union that takes it.
    FULL joins stay what they are, since an optimiser's rule that makes RIGHT joins of them is left out.
    """
    while join := next(filter(_is_right, tree.find_all(exp.Join)), None):
        select = join.parent_select
        if select is not None:
            _name_stars(tree, select)
        around = join.parent
        assert around is not None  # noqa: S101 - a join is part of a query, or of a relation in brackets
        joins: list[exp.Join] = around.args["joins"]
        at = joins.index(join)
        # A comma divides joins: the left side begins behind the last one.
        begin = next((place for place in range(at)[::-1] if _is_comma(joins[place])), -1)
        first = joins[begin].this if begin >= 0 else _find_first(around)
        left = first.copy()
        left.set("joins", [one.copy() for one in joins[begin + 1 : at]])
        chain = left if at == begin + 1 else exp.Subquery(this=left)
        right, kept = join.this.copy(), [*joins[: begin + 1], *joins[at:]]
        join.set("side", "LEFT")
        join.set("this", chain)
        if first is around:
            right.set("joins", kept)
            tree.replace(around, right)
        else:
            first.replace(right)
            around.set("joins", kept)
        tree.note_change()


def _find_first(around: exp.Expr) -> exp.Expr:
    """Return the first relation of a SELECT, or of joins in brackets."""
    return around.args["from_"].this if isinstance(around, exp.Select) else around


def _is_right(join: exp.Join) -> bool:
    return join.side == "RIGHT" and join.kind not in _ONE_SIDED


def _is_comma(join: exp.Join) -> bool:
    return not (join.side or join.kind or join.method or join.args.get("on") or join.args.get("using"))


def _name_stars(tree: Tree, select: exp.Select) -> None:
    """Write the columns of each relation for `*`, whose order is that of the relations."""
    written: list[exp.Expr] = []
    for output in select.expressions:
        if not isinstance(output, exp.Star):
            written.append(output)
            continue
        for place, (relation, merged) in enumerate(_list_relations(select)):
            if not relation.alias_or_name:
                name = exp.to_identifier(f"side#{place}", quoted=True)
                relation.set("alias", exp.TableAlias(this=name))
            written.append(_name_star(tree, output, relation, merged))
    select.set("expressions", written)


def _name_star(tree: Tree, star: exp.Star, relation: exp.Expr, merged: Sequence[exp.Expr]) -> exp.Column:
    """Return the columns that `*` has of a relation, without those of USING, which are before."""
    left_out, replaced = star.args.get("except_") or [], star.args.get("replace") or []
    own = [one.name for one in tree.find_columns(relation)] if left_out or replaced else []
    left_out = [*merged, *(one for one in left_out if read_name(one) in own)]
    names = {read_name(one) for one in left_out}
    replaced = [one for one in replaced if read_name(one.args["alias"]) in set(own) - names]
    copied = exp.Star(
        except_=[one.copy() for one in left_out] or None, replace=[one.copy() for one in replaced] or None
    )
    return exp.Column(this=copied, table=find_name(relation).copy())


def _list_relations(around: exp.Expr) -> Iterator[tuple[exp.Expr, Sequence[exp.Expr]]]:
    """Yield the relations whose columns a SELECT, or a relation with joins, has, and the names of USING."""
    found: list[tuple[exp.Expr, Sequence[exp.Expr]]] = [(_find_first(around), ())]
    for join in around.args.get("joins") or ():
        if join.kind not in _ONE_SIDED:
            found.append((join.this, join.args.get("using") or ()))
        elif join.side == "RIGHT":
            found = [(join.this, ())]
    for relation, names in found:
        yield from [(relation, names)] if relation is around else _open_brackets(relation, names)


def _open_brackets(
    relation: exp.Expr, names: Sequence[exp.Expr] = ()
) -> Iterator[tuple[exp.Expr, Sequence[exp.Expr]]]:
    is_query = not isinstance(relation, exp.Subquery) or isinstance(
        relation.this, exp.Select | exp.SetOperation
    )
    yield from [(relation, names)] if is_query or relation.alias else _list_relations(relation.this)


def constants_of_outer_joins(tree: Tree) -> None:
    """Hide what may be constant in the sides of outer joins, if rows are sorted or grouped by it.

        SELECT x.k, y.id FROM (SELECT id, 7 AS k FROM t) AS x FULL JOIN u AS y ON x.id = y.id ORDER BY x.k
    ->  SELECT x.k, y.id FROM (SELECT * REPLACE (CASE WHEN random() < 2 THEN "k" END AS "k")
        FROM (SELECT id, 7 AS k FROM t) AS x) AS x FULL JOIN u AS y ON x.id = y.id ORDER BY x.k

        SELECT x.id FROM x LEFT JOIN y ON y.g = 1 AND x.id = y.id ORDER BY y.g, x.id
    ->  SELECT x.id FROM x LEFT JOIN y ON CASE WHEN random() < 2 THEN y.g = 1 END AND x.id = y.id
        ORDER BY y.g, x.id

    DataFusion 55 takes it for constant in the result, where it is NULL too: rows are not sorted by such keys,
    and groups by them are closed too early.
    """
    relations: dict[int, exp.Expr] = {}
    conditions: dict[int, exp.Expr] = {}
    for join in tree.find_all(exp.Join):
        if join.side not in _OUTER or join.kind in _ONE_SIDED:
            continue
        around = join.parent
        assert around is not None  # noqa: S101 - a join is part of a query, or of a relation in brackets
        before = around.args["joins"][: join.index] if join.side == "FULL" else []
        sides = [
            join.this,
            *(one.this for one in before),
            *([_find_first(around)] if join.side == "FULL" else []),
        ]
        sides = [one for one in sides if one is not around]
        inner = [one for side in sides for one in side.find_all(exp.Join)]
        joins = [join, *before, *(one for one in inner if one.parent_select is join.parent_select)]
        conditions |= {id(one): one for each in joins for one in conjuncts(each.args.get("on"))}
        relations |= {id(one): one for side in sides for one, _ in _open_brackets(side)}
    if not relations:
        return
    keys = _find_key_names(tree.root)
    if not keys:
        return
    named = {one.alias_or_name for one in tree.find_all(exp.Table, exp.Subquery)}
    for condition in conditions.values():
        if condition.find(exp.Query) or equates_columns(condition):
            continue
        if not (_read_names([condition]) - named).isdisjoint(keys):
            tree.replace(condition, hide_value(condition))
    for relation in sorted(relations.values(), key=lambda one: -one.depth):  # the inner ones first
        _hide_columns(tree, relation, keys)


def _hide_columns(tree: Tree, relation: exp.Expr, names: AbstractSet[str]) -> None:
    """Hide columns of a relation, or all for "*", unless it is a table, which has no constants."""
    is_table = isinstance(relation, exp.Table) and relation.name in tree.tables
    if is_table or not isinstance(relation, exp.Subquery | exp.Table) or relation.args.get("joins"):
        return
    # To plan the columns, for the types of extensions, takes longer than to know their names.
    if names.isdisjoint({"*", *(column.name for column in tree.find_columns(relation))}):
        return
    columns = tree.plan_columns(relation)
    count = Counter(column.name for column in columns)
    hidden = [
        one
        for one in columns
        if not names.isdisjoint({"*", one.name}) and count[one.name] == 1 and _may_be_key(one.type)
    ]
    if hidden:
        values = [(hide_value(exp.column(one.name, quoted=True), one.type), one.name) for one in hidden]
        star = exp.Star(replace=[exp.alias_(value, name, quoted=True) for value, name in values])
        tree.replace(relation, select_from(relation, star))


def _may_be_key(kind: pa.DataType) -> bool:
    """Return whether rows may be sorted or grouped by values of a type; they are not by tensors."""
    return not isinstance(kind, pa.BaseExtensionType) or isinstance(
        kind, pa.UuidType | pa.JsonType | pa.Bool8Type
    )


def _find_key_names(root: exp.Expr) -> AbstractSet[str]:
    """Return the names of the columns that keys of orders and groups are made of; "*" for all columns."""
    keys: list[exp.Expr] = list(root.find_all(exp.Order, exp.Group, exp.Window))
    for select in root.find_all(exp.Select):
        clauses = [select.args[key] for key in ("order", "group") if select.args.get(key)]
        by_number = any(one.find(exp.Literal) for one in clauses)
        if by_number or select.args.get("distinct") or select.find_ancestor(exp.SetOperation):
            keys += select.expressions
    names = {"*" for key in keys if key.is_star} | _read_names(keys)
    named = [([read_name(one.args["alias"])], [one.this]) for one in root.find_all(exp.Alias)]
    named += [([*map(read_name, one.columns)], [exp.Star()]) for one in root.find_all(exp.TableAlias)]
    while more := {
        name for aliases, made in named if not names.isdisjoint(aliases) for name in _read_names(made) - names
    }:
        names |= more
    return names


def _read_names(nodes: Sequence[exp.Expr]) -> set[str]:
    """Return the names of columns in expressions, and of those whose fields they are; "*" for all."""
    stars = {"*" for one in nodes if one.is_star}
    columns = [one for node in nodes for one in node.find_all(exp.Column) if not one.is_star]
    return stars | {read_name(part) for one in columns for part in one.parts[-2:]}


def groups_of_joins(tree: Tree) -> None:
    """Hide the columns of groups of joins that are grouped once more.

        SELECT DISTINCT a FROM (SELECT q.a, u.b FROM (SELECT DISTINCT a FROM t) AS q CROSS JOIN u
        GROUP BY q.a, u.b) AS g
    ->  SELECT DISTINCT a FROM (SELECT * REPLACE (CASE WHEN random() < 2 THEN "a" END AS "a", ..)
        FROM (SELECT q.a, u.b FROM (SELECT DISTINCT a FROM t) AS q CROSS JOIN u GROUP BY q.a, u.b) AS g) AS g

    What is unique in one side of a join, the keys of a GROUP BY or a row_number(), DataFusion 55 takes for
    unique in the groups of its result, where it is one of several keys. So it leaves out DISTINCT, and keys.
    """
    tables = {one.alias: one for one in tree.find_all(exp.CTE)}
    for select in tree.find_all(exp.Select)[::-1]:
        group = select.args.get("group")
        has_keys = group is not None and (has_totals(select) or len(group.expressions) > 1)
        if select.args.get("distinct") or has_keys:
            for relation in sources(select):
                if any(_groups_a_join(one, tables) for one in _find_selects(relation, tables)):
                    _hide_columns(tree, relation, {"*"})


def _find_selects(relation: exp.Expr, tables: Mapping[str, exp.Expr]) -> Iterator[exp.Select]:
    """Yield the SELECTs below a relation, those of common tables too."""
    seen: set[int] = set()
    pending = [relation]
    while pending:
        for node in pending.pop().find_all(exp.Select, exp.Table):
            if isinstance(node, exp.Select):
                yield node
            elif node.name in tables and id(tables[node.name]) not in seen:
                seen.add(id(tables[node.name]))
                pending.append(tables[node.name].this)


def _groups_a_join(select: exp.Select, tables: Mapping[str, exp.Expr]) -> bool:
    """Return whether a SELECT has the groups of a join with a side whose rows may be known to be unique."""
    is_grouped = select.args.get("group") or select.args.get("distinct")
    return bool(is_grouped and select.args.get("joins")) and any(
        inner.find(*_UNIQUE) for one in sources(select) for inner in _find_selects(one, tables)
    )
