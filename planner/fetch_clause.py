"""The standard's FETCH, for DataFusion, which reads LIMIT alone.

    SELECT id FROM orders ORDER BY id OFFSET 20 ROWS FETCH NEXT ? ROWS ONLY
->  SELECT id FROM orders ORDER BY id OFFSET 20 ROWS LIMIT ?
"""

from __future__ import annotations

from collections.abc import Iterator

from memwal.errors import UnsupportedError
from planner.splicing import Edit
from planner.statement import Piece
from planner.tokens import SqlText, at_position

__all__ = ["fetched_rows"]

_ROWS = frozenset({"ROW", "ROWS"})


def fetched_rows(text: SqlText) -> Iterator[Edit]:
    """Yields what stands in place of FETCH clauses: LIMIT before their counts, and nothing behind.

    Raises:
        UnsupportedError: FETCH with PERCENT or WITH TIES.
    """
    for i, word in enumerate(text.words):
        if word != "FETCH" or text.words[i + 1] not in {"FIRST", "NEXT"}:
            continue
        last = _after_count(text, i + 2)
        if text.words[last] == "PERCENT" or (text.words[last] in _ROWS and text.words[last + 1] == "WITH"):
            message = "FETCH with PERCENT or WITH TIES is not offered; it stands"
            raise UnsupportedError(at_position(text.sql, text.start(i), message))
        if text.words[last] not in _ROWS or text.words[last + 1] != "ONLY":
            continue
        limit = "LIMIT" if last > i + 2 else "LIMIT 1"
        yield text.start(i), text.end(i + 1), [Piece(limit, text.start(i), verbatim=False)]
        yield text.start(last), text.end(last + 1), [Piece("", text.start(last), verbatim=False)]


def _after_count(text: SqlText, index: int) -> int:
    """The place behind a number, a parameter or something in brackets; the same place where there is none."""
    word = text.words[index]
    if word in {"0", "?"}:
        return index + 1
    if word == "$" and text.words[index + 1] == "0":
        return index + 2
    if word != "(":
        return index
    depth = 0
    for i in range(index, len(text.tokens)):
        depth += {"(": 1, ")": -1}.get(text.words[i], 0)
        if depth == 0:
            return i + 1
    return index
