"""Sorts by the numbers of the outputs instead of by ALL of them, which DataFusion reads as a column.

    SELECT k, n FROM t ORDER BY ALL DESC
->  SELECT k, n FROM t ORDER BY 1 DESC, 2 DESC
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memwal.errors import UnsupportedError
from planner.sql.edits import Edit
from planner.sql.standard.query_bodies import find_bodies, find_outputs, find_sort_keys
from planner.sql.tokens import PlacedMessage, SqlText

_BEHIND: Final = frozenset({"ASC", "DESC", "NULLS"})


def sort_by_every_output(text: SqlText) -> Iterator[Edit]:
    """Yield edits that name the outputs.

    Raises:
        UnsupportedError: there is a *, whose columns are not known yet, or no SELECT.
    """
    words = text.words
    for body in find_bodies(text):
        keys = find_sort_keys(text, body.tail)
        if len(keys) != 1 or words[keys[0].start] != "ALL":
            continue
        (key,) = keys
        if len(key) > 1 and words[key.start + 1] not in _BEHIND:
            continue
        outputs = find_outputs(text, body.operands[0])
        if not outputs or any("*" in _edges(text, output) for output in outputs):
            message = "ORDER BY ALL is offered behind a SELECT that names its columns: write them; it stands"
            raise UnsupportedError(PlacedMessage(text.sql, text.start(key.start), message))
        direction = text.sql[text.end(key.start) : text.end(key.stop - 1)]
        listed = ", ".join(f"{number}{direction}" for number in range(1, len(outputs) + 1))
        yield Edit.replace(text.start(key.start), text.end(key.stop - 1), listed)


def _edges(text: SqlText, output: range) -> tuple[str, ...]:
    """Return the words of an output where a * stands for columns: *, t.*, * EXCLUDE (..)."""
    words = text.words[output.start : output.stop]
    return words[:1] + (words[2:3] if words[1:2] == (".",) else ()) + words[-1:]
