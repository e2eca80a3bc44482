"""Converts arrays between types by SQL's rules of assignment: a conversion that would lose a value fails.

All functions work on whole arrays and raise `pa.ArrowInvalid`, `pa.ArrowNotImplementedError` or `MisfitError`
if a value does not fit; `assignment` finds the value.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.columns.kinds import is_binary, is_list_view, is_number, is_text
from lance_gateway.planner.bridge.types.plain_types import cast_values
from lance_gateway.planner.sql.value_texts import read_vector

_ZONE = r"(?i)([0-9]z|utc|:[0-9.:]*[+-][0-9]{2}(:?[0-9]{2})?)$"
_MAX_DECIMAL = 38
_UNITS = ("s", "ms", "us", "ns")
_TRUE = ("true", "t", "yes", "y", "on", "1")
_FALSE = ("false", "f", "no", "n", "off", "0")
_types = pa.types


class MisfitError(ValueError):
    """A value does not fit a type, or values of its type never do."""


MISFITS = (MisfitError, pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError)


def convert(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values to another type.

    Raises:
        MisfitError: a value does not fit; may also raise the errors of Arrow in `MISFITS`.
    """
    source = values.type
    if source.equals(kind):
        return values
    if _types.is_null(source):
        return pa.nulls(len(values), kind)
    if isinstance(source, pa.BaseExtensionType):
        return convert(values.storage, kind)
    if _types.is_dictionary(source):
        return convert(values.dictionary_decode(), kind)
    if _types.is_run_end_encoded(source):
        return convert(pc.run_end_decode(values), kind)
    if _types.is_string_view(source) or _types.is_binary_view(source):
        return convert(values.cast(pa.large_string() if is_text(source) else pa.large_binary()), kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, convert(values, kind.storage_type))
    if _types.is_dictionary(kind):
        encoded = convert(values, kind.value_type).dictionary_encode()
        return encoded.cast(kind)
    return _find_rule(source, kind)(values, kind)


def _find_rule(source: pa.DataType, kind: pa.DataType) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    """Return the function that converts values of one type to another."""
    if _is_list(kind):
        if is_text(source):
            return _parse_lists
        return _cast_lists if _is_list(source) or is_list_view(source) else _refuse
    if _types.is_struct(kind):
        return _cast_structs if _types.is_struct(source) else _refuse
    if _types.is_nested(source) or _types.is_nested(kind):
        return _cast if _types.is_map(kind) and _types.is_map(source) else _refuse
    if is_text(source):
        return _find_text_rule(kind)
    if is_text(kind):
        # Arrow formats numbers and times; bytes must be UTF-8.
        return _cast
    return _find_scalar_rule(source, kind)


def _find_scalar_rule(source: pa.DataType, kind: pa.DataType) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    if is_binary(source) or is_binary(kind):
        if not (is_binary(source) and is_binary(kind)):
            return _refuse
        return _cast_fixed_bytes if _types.is_fixed_size_binary(kind) else _cast
    if _types.is_boolean(kind) or _types.is_boolean(source):
        return _cast_booleans if _types.is_integer(source) else _refuse
    if _types.is_floating(kind):
        return _cast_floats if is_number(source) else _refuse
    if _types.is_decimal(kind):
        return _cast_decimals if is_number(source) else _refuse
    if is_number(source) or is_number(kind):
        return _cast if is_number(source) and is_number(kind) else _refuse
    if _types.is_timestamp(source) and _types.is_date(kind):
        return _cast_dates
    return _cast_times if _is_temporal(source) and _is_temporal(kind) else _cast


def _find_text_rule(kind: pa.DataType) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    if _types.is_timestamp(kind):
        return _parse_timestamps
    if _types.is_time(kind):
        return _parse_times
    if is_binary(kind):
        return lambda values, wanted: convert(cast_values(values, pa.large_binary()), wanted)
    if _types.is_decimal(kind):
        return _parse_decimals
    if _types.is_date(kind):
        return _parse_dates
    if _types.is_boolean(kind):
        return _parse_booleans
    if is_number(kind):
        return lambda values, wanted: _cast(pc.utf8_trim_whitespace(values), wanted)
    if _types.is_duration(kind) or _types.is_interval(kind):
        return _refuse
    return _cast


def _refuse(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.null_count == len(values) and len(values):
        return pa.nulls(len(values), kind)
    msg = f"values of type {values.type} can't be stored as {kind}"
    raise MisfitError(msg)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(kind)


def _cast_floats(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if _types.is_decimal(values.type):
        values = cast_values(values, pa.float64())
    # Rounding is allowed; overflow to infinity is not.
    floats = values.cast(kind, safe=False) if _types.is_floating(values.type) else values.cast(kind)
    if _types.is_floating(values.type) and kind.bit_width < values.type.bit_width:
        wide = floats.cast(pa.float64()) if kind == pa.float16() else floats
        overflows = pc.and_(pc.is_inf(wide), pc.invert(pc.is_inf(values)))
        if pc.any(overflows).as_py():
            msg = f"out of range for {kind}"
            raise MisfitError(msg)
    return floats


def _cast_decimals(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if _types.is_integer(values.type):
        width = (
            pa.decimal256(76, kind.scale) if kind.bit_width > 128 else pa.decimal128(_MAX_DECIMAL, kind.scale)
        )
        return values.cast(width).cast(kind)
    if _types.is_decimal(values.type) and values.type.scale > kind.scale:
        # SQL rounds digits behind the point, and refuses too many digits before it.
        values = pc.round(values, kind.scale, "half_towards_infinity")
    return values.cast(kind)


def _cast_booleans(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not _types.is_boolean(kind):
        return _refuse(values, kind)
    if not pc.all(pc.is_in(values, value_set=pa.array([0, 1, None], values.type))).as_py():
        msg = "neither 0 nor 1"
        raise MisfitError(msg)
    return values.cast(kind)


def _cast_dates(values: pa.Array, kind: pa.DataType) -> pa.Array:
    naive = values.cast(pa.timestamp(values.type.unit))
    return pc.floor_temporal(naive, unit="day").cast(kind)


def _cast_times(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast times to another unit; digits finer than the unit are truncated."""
    if _UNITS.index(values.type.unit) > _UNITS.index(kind.unit):
        return values.cast(kind, safe=False)
    return values.cast(kind)


def _cast_fixed_bytes(values: pa.Array, kind: pa.DataType) -> pa.Array:
    wrong = pc.not_equal(pc.binary_length(values), kind.byte_width)
    if pc.any(wrong).as_py():
        msg = f"it has not {kind.byte_width} bytes"
        raise MisfitError(msg)
    return values.cast(kind)


def _parse_timestamps(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse timestamps; text without a time zone is UTC if the column has a time zone."""
    text = pc.utf8_trim_whitespace(_cast(values, pa.string()))
    zoned = pc.fill_null(pc.match_substring_regex(text, _ZONE), False)  # noqa: FBT003
    naive_kind = pa.timestamp(kind.unit)
    if not pc.any(zoned).as_py():
        return _parse_unit(text, naive_kind).cast(kind)
    if kind.tz is None:
        msg = "it has a time zone, and the column has none"
        raise MisfitError(msg)
    utc = pa.timestamp(kind.unit, "UTC")
    null = pa.scalar(None, pa.string())
    with_zone = _parse_unit(pc.if_else(zoned, text, null), utc)
    without = _parse_unit(pc.if_else(zoned, null, text), naive_kind).cast(utc)
    return pc.coalesce(with_zone, without).cast(kind)


def _parse_unit(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse timestamps of any precision, where Arrow refuses more digits than the unit has."""
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        if kind.unit == "ns":
            raise
    return _cast_times(text.cast(pa.timestamp("ns", kind.tz)), kind)


def _parse_decimals(values: pa.Array, kind: pa.DataType) -> pa.Array:
    text = pc.utf8_trim_whitespace(values)
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        try:
            numbers = pa.array(
                [None if value is None else decimal.Decimal(value) for value in text.to_pylist()]
            )
        except decimal.InvalidOperation as error:
            msg = "no number"
            raise MisfitError(msg) from error
    return convert(numbers, kind)


def _parse_dates(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse dates, with a time of day or without."""
    text = pc.utf8_trim_whitespace(_cast(values, pa.string()))
    try:
        return _cast(text, kind)
    except pa.ArrowInvalid as error:
        try:
            return _cast_dates(_parse_timestamps(text, pa.timestamp("us", "UTC")), kind)
        except pa.ArrowInvalid:
            raise error from None


def _parse_booleans(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse booleans as PostgreSQL does, but for other beginnings of their words."""
    text = pc.utf8_lower(pc.utf8_trim_whitespace(_cast(values, pa.string())))
    is_true, is_false = (pc.is_in(text, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
    if not pc.all(pc.or_(pc.or_(is_true, is_false), pc.is_null(text)), min_count=0).as_py():
        msg = "true, false, or another word for one of them, such as 'yes' or 'off', is expected"
        raise MisfitError(msg)
    return pc.if_else(pc.is_null(text), pa.scalar(None, kind), is_true)


def _parse_times(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse times of day such as '12:30:00'."""
    text = pc.utf8_trim_whitespace(_cast(values, pa.string()))
    moments = pc.binary_join_element_wise(pa.scalar("1970-01-01 "), text, "").cast(pa.timestamp(kind.unit))
    return moments.cast(kind)


def _parse_lists(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse lists of numbers such as '[0.1, 2]'."""
    if not is_number(kind.value_type):
        return _refuse(values, kind)
    lists = []
    for text in values.to_pylist():
        numbers = None if text is None else read_vector(text)
        if numbers is None and text is not None:
            msg = "no list of numbers such as '[0.1, 2]'"
            raise MisfitError(msg)
        lists.append(numbers)
    return convert(pa.array(lists, pa.list_(pa.float64())), kind)


def _cast_lists(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if _types.is_fixed_size_list(kind):
        return _cast_vectors(values, kind)
    list_array = pa.ListArray if _types.is_list(kind) else pa.LargeListArray
    inner = convert(values.flatten(), kind.value_type)
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = np.zeros(len(values) + 1, np.int32 if _types.is_list(kind) else np.int64)
    np.cumsum(lengths, out=ends[1:])
    mask = pc.is_null(values) if values.null_count else None
    return list_array.from_arrays(pa.array(ends), inner, type=kind, mask=mask)


def _cast_vectors(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert lists to vectors; each must have the vector's length."""
    size = kind.list_size
    lengths = pc.list_value_length(values)
    if _types.is_fixed_size_list(values.type):
        if values.type.list_size != size:
            msg = f"it has {values.type.list_size} dimensions, and {size} are needed"
            raise MisfitError(msg)
    elif pc.any(pc.not_equal(lengths, size)).as_py():
        wrong = pc.filter(lengths, pc.not_equal(lengths, size))[0].as_py()
        msg = f"it has {wrong} dimensions, and {size} are needed"
        raise MisfitError(msg)
    flat = values.flatten()  # without the elements of NULLs
    inner = convert(flat, kind.value_type)
    if _types.is_floating(kind.value_type) and inner.null_count:
        msg = "a vector has no NULLs"
        raise MisfitError(msg)
    if not values.null_count:
        return pa.FixedSizeListArray.from_arrays(inner, type=kind)
    valid = np.asarray(pc.is_valid(values))
    places = np.repeat(np.where(valid, np.cumsum(valid) - 1, 0) * size, size) + np.tile(
        np.arange(size), len(values)
    )
    padded = inner if len(inner) else pa.nulls(size, kind.value_type)
    return pa.FixedSizeListArray.from_arrays(padded.take(pa.array(places)), type=kind, mask=pa.array(~valid))


def _cast_structs(values: pa.Array, kind: pa.DataType) -> pa.Array:
    names = [field.name for field in kind]
    for field in values.type:
        if field.name not in names:
            msg = f"it has a field {field.name!r}, and the column has {', '.join(names)}"
            raise MisfitError(msg)
    children = dict(zip([field.name for field in values.type], values.flatten(), strict=True))
    arrays = [
        convert(children[field.name], field.type)
        if field.name in children
        else pa.nulls(len(values), field.type)
        for field in kind
    ]
    mask = pc.is_null(values) if values.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def _is_list(kind: pa.DataType) -> bool:
    return bool(_types.is_list(kind) or _types.is_large_list(kind) or _types.is_fixed_size_list(kind))


def _is_temporal(kind: pa.DataType) -> bool:
    return bool(_types.is_timestamp(kind) or _types.is_time(kind) or _types.is_duration(kind))
