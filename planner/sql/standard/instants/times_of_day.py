"""Adds intervals to times of day, which DataFusion takes for intervals, too.

    opens_at + INTERVAL '1 hour'
->  arrow_cast(TIMESTAMP '1970-01-01' + (opens_at + INTERVAL '1 hour'), 'Time64(us)')

The time after 23:59 is 00:00, as in PostgreSQL. Times are columns of tables, literals, and casts; see
`time_units`, which wrote these before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from planner.sql.edits import Edit
from planner.sql.standard.instants.late_comparisons import ReadInstants, find_start
from planner.sql.standard.spellings.results import is_result
from planner.sql.tokens import STRING, SqlText, quote

_SIGNS: Final = frozenset({"+", "-"})
_BINDING: Final = frozenset({"*", "/", "%", "-", "::", "."})
"""Words before or behind a sum, whose operand would be a part of it."""
_UNITS: Final = frozenset(
    {
        "HOUR",
        "HOURS",
        "MINUTE",
        "MINUTES",
        "SECOND",
        "SECONDS",
        "DAY",
        "DAYS",
        "MONTH",
        "MONTHS",
        "YEAR",
        "YEARS",
    }
)
_PLAIN: Final = pa.time64("us")


def add_to_times(text: SqlText, find_times: Callable[[], Mapping[str, pa.DataType]]) -> Iterator[Edit]:
    """Yield edits that make times of the sums.

    Args:
        text: the statement.
        find_times: returns the columns that are times of day in all tables, with their types.
    """
    words, done = text.words, -1
    times = ReadInstants(text, find_times)
    for i, word in enumerate(words):
        if word != "INTERVAL" or words[i + 1] != STRING or i < max(done, 1):
            continue
        behind = _find_end(text, i)
        first, kind = i, None
        if words[i - 1] in _SIGNS:
            first = _find_operand(text, i - 2)
            kind = _find_kind(text, times, first, i - 2)
        elif words[behind] == "+":
            last = _find_last(text, behind + 1)
            kind = _find_kind(text, times, behind + 1, last)
            behind = last + 1
        if kind is None or (first and words[first - 1] in _BINDING):
            continue
        while words[behind] in _SIGNS and words[behind + 1] == "INTERVAL" and words[behind + 2] == STRING:
            behind = _find_end(text, behind + 1)
        done = behind
        unit = "ns" if kind == pa.time64("ns") else "us"
        begin, end = text.start(first), text.end(behind - 1)
        named = f" AS {quote(text.sql[begin:end])}" if is_result(text, first, behind - 1) else ""
        before = "arrow_cast(TIMESTAMP '1970-01-01' + ("
        yield from Edit.wrap(begin, end, before, f"), 'Time64({unit})'){named}")


def _find_end(text: SqlText, interval: int) -> int:
    """Return the token behind INTERVAL with its text and unit."""
    return interval + 2 + (text.words[interval + 2] in _UNITS)


def _find_operand(text: SqlText, last: int) -> int:
    """Return the first token of the operand that ends at one."""
    if text.words[last] != ")":
        return find_start(text, last)
    opening = next((i for i in range(last, -1, -1) if text.words[i] == "(" and text.closing(i) == last), 1)
    return opening - 1


def _find_last(text: SqlText, first: int) -> int:
    """Return the last token of the operand that begins at one."""
    last = first
    while text.words[last + 1] == "." and text.is_name(last + 2):
        last += 2
    return text.closing(first + 1) if text.words[last + 1] == "(" else last


def _find_kind(text: SqlText, times: ReadInstants, first: int, last: int) -> pa.DataType | None:
    """Return the type of an operand that is a time of day; None for others."""
    if first < 0:
        return None
    is_cast = text.words[first] == "ARROW_CAST" and text.words[last - 1] == STRING
    if is_cast and text.tokens[last - 1].text == "Time64(us)":
        return _PLAIN
    return times.find_kind(first, last)
