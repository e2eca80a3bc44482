"""Names the side of semi and anti joins, and the columns of a query that begins with FROM.

    SELECT a.id FROM a SEMI JOIN b ON a.id = b.id
->  SELECT a.id FROM a LEFT SEMI JOIN b ON a.id = b.id
    FROM t WHERE n > 0
->  SELECT * FROM t WHERE n > 0
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.sql.edits import Edit
from planner.sql.tokens import SqlText

HALVES: Final = frozenset({"SEMI", "ANTI"})
_SIDES: Final = frozenset({"LEFT", "RIGHT", "NATURAL", "AS", "."})


def name_sides(text: SqlText) -> Iterator[Edit]:
    """Yield edits that say LEFT."""
    words = text.words
    for i, word in enumerate(words):
        if word in HALVES and words[i + 1] == "JOIN" and i and words[i - 1] not in _SIDES:
            yield Edit.insert(text.start(i), "LEFT ")


def name_columns(text: SqlText) -> Iterator[Edit]:
    """Yield an edit that says SELECT *, where a query that begins with FROM has no SELECT."""
    if text.words[0] == "FROM" and "SELECT" not in text.words:
        yield Edit.insert(text.start(0), "SELECT * ")
