"""Names of columns of a recursive CTE, which DataFusion does not know when it plans the CTE's own uses.

    WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) ...
->  WITH RECURSIVE r AS (SELECT * FROM (SELECT 1) AS "r" (n) UNION ALL SELECT n + 1 FROM r WHERE n < 3) ...
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.splicing import Edit
from planner.statement import Piece
from planner.tokens import SqlText, quote

__all__ = ["recursive_columns"]


def recursive_columns(text: SqlText) -> Iterator[Edit]:
    """Yields what moves such names to the CTE's first rows."""
    words = text.words
    for i, word in enumerate(words):
        name = i + 1 if word == "RECURSIVE" and words[i - 1] == "WITH" else len(words)
        while text.is_name(name):
            columns = name + 1 if words[name + 1] == "(" else None
            body = name + 1 if columns is None else text.closing(columns) + 1
            while words[body] in {"AS", "NOT", "MATERIALIZED"}:
                body += 1
            if words[body] != "(":
                break
            if columns is not None:
                yield from _moved(text, name, columns, body)
            name = text.closing(body) + 2


def _moved(text: SqlText, name: int, columns: int, body: int) -> Iterator[Edit]:
    union = _last_union(text, body)
    if union is None:
        return  # not recursive
    begin, end = text.start(columns), text.end(text.closing(columns))
    yield begin, end, [Piece(" ", begin, verbatim=False)]
    first = text.end(body)
    yield first, first, [Piece("SELECT * FROM (", first, verbatim=False)]
    after = text.start(union)
    # The line break ends a comment that ends the first rows.
    alias = f"\n) AS {quote(text.name(name))} {text.sql[begin:end]} "
    yield after, after, [Piece(alias, after, verbatim=False)]


def _last_union(text: SqlText, body: int) -> int | None:
    found, i, end = None, body + 1, text.closing(body)
    while i < end:
        if text.words[i] == "(":
            i = text.closing(i)
        elif text.words[i] == "UNION":
            found = i
        i += 1
    return found
