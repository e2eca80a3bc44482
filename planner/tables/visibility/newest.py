"""The newest row of each key, among rows of one region."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.tables.sources.generations import LayerKeys

_SPARSEST = 32
"""Integer keys have a place each in an array with up to so many places for each of them."""
_MOST_PLACES = 1 << 24
"""And with up to so many, of four bytes, in all."""


def find_newest(layer: LayerKeys) -> np.ndarray:
    """Flag the rows of one layer that are the last of their key and no tombstone."""
    return find_newest_in_layers([layer])[0]


def find_newest_in_layers(layers: Sequence[LayerKeys]) -> tuple[np.ndarray, ...]:
    """Flag, for each layer, oldest first, the rows that are the last of their key and no tombstone."""
    if not layers:
        return ()
    columns = [pa.concat_arrays(parts) for parts in zip(*(layer.columns for layer in layers), strict=True)]
    visible = find_last_of_each(columns[0] if len(columns) == 1 else _number_keys(columns))
    visible &= ~np.concatenate([layer.dead for layer in layers])
    cuts = np.cumsum([len(layer.addresses) for layer in layers])[:-1]
    return tuple(np.split(visible, cuts))


def _number_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Number the keys: two rows have the same number exactly if all parts of their keys are equal."""
    numbers, count = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        encoded = pc.dictionary_encode(column)
        if count > len(numbers):  # numbers stay below the square of the number of rows
            found, numbers = np.unique(numbers, return_inverse=True)
            count = len(found)
        numbers = numbers * len(encoded.dictionary) + encoded.indices.to_numpy()
        count *= len(encoded.dictionary)
    return pa.array(numbers)


def has_places(span: int, count: int) -> bool:
    """Return whether so many integers within a span are numbered by places rather than sorted."""
    return span <= min(count * _SPARSEST, _MOST_PLACES)


def find_last_of_each(keys: pa.Array) -> np.ndarray:
    """Flag the rows that are the last of their key."""
    narrow = _last_of_narrow_integers(keys)
    if narrow is not None:
        return narrow
    codes = pc.dictionary_encode(keys)
    return _last_of_numbers(codes.indices.to_numpy(), len(codes.dictionary))


def _last_of_numbers(numbers: np.ndarray, count: int) -> np.ndarray:
    """Flag the rows that are the last of their number, which is below `count`."""
    rows = np.arange(len(numbers), dtype=np.uint32)
    last = np.empty(count, dtype=np.uint32)
    last[numbers] = rows  # of repeated numbers the last assignment stays
    visible: np.ndarray = last[numbers] == rows
    return visible


def _last_of_narrow_integers(keys: pa.Array) -> np.ndarray | None:
    """Flag the rows that are the last of their key by a place for each key, or by sorting; or return None.

    Integers of key and row are sorted. None where key and row don't fit into 63 bits together.
    """
    count = len(keys)
    if not count or not pa.types.is_signed_integer(keys.type):
        return None
    values = keys.to_numpy().astype(np.int64, copy=False)
    lowest = int(values.min())
    span = int(values.max()) - lowest + 1
    if has_places(span, count):
        return _last_of_numbers(values - lowest, span)
    if span * count >= 1 << 63:
        return None
    packed = (values - lowest) * count + np.arange(count)
    packed.sort()
    sorted_keys = packed // count
    is_last = np.ones(count, dtype=np.bool_)
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=is_last[:-1])
    visible = np.zeros(count, dtype=np.bool_)
    visible[packed[is_last] % count] = True
    return visible
