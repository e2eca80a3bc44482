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

from lance_gateway.memwal.base.index_details import RegionField
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.transforms.agreement import Row, is_trusted, list_reading_types, list_readings
from lance_gateway.memwal.transforms.buckets import BucketHash
from lance_gateway.memwal.transforms.raw_values import decode_raw, parse_result_type
from lance_gateway.memwal.transforms.transform import Transform
from lance_gateway.memwal.transforms.transforms import DatePart, Identity, build_transform
from lance_gateway.planner.predicates.predicate import format_value
from lance_gateway.planner.predicates.value_sets import Bound, Box, ColumnSet, order_key

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

    def has_value(self, key: Any) -> bool:  # noqa: ANN401 - a region value of any type
        """Return whether a region with this value may hold matching rows."""
        if self.keys is not None:
            return key in self.keys
        return self.bounds is None or (self.bounds.null if key is None else self.bounds.has_value(key))


class SpecField:
    """Field of a region spec over the current columns of the table.

    `text` is the field as people write it, bucket(id, 4); `columns` are its source columns; `problem` says
    why nothing can be concluded from it, where that is so.
    """

    def __init__(self, field: RegionField, columns: Mapping[int, pa.Field]) -> None:
        self.name = field.field_id
        self.text = f"field {field.field_id!r}"
        self.problem = ""
        self.columns: tuple[str, ...] = ()
        self._types: tuple[pa.DataType, ...] = ()
        self._read_types: tuple[pa.DataType, ...] = ()
        self._field = field
        self._transforms: tuple[Transform, ...] = ()
        missing = [source for source in field.source_ids if source not in columns]
        if missing:
            self.problem = (
                f"{self.text} is derived from column id {missing[0]}, which the table does not have"
            )
            return
        sources = [columns[source] for source in field.source_ids]
        self.text = format_field(field, [column.name for column in sources])
        try:
            self._dtype = parse_result_type(field.result_type)
            # Which reading of the hash a writer had is recorded nowhere: a value of either is admissible.
            transforms = [build_transform(field, reading) for reading in BucketHash]
        except LanceGatewayError as error:
            self.problem = str(error)
            return
        self._transforms = tuple(dict.fromkeys(transforms))
        self.columns = tuple(column.name for column in sources)
        self._types = tuple(_get_value_type(column.type) for column in sources)
        self._read_types = list_reading_types(transforms[0], self._types)

    def compute_field_sets(self, boxes: Sequence[Box]) -> list[FieldSet | None]:
        """Return, for each box, the values that the field can have; None for any value.

        Listed values of all boxes go through the transform together, so its cost is paid once.
        """
        if self.problem or not self.columns:
            return [None] * len(boxes)
        rows: dict[tuple[Any, ...], Row] = {}
        found: list[FieldSet | None] = []
        listed: list[list[tuple[Any, ...]] | None] = []
        for box in boxes:
            combinations = self._list_combinations(box) if len(rows) < _MAX_ROWS else None
            # 0.0 and -0.0 are one key: they hash alike.
            keys = None if combinations is None else [tuple(map(order_key, row)) for row in combinations]
            listed.append(keys)
            rows.update(zip(keys or (), combinations or (), strict=True))
            found.append(self._transform_range(box) if keys is None else None)
        images = self._transform_rows(list(rows.values())) if rows else []
        if images is None:
            return found
        by_key = dict(zip(rows, images, strict=True))
        return [
            one if keys is None else _unite([by_key[key] for key in keys])
            for one, keys in zip(found, listed, strict=True)
        ]

    def decode(self, raw: bytes | None) -> tuple[tuple[Any, ...], str]:
        """Return the possible keys of a recorded value and its text, or no keys and a reason."""
        if raw is None:
            return (), f"no value is recorded for {self.text}"
        keys, text = decode_recorded_keys(self._field, raw), _decode_value(self._field.result_type, raw)[1]
        if not keys:
            kind = self._field.result_type
            return (), f"the value recorded for {self.text} (0x{raw.hex()}) tells nothing as {kind}"
        return keys, f"{self.text} = {text}"

    def _list_combinations(self, box: Box) -> list[Row] | None:
        """Return all combinations of listed values of the source columns; None unless all are listed."""
        choices: list[list[pa.Scalar]] = []
        for name, dtype in zip(self.columns, self._types, strict=True):
            values = box.get(name)
            if values is None or values.values is None:
                return None
            if values.values and values.values[0].type != dtype:
                return None
            choices.append([*values.values, *([pa.scalar(None, dtype)] if values.null else [])])
        return None if math.prod(map(len, choices)) > _MAX_ROWS_PER_BOX else list(product(*choices))

    def _transform_rows(self, rows: Sequence[Row]) -> list[frozenset[Any] | None] | None:
        """Return, for each row, the keys that the field can have (None: any); None if the transform fails."""
        read = [list_readings(self._transforms[0], row) for row in rows]
        images = self._compute_keys([one for reading in read for one in reading or ()])
        if images is None:
            return None
        following = iter(images)
        return [
            None if reading is None else frozenset().union(*(next(following) for _ in reading))
            for reading in read
        ]

    def _compute_keys(self, rows: Sequence[Row]) -> list[frozenset[Any]] | None:
        """Return, for each row, the keys of the field's value in every reading of the hash."""
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
                images = [known | {key} for known, key in zip(images, _list_order_keys(results), strict=True)]
        except (LanceGatewayError, pa.ArrowException) as error:
            self.problem = f"{self.text} cannot be evaluated: {error}"
            return None
        return images

    def _transform_range(self, box: Box) -> FieldSet | None:
        """Return the field's values over a range of its only source column; None for any value."""
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
        lowest, highest = self._read_end(values.lower, 0), self._read_end(values.upper, -1)
        if transform.preserves_order(self._read_types[0]):
            lower, upper = self._transform_end(lowest), self._transform_end(highest)
            return FieldSet(None, ColumnSet(lower=lower, upper=upper)) if lower or upper else None
        if not isinstance(transform, DatePart) or lowest is None or highest is None:
            return None
        samples = _sample_instants(transform.part, lowest, highest)
        images = None if samples is None else self._compute_keys([(value,) for value in samples])
        return None if images is None else _unite(images)

    def _read_end(self, bound: Bound | None, at: int) -> pa.Scalar | None:
        """Return the first or last reading of an end of a range; None if there is none or it is uncertain."""
        found = None if bound is None else list_readings(self._transforms[0], (bound.value,))
        return None if found is None else found[at][0]

    def _transform_end(self, end: pa.Scalar | None) -> Bound | None:
        if end is None:
            return None
        try:
            image = self._transforms[0].apply([pa.array([end], end.type)]).cast(self._dtype)[0]
        except (LanceGatewayError, pa.ArrowException):
            return None
        found = Bound(image, inclusive=True)
        return found if image.is_valid and not _is_nan(found.key) else None


def decode_recorded_keys(field: RegionField, raw: bytes | None) -> tuple[Any, ...]:
    """Return the possible keys of a recorded value; none if it is unknown."""
    keys = () if raw is None else _decode_value(field.result_type, raw)[0]
    return keys if all(key is None or is_trusted(field, key) for key in keys) else ()


def _get_value_type(dtype: pa.DataType) -> pa.DataType:
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def format_recorded_value(field: RegionField, raw: bytes) -> str:
    """Format a recorded value as SQL does; in hexadecimal if it cannot be decoded."""
    return _decode_value(field.result_type, raw)[1] or raw.hex()


def format_field(field: RegionField, columns: Sequence[str]) -> str:
    """Format the expression from which a field derives."""
    if field.expression is not None:
        return f"({field.expression}) of ({', '.join(columns)})"
    return f"{field.transform}({', '.join([*columns, *field.parameters.values()])})"


def _list_order_keys(values: pa.Array) -> list[Any]:
    """Return the `order_key` of every value, None for NULL."""
    if pa.types.is_temporal(values.type):
        values = pc.cast(values, pa.int32() if values.type.bit_width == 32 else pa.int64())
    return list(values.to_pylist())


def _is_nan(key: Any) -> bool:  # noqa: ANN401 - of any type
    return isinstance(key, float) and math.isnan(key)


@lru_cache(maxsize=65_536)
def _decode_value(result_type: str, raw: bytes) -> tuple[tuple[Any, ...], str]:
    """Return the keys that a recorded value can stand for, and its text; () if it cannot be compared."""
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
    return (key,) if raw else (key, None), format_value(value)


def _sample_instants(part: str, lowest: pa.Scalar, highest: pa.Scalar) -> pa.Array | None:
    """Return instants of a range that cover every value of a date part; None if the range is too long."""
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


def _unite(images: Sequence[frozenset[Any] | None]) -> FieldSet | None:
    known = [image for image in images if image is not None]
    return FieldSet(frozenset().union(*known)) if len(known) == len(images) else None
