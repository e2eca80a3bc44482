r"""Writes values of any type as JSON, for whole batches.

    [{"id": 1, "tags": ["x", NULL]}, NULL]  ->  ['{"id":1,"tags":["x",null]}', NULL]

Numbers keep their digits; decimals, too. What JSON has no values for is text: dates and times by ISO 8601
(`2026-01-31T12:00:00.5+00:00`), bytes as PostgreSQL writes them (`\x01ff`), UUIDs, and the floats NaN,
Infinity and -Infinity. Columns of JSON (`arrow.json`) stay as they are.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.types.plain_types import normalize_layout, plain_type

_TEXT: Final = pa.string()
_NULL: Final = "null"
_ESCAPED: Final = r'["\\\x00-\x1f]'
"""What JSON does not have within a text as it is."""


def dump(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def refuse_unwritten(kind: pa.DataType) -> None:
    """Refuse types whose values are not written.

    Args:
        kind: of the values.

    Raises:
        UnsupportedError: it is one of them, or has one within.
    """
    types = pa.types
    if types.is_struct(kind) or types.is_map(kind):
        for field in kind if types.is_struct(kind) else (kind.key_field, kind.item_field):
            refuse_unwritten(field.type)
    elif types.is_nested(kind) and not types.is_union(kind):
        refuse_unwritten(kind.value_type)
    elif types.is_duration(kind) or types.is_interval(kind) or types.is_union(kind):
        msg = f"to_json() of a value of type {kind} is not supported: cast it to text or a number before"
        raise UnsupportedError(msg)


def write_json(values: pa.Array, kind: pa.DataType) -> pa.StringArray:
    """Return values as JSON.

    Args:
        values: of any type that `refuse_unwritten` takes.
        kind: their type, of which they may have the storage alone.

    Returns:
        One text for each; NULL for NULL.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return _write_extension(values, kind)
    return _write(normalize_layout(values), plain_type(kind))


def _write(values: pa.Array, kind: pa.DataType) -> pa.StringArray:
    types = pa.types
    if types.is_null(kind):
        return pa.nulls(len(values), _TEXT)
    if isinstance(kind, pa.BaseExtensionType):
        return _write_extension(values, kind)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return values.cast(_TEXT)
    if types.is_floating(kind):
        return _write_floats(values)
    if types.is_string(kind) or types.is_large_string(kind):
        return _write_texts(values.cast(_TEXT))
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.array([None if one is None else f'"\\\\x{one.hex()}"' for one in values.to_pylist()], _TEXT)
    if types.is_struct(kind):
        return _write_structs(values, kind)
    if types.is_map(kind):
        return _write_maps(values, kind)
    if types.is_nested(kind):
        return _write_lists(values, kind)
    return _write_times(values, kind)


def _write_extension(values: pa.Array, kind: pa.BaseExtensionType) -> pa.StringArray:
    stored = values.storage if isinstance(values, pa.ExtensionArray) else values
    if isinstance(kind, pa.JsonType):
        return normalize_layout(stored).cast(_TEXT)
    if isinstance(kind, pa.UuidType):
        return pa.array(
            [None if one is None else f'"{uuid.UUID(bytes=one)}"' for one in stored.to_pylist()], _TEXT
        )
    return _write(normalize_layout(stored), plain_type(kind.storage_type))


def _write_floats(values: pa.Array) -> pa.StringArray:
    """Write the fewest digits that are read as the same number of that width."""
    numbers = values.to_numpy(zero_copy_only=False)
    written = [
        _write_float(number) if is_valid else None
        for number, is_valid in zip(numbers, values.is_valid().to_pylist(), strict=True)
    ]
    return pa.array(written, _TEXT)


def _write_float(number: np.floating[Any]) -> str:
    if np.isfinite(number):
        return str(number)
    return '"NaN"' if np.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'


def _write_texts(values: pa.StringArray) -> pa.StringArray:
    quoted = _join('"', values, '"')
    escapes = pc.match_substring_regex(values, _ESCAPED)
    if not pc.any(escapes).as_py():
        return quoted
    mask = escapes.fill_null(False)  # noqa: FBT003 - a value
    escaped = pa.array([dump(one) for one in values.filter(mask).to_pylist()], _TEXT)
    return pc.replace_with_mask(quoted, mask, escaped)


def _write_times(values: pa.Array, kind: pa.DataType) -> pa.StringArray:
    is_instant = pa.types.is_timestamp(kind)
    zone = kind.tz if is_instant else None
    if pa.types.is_date(kind):
        values = values.cast(pa.date32())
    elif zone is not None:
        values = values.cast(pa.timestamp(kind.unit))  # of the same instant in UTC
    texts = values.cast(_TEXT)
    if is_instant:
        texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    texts = pc.replace_substring_regex(texts, r"(\.\d*[1-9])0+$", r"\1")
    texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return _join('"', texts, '+00:00"' if zone is not None else '"')


def _write_structs(values: pa.StructArray, kind: pa.StructType) -> pa.StringArray:
    parts: list[pa.Array | str] = []
    for number, field in enumerate(kind):
        written = _write(normalize_layout(values.field(number)), field.type)
        parts += [f"{',' if number else ''}{dump(field.name)}:", written.fill_null(_NULL)]
    texts = _join("{", *parts, "}") if parts else pa.array(["{}"] * len(values), _TEXT)
    return _mask(texts, values)


def _write_maps(values: pa.MapArray, kind: pa.MapType) -> pa.StringArray:
    starts, lengths = _measure(values)
    keys = _write(values.keys, kind.key_type)
    if not pa.types.is_string(kind.key_type) and not pa.types.is_large_string(kind.key_type):
        # JSON's keys are texts.
        keys = _write_texts(pc.replace_substring_regex(keys, '^"|"$', ""))
    items = _write(values.items, kind.item_type).fill_null(_NULL)
    return _mask(_join_lists("{", _join(keys, ":", items), starts, lengths, "}"), values)


def _write_lists(values: pa.Array, kind: pa.DataType) -> pa.StringArray:
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        lengths = np.full(len(values), size)
        starts = np.arange(len(values)) * size + values.offset * size
    else:
        starts, lengths = _measure(values)
    items = _write(normalize_layout(values.values), kind.value_type).fill_null(_NULL)
    return _mask(_join_lists("[", items, starts, lengths, "]"), values)


def _measure(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the first element of each list, and their number; NULL has none."""
    offsets = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    return offsets[:-1], np.where(is_valid, np.diff(offsets), 0)


def _join_lists(
    opening: str, items: pa.StringArray, starts: np.ndarray, lengths: np.ndarray, closing: str
) -> pa.StringArray:
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    places = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items.take(pa.array(places, pa.int64())))
    return _join(opening, pc.binary_join(lists, ","), closing)


def _join(*parts: pa.Array | str) -> pa.StringArray:
    whole = [pa.scalar(part, _TEXT) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*whole, "")


def _mask(texts: pa.StringArray, values: pa.Array) -> pa.StringArray:
    """Return texts, and NULL where values are NULL."""
    if not values.null_count:
        return texts
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, _TEXT))
