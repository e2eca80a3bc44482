"""Writes the local time of the standard as that of UTC, which is the time zone of all sessions.

LOCALTIMESTAMP   ->  CAST(now() AS TIMESTAMP)
LOCALTIME        ->  CAST(now() AS TIME)

Both are reserved words: a column of such a name is written in quotes, or behind the name of its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.sql.edits import Edit
from planner.sql.standard.spellings.results import is_result
from planner.sql.tokens import SqlText, quote

_TYPES: Final[Mapping[str, str]] = MappingProxyType({"LOCALTIMESTAMP": "TIMESTAMP", "LOCALTIME": "TIME"})
LOCAL: Final = frozenset(_TYPES)


def tell_local_times(text: SqlText) -> Iterator[Edit]:
    """Yield edits that replace both; a precision is left out."""
    words = text.words
    for i, word in enumerate(words):
        if word not in LOCAL or words[i + 1] == "." or (i and words[i - 1] in {".", "AS"}):
            continue
        last = i
        if words[i + 1] == "(":
            last = text.closing(i + 1)
            if words[i + 2 : last] not in {(), ("0",)} or not words[last]:
                continue
        alias = f" AS {quote(word.lower())}" if is_result(text, i, last) else ""
        yield Edit.replace(text.start(i), text.end(last), f"CAST(now() AS {_TYPES[word]}){alias}")
