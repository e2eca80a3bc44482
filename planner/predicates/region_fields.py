"""What a predicate lets a region field be: its transform applied to the admissible values of its columns.

bucket(id, 4)   id IN (7, 12)                  ->  {1, 3}
year(d)         d < '2025-01-01'               ->  up to 2024
hour(ts)        ts within 08:10 and 10:00      ->  {8, 9, 10}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from memwal.base.index_details import RegionField
from memwal.errors import LanceGatewayError
from memwal.transforms.agreement import Row, is_trusted, list_reading_types, list_readings
from memwal.transforms.raw_values import decode_raw, parse_result_type
from memwal.transforms.transforms import BucketHash, DatePart, Identity, Transform, build_transform
from planner.predicates.predicate import value_text
from planner.predicates.value_sets import Bound, Box, ColumnSet, order_key

__all__ = ["FieldSet", "SpecField", "recorded_keys"]

_MAX_ROWS: Final = 20_000
_MAX_ROWS_PER_BOX: Final = 2_000
_STEPS: Final = {"month": 24 * 3600, "day": 24 * 3600, "hour": 3600}
# After so many steps a part of a date has had every value.
_ALL_SAMPLES: Final = {"month": 366, "day": 62, "hour": 24}
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class FieldSet:
    """Admissible values of a region field, as `order_key`s with None for NULL.

    `keys` lists them; None: those that `bounds` admits, NULL if `bounds.null`.
    """

    keys: frozenset[Any] | None
    bounds: ColumnSet | None = None

    def admits(self, key: Any) -> bool:  # noqa: ANN401 -- a region value of any type
        """Whether a region with this value may hold matching rows."""
        if self.keys is not None:
            return key in self.keys
        return self.bounds is None or (self.bounds.null if key is None else self.bounds.admits(key))


class SpecField:
    """A field of a region spec over the current columns of the table.

    `text` is the field as people write it, bucket(id, 4); `columns` are its source columns; `trouble` says
    why nothing can be concluded from it, where that is so.
    """

    def __init__(self, field: RegionField, columns: Mapping[int, pa.Field]) -> None:
        self.name = field.field_id
        self.text = f"field {field.field_id!r}"
        self.trouble = ""
        self.columns: tuple[str, ...] = ()
        self._types: tuple[pa.DataType, ...] = ()
        self._read_types: tuple[pa.DataType, ...] = ()
        self._field = field
        self._transforms: tuple[Transform, ...] = ()
        missing = [source for source in field.source_ids if source not in columns]
        if missing:
            self.trouble = (
                f"{self.text} is derived from column id {missing[0]}, which the table does not have"
            )
            return
        sources = [columns[source] for source in field.source_ids]
        self.text = field_text(field, [column.name for column in sources])
        try:
            self._dtype = parse_result_type(field.result_type)
            # Which reading of the hash a writer had is recorded nowhere: a value of either is admissible.
            transforms = [build_transform(field, reading) for reading in BucketHash]
        except LanceGatewayError as error:
            self.trouble = str(error)
            return
        self._transforms = tuple(dict.fromkeys(transforms))
        self.columns = tuple(column.name for column in sources)
        self._types = tuple(_plain_type(column.type) for column in sources)
        self._read_types = list_reading_types(transforms[0], self._types)

    def admissible(self, boxes: Sequence[Box]) -> list[FieldSet | None]:
        """Per box, what the field can be; None for anything.

        Listed values of all boxes go through the transform together, so its cost is paid once.
        """
        if self.trouble or not self.columns:
            return [None] * len(boxes)
        rows: dict[tuple[Any, ...], Row] = {}
        found: list[FieldSet | None] = []
        listed: list[list[tuple[Any, ...]] | None] = []
        for box in boxes:
            combinations = self._combinations(box) if len(rows) < _MAX_ROWS else None
            # 0.0 and -0.0 are one key: they hash alike.
            keys = None if combinations is None else [tuple(map(order_key, row)) for row in combinations]
            listed.append(keys)
            rows.update(zip(keys or (), combinations or (), strict=True))
            found.append(self._of_range(box) if keys is None else None)
        images = self._apply(list(rows.values())) if rows else []
        if images is None:
            return found
        by_key = dict(zip(rows, images, strict=True))
        return [
            one if keys is None else _united([by_key[key] for key in keys])
            for one, keys in zip(found, listed, strict=True)
        ]

    def recorded(self, raw: bytes | None) -> tuple[tuple[Any, ...], str]:
        """The possible keys of a recorded value and its text; no keys and the reason if it is not known."""
        if raw is None:
            return (), f"no value is recorded for {self.text}"
        keys, text = recorded_keys(self._field, raw), _recorded(self._field.result_type, raw)[1]
        if not keys:
            told = self._field.result_type
            return (), f"the value recorded for {self.text} (0x{raw.hex()}) tells nothing as {told}"
        return keys, f"{self.text} = {text}"

    def _combinations(self, box: Box) -> list[Row] | None:
        """Every combination of the listed values of the source columns; None unless all are listed."""
        choices: list[list[pa.Scalar]] = []
        for name, dtype in zip(self.columns, self._types, strict=True):
            values = box.get(name)
            if values is None or values.values is None:
                return None
            if values.values and values.values[0].type != dtype:
                return None
            choices.append([*values.values, *([pa.scalar(None, dtype)] if values.null else [])])
        return None if math.prod(map(len, choices)) > _MAX_ROWS_PER_BOX else list(product(*choices))

    def _apply(self, rows: Sequence[Row]) -> list[frozenset[Any] | None] | None:
        """Per row, the keys that the field can have, None for any; None if they cannot be computed."""
        read = [list_readings(self._transforms[0], row) for row in rows]
        images = self._computed([one for reading in read for one in reading or ()])
        if images is None:
            return None
        following = iter(images)
        return [
            None if reading is None else frozenset().union(*(next(following) for _ in reading))
            for reading in read
        ]

    def _computed(self, rows: Sequence[Row]) -> list[frozenset[Any]] | None:
        """Per row, the keys of the field's value in every reading of the hash."""
        images: list[frozenset[Any]] = [frozenset()] * len(rows)
        if not rows:
            return images
        try:
            columns = [
                pa.array(list(column), dtype)
                for column, dtype in zip(zip(*rows, strict=True), self._read_types, strict=True)
            ]
            for transform in self._transforms:
                results = transform.apply(columns).cast(self._dtype)
                images = [known | {key} for known, key in zip(images, _keys(results), strict=True)]
        except (LanceGatewayError, pa.ArrowException) as error:
            self.trouble = f"{self.text} cannot be evaluated: {error}"
            return None
        return images

    def _of_range(self, box: Box) -> FieldSet | None:
        """The field over a range of its only source column; None for anything."""
        values = box.get(self.columns[0])
        if (
            len(self.columns) != 1
            or len(self._transforms) != 1
            or values is None
            or values.values is not None
        ):
            return None
        (transform,) = self._transforms
        ends = [bound for bound in (values.lower, values.upper) if bound is not None]
        if any(bound.value.type != self._types[0] for bound in ends):
            return None
        if isinstance(transform, Identity) and self._dtype == self._types[0]:
            return FieldSet(None, values)
        if values.null or not ends:
            return None
        lowest, highest = self._end(values.lower, 0), self._end(values.upper, -1)
        if transform.preserves_order(self._read_types[0]):
            lower, upper = self._image(lowest), self._image(highest)
            return FieldSet(None, ColumnSet(lower=lower, upper=upper)) if lower or upper else None
        if not isinstance(transform, DatePart) or lowest is None or highest is None:
            return None
        samples = _samples(transform.part, lowest, highest)
        images = None if samples is None else self._computed([(value,) for value in samples])
        return None if images is None else _united(images)

    def _end(self, bound: Bound | None, at: int) -> pa.Scalar | None:
        """The first or last reading of an end of a range; None where there is none, or none is certain."""
        found = None if bound is None else list_readings(self._transforms[0], (bound.value,))
        return None if found is None else found[at][0]

    def _image(self, end: pa.Scalar | None) -> Bound | None:
        """Where a monotone transform takes one end of a range."""
        if end is None:
            return None
        try:
            image = self._transforms[0].apply([pa.array([end], end.type)]).cast(self._dtype)[0]
        except (LanceGatewayError, pa.ArrowException):
            return None
        found = Bound(image, inclusive=True)
        return found if image.is_valid and not _is_nan(found.key) else None


def recorded_keys(field: RegionField, raw: bytes | None) -> tuple[Any, ...]:
    """The possible keys of a recorded value of a field; none if it is not known."""
    keys = () if raw is None else _recorded(field.result_type, raw)[0]
    return keys if all(key is None or is_trusted(field, key) for key in keys) else ()


def _plain_type(dtype: pa.DataType) -> pa.DataType:
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def recorded_text(field: RegionField, raw: bytes) -> str:
    """A recorded value of a field as SQL writes it; its bytes in hexadecimal where it means nothing."""
    return _recorded(field.result_type, raw)[1] or raw.hex()


def field_text(field: RegionField, columns: Sequence[str]) -> str:
    """How a field derives from these columns."""
    if field.expression is not None:
        return f"({field.expression}) of ({', '.join(columns)})"
    return f"{field.transform}({', '.join([*columns, *field.parameters.values()])})"


def _keys(values: pa.Array) -> list[Any]:
    """`order_key` of every value, None for NULL."""
    if pa.types.is_temporal(values.type):
        values = pc.cast(values, pa.int32() if values.type.bit_width == 32 else pa.int64())
    return list(values.to_pylist())


def _is_nan(key: Any) -> bool:  # noqa: ANN401 -- of any type
    return isinstance(key, float) and math.isnan(key)


@lru_cache(maxsize=65_536)
def _recorded(result_type: str, raw: bytes) -> tuple[tuple[Any, ...], str]:
    """What a recorded value can mean, and its text; () if it means nothing that can be compared."""
    try:
        value = decode_raw(parse_result_type(result_type), raw, source=result_type)
    except LanceGatewayError:
        return (), ""
    if not value.is_valid:
        return (None,), "NULL"
    key = order_key(value)
    if _is_nan(key):
        return (), ""
    # No bytes are an empty text, or the NULL of a writer that had nothing better to write.
    return (key,) if raw else (key, None), value_text(value)


def _samples(part: str, lowest: pa.Scalar, highest: pa.Scalar) -> pa.Array | None:
    """Instants of a range that show every value of a date's part in it; None if the range is too long."""
    dtype = lowest.type
    if part not in _STEPS:
        return None
    # Ranges of dates that are no longer than this were listed value by value.
    if not pa.types.is_timestamp(dtype) or dtype.tz not in (None, "UTC"):
        return None
    step = _STEPS[part] * _PER_SECOND[dtype.unit]
    low, high = order_key(lowest), order_key(highest)
    if (high - low) // step > _ALL_SAMPLES[part]:
        return None
    return pa.array([*range(low, high, step), high], pa.int64()).cast(dtype)


def _united(images: Sequence[frozenset[Any] | None]) -> FieldSet | None:
    """What any of some rows lets a field be; None for anything."""
    known = [one for one in images if one is not None]
    return FieldSet(frozenset().union(*known)) if len(known) == len(images) else None
