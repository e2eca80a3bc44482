"""Types that clients can read: no views, no dictionaries, no run-end encoding.

The Arrow Flight SQL JDBC driver reads unsigned integers as signed ones, fails on float16, narrow decimals and
getObject of a timestamp with zone, and binds times and timestamps as milliseconds. So it gets wider integers,
float32, timestamps without zone (in UTC), and parameters in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import SessionConfig, SessionContext

from memwal.errors import InvalidInputError, LanceGatewayError
from planner.bridge.distance_functions import is_vector_type
from planner.sql.vector_text import read_vector


def bind_values(values: Sequence[pa.Scalar], schema: pa.Schema) -> tuple[pa.Scalar, ...]:
    """Cast bound values to the types of the parameters.

    Args:
        values: one per parameter.
        schema: one field per parameter.

    Raises:
        InvalidInputError: too few or too many values, or a value of the wrong type.
    """
    if len(values) != len(schema):
        msg = f"the statement has {len(schema)} parameter(s), but {len(values)} were bound"
        raise InvalidInputError(msg)
    pairs = enumerate(zip(values, schema.types, strict=True), start=1)
    return tuple(bind_value(number, value, kind) for number, (value, kind) in pairs)


def bind_value(number: int, value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    """Cast a bound value to the type of its parameter, unless DataFusion can compare it as it is.

    Args:
        number: of the parameter, from 1.
        value: that was bound.
        kind: type of the parameter.

    Raises:
        InvalidInputError: it can't be compared with values of that type.
    """
    if value.type.equals(kind):
        return value
    if not value.is_valid:
        return pa.scalar(None, kind)
    if is_vector_type(kind) and pa.types.is_string(value.type):
        numbers = read_vector(value.as_py())
        if numbers is not None:
            return pa.scalar(numbers, kind)
    try:
        return value.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        # DataFusion may compare it as it is (a decimal with an int column).
        if are_comparable(value.type, kind):
            return value
        raise WrongParameterError(number, value, kind, str(error)) from error


def refuse_untyped(values: Sequence[pa.Scalar], schema: pa.Schema) -> None:
    """Refuse values that `bind_values` did not cast.

    Raises:
        InvalidInputError: there is one; the message names the first.
    """
    for number, (value, kind) in enumerate(zip(values, schema.types, strict=True), start=1):
        if not value.type.equals(kind):
            raise WrongParameterError(number, value, kind, "it is out of range, or would lose digits")


class WrongParameterError(InvalidInputError):
    """A parameter was bound to a value that the statement can't take.

    Attributes:
        number: of the parameter, from 1.
        value: that was bound.
        kind: type of the parameter.
        reason: why the value can't be cast.
    """

    def __init__(self, number: int, value: pa.Scalar, kind: pa.DataType, reason: str) -> None:
        super().__init__(
            f"parameter ${number} is {value.as_py()!r} ({value.type}), but {kind} is needed: {reason}"
        )
        self.number = number
        self.value = value
        self.kind = kind
        self.reason = reason

    def renumber(self, number: int) -> WrongParameterError:
        """Return the error with the number of the parameter in the statement that was sent."""
        return WrongParameterError(number, self.value, self.kind, self.reason)


def are_comparable(kind: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types can be compared without an exact cast, such as 1.5 with an int64."""
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(other):
        return (kind.tz is None) == (other.tz is None)
    return _is_number(kind) and _is_number(other)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


TypeSet: TypeAlias = Literal["arrow", "jdbc"]
"""The clients for which types are made: all Arrow clients, or the JDBC driver."""

_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_JDBC = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def plain_type(data_type: pa.DataType, types: TypeSet = "arrow") -> pa.DataType:
    """Return the type that clients can read for values of `data_type`."""
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type, types)
    if pa.types.is_nested(data_type):
        return _plain_nested(data_type, types)
    plain = _PLAIN.get(data_type, data_type)
    return _jdbc_type(plain) if types == "jdbc" else plain


def _jdbc_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type):
        return pa.timestamp(data_type.unit)
    if pa.types.is_decimal32(data_type) or pa.types.is_decimal64(data_type):
        return pa.decimal128(data_type.precision, data_type.scale)
    return _JDBC.get(data_type, data_type)


def _plain_nested(data_type: pa.DataType, types: TypeSet) -> pa.DataType:
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(plain_field(data_type.value_field, types), data_type.list_size)
    if pa.types.is_large_list(data_type) or pa.types.is_large_list_view(data_type):
        return pa.large_list(plain_field(data_type.value_field, types))
    if pa.types.is_list(data_type) or pa.types.is_list_view(data_type):
        return pa.list_(plain_field(data_type.value_field, types))
    if pa.types.is_map(data_type):
        return pa.map_(plain_type(data_type.key_type, types), plain_field(data_type.item_field, types))
    if pa.types.is_struct(data_type):
        return pa.struct([plain_field(field, types) for field in data_type])
    return data_type


def plain_field(field: pa.Field, types: TypeSet = "arrow") -> pa.Field:
    """Return `field` with its plain type."""
    return pa.field(field.name, plain_type(field.type, types), field.nullable)


def plain_schema(schema: pa.Schema, types: TypeSet = "arrow") -> pa.Schema:
    """Return `schema` with plain types and without metadata."""
    return pa.schema([plain_field(field, types) for field in schema])


def bindable_type(data_type: pa.DataType, types: TypeSet) -> pa.DataType:
    """Return the type in which clients bind a parameter of `data_type`."""
    if types == "arrow":
        return data_type
    if pa.types.is_integer(data_type) and data_type != pa.uint64():
        # The driver would truncate larger numbers to the narrower type.
        return pa.int64()
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("ms", data_type.tz)
    if pa.types.is_time(data_type):
        return pa.time32("ms")
    if data_type == pa.date64():
        return pa.date32()
    return data_type if data_type == pa.uint64() else plain_type(data_type, types)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of `batch` with exactly `schema`; columns are matched by position.

    Columns are not copied if only names or nullability differ.

    Raises:
        LanceGatewayError: the batch has more or fewer columns, values that don't fit the advertised type, or
            NULLs in a column that is not nullable.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.num_columns != len(schema):
        raise LanceGatewayError(
            f"a batch has the columns {batch.schema.names}, advertised were {schema.names}: "
            "run the query again"
        )
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if column.null_count and not field.nullable:
            raise LanceGatewayError(
                f"column {field.name!r} was advertised without NULLs and holds {column.null_count}"
            )
        columns.append(_cast(column, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def normalize_layout(values: pa.Array) -> pa.Array:
    """Return run-end encoded values decoded, and list views as lists.

    pyarrow has no cast of the first, and a wrong one of the second, which ignores their offsets.
    """
    kind = values.type
    if pa.types.is_run_end_encoded(kind):
        return normalize_layout(pc.run_end_decode(values))
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        lists = pa.ListArray if pa.types.is_list_view(kind) else pa.LargeListArray
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        width = pa.int32() if lists is pa.ListArray else pa.int64()
        mask = pc.is_null(values) if values.null_count else None
        return lists.from_arrays(pa.array(offsets, width), normalize_layout(values.flatten()), mask=mask)
    return values


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if column.type.equals(data_type):
        return column
    if pa.types.is_dictionary(column.type):
        # Cast the dictionary, since pyarrow can't decode some of them, such as those of views.
        return _cast(column.dictionary, data_type).take(column.indices)
    column = normalize_layout(column)
    try:
        return column.cast(data_type)
    except pa.ArrowInvalid as error:
        raise LanceGatewayError(
            f"a column of {column.type} does not fit the advertised {data_type}: {error}"
        ) from error


INFORMATION_SCHEMA = "information_schema"


@cache
def information_schema_tables() -> Mapping[str, pa.Schema]:
    """Return table name -> schema of DataFusion's information_schema."""
    context = SessionContext(SessionConfig().with_information_schema(enabled=True))
    listed = context.sql(
        f"SELECT table_name FROM {INFORMATION_SCHEMA}.tables "  # noqa: S608 - a constant
        f"WHERE table_schema = '{INFORMATION_SCHEMA}' ORDER BY table_name"
    )
    names = [name for batch in listed.collect() for name in batch.column(0).to_pylist()]
    schemas = {name: context.sql(f"SELECT * FROM {INFORMATION_SCHEMA}.{name}").schema() for name in names}  # noqa: S608 - its own names
    return MappingProxyType({name: plain_schema(schema) for name, schema in schemas.items()})


def normalize_schema(schema: pa.Schema, types: TypeSet = "arrow") -> pa.Schema:
    """Return a schema as it is advertised and streamed: no view types, no dictionaries, all fields nullable.

    Fields are nullable because the nullability of DataFusion's batches differs from its logical schema.
    """
    return pa.schema([pa.field(field.name, plain_type(field.type, types), nullable=True) for field in schema])
