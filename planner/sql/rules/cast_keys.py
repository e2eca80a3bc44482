"""Groups by casts of a column, beside another output that is called as the column is."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts, read_name


@for_texts(r"(?:cast\s*\(|::).*\bgroup\s+by\b")
def cast_keys(tree: Tree) -> None:
    """Hide casts in outputs that are sorted by another output with the name of what is cast.

        SELECT max(i) AS s, CAST(s AS TEXT) AS k FROM t GROUP BY CAST(s AS TEXT) ORDER BY max(i)
    ->  SELECT max(i) AS s, nullif(CAST(s AS TEXT), NULL) AS k FROM t GROUP BY CAST(s AS TEXT)
        ORDER BY max(i)

    DataFusion 55 calls a cast as it calls what is cast, so it takes the first output for the cast, and sorts
    by that one. What nullif() gives has a name of its own.
    """
    for select in tree.root.find_all(exp.Select):
        if select.args.get("group") is None:
            continue
        outputs = [_find_name(output) for output in select.expressions]
        for place, output in enumerate(list(select.expressions)):
            cast = output.unalias()
            if not isinstance(cast, exp.Cast):
                continue
            named = {read_name(column.this) for column in cast.find_all(exp.Column)}
            if named.intersection(outputs[:place] + outputs[place + 1 :]):
                tree.replace(cast, exp.Anonymous(this="nullif", expressions=[cast.copy(), exp.null()]))


def _find_name(output: exp.Expr) -> str | None:
    named = output.args.get("alias") if isinstance(output, exp.Alias) else output.this
    return read_name(named) if isinstance(named, exp.Identifier) else None
