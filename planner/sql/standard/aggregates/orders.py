"""Moves the order of an aggregate of texts into its brackets, where alone DataFusion takes it.

    listagg(name, ', ') WITHIN GROUP (ORDER BY id)
->  string_agg(name, ', ' ORDER BY id)
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.sql.edits import Edit
from planner.sql.tokens import SqlText

_AGGREGATES = frozenset({"STRING_AGG", "LISTAGG", "ARRAY_AGG"})


def move_aggregate_orders(text: SqlText) -> Iterator[Edit]:
    """Yield edits that move the ORDER BY of WITHIN GROUP behind the arguments."""
    words = text.words
    for i, word in enumerate(words):
        if word not in _AGGREGATES or words[i + 1] != "(":
            continue
        closing = text.closing(i + 1)
        if words[closing + 1 : closing + 4] != ("WITHIN", "GROUP", "("):
            continue
        end = text.closing(closing + 3)
        separator = ""
        if word == "LISTAGG":
            yield Edit.replace(text.start(i), text.end(i), "string_agg")
            has_separator = any(words[at] == "," for at in text.level(i + 2))
            separator = "" if has_separator else ", ''"
        yield Edit.replace(text.start(closing), text.end(closing + 3), f"{separator} ")
        assert words[end] == ")" or not words[end]  # noqa: S101 - the end of brackets, or of the text
