"""Random tables: columns of all types, keys of several, and how rows spread over regions."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.fuzz.sql.grammar import kinds
from tests.fuzz.sql.grammar.kinds import KINDS, Kind, draw_value, kind_of
from tests.fuzz.sql.grammar.sources import Shape
from tests.oracle.flavours import FLAVOURS, Flavour
from tests.oracle.writing_machine import WRITABLE
from tests.support.tables import Row, bucketed, key_field, unpartitioned

Key = tuple[Any, ...]
_SHORT, _LARGE = (key_field("id", pa.int16()),), (key_field("id", pa.large_string()),)
_UNSIGNED, _BYTES = (key_field("id", pa.uint64()),), (key_field("id", pa.binary()),)
_HALVED = (key_field("id", pa.int32(), position=1), key_field("half", pa.bool_(), position=2))
_OTHER_KEYS = (
    Flavour(_SHORT, unpartitioned(("id",), 2)),
    Flavour(_SHORT, bucketed("id", 2, recorded=True)),
    Flavour(_LARGE, unpartitioned(("id",), 2)),
    Flavour(_UNSIGNED, unpartitioned(("id",), 1)),
    Flavour(_BYTES, unpartitioned(("id",), 2)),
    Flavour(_HALVED, unpartitioned(("id", "half"), 2)),
)
READABLE = tuple(one for flavours in FLAVOURS.values() for one in flavours) + _OTHER_KEYS
"""Tables that only Lance's own writers write."""
WRITTEN = tuple(one for flavours in WRITABLE.values() for one in flavours)
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
            # What regions follow from are columns of days.
            drawn = [(one, kinds.DATE) for one in flavour.follows] + drawn
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
        return pa.schema([*key, *(pa.field(name, kind.arrow) for name, kind in self.columns)])

    @property
    def shape(self) -> Shape:
        """What statements know of it."""
        return Shape(self.name, tuple((one.name, kind_of(one.type)) for one in self.schema), self.key)

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
        return {one.name: _key_value(one.type, rng.randrange(few)) for one in self.flavour.key}

    def key_of(self, row: Mapping[str, Any]) -> Key:
        """A row's key."""
        return tuple(row[name] for name in self.key)


def _position(one: pa.Field) -> bytes:
    return bytes((one.metadata or {}).get(b"lance-schema:unenforced-primary-key:position", b""))


def _key_value(data_type: pa.DataType, number: int) -> Any:
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
