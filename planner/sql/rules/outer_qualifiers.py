"""Names of columns whose relation is called as a column of a relation inside is."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.queries import SUBQUERIES, sources
from planner.sql.rules.tree import Tree, for_texts

QUALIFIER: Final = '"#"'
"""The schema that such names get."""


@for_texts(SUBQUERIES)
def outer_qualifiers(tree: Tree) -> None:
    """Give names of columns of relations around a subquery a schema.

        SELECT s FROM c WHERE EXISTS (SELECT 1 FROM o WHERE o.c = c.id)
    ->  SELECT s FROM c WHERE EXISTS (SELECT 1 FROM o WHERE o.c = "#".c.id)

    DataFusion takes `c.id` for a field of the column `o.c` before it looks at the relations around the
    subquery. A name of three parts is no such field. Its schema is not compared with that of an alias, which
    has none, and results are not called after it.
    """
    columns = list(tree.root.find_all(exp.Column))
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
            if any(one.name == column.table and not pa.types.is_nested(one.type) for one in found):
                column.set("db", exp.to_identifier("#", quoted=True))
                tree.is_changed = True
                break
            select = select.parent_select
