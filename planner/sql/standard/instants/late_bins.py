"""Computes bins of instants that have no nanoseconds, for which DataFusion's date_bin gives others.

    date_bin(INTERVAL '15 minutes', at)
->  coalesce(
        arrow_cast(arrow_cast(at, 'Int64') - (arrow_cast(at, 'Int64') % 900000000 + 900000000) % 900000000,
                   'Timestamp(us)'),
        date_bin(INTERVAL '15 minutes', at)
    )

Bins of months and years stay DataFusion's, and so do those of columns with a zone, which get nanoseconds, and
those whose origin is not written as a literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from planner.sql.edits import Edit
from planner.sql.standard.instants.late_comparisons import ReadInstants
from planner.sql.tokens import STRING, SqlText

_LENGTH: Final = re.compile(r"\s*(\d{1,9})\s*([a-z]*?)s?\s*", re.IGNORECASE)
_MICROSECONDS: Final = MappingProxyType(
    {
        "microsecond": 1,
        "millisecond": 1_000,
        "second": 1_000_000,
        "minute": 60_000_000,
        "hour": 3_600_000_000,
        "day": 86_400_000_000,
        "week": 604_800_000_000,
    }
)
_PER_SECOND: Final = MappingProxyType({"s": 1, "ms": 1_000, "us": 1_000_000})
_NUMBER: Final = "arrow_cast({0}, 'Int64')"
_BIN: Final = f"arrow_cast({_NUMBER} - (({_NUMBER} - {{1}}) % {{2}} + {{2}}) % {{2}}, '{{3}}')"


def bin_late_instants(
    text: SqlText, find_instants: Callable[[], Mapping[str, pa.DataType]]
) -> Iterator[Edit]:
    """Yield edits that compute the start of the bin first.

    Args:
        text: the statement.
        find_instants: returns the columns that are timestamps in all tables, with their types.
    """
    words = text.words
    instants = ReadInstants(text, find_instants)
    for i, word in enumerate(words):
        if word != "DATE_BIN" or words[i + 1 : i + 4] != ("(", "INTERVAL", STRING):
            continue
        commas = [at for at in text.level(i + 2) if words[at] == ","]
        last = text.closing(i + 1)
        if len(commas) not in {1, 2}:
            continue
        column = (commas[1] if len(commas) == 2 else last) - 1
        kind = instants.find_kind(commas[0] + 1, column)
        if kind is None or kind.tz is not None or kind.unit == "ns":
            continue
        origin = _read_origin(text, range(commas[1] + 1, last)) if len(commas) == 2 else 0
        length = _read_length(text, range(i + 3, commas[0]))
        if origin is None or length is None:
            continue
        step, start = (_count(one, kind.unit) for one in (length, origin))
        if step and start is not None:
            operand = text.sql[text.start(commas[0] + 1) : text.end(column)]
            bins = _BIN.format(operand, start, step, f"Timestamp({kind.unit})")
            yield from Edit.wrap(text.start(i), text.end(last), f"coalesce({bins}, ", ")", mend=True)


def _read_length(text: SqlText, at: range) -> int | None:
    """Return the microseconds of INTERVAL '15 minutes' or INTERVAL '15' MINUTE; None for others."""
    found = _LENGTH.fullmatch(text.tokens[at.start].text)
    if found is None or len(at) > 2 or bool(found[2]) == (len(at) == 2):
        return None
    unit = found[2] or text.words[at.start + 1].removesuffix("S")
    microseconds = _MICROSECONDS.get(unit.lower())
    return None if microseconds is None else int(found[1]) * microseconds


def _read_origin(text: SqlText, at: range) -> int | None:
    """Return the microseconds from 1970 on of TIMESTAMP '..'; None for anything else."""
    if text.words[at.start : at.stop] != ("TIMESTAMP", STRING):
        return None
    try:
        origin = datetime.fromisoformat(text.tokens[at.stop - 1].text)
    except ValueError:
        return None
    start = origin if origin.tzinfo else origin.replace(tzinfo=UTC)
    return (start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _count(microseconds: int, unit: str) -> int | None:
    """Return how many units a length has; None if it has fractions of them."""
    count, rest = divmod(microseconds, 1_000_000 // _PER_SECOND[unit])
    return None if rest else count
