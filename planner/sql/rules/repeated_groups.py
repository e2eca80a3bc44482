"""A key of GROUP BY that is written twice is one key."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.dialect import write_sql
from planner.sql.rules.tree import Tree, for_texts, is_unstable, read_name


@for_texts(r"\bgroup\s+by\b.*,")
def repeated_groups(tree: Tree) -> None:
    """Leave out keys of GROUP BY that are others: by their number, or with the name of their relation.

    DataFusion takes the two for different columns, and its result has both. Its own rule that leaves out such
    keys, `eliminate_duplicated_expr`, gives wrong answers elsewhere, and is not used.

        SELECT a.v FROM t AS a GROUP BY v, a.v
    ->  SELECT a.v FROM t AS a GROUP BY a.v

        SELECT k, k AS other, count(*) FROM t GROUP BY 1, 2
    ->  SELECT k, k AS other, count(*) FROM t GROUP BY 1
    """
    for select in tree.root.find_all(exp.Select):
        group = select.args.get("group")
        if group is None:
            continue
        joins = select.args.get("joins") or []
        sources = [part.this for part in (select.args.get("from_"), *joins) if part is not None]
        relations = {source.alias_or_name.casefold() for source in sources}
        merged = {name.name.casefold() for join in joins for name in join.args.get("using") or ()}
        named = merged | {item.alias.casefold() for item in select.expressions if isinstance(item, exp.Alias)}
        columns = [column for key in group.expressions for column in key.find_all(exp.Column)]
        qualified = {
            column.name.casefold(): column
            for column in columns
            if column.table.casefold() in relations and column.name.casefold() not in named
        }
        for column in columns:
            if not column.table and column.name.casefold() in qualified:
                column.replace(qualified[column.name.casefold()].copy())
        kept: dict[str, exp.Expr] = {}
        for key in group.expressions:
            kept.setdefault(_spell(key, select), key)
        if len(kept) < len(group.expressions):
            tree.replace(group, exp.Group(**{**group.args, "expressions": list(kept.values())}))


def _spell(key: exp.Expr, select: exp.Select) -> str:
    """Return the text of what a key means, which may be the number of an output, in one spelling."""
    meant = key
    if isinstance(key, exp.Literal) and key.is_int:
        before = select.expressions[: int(key.name)]
        if len(before) == int(key.name) and not any(one.is_star for one in before):
            meant = before[-1].unalias()
    if is_unstable(meant):
        return write_sql(key) if meant is key else f"output {key.name}"
    meant = exp.paren(meant).unnest()
    for name in meant.find_all(exp.Identifier):
        name.replace(exp.to_identifier(read_name(name), quoted=True))
    return write_sql(meant)
