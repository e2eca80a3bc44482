"""Find the rows of a key column that hold any of many wanted keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DENSE_SPAN = 1 << 26
"""Integer keys within so narrow a span are tested against a table of flags (one byte each) first."""


class KeyProbe:
    """Several sets of wanted keys, searched together.

    Args:
        layers: keys of each set; a key may repeat within a set and between sets.
    """

    def __init__(self, layers: Sequence[pa.Array]) -> None:
        if not layers:
            msg = "KeyProbe needs at least one set of keys"
            raise ValueError(msg)
        self._layers = len(layers)
        encoded = pc.dictionary_encode(pa.concat_arrays(layers))
        self._wanted = encoded.dictionary
        codes = encoded.indices.to_numpy()
        layer_of = np.repeat(np.arange(self._layers, dtype=np.int32), [len(layer) for layer in layers])
        order = np.argsort(codes, kind="stable")
        self._layer_of = layer_of[order]
        self._counts = np.bincount(codes, minlength=len(self._wanted))
        self._starts = np.cumsum(self._counts) - self._counts
        self._flags, self._lowest = _flags(self._wanted)

    def search(self, keys: pa.Array) -> list[np.ndarray]:
        """For each set, the ascending positions (uint32) in `keys` whose key is in the set."""
        if not len(self._wanted) or not len(keys):
            return [np.empty(0, dtype=np.uint32) for _ in range(self._layers)]
        positions = self._candidates(keys)
        if positions is not None:
            keys = keys.take(pa.array(positions))
        codes = pc.index_in(keys, value_set=self._wanted)
        hits = np.flatnonzero(codes.is_valid().to_numpy(zero_copy_only=False))
        found = codes.drop_null().to_numpy()
        positions = hits if positions is None else positions[hits]
        if self._layers == 1:
            return [positions.astype(np.uint32)]
        counts = self._counts[found]
        rows = np.repeat(positions.astype(np.uint32), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        layers = self._layer_of[np.repeat(self._starts[found], counts) + within]
        order = np.argsort(layers, kind="stable")
        cuts = np.cumsum(np.bincount(layers, minlength=self._layers))[:-1]
        return [np.unique(part) for part in np.split(rows[order], cuts)]

    def _candidates(self, keys: pa.Array) -> np.ndarray | None:
        """Positions that may hold a wanted key, or None where nothing narrows them down cheaply."""
        if self._flags is None:
            return None
        slots = keys.to_numpy().astype(np.int64, copy=False) - (self._lowest - 1)
        np.clip(slots, 0, len(self._flags) - 1, out=slots)
        return np.flatnonzero(self._flags[slots])


def _flags(wanted: pa.Array) -> tuple[np.ndarray | None, int]:
    if not len(wanted) or not pa.types.is_integer(wanted.type) or wanted.type == pa.uint64():
        return None, 0
    bounds = pc.min_max(wanted)
    lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
    if highest - lowest >= DENSE_SPAN or lowest <= -(2**62) or highest >= 2**62:
        return None, 0
    # One slot on either side stays false: everything outside the span is clipped onto it.
    flags = np.zeros(highest - lowest + 3, dtype=np.bool_)
    flags[wanted.to_numpy().astype(np.int64) - (lowest - 1)] = True
    return flags, lowest
