"""Where implementations of a region transform agree.

Whoever writes a region computes its values: Lance, this project, or another follower of the specification,
with time zones, text and arithmetic of its own. A region may be pruned by a value only if all compute it.

identity, unsharded  certain.
bucket               certain. Both readings of the hash are admitted; predicates list no NaN.
multi_bucket         certain: nobody but this project has bytes for it.
year, month, day     certain in years 1 to 9999 for dates, and for timestamps without a zone, in UTC or at an
                     offset. In a named zone, what any offset below 16 hours gives is admitted.
hour                 the same, but nothing is certain in a named zone: databases of zones change, and some
                     libraries leave off daylight saving after 2037.
truncate             certain for integers from 0 and ASCII text. Others round -7 down, and count bytes or code
                     units; fractions depend on the arithmetic.
expression           certain over integers, booleans, dates and ASCII text. Versions and settings of
                     DataFusion decide on the rest: time zones, fractions, cases of letters.

All of them keep the order of years and of truncated values, so that a range is as certain as its ends.
"""

from __future__ import annotations

from datetime import date
from typing import Final, TypeAlias

import pyarrow as pa

from lance_gateway.memwal.base.index_details import RegionField
from lance_gateway.memwal.columns.kinds import is_text
from lance_gateway.memwal.transforms.transform import Transform
from lance_gateway.memwal.transforms.transforms import DatePart, Expression, Truncate

Row: TypeAlias = tuple[pa.Scalar, ...]
"""Values of a field's source columns."""

_YEARS: Final = range(1, 10_000)
_DAY_SECONDS: Final = 24 * 3600
_EPOCH: Final = date(1970, 1, 1).toordinal()
# A day less at both ends: offsets reach into the years beside.
_SECONDS: Final = range((2 - _EPOCH) * _DAY_SECONDS, (date(9999, 12, 30).toordinal() - _EPOCH) * _DAY_SECONDS)
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_WIDEST_OFFSET_SECONDS: Final = 16 * 3600
_INT64: Final = range(-(1 << 63), 1 << 63)
_NATURAL: Final = range(1 << 63)


def list_reading_types(transform: Transform, types: tuple[pa.DataType, ...]) -> tuple[pa.DataType, ...]:
    """Return the types of the columns that `list_readings` produces from columns of these types."""
    if isinstance(transform, DatePart) and len(types) == 1 and _is_in_named_zone(types[0]):
        return (pa.timestamp(types[0].unit, "UTC"),)
    return types


def list_readings(transform: Transform, row: Row) -> tuple[Row, ...] | None:
    """Return rows that together have every value that an implementation computes for a row.

    Returns:
        The row itself, as a rule; None where nothing is certain.
    """
    match transform:
        case DatePart(part):
            return ((pa.scalar(None, row[0].type),),) if not row[0].is_valid else _of_time(part, row[0])
        case Truncate():
            return (row,) if _is_truncated_alike(row[0]) else None
        case Expression():
            return (row,) if all(map(_is_plain, row)) else None
        case _:
            return (row,)


def is_trusted(field: RegionField, value: object) -> bool:
    """Return whether all rows of a region agree with its recorded value.

    Years of instants far away are computed in 16 bits by some.
    """
    return field.transform != "year" or value in _YEARS


def _of_time(part: str, value: pa.Scalar) -> tuple[Row, ...] | None:
    data_type = value.type
    if pa.types.is_date32(data_type):
        return ((value,),) if value.value * _DAY_SECONDS in _SECONDS else None
    if pa.types.is_date64(data_type):
        return ((value,),) if value.value // 1000 in _SECONDS else None
    if not pa.types.is_timestamp(data_type):
        return None
    per_second = _PER_SECOND[data_type.unit]
    if value.value // per_second not in _SECONDS:
        return None
    if data_type.tz in {None, "UTC"}:
        return ((value,),)
    shift = _WIDEST_OFFSET_SECONDS * per_second
    shifted = [value.value + by for by in (-shift, 0, shift)]  # No day lies between two of them.
    if not all(one in _INT64 for one in shifted):
        return None  # The time of the day overflows in some.
    if not _is_in_named_zone(data_type):
        return ((value,),)
    if part == "hour":
        return None
    utc = pa.timestamp(data_type.unit, "UTC")
    return tuple((pa.scalar(one, pa.int64()).cast(utc),) for one in shifted)


def _is_in_named_zone(data_type: pa.DataType) -> bool:
    zone = data_type.tz if pa.types.is_timestamp(data_type) else None
    return not (zone is None or zone == "UTC" or zone.startswith(("+", "-")))


def _is_truncated_alike(value: pa.Scalar) -> bool:
    if not value.is_valid:
        return True
    if pa.types.is_integer(value.type):
        return value.as_py() in _NATURAL
    return is_text(value.type) and bool(value.as_py().isascii())


def _is_plain(value: pa.Scalar) -> bool:
    kind = value.type
    if not value.is_valid or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind):
        return True
    return is_text(kind) and bool(value.as_py().isascii())
