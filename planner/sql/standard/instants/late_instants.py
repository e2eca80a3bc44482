"""Gives microseconds to instants that have no nanoseconds in 64 bits, such as those of the year 9999.

TIMESTAMP '9999-12-31'                  ->  TIMESTAMP(6) '9999-12-31'
CAST('9999-12-31' AS TIMESTAMP)         ->  CAST('9999-12-31' AS TIMESTAMP(6))
TIMESTAMP WITH TIME ZONE '9999-12-31'   ->  arrow_cast('9999-12-31', 'Timestamp(us, "+00:00")')
CAST('9999-12-31' AS TIMESTAMPTZ)       ->  the same
'9999-12-31'::timestamptz               ->  the same
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.sql.edits import Edit
from planner.sql.tokens import STRING, SqlText

_YEAR = re.compile(r"\s*(\d{4,6})-\d{1,2}-\d{1,2}(?!\d)")
_FIRST_YEAR, _LAST_YEAR = 1678, 2261
"""The first and the last year all of whose instants have nanoseconds."""
_ZONED = 'Timestamp(us, "+00:00")'
_WITH_ZONE = ("WITH", "TIME", "ZONE")


def is_late(literal: str) -> bool:
    """Return whether a text begins with a date that may have no nanoseconds, past or to come."""
    year = _YEAR.match(literal)
    return year is not None and not _FIRST_YEAR <= int(year[1]) <= _LAST_YEAR


def name_late_units(text: SqlText) -> Iterator[Edit]:
    """Yield edits that say the unit of literals of such instants."""
    for i, word in enumerate(text.words):
        if word == STRING and is_late(text.tokens[i].text):
            yield from _name_unit(text, i)


def _name_unit(text: SqlText, at: int) -> Iterator[Edit]:
    words = text.words
    before, after = words[at - 1] if at else "", words[at + 1]
    if before == "TIMESTAMP" and words[at - 2] != ".":
        yield Edit.insert(text.end(at - 1), "(6)")
    elif before == "TIMESTAMPTZ" or (at > 3 and words[at - 4 : at] == ("TIMESTAMP", *_WITH_ZONE)):
        first = at - 1 if before == "TIMESTAMPTZ" else at - 4
        yield Edit.replace(text.start(first), text.start(at), "arrow_cast(")
        yield Edit.replace(text.end(at), text.end(at), f", '{_ZONED}')")
    elif after in {"AS", "::"}:
        yield from _name_unit_of_cast(text, at)


def _name_unit_of_cast(text: SqlText, at: int) -> Iterator[Edit]:
    words, kind = text.words, at + 2
    last = kind + 3 if words[kind + 1 : kind + 4] == _WITH_ZONE else kind
    is_zoned = words[kind] == "TIMESTAMPTZ" or (words[kind] == "TIMESTAMP" and last > kind)
    if words[last + 1] == "(":
        return
    if is_zoned and words[at + 1] == "::":
        yield Edit.insert(text.start(at), "arrow_cast(")
        yield Edit.replace(text.end(at), text.end(last), f", '{_ZONED}')")
    elif is_zoned and words[at - 2 : at] == ("CAST", "("):
        yield Edit.replace(text.start(at - 2), text.start(at), "arrow_cast(")
        yield Edit.replace(text.end(at), text.end(last), f", '{_ZONED}'")
    elif words[kind] == "TIMESTAMP" and last == kind:
        yield Edit.insert(text.end(kind), "(6)")
