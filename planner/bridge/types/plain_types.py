"""Types that clients can read: no views, no dictionaries, no run-end encoding.

The Arrow Flight SQL JDBC driver reads unsigned integers as signed ones, fails on float16, narrow decimals and
getObject of a timestamp with zone, and binds times and timestamps as milliseconds. So it gets wider integers,
float32, timestamps without zone (in UTC), and parameters in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import time
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.columns.kinds import is_binary, is_list_view, is_number, is_text
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.planner.bridge.distance_functions import is_vector_type
from lance_gateway.planner.sql.text.limits import MAX_LEVELS, MAX_WIDTH
from lance_gateway.planner.sql.value_texts import read_bytes, read_vector

_MOST_DIGITS = 76
_V = TypeVar("_V", pa.Scalar, pa.Array, pa.ChunkedArray)


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
    if pa.types.is_timestamp(kind) and kind.tz is not None and pa.types.is_string(value.type):
        with suppress(pa.ArrowInvalid):  # It has a zone; without one, it is a time of UTC.
            return value.cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_time(kind) and is_text(value.type):
        with suppress(ValueError):  # which the cast raises
            return pa.scalar(time.fromisoformat(value.as_py().strip()), kind)
    try:
        cast = cast_values(value, kind)
        is_rounded = pa.types.is_decimal(kind) and pa.types.is_floating(value.type)
        return value if is_rounded and not cast.cast(value.type).equals(value) else cast
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        # DataFusion may compare it as it is (a decimal with an int column).
        if are_comparable(value.type, kind):
            return value
        raise WrongParameterError.of(number, value, kind, str(error)) from error


def cast_values(values: _V, kind: pa.DataType) -> _V:
    r"""Cast a scalar or an array as Arrow does, but decimals to the nearest floating numbers.

    Arrow's own cast is off by a bit: 9.95 of DECIMAL(38, 10) becomes 9.950000000000001. Texts are read as
    bytes as PostgreSQL does, which writes `\x` and hexadecimal digits.

    Raises:
        pa.ArrowInvalid: as Arrow does, and for a time of day that a date does not have.
    """
    if is_binary(kind) and is_text(values.type):
        return _read_all_bytes(values, kind)
    if pa.types.is_decimal(values.type) and pa.types.is_floating(kind):
        return values.cast(pa.string()).cast(pa.float64()).cast(kind, safe=False)
    if pa.types.is_integer(values.type) and pa.types.is_decimal(kind):
        # Arrow asks for room for all values of the type.
        return values.cast(pa.decimal256(_MOST_DIGITS, kind.scale)).cast(kind)
    cast = values.cast(kind)
    if pa.types.is_date(kind) and pa.types.is_timestamp(values.type):
        moments = values.cast(pa.timestamp(values.type.unit))
        if not cast.cast(moments.type).equals(moments):
            msg = "a date has no time of day"
            raise pa.ArrowInvalid(msg)
    return cast


def _read_all_bytes(texts: _V, kind: pa.DataType) -> _V:
    if isinstance(texts, pa.Scalar):
        return _read_all_bytes(pa.array([texts.as_py()], pa.large_string()), kind)[0]
    if isinstance(texts, pa.ChunkedArray):
        return pa.chunked_array([_read_all_bytes(chunk, kind) for chunk in texts.chunks], kind)
    if not pc.any(pc.starts_with(texts, "\\x")).as_py():
        return texts.cast(pa.large_binary()).cast(kind)
    try:
        return pa.array([None if text is None else read_bytes(text) for text in texts.to_pylist()], kind)
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None


def refuse_untyped(values: Sequence[pa.Scalar], schema: pa.Schema) -> None:
    """Refuse values that `bind_values` did not cast.

    Raises:
        InvalidInputError: there is one; the message names the first.
    """
    for number, (value, kind) in enumerate(zip(values, schema.types, strict=True), start=1):
        if not value.type.equals(kind):
            raise WrongParameterError.of(
                number, value, kind, "it is out of range, or would lose digits or its time"
            )


class WrongParameterError(InvalidInputError):
    """A parameter was bound to a value that the statement can't take.

    Attributes:
        number: of the parameter, from 1.
        problem: what is wrong with it.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"parameter ${number} {problem}")
        self.number = number
        self.problem = problem

    @staticmethod
    def of(number: int, value: pa.Scalar, kind: pa.DataType, reason: str) -> WrongParameterError:
        """Return the error for a value that can't be cast to the type of its parameter."""
        problem = f"is {value.as_py()!r} ({value.type}), but {kind} is needed: {reason}"
        return WrongParameterError(number, problem)

    def renumber(self, number: int) -> WrongParameterError:
        """Return the error with the number of the parameter in the statement that was sent."""
        return WrongParameterError(number, self.problem)


def are_comparable(kind: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types can be compared without an exact cast, such as 1.5 with an int64."""
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(other):
        return (kind.tz is None) == (other.tz is None)
    if pa.types.is_timestamp(kind) and pa.types.is_date(other):
        return True
    if is_text(kind):
        return bool(pa.types.is_time(other) or pa.types.is_interval(other))
    return is_number(kind) and is_number(other)


def is_assigned_alike(schema: pa.Schema, told: pa.Schema) -> bool:
    """Return whether a result has the columns that were told, some perhaps of other numbers."""
    pairs = zip(schema.types, told.types, strict=False)
    return schema.names == told.names and all(
        found.equals(kind) or (is_number(found) and is_number(kind)) for found, kind in pairs
    )


TypeSet: TypeAlias = Literal["arrow", "jdbc"]
"""The clients for which types are made: all Arrow clients, or the JDBC driver."""

_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_JDBC = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    # The driver knows no extension types, and would tell the bytes.
    pa.uuid(): pa.string(),
}
_UUID_BYTES = 16
_BEFORE_HYPHENS = (8, 12, 16, 20)


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
        return pa.list_(_plain_inner(data_type.value_field, types), data_type.list_size)
    if pa.types.is_large_list(data_type) or pa.types.is_large_list_view(data_type):
        return pa.large_list(_plain_inner(data_type.value_field, types))
    if pa.types.is_list(data_type) or pa.types.is_list_view(data_type):
        return pa.list_(_plain_inner(data_type.value_field, types))
    if pa.types.is_map(data_type):
        key = _plain_inner(data_type.key_field, types)
        return pa.map_(key.type, _plain_inner(data_type.item_field, types))
    if pa.types.is_struct(data_type):
        return pa.struct([_plain_inner(field, types) for field in data_type])
    return data_type


def _plain_inner(field: pa.Field, types: TypeSet) -> pa.Field:
    """Return a field inside of others with its plain type; UUIDs become text only as columns."""
    return plain_field(field, "arrow" if field.type.equals(pa.uuid()) else types)


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


def bindable_schema(parameters: pa.Schema, types: TypeSet) -> pa.Schema:
    """Return the parameters of a statement in the types in which clients bind them."""
    return pa.schema(
        [pa.field(parameter.name, bindable_type(parameter.type, types)) for parameter in parameters]
    )


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
    """Return values in their plain type: what they point to, or repeat, stands in each row.

    pyarrow lacks some of this (run ends, dictionaries of views), and ignores the offsets of list views.
    """
    return _lay_out(values, None)


def _lay_out(values: pa.Array, rows: pa.Array | None) -> pa.Array:
    """Return rows of values in their plain type; nothing that they do not point to is copied.

    Args:
        values: of any type.
        rows: their numbers, NULL for rows that are NULL; None for all rows in order.
    """
    kind = values.type
    plain = plain_type(kind)
    if rows is not None and not len(values):
        # Rows of a struct that is NULL may point to the first value, where there is none.
        return pa.nulls(len(rows), plain)
    if plain.equals(kind):
        return values if rows is None else values.take(rows)
    if pa.types.is_dictionary(kind):
        return _lay_out(values.dictionary, values.indices if rows is None else values.indices.take(rows))
    if pa.types.is_run_end_encoded(kind):
        return _repeat_runs(values, rows)
    if kind in _PLAIN:
        return (values if rows is None else _take_views(values, rows)).cast(plain)
    mask = None
    if values.null_count or (rows is not None and rows.null_count):
        mask = pc.is_null(values)
        if rows is not None:
            mask = mask.take(rows).fill_null(pa.scalar(value=True))
    if pa.types.is_struct(kind):
        columns = [_lay_out(values.field(number), rows) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(columns, fields=list(plain), mask=mask)
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        elements, places = values.values.slice(values.offset * size, len(values) * size), None
        if rows is not None:
            places = pa.array((to_numbers(rows)[:, None] * size + np.arange(size)).ravel(), pa.int64())
        return pa.FixedSizeListArray.from_arrays(_lay_out(elements, places), type=plain, mask=mask)
    return _lay_out_lists(values, rows, plain, mask)


def _lay_out_lists(
    values: pa.Array, rows: pa.Array | None, plain: pa.DataType, mask: pa.Array | None
) -> pa.Array:
    kind = values.type
    starts = to_numbers(values.offsets)
    if is_list_view(kind):
        lengths = to_numbers(values.sizes)
    else:
        starts, lengths = starts[:-1], np.diff(starts)
    if rows is not None:
        starts, lengths = starts[to_numbers(rows)], lengths[to_numbers(rows)]
    if mask is not None:
        lengths = np.where(mask.to_numpy(zero_copy_only=False), 0, lengths)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    first = int(starts[0]) if len(starts) else 0
    if np.array_equal(starts[lengths > 0], (first + offsets[:-1])[lengths > 0]):
        elements = _lay_out(values.values.slice(first, int(offsets[-1])), None)
    elif is_list_view(kind) and plain_type(kind.value_type).equals(kind.value_type):
        elements = (values if rows is None else values.take(rows)).flatten()
    else:
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        elements = _lay_out(values.values, pa.array(places, pa.int64()))
    if pa.types.is_map(kind):
        keys, items = elements.field(0), elements.field(1)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=plain, mask=mask)
    is_large = pa.types.is_large_list(plain)
    lists, width = (pa.LargeListArray, pa.int64()) if is_large else (pa.ListArray, pa.int32())
    return lists.from_arrays(pa.array(offsets, width), elements, type=plain, mask=mask)


def find_runs(values: pa.RunEndEncodedArray) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return where each run of run-end encoded values ends, counted from their first row, and its value."""
    if not len(values):
        return np.zeros(0, np.int64), values.values.slice(0, 0)
    first, length = values.find_physical_offset(), values.find_physical_length()
    run_ends = to_numbers(values.run_ends.slice(first, length)) - values.offset
    return np.minimum(run_ends, len(values)), values.values.slice(first, length)


def _repeat_runs(values: pa.RunEndEncodedArray, rows: pa.Array | None) -> pa.Array:
    run_ends, runs = find_runs(values)
    if rows is None:
        return _lay_out(runs, pa.array(np.repeat(np.arange(len(runs)), np.diff(run_ends, prepend=0))))
    places = np.searchsorted(run_ends, to_numbers(rows), side="right")
    nulls = pc.is_null(rows).to_numpy(zero_copy_only=False)
    return _lay_out(runs, pa.array(places, pa.int64(), mask=nulls))


def _take_views(values: pa.Array, rows: pa.Array) -> pa.Array:
    """Return rows of views, which pyarrow has no kernel for; the values stay where they are."""
    validity, views, *data = values.buffers()
    taken = np.frombuffer(views, np.dtype("V16"))[values.offset :][to_numbers(rows)]
    is_valid = pc.is_valid(rows)
    if validity is not None:
        is_valid = pc.and_(is_valid, pc.is_valid(values).take(rows.fill_null(0)))
    return pa.Array.from_buffers(values.type, len(rows), [is_valid.buffers()[1], pa.py_buffer(taken), *data])


def to_numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return integers without nulls; a null is 0."""
    numbers = values.fill_null(0) if values.null_count else values
    return np.asarray(numbers.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if column.type.equals(data_type):
        return column
    if column.type.equals(pa.uuid()) and pa.types.is_string(data_type):
        return _write_uuids(column.storage)
    try:
        return cast_values(normalize_layout(column), data_type)
    except pa.ArrowInvalid as error:
        raise LanceGatewayError(
            f"a column of {column.type} does not fit the advertised {data_type}: {error}"
        ) from error


def _write_uuids(values: pa.FixedSizeBinaryArray) -> pa.Array:
    """Return UUIDs as SQL writes them: 32 digits in lower case, and four hyphens."""
    count = len(values)
    if not count:
        return pa.array([], pa.string())
    data = values.buffers()[1].slice(values.offset * _UUID_BYTES, count * _UUID_BYTES)
    digits = np.frombuffer(data.hex().lower(), np.uint8).reshape(count, 2 * _UUID_BYTES)
    texts = np.ascontiguousarray(np.insert(digits, _BEFORE_HYPHENS, ord("-"), axis=1))
    offsets = np.arange(count + 1, dtype=np.int32) * texts.shape[1]
    written = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))
    return pc.if_else(values.is_valid(), written, None) if values.null_count else written


def check_types(schema: pa.Schema) -> None:
    """Check that the types of a client's columns are neither too deep nor too wide.

    Raises:
        InvalidInputError: one is; the message names the column.
    """
    for field in schema:
        levels, width = _count_levels(field.type), _count_elements(field.type)
        if levels > MAX_LEVELS:
            msg = f"the type of column {field.name!r} has {levels} levels, and at most {MAX_LEVELS} are taken"
            raise InvalidInputError(f"{msg}: nest it less deeply")
        if width > MAX_WIDTH:
            msg = f"the type of column {field.name!r} has a fixed size of {width} elements or bytes"
            raise InvalidInputError(f"{msg}, and at most {MAX_WIDTH} are taken: send lists")


def _count_levels(kind: pa.DataType) -> int:
    return max((1 + _count_levels(child) for child in list_children(kind)), default=0)


def _count_elements(kind: pa.DataType) -> int:
    """Return the largest product of fixed sizes in a type."""
    own = kind.byte_width if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind) else 1
    own = kind.list_size if pa.types.is_fixed_size_list(kind) else own
    return int(own) * max(map(_count_elements, list_children(kind)), default=1)


def list_children(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types of the values that a nested value has."""
    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return [kind.value_type]
    return [kind.field(number).type for number in range(kind.num_fields)]


def normalize_schema(schema: pa.Schema, types: TypeSet = "arrow") -> pa.Schema:
    """Return a schema as it is advertised and streamed: no view types, no dictionaries, all fields nullable.

    Fields are nullable because the nullability of DataFusion's batches differs from its logical schema.
    """
    return pa.schema([pa.field(field.name, plain_type(field.type, types), nullable=True) for field in schema])
