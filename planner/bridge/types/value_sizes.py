"""The size of values in plain types, computed before they are made, and batches cut by it.

A few bytes can stand for many: a column of nulls has no buffers at all, run ends repeat a value, and the rows
of dictionaries, views, list views and dense unions may all point to the same place. What such values take
when they are copied is computed from offsets and lengths alone. The result is never too low.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_gateway.memwal.columns.kinds import is_list_view
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.bridge.types.plain_types import find_runs, list_children, plain_type, to_numbers

PIECE_ROWS = 65_536
"""The largest number of rows of a piece that `split_batch` makes."""

MAX_MEASURED = (1 << 31) - 1
"""The largest size that `measure` tells from larger ones."""
# Stands for all larger sizes, so that no sum of them overflows.
_LARGEST = MAX_MEASURED + 1
_OFFSET = 8
# Of a number or a time that is written as text.
_TEXT_BITS = 128 * 8
_SHOWN = 80

_Numbers: TypeAlias = npt.NDArray[np.int64]
_types = pa.types


def check_rows(batch: pa.RecordBatch, most: int) -> None:
    """Check that a batch of many rows takes at least a bit for each, as all do that have a column of values.

    Args:
        batch: of a client.
        most: rows that a batch may have in any case.

    Raises:
        InvalidInputError: it has fewer bits than rows.
    """
    if batch.num_rows > most and batch.num_rows > 8 * _count_held_bytes(batch):
        raise InvalidInputError(
            f"a batch claims {batch.num_rows} rows in {_count_held_bytes(batch)} bytes: send at most {most} "
            "rows in a batch of such columns, or ask the operator to raise max_bound_rows"
        )


def is_expanding(kind: pa.DataType) -> bool:
    """Return whether values of a type may stand for more bytes than they take."""
    if _types.is_primitive(kind):
        return False
    own = _types.is_null(kind) or not plain_type(kind).equals(kind)
    return own or any(map(is_expanding, list_children(kind)))


def measure(values: pa.Array, kind: pa.DataType | None = None) -> int:
    """Return how many bytes values take in a plain type; at most 2 GiB, which stand for all larger sizes.

    Args:
        values: that are valid.
        kind: type that they are cast to; None for their plain type.
    """
    kind = plain_type(values.type) if kind is None else kind
    (size,) = _measure(values, kind, np.zeros(1, np.int64), np.array([len(values)], np.int64))
    return min(int(size) + _OFFSET * (_count_nodes(values.type) + _count_nodes(kind)), _LARGEST)


def shorten_type(kind: pa.DataType) -> str:
    """Return the name of a type for a message."""
    text = str(kind)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def split_batch(
    batch: pa.RecordBatch,
    kinds: Sequence[pa.DataType],
    nbytes: int,
    *,
    row_bytes: int,
    missing: Sequence[pa.DataType] = (),
) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that each piece, cast to other types, has at most `nbytes` bytes, or is one row.

    Args:
        batch: its columns are not copied.
        kinds: type that each column is cast to.
        nbytes: of a piece.
        row_bytes: the largest size of one row, unless half of it really came in this batch.
        missing: types of columns that each row will have besides, with NULL.

    Raises:
        InvalidInputError: a row is larger; the message names the column, the size, and the limit.
    """
    missing_bytes = -(-sum(map(_count_bits, missing)) // 8)
    pairs = zip(batch.schema.types, kinds, strict=True)
    is_same = all(own.equals(kind) and own.equals(plain_type(own)) for own, kind in pairs)
    if is_same and batch.num_rows <= PIECE_ROWS and batch.nbytes + batch.num_rows * missing_bytes <= nbytes:
        yield batch
        return
    most = min(max(row_bytes, 2 * _count_held_bytes(batch)), MAX_MEASURED)
    _check_dictionaries(batch, most)
    for start in range(0, batch.num_rows, PIECE_ROWS):
        piece = batch.slice(start, PIECE_ROWS)
        sizes = [_measure_rows(values, kind) for values, kind in zip(piece.columns, kinds, strict=True)]
        totals = _limit(sum(sizes, np.full(piece.num_rows, min(missing_bytes, _LARGEST), np.int64)))
        row = int(totals.argmax())
        if totals[row] > most:
            raise _large_row_error(batch.schema, [int(size[row]) for size in sizes], start + row + 1, most)
        ends = np.cumsum(totals)
        first = 0
        while first < piece.num_rows:
            before = int(ends[first - 1]) if first else 0
            stop = max(int(np.searchsorted(ends, before + nbytes, side="right")), first + 1)
            yield piece.slice(first, stop - first)
            first = stop


def _check_dictionaries(batch: pa.RecordBatch, most: int) -> None:
    """Refuse dictionaries that take more than the batch: each piece has all of them, and may copy them."""
    size = 0
    for field, column in zip(batch.schema, batch.columns, strict=True):
        size += column.dictionary.nbytes if _types.is_dictionary(field.type) else 0
        if size > most:
            msg = f"the dictionaries up to column {field.name!r} have {size} bytes, and may have {most}"
            raise InvalidInputError(f"{msg}: send the values as they are")


def _large_row_error(schema: pa.Schema, sizes: Sequence[int], number: int, most: int) -> InvalidInputError:
    size = max(sizes)
    field = schema.field(sizes.index(size))
    least = "at least " if size > MAX_MEASURED else ""
    return InvalidInputError(
        f"row {number} of a batch is too large: column {field.name!r} ({shorten_type(field.type)}) stands "
        f"for {least}{size} bytes there, and a row may have {most}: send smaller values, or ask the operator "
        "to raise max_bound_bytes"
    )


def _count_held_bytes(batch: pa.RecordBatch) -> int:
    """Return how much memory a batch takes as it is; what buffers share counts once."""
    arrays = list(batch.columns)
    arrays += [column.dictionary for column in arrays if _types.is_dictionary(column.type)]
    buffers = (buffer for array in arrays for buffer in array.buffers() if buffer is not None)
    held = reached = 0
    for start, end in sorted((buffer.address, buffer.address + buffer.size) for buffer in buffers):
        held += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return held


def _measure_rows(values: pa.Array, kind: pa.DataType) -> _Numbers:
    starts = np.arange(len(values), dtype=np.int64)
    return _measure(values, kind, starts, starts + 1)


def _measure(values: pa.Array, kind: pa.DataType, starts: _Numbers, ends: _Numbers) -> _Numbers:
    """Return the bytes of rows `start` to `end` of values, for each pair; none is larger than `_LARGEST`."""
    own = values.type
    if isinstance(own, pa.BaseExtensionType):
        return _measure(values.storage, kind, starts, ends)
    if _types.is_dictionary(own):
        sizes = _measure_entries(values, kind, starts, ends)
    elif _types.is_run_end_encoded(own):
        return _measure_runs(values, kind, starts, ends)
    elif _types.is_union(own):
        sizes = _measure_union(values, kind, starts, ends)
    elif _types.is_struct(own):
        sizes = _measure_struct(values, kind, starts, ends)
    elif _types.is_fixed_size_list(own):
        child, first = values.values, values.offset
        sizes = _measure(
            child, _child_kind(kind, own), *((first + at) * own.list_size for at in (starts, ends))
        )
    elif _is_list(own):
        offsets = to_numbers(values.offsets)
        sizes = _measure(values.values, _child_kind(kind, own), offsets[starts], offsets[ends])
    elif is_list_view(own):
        sizes = _measure_list_views(values, kind, starts, ends)
    else:
        sizes = _measure_bytes(values, kind, starts, ends)
    bits = max(_count_bits(plain_type(own)), _count_bits(kind))
    return _limit(sizes + _multiply(ends - starts, bits))


def _multiply(counts: _Numbers, bits: int) -> _Numbers:
    """Return the bytes of so many rows of so many bits."""
    if bits > _LARGEST:
        return np.where(counts > 0, _LARGEST, 0)
    return _limit((_limit(counts) * bits + 7) // 8)


def _limit(sizes: _Numbers) -> _Numbers:
    limited: _Numbers = np.minimum(sizes, _LARGEST)
    return limited


def _measure_bytes(values: pa.Array, kind: pa.DataType, starts: _Numbers, ends: _Numbers) -> _Numbers:
    """Measure what values without children have besides their fixed width."""
    own, counts = values.type, ends - starts
    if _is_view(own):
        lengths = np.frombuffer(values.buffers()[1] or b"", np.int32)[::4].astype(np.int64)
        sizes = _sum_rows(lengths[values.offset :], starts, ends)
    elif _is_bytes(own):
        width = np.int64 if _is_large(own) else np.int32
        offsets = np.frombuffer(values.buffers()[1] or b"", width)[values.offset :]
        if not len(offsets):
            return np.zeros(len(starts), np.int64)
        sizes = offsets[ends].astype(np.int64) - offsets[starts].astype(np.int64)
    else:
        is_text = _is_bytes(kind) or _is_view(kind)
        return _multiply(counts, _TEXT_BITS if is_text and not _types.is_null(own) else 0)
    if _is_list(kind) or _types.is_fixed_size_list(kind):
        # A vector as text: each number has a comma behind it.
        return _multiply(sizes // 2 + counts, _count_bits(kind.value_type))
    return _limit(sizes)


def _measure_entries(values: pa.Array, kind: pa.DataType, starts: _Numbers, ends: _Numbers) -> _Numbers:
    """Measure rows of a dictionary by the entries that they point to."""
    dictionary = values.dictionary
    low, high = _find_range(starts, ends)
    places = values.indices.slice(low, high - low)
    if not len(dictionary):
        return np.zeros(len(starts), np.int64)
    at = to_numbers(places)
    sizes = _measure(dictionary, kind, at, at + 1)
    return _sum_rows(sizes, starts - low, ends - low)


def _measure_runs(values: pa.Array, kind: pa.DataType, starts: _Numbers, ends: _Numbers) -> _Numbers:
    run_ends, runs = find_runs(values)
    if not len(runs):
        return np.zeros(len(starts), np.int64)
    sizes = _measure_rows(runs, kind)
    run_starts = np.concatenate((np.zeros(1, np.int64), run_ends[:-1]))
    totals = np.concatenate((np.zeros(1, np.int64), np.cumsum(_multiply_all(run_ends - run_starts, sizes))))
    first = np.minimum(np.searchsorted(run_ends, starts, side="right"), len(sizes) - 1)
    last = np.minimum(np.searchsorted(run_ends, ends, side="left"), len(sizes) - 1)
    head = _multiply_all(np.minimum(run_ends[first], ends) - starts, sizes[first])
    tail = _multiply_all(np.where(last > first, ends - run_starts[last], 0), sizes[last])
    between = np.where(last > first, totals[last] - totals[np.minimum(first + 1, last)], 0)
    return _limit(head + _limit(between) + tail)


def _multiply_all(counts: _Numbers, sizes: _Numbers) -> _Numbers:
    return _limit(_limit(np.maximum(counts, 0)) * sizes)


def _measure_union(values: pa.Array, kind: pa.DataType, starts: _Numbers, ends: _Numbers) -> _Numbers:
    own = values.type
    low, high = _find_range(starts, ends)
    codes = to_numbers(values.type_codes)[low:high]
    places = np.arange(low, high, dtype=np.int64)
    if own.mode == "dense":
        places = to_numbers(values.offsets)[low:high]
    sizes = np.zeros(high - low, np.int64)
    for number, code in enumerate(own.type_codes):
        mine = np.flatnonzero(codes == code)
        at = places[mine]
        plain = kind if not _types.is_union(kind) else plain_type(own.field(number).type)
        sizes[mine] = _measure(values.field(number), plain, at, at + 1)
    return _sum_rows(sizes, starts - low, ends - low)


def _measure_struct(values: pa.Array, kind: pa.DataType, starts: _Numbers, ends: _Numbers) -> _Numbers:
    sizes = np.zeros(len(starts), np.int64)
    for number, field in enumerate(values.type):
        plain = plain_type(field.type)
        if _types.is_struct(kind) and kind.get_field_index(field.name) >= 0:
            plain = kind.field(field.name).type
        sizes += _measure(values.field(number), plain, starts, ends)
    return _limit(sizes)


def _measure_list_views(values: pa.Array, kind: pa.DataType, starts: _Numbers, ends: _Numbers) -> _Numbers:
    low, high = _find_range(starts, ends)
    offsets, lengths = to_numbers(values.offsets)[low:high], to_numbers(values.sizes)[low:high]
    sizes = _measure(values.values, _child_kind(kind, values.type), offsets, offsets + lengths)
    return _sum_rows(sizes, starts - low, ends - low)


def _find_range(starts: _Numbers, ends: _Numbers) -> tuple[int, int]:
    return (int(starts.min()), int(ends.max())) if len(starts) else (0, 0)


def _sum_rows(sizes: _Numbers, starts: _Numbers, ends: _Numbers) -> _Numbers:
    totals = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    return _limit(totals[ends] - totals[starts])


def _child_kind(kind: pa.DataType, own: pa.DataType) -> pa.DataType:
    """Return the type that the elements of a list are cast to."""
    if _types.is_map(kind) == _types.is_map(own) and (_is_list(kind) or _types.is_fixed_size_list(kind)):
        return _element_type(kind)
    return plain_type(_element_type(own))


def _element_type(kind: pa.DataType) -> pa.DataType:
    if not _types.is_map(kind):
        return kind.value_type
    return pa.struct([kind.key_field, kind.item_field])


def _count_bits(kind: pa.DataType) -> int:
    """Return the bits that each row has in an array of a type, NULL and its bit of validity included."""
    if _types.is_fixed_size_list(kind):
        return 1 + int(kind.list_size) * _count_bits(kind.value_type)
    if _types.is_struct(kind) or _types.is_union(kind):
        own = 1 if _types.is_struct(kind) else 1 + 8 + 32
        return own + sum(_count_bits(field.type) for field in kind)
    if _types.is_dictionary(kind) or _types.is_run_end_encoded(kind):
        return 64 + _count_bits(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _count_bits(kind.storage_type)
    if _types.is_fixed_size_binary(kind) or _types.is_primitive(kind) or _types.is_decimal(kind):
        return 1 + int(kind.bit_width)
    if _types.is_null(kind):
        return 1
    if _is_view(kind) or is_list_view(kind):
        return 1 + 128
    return 1 + (64 if _is_large(kind) else 32)


def _count_nodes(kind: pa.DataType) -> int:
    return 1 + sum(map(_count_nodes, list_children(kind)))


def _is_list(kind: pa.DataType) -> bool:
    return bool(_types.is_list(kind) or _types.is_large_list(kind) or _types.is_map(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(_types.is_string_view(kind) or _types.is_binary_view(kind))


def _is_large(kind: pa.DataType) -> bool:
    return bool(_types.is_large_list(kind) or _types.is_large_string(kind) or _types.is_large_binary(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    is_text = _types.is_string(kind) or _types.is_large_string(kind)
    return bool(is_text or _types.is_binary(kind) or _types.is_large_binary(kind))
