"""Random tables: columns of all types, keys of several, and how rows spread over regions."""

import datetime as dt
import math
import random
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lance_gateway.memwal.rules import IS_JSON, IS_UUID
from tests.fuzz.sql.grammar import kinds
from tests.fuzz.sql.grammar.kinds import KINDS, Kind, draw_value, kind_of
from tests.fuzz.sql.grammar.sources import Shape
from tests.oracle.machines.writing_machine import WRITABLE
from tests.oracle.replay.flavours import FLAVOURS, Flavour
from tests.support.lake.manifests import SpecField
from tests.support.lake.tables import (
    Row,
    bucketed,
    by_identity,
    by_spec,
    encode_raw_value,
    key_field,
    unpartitioned,
)

Key = tuple[Any, ...]
_SHORT, _LARGE = (key_field("id", pa.int16()),), (key_field("id", pa.large_string()),)
_UNSIGNED, _BYTES = (key_field("id", pa.uint64()),), (key_field("id", pa.binary()),)
_UUID = key_field("id", pa.string()).with_metadata(
    {**(key_field("id", pa.string()).metadata or {}), IS_UUID: b"true"}
)
_HALVED = (key_field("id", pa.int32(), position=1), key_field("half", pa.bool_(), position=2))
_OTHER_KEYS = (
    Flavour(_SHORT, unpartitioned(("id",), 2)),
    Flavour(_SHORT, bucketed("id", 2, recorded=True)),
    Flavour(_LARGE, unpartitioned(("id",), 2)),
    Flavour(_UNSIGNED, unpartitioned(("id",), 1)),
    Flavour(_BYTES, unpartitioned(("id",), 2)),
    Flavour(_HALVED, unpartitioned(("id", "half"), 2)),
)
_UUIDS = (
    Flavour((_UUID,), unpartitioned(("id",), 1)),
    Flavour((_UUID,), bucketed("id", 2, recorded=True)),
    Flavour((_UUID,), by_identity("id", recorded=True)),
    Flavour(
        (_UUID,),
        by_spec(
            (SpecField("first", ("id",), "utf8", "truncate", parameters={"width": "1"}),),
            lambda row: (row["id"][:1],),
            widths=(0,),
        ),
    ),
)
_FOLLOWING = {"day": kinds.DATE, "at": kinds.MOMENT}
"""Kinds of the columns that regions follow from."""


def _moment_of(row: Row) -> dt.datetime | None:
    """A moment, or none, that follows from the key ``id``."""
    moments = (*kinds.MOMENT.values, None)
    return moments[zlib.crc32(repr(row["id"]).encode()) % len(moments)]


def _by_parts(key: pa.Field, *parts: str) -> Flavour:
    """Regions by parts of a moment that follows from the key; NULL is a value like others."""

    def derive(row: Row) -> tuple[int | None, ...]:
        moment = _moment_of(row)
        return tuple([None if moment is None else getattr(moment, part) for part in parts])

    def encode(values: tuple[Any, ...]) -> Mapping[str, bytes]:
        raw = [b"" if value is None else encode_raw_value(value, 4) for value in values]
        return dict(zip(parts, raw, strict=True))

    fields = tuple([SpecField(part, ("at",), "int32", part) for part in parts])
    layout = replace(by_spec(fields, derive, widths=(4,) * len(parts)), encode=encode)
    return Flavour((key,), layout, {"at": _moment_of})


def _by_expression(key: pa.Field, sql: str, result_type: str, compute: Callable[[Any], Any]) -> Flavour:
    """Regions by an expression over the key ``id``."""
    fields = (SpecField("computed", ("id",), result_type, expression=sql),)
    return Flavour((key,), by_spec(fields, lambda row: (compute(row["id"]),), widths=(8,)))


_NUMBER, _TEXT = key_field("id", pa.int64()), key_field("id", pa.string())
TELLING = (
    _by_parts(_NUMBER, "year", "month"),
    _by_parts(_NUMBER, "year", "month", "day"),
    _by_parts(_NUMBER, "year", "month", "day", "hour"),
    _by_parts(_TEXT, "year", "month"),
    _by_parts(_TEXT, "month"),
    _by_parts(_NUMBER, "hour"),
    _by_expression(_NUMBER, "col0 % 4", "int64", lambda number: int(math.fmod(number, 4))),
    _by_expression(_NUMBER, "col0 + 1", "int64", lambda number: number + 1),
    _by_expression(_TEXT, "left(col0, 1)", "utf8", lambda text: text[:1]),
    _by_expression(_TEXT, "lower(col0)", "utf8", str.lower),
)
"""Tables whose regions record more than hashes: predicates of statements exclude some."""
READABLE = tuple(one for flavours in FLAVOURS.values() for one in flavours) + _OTHER_KEYS + _UUIDS + TELLING
"""Tables that only Lance's own writers write."""
WRITTEN = (*(one for flavours in WRITABLE.values() for one in flavours), *_UUIDS, *TELLING)
"""Tables that SQL writes as well."""
# Columns that every table has, so that tables join well and meet in set operations.
_SHARED = (("n", kinds.INT32), ("s", kinds.TEXT))
_NAMES = ("c{}", "c{}", "c{}", "Odd Name {}", "filter_{}", "projection={}")


@dataclass
class TableSpec:
    """What a random table is like.

    Attributes:
        flavour: Its key and regions; None for a table without either.
        columns: Beside those of the key.
        extremes: Columns that hold the ends of their types.
    """

    name: str
    flavour: Flavour | None
    columns: tuple[tuple[str, Kind], ...]
    extremes: frozenset[str] = frozenset()
    nulls: float = 0.15
    is_written: bool = False
    _keys: dict[str, Kind] = field(default_factory=dict)

    @staticmethod
    def draw(rng: random.Random, name: str, *, columns: int = 5) -> "TableSpec":
        """A table of any kind."""
        chance = rng.random()
        flavour: Flavour | None = None
        is_written = chance < 0.4
        if is_written:
            flavour = rng.choice(WRITTEN)
        elif chance < 0.85:
            flavour = rng.choice(READABLE)
        drawn = [
            (rng.choice(_NAMES).format(number), rng.choice(KINDS))
            for number in range(rng.randint(1, columns))
        ]
        if flavour is not None:
            drawn = [(one, _FOLLOWING[one]) for one in flavour.follows] + drawn
        extremes = frozenset(one for one, _ in drawn if rng.random() < 0.2)
        return TableSpec(name, flavour, (*_SHARED, *drawn), extremes, rng.choice((0.0, 0.1, 0.5)), is_written)

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns, in the order of the key."""
        if self.flavour is None:
            return ()
        return tuple(one.name for one in sorted(self.flavour.key, key=_position))

    @property
    def schema(self) -> pa.Schema:
        """With the key marked."""
        key = () if self.flavour is None else self.flavour.key
        rules = {IS_JSON: b"true"}
        columns = (
            pa.field(name, kind.arrow, metadata=rules if kind is kinds.JSON else None)
            for name, kind in self.columns
        )
        return pa.schema([*key, *columns])

    @property
    def shape(self) -> Shape:
        """What statements know of it."""
        key = () if self.flavour is None else tuple((one.name, kind_of(one.type)) for one in self.flavour.key)
        follows = {} if self.flavour is None else self.flavour.follows
        free = tuple(name for name, _ in self.columns if name not in follows) if self.is_written else ()
        return Shape(self.name, (*key, *self.columns), self.key, free)

    def draw_row(self, rng: random.Random, keys: int) -> Row:
        """A row whose key is one of so many (for each of its columns)."""
        row = dict(self.draw_key(rng, keys))
        for name, kind in self.columns:
            is_null = rng.random() < self.nulls
            row[name] = None if is_null else draw_value(rng, kind, extremes=name in self.extremes)
        if self.flavour is not None:
            row |= {name: compute(row) for name, compute in self.flavour.follows.items()}
        return row

    def draw_key(self, rng: random.Random, keys: int) -> Mapping[str, Any]:
        """The key of a row."""
        if self.flavour is None:
            return {}
        few = keys if len(self.flavour.key) == 1 else max(2, round(keys**0.5))
        return {one.name: _key_value(one, rng.randrange(few)) for one in self.flavour.key}

    def key_of(self, row: Mapping[str, Any]) -> Key:
        """A row's key."""
        return tuple(row[name] for name in self.key)


def _position(one: pa.Field) -> bytes:
    return bytes((one.metadata or {}).get(b"lance-schema:unenforced-primary-key:position", b""))


def _key_value(key: pa.Field, number: int) -> Any:
    data_type = key.type
    if IS_UUID in (key.metadata or {}):
        return str(uuid.UUID(int=zlib.crc32(bytes([number % 256])) << 96 | number))
    if pa.types.is_unsigned_integer(data_type):
        return number
    if pa.types.is_integer(data_type):
        return number - 3
    if pa.types.is_boolean(data_type):
        return number % 2 == 0
    # A number, so that texts meet those of other columns, and are of all lengths.
    texts = ("", "a", "ab", "b", "é", "it's", "12")
    text = texts[number] if number < len(texts) else f"{'k' * (number % 6)}{number}"
    return text.encode() if pa.types.is_binary(data_type) else text
