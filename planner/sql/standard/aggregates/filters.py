"""Makes conditions of aggregates truth values, which DataFusion 54 takes for granted when it runs them.

    sum(n) FILTER (WHERE NULL)  ->  sum(n) FILTER (WHERE (NULL) IS TRUE)

What is no truth value, such as a number, is then refused when it is planned, as it is in WHERE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.sql.edits import Edit
from planner.sql.tokens import SqlText

_TRUTH: Final = frozenset(
    {"=", "<>", "!=", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE"}
    | {"EXISTS", "TRUE", "FALSE", "~", "~*", "!~", "!~*", "?", "$"}
)
"""Words of conditions that are certainly truth values, where they stand in no brackets."""


def decide_filters(text: SqlText) -> Iterator[Edit]:
    """Yield edits that compare other conditions of FILTER with TRUE."""
    words = text.words
    for i, word in enumerate(words):
        if word != "FILTER" or words[i + 1 : i + 3] != ("(", "WHERE"):
            continue
        last = text.closing(i + 1) - 1
        if last > i + 2 and _TRUTH.isdisjoint(words[at] for at in text.level(i + 3)):
            yield from Edit.wrap(text.start(i + 3), text.end(last), "(", ") IS TRUE")
