"""Compares years that have no nanoseconds, for which DataFusion 55 finds no row.

    EXTRACT(YEAR FROM at) < 9999  ->  (EXTRACT(YEAR FROM at) + 0) < 9999

It turns a comparison of the year into one of instants, which don't exist for such a year. Comparisons with
other years, by which tables are pruned, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from planner.sql.edits import Edit
from planner.sql.standard.instants.late_comparisons import COMPARISONS, ReadInstants
from planner.sql.tokens import STRING, SqlText

_NUMBER: Final = "0"
_YEARS: Final = range(1678, 2262)
"""Years whose instants have nanoseconds, and the next year's first one as well."""


def compare_late_years(
    text: SqlText, find_instants: Callable[[], Mapping[str, pa.DataType]]
) -> Iterator[Edit]:
    """Yield edits that keep years from being compared as instants.

    Args:
        text: the statement.
        find_instants: returns the columns that are timestamps in all tables, with their types.
    """
    instants = ReadInstants(text, find_instants)
    for i in range(len(text.words) - 1):
        operand = _find_operand(text, i)
        if operand is None:
            continue
        last = text.closing(i + 1)
        if not _is_compared_with_late(text, i, last):
            continue
        kind = instants.find_kind(operand, last - 1)
        if kind is None or kind.unit == "ns":  # Other columns have all years.
            yield from Edit.wrap(text.start(i), text.end(last), "(", " + 0)", mend=True)


def _find_operand(text: SqlText, i: int) -> int | None:
    """Return the first token of what a year is taken of; None where none is taken."""
    words = text.words
    if words[i] == "EXTRACT" and words[i + 1 : i + 4] == ("(", "YEAR", "FROM"):
        return i + 4
    if words[i] in {"DATE_PART", "DATEPART"} and words[i + 1 : i + 4] == ("(", STRING, ","):
        return i + 4 if text.tokens[i + 2].text.lower() in {"year", "years"} else None
    return None


def _is_compared_with_late(text: SqlText, first: int, last: int) -> bool:
    words = text.words
    after = last + 1
    if words[after] in COMPARISONS:
        return _is_late(text, after + 1)
    if first > 1 and words[first - 1] in COMPARISONS:
        return _is_late(text, first - 2)
    after += words[after] == "NOT"
    if words[after] == "BETWEEN":
        return _is_late(text, after + 1) or (words[after + 2] == "AND" and _is_late(text, after + 3))
    return False


def _is_late(text: SqlText, at: int) -> bool:
    """Return whether a year at a token may have no nanoseconds: that of a parameter may."""
    if text.words[at] in {"$", "?", "-"}:
        return True
    if text.words[at] != _NUMBER:
        return False
    digits = text.tokens[at].text
    return not (digits.isdecimal() and int(digits) in _YEARS)
