"""Names of columns whose relation is called as a column of a relation inside is.

    SELECT name FROM customer WHERE EXISTS (SELECT 1 FROM orders WHERE orders.customer = customer.id)
->  SELECT name FROM customer WHERE EXISTS (SELECT 1 FROM orders WHERE orders.customer = "#".customer.id)

DataFusion 55 takes `customer.id` for a field of the column `orders.customer` before it looks at the relations
around the subquery. A name of three parts is no such field. Its schema is not compared with that of an alias,
which has none, and results are not called after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from planner.sql.edits import Edit
from planner.sql.tokens import SqlText, quote

QUALIFIER: Final = '"#"'
"""The schema that such names get."""


def qualify_outer_names(
    text: SqlText,
    qualified: Sequence[int],
    relations: Collection[str],
    find_plain: Callable[[], Collection[str]],
) -> Iterator[Edit]:
    """Yield edits that give names a schema.

    Args:
        text: the statement.
        qualified: first tokens of the names of columns that have two parts.
        relations: tables and aliases of the statement.
        find_plain: returns the columns that have no fields in any table.
    """
    named = [i for i in qualified if text.name(i) in relations]
    plain = find_plain() if named else ()
    for i in named:
        if text.name(i) in plain:
            yield Edit.replace(text.start(i), text.end(i), f"{QUALIFIER}.{quote(text.name(i))}")
