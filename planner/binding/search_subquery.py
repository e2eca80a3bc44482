"""Vectors that a subquery gives to a search.

    lance_vector_search('items', 'vec', (SELECT vec FROM items WHERE id = $1), k => 10)

The subquery is a statement of its own, which runs before the search is planned. Each of its rows is a query,
numbered by `query_index` in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from memwal.errors import InvalidInputError
from planner.bridge.distance_functions import is_vector_type
from planner.sql.references import FunctionSite, References
from planner.sql.search_call import QueryVectors, SearchFunction, Subquery, search_function
from planner.sql.tokens import SqlText

__all__ = ["MAX_QUERIES", "check_vectors", "query_vectors", "subquery_text", "without_subqueries"]

MAX_QUERIES = 10_000
"""More queries than this are asked by mistake."""


def subquery_text(text: SqlText, subquery: Subquery, slots: Mapping[int, int]) -> tuple[str, tuple[int, ...]]:
    """A subquery as a statement of its own.

    Args:
        text: the statement around it.
        subquery: in that text.
        slots: token -> ordinal of the parameter that stands there.

    Returns:
        The statement, with parameters $1, $2, ..., and their ordinals in the statement around it.
    """
    begin = text.start(subquery.first)
    pieces, ordinals = [], []
    for token, ordinal in sorted(slots.items()):
        if subquery.first <= token < subquery.end:
            pieces.append(text.sql[begin : text.start(token)])
            if ordinal not in ordinals:
                ordinals.append(ordinal)
            pieces.append(f"${ordinals.index(ordinal) + 1}")
            begin = text.end(token + (text.words[token] == "$"))
    pieces.append(text.sql[begin : text.start(subquery.end)])
    return "".join(pieces), tuple(ordinals)


def check_vectors(function: str, schema: pa.Schema) -> None:
    """Refuse a subquery whose rows are no vectors.

    Raises:
        InvalidInputError: it has not one column, of lists of numbers.
    """
    if len(schema) != 1 or not is_vector_type(schema.field(0).type):
        shown = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise InvalidInputError(
            f"{function}: the subquery must give one column, of vectors; it gives {shown}"
        )


def query_vectors(function: str, found: pa.Table) -> QueryVectors:
    """The vectors that a subquery gave, one a row.

    Raises:
        InvalidInputError: they are no vectors, too many, or one of them is NULL.
    """
    check_vectors(function, found.schema)
    if found.num_rows > MAX_QUERIES:
        msg = (
            f"{function}: the subquery gives {found.num_rows} vectors, and at most {MAX_QUERIES} are searched"
        )
        raise InvalidInputError(f"{msg} for at a time: add a LIMIT")
    vectors = found.column(0)
    if vectors.null_count:
        msg = f"{function}: the subquery gives a vector that is NULL: leave it out by WHERE vec IS NOT NULL"
        raise InvalidInputError(msg)
    return QueryVectors(map(tuple, vectors.to_pylist()))


def without_subqueries(found: References) -> tuple[References, list[tuple[FunctionSite, SearchFunction]]]:
    """What stands outside of calls of search functions, whose subqueries are statements of their own."""
    searches = [
        (call, function) for call in found.functions if (function := search_function(call.name)) is not None
    ]

    def is_outside(token: int) -> bool:
        return not any(call.opening < token < call.closing for call, _ in searches)

    outside = replace(found, tables=[site for site in found.tables if is_outside(site.first)])
    return outside, [(call, function) for call, function in searches if is_outside(call.first)]
