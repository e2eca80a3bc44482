"""SQLAlchemy's types of columns, from Arrow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import types


class ArrowType(types.UserDefinedType):
    """A type that SQLAlchemy has no name for; Superset shows it under Arrow's.

    Args:
        name: such as `list<item: double>`.
    """

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **kw: Any) -> str:
        """Return the name."""
        return self.name


_Test = Callable[[pa.DataType], bool]
_TYPES: Final[tuple[tuple[_Test, Callable[[pa.DataType], types.TypeEngine]], ...]] = (
    (pa.types.is_boolean, lambda _: types.BOOLEAN()),
    # A BIGINT has no room for the upper half of unsigned numbers of 64 bits.
    (pa.types.is_uint64, lambda _: types.DECIMAL(20, 0)),
    (lambda one: pa.types.is_int64(one) or pa.types.is_uint32(one), lambda _: types.BIGINT()),
    (pa.types.is_integer, lambda _: types.INTEGER()),
    (pa.types.is_floating, lambda _: types.FLOAT()),
    (pa.types.is_decimal, lambda one: types.DECIMAL(one.precision, one.scale)),
    (pa.types.is_timestamp, lambda one: types.TIMESTAMP(timezone=one.tz is not None)),
    (pa.types.is_date, lambda _: types.DATE()),
    (pa.types.is_time, lambda _: types.TIME()),
    (
        lambda one: pa.types.is_string(one) or pa.types.is_large_string(one) or pa.types.is_string_view(one),
        lambda _: types.TEXT(),
    ),
    (
        lambda one: (
            pa.types.is_binary(one)
            or pa.types.is_large_binary(one)
            or pa.types.is_binary_view(one)
            or pa.types.is_fixed_size_binary(one)
        ),
        lambda _: types.BLOB(),
    ),
)


def build_type(arrow: pa.DataType) -> types.TypeEngine:
    """Return the type of SQLAlchemy for one of Arrow."""
    if pa.types.is_dictionary(arrow):
        return build_type(arrow.value_type)
    for fits, build in _TYPES:
        if fits(arrow):
            return build(arrow)
    return ArrowType(str(arrow))
