"""Forms of SQL that DataFusion lacks or misreads, written in those that it has.

    SELECT sum(n) OVER (w ORDER BY id) FROM t WHERE (a, b) < ($1, 2) WINDOW w AS (PARTITION BY k)
->  SELECT sum(n) OVER (PARTITION BY k ORDER BY id) FROM t WHERE (a < $1 OR (a = $1 AND b < 2))
    WINDOW w AS (PARTITION BY k)

A form is a rule over the tree of a query, as those of `planner.sql.rules` are. Forms see the text of the
user, before names are resolved: no types are known. Each has its name, a docstring with a query before and
after, and titled pairs in `tests/planner/data/forms/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lance_gateway.planner.sql.forms.aggregates import (
    counted_rows,
    frame_exclusions,
    named_windows,
    opposite_orders,
    orders_within_groups,
)
from lance_gateway.planner.sql.forms.conditions import like_escapes, symmetric_ranges
from lance_gateway.planner.sql.forms.functions import powers, refused_functions, synonyms
from lance_gateway.planner.sql.forms.joins import columns_of_from, merged_columns, sides_of_joins
from lance_gateway.planner.sql.forms.json_values import json_values
from lance_gateway.planner.sql.forms.literals import based_integers, fractions, hex_bytes, local_times, uuids
from lance_gateway.planner.sql.forms.orders import (
    fetch,
    fetch_with_ties,
    numbered_orders,
    order_by_all,
    orders_of_distinct,
)
from lance_gateway.planner.sql.forms.refusals import misread_clauses, refuse_unread
from lance_gateway.planner.sql.forms.rows import listed_values, row_values, selected_values
from lance_gateway.planner.sql.forms.time_formats import time_formats
from lance_gateway.planner.sql.text.tokens import SqlText, number_parameters, tokenize
from lance_gateway.planner.sql.tree.dialect import NO_SLOTS, parse_query, write_sql
from lance_gateway.planner.sql.tree.tree import Rule, Tree

FORMS: Final[tuple[Rule, ...]] = (
    misread_clauses,
    refused_functions,
    like_escapes,
    json_values,
    synonyms,
    powers,
    time_formats,
    sides_of_joins,
    columns_of_from,
    local_times,
    based_integers,
    hex_bytes,
    uuids,
    symmetric_ranges,
    counted_rows,
    frame_exclusions,
    order_by_all,
    numbered_orders,
    orders_of_distinct,
    orders_within_groups,
    opposite_orders,
    named_windows,
    fetch_with_ties,
    fetch,
    merged_columns,
    fractions,
    listed_values,
    selected_values,
    row_values,
)


def read_forms(
    text: SqlText, forms: Sequence[Rule] = FORMS, first: int = 0, slots: Mapping[int, int] = NO_SLOTS
) -> Tree | None:
    """Return the tree of a query without these forms; None if sqlglot does not read the query.

    Args:
        text: the statement.
        forms: in the order in which they are written.
        first: token with which the query begins.
        slots: first token of each parameter -> its ordinal, from 0.

    Raises:
        LanceGatewayError: a form can't be written for DataFusion; with the place in the text.
    """
    root = parse_query(text, first, slots)
    if root is None:
        refuse_unread(text)
        return None
    tree = Tree(root, _find_no_schema, sql=text.sql)
    for form in forms:
        form(tree)
    return tree


def write_forms(text: SqlText, forms: Sequence[Rule] = FORMS) -> SqlText:
    """Return a query without these forms: the same object if it has none of them."""
    slots = number_parameters(text)[0] if "?" in text.words else NO_SLOTS
    tree = read_forms(text, forms, slots=slots)
    return text if tree is None or not tree.is_changed else tokenize(write_sql(tree.root))


def write_forms_of_expression(text: SqlText) -> SqlText:
    """Return an expression without these forms; see `write_forms`."""
    # In brackets, since it is not an output, which has a name.
    query = tokenize(f"SELECT ({text.sql}\n)")
    written = write_forms(query)
    return text if written is query else tokenize(written.sql.removeprefix("SELECT (").removesuffix(")"))


def _find_no_schema(_: str) -> None:
    return None
