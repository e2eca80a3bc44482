"""Counts distinct rows of several values, which DataFusion takes as one value only.

    count(DISTINCT a, b)
->  count(DISTINCT CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN struct(a, b) END)

Rows with a NULL are not counted, as in MySQL and Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.sql.edits import Edit
from planner.sql.standard.spellings.calls import find_calls
from planner.sql.tokens import SqlText


def count_distinct_rows(text: SqlText) -> Iterator[Edit]:
    """Yield edits that count structs."""
    for call in find_calls(text, {"COUNT"}):
        if len(call.arguments) < 2 or text.words[call.at + 2] != "DISTINCT":
            continue
        first, *others = call.arguments
        values = [range(first.start + 1, first.stop), *others]
        if not all(values):
            continue  # a syntax error, which DataFusion tells
        known = [part for value in values for part in (" AND (", value, ") IS NOT NULL")]
        row = [part for value in values for part in (", ", value)]
        yield call.write("count(DISTINCT CASE WHEN (", *known[1:], " THEN struct(", *row[1:], ") END)")
