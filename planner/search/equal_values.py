"""Whether values are the same, row by row, for columns of any type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_INTEGERS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def equal_values(one: pa.Array, other: pa.Array) -> np.ndarray:
    """For each row, whether both arrays have the same value there, or both NULL.

    What can't be compared counts as different. Numbers are compared as they are stored: minus zero is not
    zero, and NaN is itself.

    Args:
        one: values.
        other: as many values of the same type.
    """
    if not one.type.equals(other.type) or len(one) != len(other):
        msg = f"values of {one.type} x {len(one)} and {other.type} x {len(other)} can't be compared"
        raise ValueError(msg)
    valid, also_valid = _flags(one.is_valid()), _flags(other.is_valid())
    both: np.ndarray = valid & also_valid
    same: np.ndarray = valid == also_valid
    if both.any():
        same &= ~both | _equal_where_valid(one, other, both)
    return same


def _equal_where_valid(one: pa.Array, other: pa.Array, both: np.ndarray) -> np.ndarray:
    """Which rows are equal; what it says of rows that are not valid in `both` means nothing."""
    kind = one.type
    if isinstance(kind, pa.BaseExtensionType):
        return equal_values(one.storage, other.storage)
    if pa.types.is_dictionary(kind):
        return equal_values(one.dictionary_decode(), other.dictionary_decode())
    if pa.types.is_floating(kind):
        stored = _INTEGERS[kind.bit_width]
        return _flags(pc.equal(one.view(stored), other.view(stored)).fill_null(False))  # noqa: FBT003
    if pa.types.is_struct(kind):
        same = np.ones(len(one), dtype=np.bool_)
        for left, right in zip(one.flatten(), other.flatten(), strict=True):
            same &= equal_values(left, right)
        return same
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _equal_lists(one, other, both)
    try:
        return _flags(pc.equal(one, other).fill_null(False))  # noqa: FBT003
    except pa.ArrowNotImplementedError:
        return np.zeros(len(one), dtype=np.bool_)


def _equal_lists(one: pa.Array, other: pa.Array, both: np.ndarray) -> np.ndarray:
    lengths = pc.list_value_length(one).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    others = pc.list_value_length(other).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    same: np.ndarray = both & (lengths == others)
    rows = np.flatnonzero(same)
    flags = pa.array(same)
    elements = equal_values(one.filter(flags).flatten(), other.filter(flags).flatten())
    # Adding up differences per row: a list is equal if none of its elements differs.
    owners = np.repeat(rows, lengths[rows])
    same[owners[~elements]] = False
    return same


def _flags(values: pa.BooleanArray) -> np.ndarray:
    flags: np.ndarray = values.to_numpy(zero_copy_only=False)
    return flags
