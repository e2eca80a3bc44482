"""What the recorded values of regions tell of the rows in them.

    identity(tenant) = 'east'              tenant is 'east'
    year(ts) = 2026, month(ts) = 3         ts is in March of 2026; date_part('month', ts) is 3
    truncate(s, 3) = 'abc'                 s begins with 'abc'; left(s, 3) is 'abc'
    (col0 % 4) of (id) = 2                 id % 4 is 2

Only what every implementation of a transform computes counts: see `memwal.transforms.agreement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.columns.kinds import is_text
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.transforms.raw_values import parse_result_type
from lance_gateway.planner.predicates.pruning import RegionAssignments
from lance_gateway.planner.predicates.region_fields import decode_recorded_keys

Keys: TypeAlias = Sequence[tuple[Any, ...]]
"""What the recorded value of each region may stand for; none where that is not known."""
Range: TypeAlias = tuple[Any, Any]
"""The least and the largest value, each None where there is no bound."""

_PARTS: Final = ("year", "month", "day", "hour")
_TOLD: Final = frozenset({"identity", "truncate", *_PARTS})
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY_SECONDS: Final = 24 * 3600
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_ZONE_DAYS: Final = 3
"""In a named zone, a day may begin 16 hours away from that of UTC, and clocks may be set back meanwhile."""
_INT64: Final = range(-(1 << 63), 1 << 63)
_ANY: Final[Range] = (None, None)


@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """Bounds of the values of an expression, with one entry per region.

    Attributes:
        lower: the least value; NULL where there is no bound.
        upper: the largest value; NULL where there is no bound.
        may_be_null: whether the expression may be NULL in a row.
        has_values: whether it may be anything else.
        excludes_upper: whether `upper` is larger than all values.
        only_equality: whether nothing but equality with a text of ASCII can be decided.
    """

    lower: pa.Array
    upper: pa.Array
    may_be_null: np.ndarray
    has_values: np.ndarray
    excludes_upper: bool = False
    only_equality: bool = False

    @property
    def type(self) -> pa.DataType:
        """Type of the values."""
        return self.lower.type


@dataclass(frozen=True, eq=False)
class ComputedField:
    """A region field that is an expression.

    Attributes:
        sql: over `col0`, `col1`, ...
        columns: the source columns.
        values: of the expression, in the type in which they are recorded.
    """

    sql: str
    columns: tuple[pa.Field, ...]
    values: Span


@dataclass(frozen=True, eq=False)
class RegionValues:
    """What is known of the rows of each region of one spec.

    Attributes:
        columns: name -> values.
        parts: part of a date or timestamp, and column -> its values.
        starts: column, and number of characters -> what texts begin with.
        computed: expressions.
        zoned: columns whose bounds are those of local time, with a margin.
    """

    columns: dict[str, Span] = field(default_factory=dict)
    parts: dict[tuple[str, str], Span] = field(default_factory=dict)
    starts: dict[tuple[str, int], Span] = field(default_factory=dict)
    computed: list[ComputedField] = field(default_factory=list)
    zoned: set[str] = field(default_factory=set)

    @property
    def sources(self) -> frozenset[str]:
        """Names of the columns of which something is known."""
        computed = (one.name for each in self.computed for one in each.columns)
        pairs = (name for _, name in self.parts)
        return frozenset((*self.columns, *pairs, *(name for name, _ in self.starts), *computed))


def restricts_rows(spec: RegionSpec) -> bool:
    """Return whether the values of a spec may tell more of rows than which of them have equal hashes."""
    return any(one.expression is not None or one.transform in _TOLD for one in spec.fields)


@lru_cache(maxsize=64)
def read_region_values(
    regions: RegionAssignments, spec: RegionSpec, columns: tuple[tuple[int, pa.Field], ...]
) -> RegionValues:
    """Read what the values of a spec's regions tell, in the order of `RegionAssignments.by_spec`.

    Args:
        regions: of the table.
        spec: of some of them.
        columns: Lance field id, and current column, of the spec's sources.
    """
    by_id, found = dict(columns), RegionValues()
    values = [regions.regions[at].values for at in regions.by_spec.get(spec.spec_id, ())]
    dated: dict[str, dict[str, Keys]] = {}
    for one in spec.fields:
        sources = [by_id[source] for source in one.source_ids if source in by_id]
        if len(sources) < len(one.source_ids) or not sources:
            continue
        keys = [decode_recorded_keys(one, each.get(one.field_id)) for each in values]
        column = sources[0]
        if one.transform in _PARTS:
            dated.setdefault(column.name, {})[one.transform] = keys
        else:
            _add_field(found, one, sources, keys)
    for name, parts in dated.items():
        (column,) = (one for one in by_id.values() if one.name == name)
        _add_dates(found, column, parts)
    return found


def _add_field(found: RegionValues, one: RegionField, sources: Sequence[pa.Field], keys: Keys) -> None:
    """Add what a field tells that is not a part of a date."""
    try:
        kind = parse_result_type(one.result_type)
    except LanceGatewayError:
        return
    column = sources[0]
    if one.expression is not None:
        values = _read_computed(kind, sources, keys)
        if values is not None:
            found.computed.append(ComputedField(one.expression, tuple(sources), values))
    elif kind != column.type or len(sources) > 1 or not is_ordered(kind):
        return
    elif one.transform == "identity":
        found.columns[column.name] = _make_span(kind, keys, [_span_value(kind, each) for each in keys])
    elif one.transform == "truncate":
        width = int(one.parameters.get("width") or 0)
        if pa.types.is_integer(kind):
            ranges = [_span_multiple(kind, each, width) for each in keys]
            found.columns.setdefault(column.name, _make_span(kind, keys, ranges))
        elif is_text(kind):
            starts = [_read_start(each, width) for each in keys]
            whole = [_ANY if one is None or len(one) < width else (one, one) for one in starts]
            found.starts[column.name, width] = _make_span(kind, keys, whole)
            ranges = [_ANY if one is None else (one, find_end_of_prefix(one)) for one in starts]
            texts = replace(_make_span(kind, keys, ranges), excludes_upper=True)
            found.columns.setdefault(column.name, texts)


def _make_span(
    kind: pa.DataType, keys: Keys, ranges: Sequence[Range], *, only_equality: bool = False
) -> Span:
    """Make a span of `order_key`s."""
    null = np.array([not each or None in each for each in keys], dtype=np.bool_)
    some = np.array([each != (None,) for each in keys], dtype=np.bool_)
    lower, upper = (_make_array(kind, [one[end] for one in ranges]) for end in (0, 1))
    return Span(lower, upper, null, some, only_equality=only_equality)


def _make_array(kind: pa.DataType, keys: Iterable[Any]) -> pa.Array:
    if not pa.types.is_temporal(kind):
        return pa.array(keys, kind)
    return pa.array(keys, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)


def _span_value(kind: pa.DataType, keys: tuple[Any, ...]) -> Range:
    if len(keys) != 1 or keys[0] is None:
        # An empty text may be recorded for NULL.
        return _ANY if not keys or keys == (None,) else (keys[0], keys[0])
    (key,) = keys
    return (-0.0, 0.0) if pa.types.is_floating(kind) and key == 0 else (key, key)


def _span_multiple(kind: pa.DataType, keys: tuple[Any, ...], width: int) -> Range:
    """Return the integers that are a multiple, rounded towards zero or down."""
    if len(keys) != 1 or keys[0] is None or width < 1:
        return _ANY
    bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    least, largest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    low = keys[0] if keys[0] > 0 else keys[0] - width + 1
    return max(low, least), min(keys[0] + width - 1, largest)


def _read_start(keys: tuple[Any, ...], width: int) -> str | None:
    """Return what texts begin with, if it is of ASCII; of others, characters are counted in several ways."""
    text: str | None = keys[0] if keys else None
    return text if text is not None and text.isascii() and 0 < len(text) <= width else None


def _read_computed(kind: pa.DataType, sources: Sequence[pa.Field], keys: Keys) -> Span | None:
    types = [one.type for one in sources]
    plain = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
    if not is_ordered(kind) or pa.types.is_floating(kind):
        return None
    if all(any(bool(test(one)) for test in plain) for one in types):
        return _make_span(kind, keys, [_span_value(kind, each) for each in keys])
    if not is_text(kind) or not all(is_text(one) or any(bool(test(one)) for test in plain) for one in types):
        return None
    ranges = [_span_value(kind, each) if _is_ascii(each) else _ANY for each in keys]
    return _make_span(kind, keys, ranges, only_equality=True)


def _is_ascii(keys: tuple[Any, ...]) -> bool:
    return all(key is None or key.isascii() for key in keys)


def _add_dates(found: RegionValues, column: pa.Field, parts: Mapping[str, Keys]) -> None:
    """Add what parts of a date or timestamp tell of it, and of each other."""
    kind = column.type
    is_zoned = pa.types.is_timestamp(kind) and kind.tz not in {None, "UTC"}
    if not (pa.types.is_timestamp(kind) or pa.types.is_date32(kind)):
        return
    if not is_zoned:
        for part, keys in parts.items():
            if part != "hour" or pa.types.is_timestamp(kind):
                ranges = [_span_value(pa.int32(), each) for each in keys]
                found.parts[part, column.name] = _make_span(pa.int32(), keys, ranges)
    years = parts.get("year")
    if years is None or column.name in found.columns:
        return
    known = [part for part in _PARTS if part in parts and not (is_zoned and part == "hour")]
    ranges = []
    for each in zip(*(parts[part] for part in known), strict=True):
        values = dict(zip(known, (keys[0] if len(keys) == 1 else None for keys in each), strict=True))
        ranges.append(_span_time(kind, values, _ZONE_DAYS if is_zoned else 0))
    found.columns[column.name] = _make_span(kind, years, ranges)
    if is_zoned:
        found.zoned.add(column.name)


def _span_time(kind: pa.DataType, parts: Mapping[str, int | None], margin_days: int) -> Range:
    """Return the first and the last value that has some parts, of the largest units first."""
    seconds = _span_seconds(parts)
    if seconds is None:
        return _ANY
    first, end = seconds[0] - margin_days * _DAY_SECONDS, seconds[1] + margin_days * _DAY_SECONDS
    if pa.types.is_date32(kind):
        return first // _DAY_SECONDS, -(-end // _DAY_SECONDS) - 1
    per_second = _PER_SECOND[kind.unit]
    bounds = first * per_second, end * per_second - 1
    low, high = (one if one in _INT64 else None for one in bounds)
    return low, high


def _span_seconds(parts: Mapping[str, int | None]) -> tuple[int, int] | None:
    """Return the first second since 1970 with some parts, and the one after the last; None without a year."""
    year, month, day, hour = (parts.get(part) for part in _PARTS)
    if year is None:
        return None
    try:
        if month is None:
            return _seconds(year, 1, 1), _seconds(year + 1, 1, 1)
        if day is None:
            following = (year, month + 1) if month < 12 else (year + 1, 1)
            return _seconds(year, month, 1), _seconds(*following, 1)
        start = _seconds(year, month, day)
    except ValueError:
        return None  # no such date, or the end of all years
    if hour is None or hour not in range(24):
        return start, start + _DAY_SECONDS
    return start + hour * 3600, start + (hour + 1) * 3600


def _seconds(year: int, month: int, day: int) -> int:
    return (date(year, month, day).toordinal() - _EPOCH) * _DAY_SECONDS


def list_sources(spec: RegionSpec, columns: Mapping[int, pa.Field]) -> Iterator[tuple[int, pa.Field]]:
    """Yield the source columns of a spec, as `read_region_values` takes them."""
    for source in dict.fromkeys(source for one in spec.fields for source in one.source_ids):
        if source in columns:
            yield source, columns[source]


def is_ordered(kind: pa.DataType) -> bool:
    """Return whether Arrow orders values of a type as DataFusion does."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date)
    others = (pa.types.is_timestamp, pa.types.is_boolean, is_text, pa.types.is_binary)
    return any(bool(test(kind)) for test in (*tests, *others))


def find_end_of_prefix(prefix: str) -> str | None:
    """Return the least text above all that begin with a prefix of ASCII; None if there is none."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix and prefix.isascii() else None
