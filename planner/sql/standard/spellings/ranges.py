"""Writes ranges whose bounds come in any order, which DataFusion lacks.

    WHERE n BETWEEN SYMMETRIC ? AND ?
->  WHERE (n BETWEEN ? AND ? OR n BETWEEN ? AND ?)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memwal.errors import UnsupportedError
from memwal.transforms.determinism import has_unstable_call
from planner.sql.edits import Copy, Edit, Piece
from planner.sql.rewrites.truth_position import find_subject_start
from planner.sql.tokens import PlacedMessage, SqlText

_ENDS: Final = frozenset(
    {"", ")", "]", "}", ",", ";", "AND", "OR", "AS", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY"}
    | {"ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LEFT", "RIGHT", "JOIN"}
    | {
        "INNER",
        "FULL",
        "CROSS",
        "NATURAL",
        "ON",
        "THEN",
        "WHEN",
        "ELSE",
        "END",
        "IS",
        "=",
        "<>",
        "!=",
        "RETURNING",
    }
)
"""Words behind a bound."""
_OPENERS: Final = frozenset({"(", "[", "{", "CASE"})
_CLOSERS: Final = frozenset({")", "]", "}", "END"})
_SIDES: Final = frozenset({"LEFT", "RIGHT"})
"""Also names of functions."""


def order_bounds(text: SqlText) -> Iterator[Edit]:
    """Yield edits that write SYMMETRIC out, and leave ASYMMETRIC out, which is the default.

    Raises:
        UnsupportedError: a value that would be computed twice changes.
    """
    words = text.words
    for i, word in enumerate(words):
        if word != "BETWEEN":
            continue
        if words[i + 1] == "ASYMMETRIC" and words[i + 2] != "AND":
            yield Edit.replace(text.start(i + 1), text.end(i + 1), "")
        elif words[i + 1] == "SYMMETRIC" and words[i + 2] != "AND":
            yield from _write_out(text, i)


def _write_out(text: SqlText, at: int) -> Iterator[Edit]:
    words = text.words
    is_denied = words[at - 1] == "NOT"
    subject_end = at - 2 if is_denied else at - 1
    subject = range(find_subject_start(text, subject_end), subject_end + 1)
    low = range(at + 2, _find_end(text, at + 2))
    if words[low.stop] != "AND" or not (subject and low):
        return  # a syntax error, which DataFusion tells
    high = range(low.stop + 1, _find_end(text, low.stop + 1))
    if not high:
        return
    if has_unstable_call(words[subject.start : high.stop]):
        message = "BETWEEN SYMMETRIC of values that change is not offered: compute them in a subquery"
        raise UnsupportedError(PlacedMessage(text.sql, text.start(at), f"{message}; it stands"))
    between, connective = (" NOT BETWEEN ", " AND ") if is_denied else (" BETWEEN ", " OR ")
    begin = text.start(subject.start)
    parts: list[str | range] = ["(", subject, between, low, " AND ", high, connective]
    parts += [subject, between, high, " AND ", low, ")"]
    yield Edit(
        begin,
        text.end(high.stop - 1),
        [
            Piece(part, begin, verbatim=False)
            if isinstance(part, str)
            else Copy(text.start(part.start), text.end(part.stop - 1))
            for part in parts
        ],
    )


def _find_end(text: SqlText, first: int) -> int:
    """Return the token behind a bound."""
    words, depth = text.words, 0
    for i in range(first, len(words)):
        word = words[i]
        if words[i - 1] == ".":
            continue  # the name of a column
        if depth == 0 and word in _ENDS and not (word in _SIDES and words[i + 1] == "("):
            return i
        depth += (word in _OPENERS) - (word in _CLOSERS)
    return len(words) - 1
