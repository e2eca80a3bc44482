"""The kinds of tables that histories run on: keys, region layouts, and columns that the layout needs."""

import datetime as dt
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mmh3
import pyarrow as pa

from tests.support.lake.manifests import SpecField
from tests.support.lake.tables import Layout, Row, bucketed, by_identity, by_spec, key_field, unpartitioned

DAYS = (dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2025, 1, 1), None)


@dataclass(frozen=True, slots=True)
class Flavour:
    """A kind of table.

    Attributes:
        key: The key columns.
        follows: Columns whose value follows from the key, with what computes it from the key's row: a region
            spec over them keeps every key in one region.
    """

    key: tuple[pa.Field, ...]
    layout: Layout
    follows: Mapping[str, Callable[[Row], Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.layout.name


def day_of(row: Row) -> dt.date | None:
    """A day, or none, that follows from the key ``id``."""
    return DAYS[zlib.crc32(repr(row["id"]).encode()) % len(DAYS)]


def _toward_zero(value: int, width: int) -> int:
    return value - int(abs(value) % width) * (1 if value >= 0 else -1)


def _year(row: Row) -> tuple[int | None]:
    day = day_of(row)
    return (None if day is None else day.year,)


def _published_bucket(row: Row) -> tuple[int]:
    """The bucket as the specification words it, where Lance's own hash of strings differs."""
    key = row["id"]
    raw = key.encode() if isinstance(key, str) else key.to_bytes(8, "little", signed=True)
    return (abs(mmh3.hash(raw)) % 3,)


BY_PUBLISHED_BUCKET = by_spec(
    (SpecField("bucket", ("id",), "int32", "bucket", parameters={"num_buckets": "3"}),),
    _published_bucket,
    widths=(4,),
)
_BY_YEAR = by_spec((SpecField("year", ("day",), "int32", "year"),), _year, widths=(4,))
_INTEGER = (key_field("id", pa.int64()),)
_SMALL = (key_field("id", pa.int32()),)
_STRING = (key_field("id", pa.string()),)
_COMPOSITE = (key_field("id", pa.int64(), position=2), key_field("tenant", pa.string(), position=1))


def _truncated(name: str, source: str, data_type: str, width: int) -> SpecField:
    return SpecField(name, (source,), data_type, "truncate", parameters={"width": str(width)})


FLAVOURS: Mapping[str, tuple[Flavour, ...]] = {
    "int64": (
        Flavour(_INTEGER, unpartitioned(("id",), 2)),
        Flavour(_INTEGER, bucketed("id", 3, recorded=True)),
        Flavour(_INTEGER, bucketed("id", 3, recorded=False)),
        Flavour(_INTEGER, BY_PUBLISHED_BUCKET),
        Flavour(_INTEGER, by_identity("id", recorded=True)),
        Flavour(
            _INTEGER,
            by_spec(
                (_truncated("tens", "id", "int64", 4),),
                lambda row: (_toward_zero(row["id"], 4),),
                widths=(8,),
            ),
        ),
        Flavour(
            _INTEGER,
            by_spec(
                (SpecField("rest", ("id",), "int64", expression="abs(col0) % 3"),),
                lambda row: (abs(row["id"]) % 3,),
                widths=(8,),
            ),
        ),
        Flavour(_INTEGER, _BY_YEAR, {"day": day_of}),
    ),
    "int32": (
        Flavour(_SMALL, unpartitioned(("id",), 2)),
        Flavour(_SMALL, bucketed("id", 3, recorded=True)),
        Flavour(_SMALL, bucketed("id", 3, recorded=False)),
        Flavour(_SMALL, _BY_YEAR, {"day": day_of}),
    ),
    "string": (
        Flavour(_STRING, unpartitioned(("id",), 2)),
        Flavour(_STRING, bucketed("id", 3, recorded=True)),
        Flavour(_STRING, BY_PUBLISHED_BUCKET),
        Flavour(_STRING, by_identity("id", recorded=True)),
        Flavour(
            _STRING,
            by_spec((_truncated("first", "id", "utf8", 1),), lambda row: (row["id"][:1],), widths=(0,)),
        ),
        Flavour(_STRING, _BY_YEAR, {"day": day_of}),
    ),
    "composite": (
        Flavour(_COMPOSITE, unpartitioned(("tenant", "id"), 3)),
        Flavour(_COMPOSITE, bucketed("id", 3, recorded=True)),
        Flavour(_COMPOSITE, bucketed("tenant", 2, recorded=True)),
        Flavour(_COMPOSITE, by_identity("tenant", recorded=True)),
        Flavour(_COMPOSITE, by_identity("tenant", recorded=False)),
        Flavour(
            _COMPOSITE,
            by_spec(
                (SpecField("tenant", ("tenant",), "utf8", "identity"), _truncated("fours", "id", "int64", 4)),
                lambda row: (row["tenant"], _toward_zero(row["id"], 4)),
                widths=(0, 8),
            ),
        ),
    ),
}
"""Flavours by the kind of their key; two tables of one history share the kind, so that they join well."""
