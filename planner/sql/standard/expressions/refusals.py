"""Refuses functions that other databases have, and tells what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.sql.standard.expressions.calls import find_calls
from planner.sql.tokens import Edit, SqlText

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MODE": (
            "mode() is not offered: count the values, as in SELECT v FROM t GROUP BY v "
            "ORDER BY count(*) DESC, v LIMIT 1"
        ),
        "AGE": "age() is not offered: subtract, as in a - b, or compare date_part('year', ..) of both",
        "FORMAT": "format() is not offered: use concat(), or || between texts",
        "PRINTF": "printf() is not offered: use concat(), or || between texts",
    }
)
"""Function -> error."""


def refuse_functions(text: SqlText) -> Iterator[Edit]:
    """Yield no edits.

    Raises:
        UnsupportedError: one of these functions is called.
    """
    for call in find_calls(text, REFUSED):
        raise call.refuse(REFUSED[call.name.upper()])
    yield from ()
