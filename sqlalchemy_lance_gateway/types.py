"""Types of the gateway that SQLAlchemy has no name for, and the SQLAlchemy type of each Arrow type."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import types as sqltypes
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.operators import OperatorClass
from sqlalchemy.types import TypeEngine

_PRECISION: Final = b"ARROW:FLIGHT:SQL:PRECISION"
_DIGITS: Final[Mapping[str, int]] = MappingProxyType({"s": 0, "ms": 3, "us": 6, "ns": 9})
_MICROSECONDS: Final = 6


class TINYINT(sa.Integer):
    """Integers of 8 bits."""

    __visit_name__ = "TINYINT"


class UTINYINT(sa.Integer):
    """Integers of 8 bits without sign."""

    __visit_name__ = "UTINYINT"


class USMALLINT(sa.Integer):
    """Integers of 16 bits without sign."""

    __visit_name__ = "USMALLINT"


class UINTEGER(sa.Integer):
    """Integers of 32 bits without sign."""

    __visit_name__ = "UINTEGER"


class UBIGINT(sa.Integer):
    """Integers of 64 bits without sign."""

    __visit_name__ = "UBIGINT"


class HALF(sa.Float[float]):
    """Floating point numbers of 16 bits."""

    __visit_name__ = "HALF"


class TIMESTAMP(sa.TIMESTAMP):
    """A time with a number of digits behind the second.

    Args:
        timezone: whether it is an instant (UTC), or a time on a clock.
        precision: 0 to 9 digits; stored with 0, 3, 6 or 9.
    """

    __visit_name__ = "TIMESTAMP"

    def __init__(self, timezone: bool = False, precision: int = _MICROSECONDS) -> None:  # noqa: FBT001, FBT002 - as sa.TIMESTAMP has it
        super().__init__(timezone=timezone)
        self.precision = precision


class VECTOR(TypeEngine[list[float]]):
    """A list of as many numbers in every row, in which nearest neighbours can be searched.

    Args:
        dimensions: how many numbers.
        item_type: of a number; REAL where none is given.
    """

    __visit_name__ = "VECTOR"
    operator_classes = OperatorClass.ARRAY

    def __init__(self, dimensions: int, item_type: TypeEngine[Any] | None = None) -> None:
        self.dimensions = dimensions
        self.item_type = sa.REAL() if item_type is None else item_type

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], list[float] | None]:
        """Take any sequence of numbers, such as an array of numpy."""
        return lambda value: None if value is None else [float(number) for number in value]

    class Comparator(TypeEngine.Comparator[list[float]]):
        """Distances, by which `ORDER BY .. LIMIT` is a search."""

        def l2_distance(self, other: Iterable[float]) -> sa.ColumnElement[float]:
            """Return the Euclidean distance."""
            return self._measure("<->", other)

        def cosine_distance(self, other: Iterable[float]) -> sa.ColumnElement[float]:
            """Return 1 less the cosine of the angle."""
            return self._measure("<=>", other)

        def max_inner_product(self, other: Iterable[float]) -> sa.ColumnElement[float]:
            """Return the negative inner product: the nearest is the smallest."""
            return self._measure("<#>", other)

        def _measure(self, operator: str, other: Iterable[float]) -> sa.ColumnElement[float]:
            measured: Any = self.op(operator, return_type=sa.Double())(other)
            return cast("sa.ColumnElement[float]", measured)

    comparator_factory = Comparator


class STRUCT(TypeEngine[dict[str, Any]]):
    """Values with named fields, as a dict.

    Args:
        fields: name and type of each.
    """

    __visit_name__ = "STRUCT"
    operator_classes = OperatorClass.BASE | OperatorClass.COMPARISON

    def __init__(self, *fields: tuple[str, TypeEngine[Any]]) -> None:
        self.fields = fields


class Bytes(sa.LargeBinary):
    """Bytes as the driver takes and gives them."""

    def bind_processor(self, dialect: Dialect) -> None:
        """Bind bytes as they are."""

    def result_processor(self, dialect: Dialect, coltype: object) -> None:
        """Return bytes as they are."""


class TextUuid(sa.Uuid[Any]):
    """UUIDs, which the gateway stores as text in lower case with hyphens."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str | None]:
        """Bind UUIDs, and texts that say one, as the text that is stored."""
        return lambda value: None if value is None else str(uuid.UUID(str(value)))

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """Return UUIDs, or the text where the column asks for that."""
        return (lambda value: None if value is None else uuid.UUID(value)) if self.as_uuid else None


def build_type(field: pa.Field, *, is_uuid: bool = False, is_json: bool = False) -> TypeEngine[Any]:
    """Return the SQLAlchemy type of a column.

    Args:
        field: of the table's schema, with the metadata of Flight SQL.
        is_uuid: whether the text in it is a UUID.
        is_json: whether the text in it is JSON.
    """
    if is_uuid:
        return sa.Uuid()
    if is_json:
        return sa.JSON()
    precision = (field.metadata or {}).get(_PRECISION)
    length = None if precision is None else int(precision)
    if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
        return sa.TEXT() if length is None else sa.VARCHAR(length)
    if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
        return sa.LargeBinary() if length is None else sa.VARBINARY(length)
    return _build_plain_type(field.type)


def _build_plain_type(arrow: pa.DataType) -> TypeEngine[Any]:
    if arrow in _TYPES:
        return _TYPES[arrow]()
    if pa.types.is_fixed_size_list(arrow):
        return VECTOR(arrow.list_size, build_type(arrow.value_field))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        item = build_type(arrow.value_field)
        # SQLAlchemy counts how deep lists are nested.
        return (
            sa.ARRAY(item.item_type, dimensions=(item.dimensions or 1) + 1)
            if isinstance(item, sa.ARRAY)
            else sa.ARRAY(item)
        )
    if pa.types.is_struct(arrow):
        return STRUCT(*((field.name, build_type(field)) for field in arrow))
    if pa.types.is_timestamp(arrow):
        return TIMESTAMP(timezone=arrow.tz is not None, precision=_DIGITS[arrow.unit])
    if pa.types.is_decimal(arrow):
        return sa.DECIMAL(arrow.precision, arrow.scale)
    if pa.types.is_time(arrow):
        return sa.TIME()
    if pa.types.is_fixed_size_binary(arrow):
        return sa.BINARY(arrow.byte_width)
    return sqltypes.NullType()


_TYPES: Final[Mapping[pa.DataType, Callable[[], TypeEngine[Any]]]] = MappingProxyType(
    {
        pa.bool_(): sa.BOOLEAN,
        pa.int8(): TINYINT,
        pa.int16(): sa.SMALLINT,
        pa.int32(): sa.INTEGER,
        pa.int64(): sa.BIGINT,
        pa.uint8(): UTINYINT,
        pa.uint16(): USMALLINT,
        pa.uint32(): UINTEGER,
        pa.uint64(): UBIGINT,
        pa.float16(): HALF,
        pa.float32(): sa.REAL,
        pa.float64(): sa.DOUBLE,
        pa.date32(): sa.DATE,
        pa.string_view(): sa.TEXT,
        pa.binary_view(): sa.LargeBinary,
    }
)
