"""Values of parameters in the types that a statement expects of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from memwal.errors import InvalidInputError
from planner.search.distance_functions import is_vector_type
from planner.search.vector_text import read_vector

__all__ = ["are_comparable", "typed_values"]


def typed_values(values: Sequence[pa.Scalar], schema: pa.Schema) -> tuple[pa.Scalar, ...]:
    """The values that were bound, as the statement expects them.

    Args:
        values: one per parameter.
        schema: one field per parameter.

    Raises:
        InvalidInputError: too few or too many, or a value of the wrong type.
    """
    if len(values) != len(schema):
        msg = f"the statement has {len(schema)} parameter(s), but {len(values)} were bound"
        raise InvalidInputError(msg)
    return tuple(_typed(value, field) for value, field in zip(values, schema, strict=True))


def _typed(value: pa.Scalar, field: pa.Field) -> pa.Scalar:
    if value.type.equals(field.type):
        return value
    if not value.is_valid:
        return pa.scalar(None, field.type)
    if is_vector_type(field.type) and pa.types.is_string(value.type):
        numbers = read_vector(value.as_py())
        if numbers is not None:
            return pa.scalar(numbers, field.type)
    try:
        return value.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        # DataFusion may know a way (a decimal compared with an int column); keep what was bound.
        if are_comparable(value.type, field.type):
            return value
        msg = (
            f"parameter {field.name} is {value.as_py()!r} ({value.type}), but {field.type} is needed: {error}"
        )
        raise InvalidInputError(msg) from error


def are_comparable(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of one type can be compared with those of another without becoming ones of that type.

    1.5 is no int64, yet it can be compared with one; so can milliseconds with seconds.
    """
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(other):
        return (kind.tz is None) == (other.tz is None)
    return _is_number(kind) and _is_number(other)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
