"""Gives instants that are read from texts the type that they are said to have.

    to_timestamp_seconds(s)
->  nullif(arrow_cast(arrow_cast(to_timestamp_seconds(s), 'Timestamp(Second, None)'),
                          'Timestamp(Second, Some("+00:00"))'), NULL)

These functions of DataFusion 55 are said to give instants of the session's time zone, and give those of texts
none: a plan over rows then fails. The optimizer takes casts that change nothing, as it believes, out of
comparisons, but for nullif(). Constants are right, and stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.sql.edits import Edit
from planner.sql.standard.spellings.calls import find_calls
from planner.sql.standard.spellings.results import is_result
from planner.sql.tokens import STRING, SqlText, quote

_UNITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TO_TIMESTAMP": "Nanosecond",
        "TO_TIMESTAMP_SECONDS": "Second",
        "TO_TIMESTAMP_MILLIS": "Millisecond",
        "TO_TIMESTAMP_MICROS": "Microsecond",
        "TO_TIMESTAMP_NANOS": "Nanosecond",
    }
)
READERS: Final = frozenset(_UNITS)


def type_read_texts(text: SqlText) -> Iterator[Edit]:
    """Yield edits that give what is read from texts its type."""
    for call in find_calls(text, READERS):
        if not call.arguments or (len(call.arguments) == 1 and text.words[call.at + 2] == STRING):
            continue
        unit = _UNITS[call.name.upper()]
        after = f", 'Timestamp({unit}, None)'), 'Timestamp({unit}, Some(\"+00:00\"))'), NULL)"
        if is_result(text, call.at, call.closing):
            after += f" AS {quote(call.name)}"
        yield from Edit.wrap(
            text.start(call.at), text.end(call.closing), "nullif(arrow_cast(arrow_cast(", after, mend=True
        )
