"""Gives times of a precision that Arrow lacks the next finer unit that it has.

    CAST(at AS TIMESTAMP(4))
->  CAST(at AS TIMESTAMP(6))
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from planner.sql.edits import Edit
from planner.sql.tokens import SqlText

_TYPES = frozenset({"TIMESTAMP", "TIMESTAMPTZ"})
FINER = MappingProxyType({"1": "3", "2": "3", "4": "6", "5": "6", "7": "9", "8": "9"})
"""Digits of a fraction -> digits of the next finer unit."""


def name_units(text: SqlText) -> Iterator[Edit]:
    """Yield edits that name units in place of precisions."""
    words = text.words
    for i, word in enumerate(words):
        if word in _TYPES and words[i - 1] != "." and words[i + 1 : i + 4] == ("(", "0", ")"):
            finer = FINER.get(text.tokens[i + 2].text)
            if finer is not None:
                yield Edit.replace(text.start(i + 2), text.end(i + 2), finer)
