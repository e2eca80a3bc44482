"""Gives times of day the unit of columns, microseconds, since DataFusion compares no others with them.

opens_at > TIME '10:30'        ->  opens_at > arrow_cast('10:30', 'Time64(us)')
CAST(at AS TIME), at::time     ->  arrow_cast(at, 'Time64(us)')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from planner.sql.edits import Edit
from planner.sql.standard.spellings.results import find_cast_operand, is_result
from planner.sql.tokens import STRING, SqlText, quote

_FINE: Final = re.compile(r"\.\d{7}")
"""Fractions that microseconds have not."""
_AFTER: Final = ", 'Time64(us)')"


def name_time_units(text: SqlText) -> Iterator[Edit]:
    """Yield edits of literals and casts."""
    words = text.words
    for i, word in enumerate(words):
        if word == "TIME" and words[i + 1] == STRING and (not i or words[i - 1] not in {".", "AS", "::"}):
            if not _FINE.search(text.tokens[i + 1].text):
                yield from _replace(text, i, i + 1, range(i + 1, i + 2))
        elif word == "CAST" and words[i + 1] == "(":
            last = text.closing(i + 1)
            if words[last - 2 : last] == ("AS", "TIME"):
                yield from _replace(text, i, last, range(i + 2, last - 2))
        elif word == "::" and words[i + 1] == "TIME" and words[i + 2] not in {"(", "[", "WITH", "WITHOUT"}:
            first = find_cast_operand(text, i)
            yield from _replace(text, first, i + 1, range(first, i))


def _replace(text: SqlText, first: int, last: int, operand: range) -> Iterator[Edit]:
    begin, end = text.start(first), text.end(last)
    named = f" AS {quote(text.sql[begin:end])}" if is_result(text, first, last) else ""
    before, behind = text.start(operand.start), text.end(operand.stop - 1)
    yield Edit.replace(begin, before, "arrow_cast(") if begin < before else Edit.insert(begin, "arrow_cast(")
    yield Edit.replace(behind, end, f"{_AFTER}{named}")
