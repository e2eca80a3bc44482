"""Region transforms: compute the region values of a row from its columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.transforms.buckets import Bucket, BucketHash, MultiBucket
from lance_gateway.memwal.transforms.expressions import evaluate_expression
from lance_gateway.memwal.transforms.raw_values import decode_raw, encode_raw, parse_result_type
from lance_gateway.memwal.transforms.transform import Transform, check_positive, one_column_error


@dataclass(frozen=True)
class Unsharded(Transform):
    """Puts all rows into one region, whose value is 0."""

    def apply(self, columns: Sequence[pa.Array], *, rows: int | None = None) -> pa.Array:
        """Return zeros."""
        return pa.array(np.zeros(_row_count(columns, rows), np.int32))


@dataclass(frozen=True)
class Identity(Transform):
    """Returns the column's value."""

    def preserves_order(self, source_type: pa.DataType) -> bool:  # noqa: ARG002 - the same for all
        """Return True."""
        return True

    def apply(self, columns: Sequence[pa.Array], *, rows: int | None = None) -> pa.Array:  # noqa: ARG002
        """Return the column."""
        if len(columns) != 1:
            raise one_column_error("identity", columns)
        return columns[0]


@dataclass(frozen=True)
class DatePart(Transform):
    """A part of a date or timestamp, the latter in its own time zone, as an int32; NULL of NULL.

    Attributes:
        part: year, month (1-12), day (1-31) or hour (0-23; 0 for a date).
    """

    part: str

    def preserves_order(self, source_type: pa.DataType) -> bool:
        """Return True for years of dates and timestamps, but not of local time, which may be set back."""
        if pa.types.is_timestamp(source_type):
            return self.part == "year" and source_type.tz in (None, "UTC")
        return self.part == "year" and bool(pa.types.is_date(source_type))

    def apply(self, columns: Sequence[pa.Array], *, rows: int | None = None) -> pa.Array:  # noqa: ARG002
        """Return the part."""
        if len(columns) != 1:
            raise one_column_error(self.part, columns)
        column = columns[0]
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), pa.int32())
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("ms"))
        if not pa.types.is_timestamp(column.type):
            return evaluate_expression(f"date_part('{self.part}', col0)", [column], len(column), pa.int32())
        return getattr(pc, self.part)(column).cast(pa.int32())


@dataclass(frozen=True)
class Truncate(Transform):
    """A string's first characters, or a number rounded towards zero to a multiple; NULL of NULL.

    Attributes:
        width: number of characters (code points), or the number whose multiples are kept; 1 or more.
    """

    width: int

    def __post_init__(self) -> None:
        check_positive("truncate", "width", self.width)

    def preserves_order(self, source_type: pa.DataType) -> bool:
        """Return True for strings (compared by their bytes) and numbers."""
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_floating)
        return any(is_kind(source_type) for is_kind in (*kinds, pa.types.is_decimal))

    def apply(self, columns: Sequence[pa.Array], *, rows: int | None = None) -> pa.Array:  # noqa: ARG002
        """Return values of the column's own type."""
        if len(columns) != 1:
            raise one_column_error("truncate", columns)
        column = columns[0]
        kind = column.type
        if pa.types.is_null(kind):
            return column
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return pc.utf8_slice_codeunits(column, 0, self.width)
        if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
            # Division of integers rounds towards zero.
            quotients = pc.divide(column.cast(pa.int64()), self.width)
            return pc.multiply(quotients, self.width).cast(kind)
        return evaluate_expression(f"col0 - (col0 % {self.width})", [column], len(column), kind)


@dataclass(frozen=True)
class Expression(Transform):
    """A DataFusion SQL expression over `col0`, `col1`, ...

    Attributes:
        sql: the expression.
        result_type: type of its values.
    """

    sql: str
    result_type: pa.DataType

    def apply(self, columns: Sequence[pa.Array], *, rows: int | None = None) -> pa.Array:
        """Return the expression's values."""
        return evaluate_expression(self.sql, columns, _row_count(columns, rows), self.result_type)


TRANSFORMS: Final[Mapping[str, Callable[[RegionField, BucketHash], Transform]]] = MappingProxyType(
    {
        "identity": lambda _field, _reading: Identity(),
        "year": lambda _field, _reading: DatePart("year"),
        "month": lambda _field, _reading: DatePart("month"),
        "day": lambda _field, _reading: DatePart("day"),
        "hour": lambda _field, _reading: DatePart("hour"),
        "bucket": lambda field, reading: Bucket(_read_parameter(field, "num_buckets"), reading),
        "multi_bucket": lambda field, _reading: MultiBucket(_read_parameter(field, "num_buckets")),
        "truncate": lambda field, _reading: Truncate(_read_parameter(field, "width")),
        "unsharded": lambda _field, _reading: Unsharded(),
    }
)


@lru_cache(maxsize=256)
def build_transform(field: RegionField, reading: BucketHash = BucketHash.LANCE) -> Transform:
    """Return the transform of a region field.

    Raises:
        UnsupportedError: nothing here goes by that name, or the field gives neither or both of transform and
            expression.
        InvalidInputError: a parameter is missing or senseless.
    """
    if field.expression is not None and field.transform is None:
        return Expression(field.expression, parse_result_type(field.result_type))
    if field.expression is None and field.transform is not None and field.transform in TRANSFORMS:
        return TRANSFORMS[field.transform](field, reading)
    msg = (
        f"Region field {field.field_id!r} has transform {field.transform!r} and expression "
        f"{field.expression!r}; it must have one of the two, and known transforms are {', '.join(TRANSFORMS)}"
    )
    raise UnsupportedError(msg)


def compute_region_values(
    spec: RegionSpec, columns: Mapping[int, pa.Array], reading: BucketHash = BucketHash.LANCE
) -> tuple[pa.Array, ...]:
    """Compute the region values of rows: one array per field of the spec, one value per row.

    Args:
        spec: the region spec.
        columns: array by Lance field id, equally long; a source that is missing counts as NULL.
        reading: how `bucket` hashes.

    Raises:
        UnsupportedError: a field's transform, or its use on a column of this type, is not known.
        InvalidInputError: a parameter, an expression or the number of source columns makes no sense.
    """
    rows = len(next(iter(columns.values()))) if columns else 1
    absent = pa.nulls(rows)
    return tuple(
        build_transform(field, reading).apply(
            [columns.get(source, absent) for source in field.source_ids], rows=rows
        )
        for field in spec.fields
    )


def decode_region_value(field: RegionField, raw: bytes) -> object:
    """Decode the recorded value of a field; None for NULL.

    Raises:
        UnsupportedError: the field's result type cannot be read.
        CorruptDataError: the bytes are none of that type.
    """
    scalar = decode_raw(parse_result_type(field.result_type), raw, source=f"Region field {field.field_id!r}")
    try:
        return scalar.as_py()
    except ValueError as error:
        msg = f"Region field {field.field_id!r}: {error}"
        raise UnsupportedError(msg) from error


def encode_region_value(field: RegionField, value: object) -> bytes:
    """Encode a value of a field, a Python object or an Arrow scalar, as manifests record it.

    Raises:
        UnsupportedError: the field's result type cannot be written, or has no bytes for NULL.
        InvalidInputError: the value is none of that type.
    """
    try:
        return encode_raw(
            parse_result_type(field.result_type), value, source=f"Region field {field.field_id!r}"
        )
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        msg = f"Region field {field.field_id!r}: {value!r} is not of type {field.result_type}: {error}"
        raise InvalidInputError(msg) from error


def _row_count(columns: Sequence[pa.Array], rows: int | None) -> int:
    if columns:
        return len(columns[0])
    return 1 if rows is None else rows


def _read_parameter(field: RegionField, name: str) -> int:
    given = field.parameters.get(name)
    try:
        return int(given or "")
    except ValueError as error:
        msg = f"Region field {field.field_id!r}: parameter {name} is {given!r}, but must be a number"
        raise InvalidInputError(msg) from error
