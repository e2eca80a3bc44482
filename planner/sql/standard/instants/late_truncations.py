"""Truncates late instants to weeks, months and years, for which DataFusion's date_trunc needs nanoseconds.

    date_trunc('month', at)
->  coalesce(
        arrow_cast(make_date(date_part('year', at), date_part('month', at), 1), 'Timestamp(us)'),
        date_trunc('month', at)
    )

It takes no longer. All are mends: the columns keep the names that the text gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from planner.sql.edits import Edit
from planner.sql.standard.instants.late_comparisons import ReadInstants
from planner.sql.tokens import STRING, SqlText

_ZONELESS: Final = frozenset({None, "UTC", "+00:00"})
"""Zones in which the parts of an instant are those of its number."""
_UNITS: Final = MappingProxyType(
    {
        "week": (
            "arrow_cast(arrow_cast(CAST({0} AS DATE), 'Int32') - (date_part('isodow', {0}) - 1), 'Date32')"
        ),
        "month": "make_date(date_part('year', {0}), date_part('month', {0}), 1)",
        "quarter": "make_date(date_part('year', {0}), 3 * date_part('quarter', {0}) - 2, 1)",
        "year": "make_date(date_part('year', {0}), 1, 1)",
    }
)
"""Unit -> its first day."""
_ZONED_UNITS: Final = MappingProxyType({"day": "CAST({0} AS DATE)", **_UNITS})


def truncate_late_instants(
    text: SqlText, find_instants: Callable[[], Mapping[str, pa.DataType]]
) -> Iterator[Edit]:
    """Yield edits that compute the first day of the unit first.

    Args:
        text: the statement.
        find_instants: returns the columns that are timestamps in all tables, with their types.
    """
    words = text.words
    instants = ReadInstants(text, find_instants)
    for i, word in enumerate(words):
        if word not in {"DATE_TRUNC", "DATETRUNC"} or words[i + 1 : i + 4] != ("(", STRING, ","):
            continue
        last = text.closing(i + 1)
        column = last - 1
        kind = instants.find_kind(i + 4, column)
        if kind is None or kind.tz not in _ZONELESS or kind.unit == "ns":
            continue
        units = _UNITS if kind.tz is None else _ZONED_UNITS
        day = units.get(text.tokens[i + 2].text.lower())
        if day is not None:
            operand = text.sql[text.start(i + 4) : text.end(column)]
            zone = "" if kind.tz is None else f', "{kind.tz}"'
            before = f"coalesce(arrow_cast({day.format(operand)}, 'Timestamp({kind.unit}{zone})'), "
            yield from Edit.wrap(text.start(i), text.end(last), before, ")", mend=True)
