"""The newest row of each key, among rows of one region."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.planner.tables.sources.generations import LayerKeys


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


def find_last_of_each(keys: pa.Array) -> np.ndarray:
    """Flag the rows that are the last of their key."""
    visible = np.zeros(len(keys), dtype=np.bool_)
    if pa.types.is_signed_integer(keys.type):
        ordered, rows = sort_integers(keys.to_numpy())
        is_last = np.ones(len(keys), dtype=np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=is_last[:-1])
        visible[rows[is_last]] = True
        return visible
    codes = pc.dictionary_encode(keys)
    last = np.empty(len(codes.dictionary), dtype=np.int64)
    last[codes.indices.to_numpy()] = np.arange(len(keys))  # of repeated codes the last assignment stays
    visible[last] = True
    return visible


def sort_integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return integers (int64) in ascending order, equal ones in the order of their rows, and these rows."""
    values = values.astype(np.int64, copy=False)
    bits = len(values).bit_length()
    lowest = int(values.min(initial=0))
    span = int(values.max(initial=0)) - lowest
    if span.bit_length() + bits > 63:
        rows = np.argsort(values, kind="stable")
        return values[rows], rows
    # Value and row in one integer: numpy sorts these ten times as fast as it finds the order of the values.
    packed = (values - lowest) << bits
    packed |= np.arange(len(values))
    packed.sort()
    return (packed >> bits) + lowest, packed & ((1 << bits) - 1)
