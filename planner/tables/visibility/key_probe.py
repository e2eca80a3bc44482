"""Search a column for several sets of keys at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memwal.errors import InvalidInputError

MAX_SLOTS_PER_ROW = 16
"""Integer keys whose span is at most so many times their number are found through a table of offsets."""

_NONE = np.empty(0, dtype=np.uint32)
_ABSENT = -1


class KeyProbe:
    """Search of several sets of keys in one column.

    Args:
        layers: keys of each set; a key may repeat within a set and between sets.
    """

    def __init__(self, layers: Sequence[pa.Array]) -> None:
        if not layers:
            raise InvalidInputError("KeyProbe was given no set of keys: it needs at least one")
        self._layers = layers
        self._sorted: list[np.ndarray] | None = None
        self._hashed: _HashedLayers | None = None
        if pa.types.is_signed_integer(layers[0].type):
            self._sorted = [_drop_repeats(np.sort(layer.to_numpy().astype(np.int64))) for layer in layers]

    def search(self, keys: pa.Array) -> list[np.ndarray]:
        """Return, for each set, the ascending positions (uint32) in `keys` whose key is in the set."""
        if not len(keys):
            return [_NONE for _ in self._layers]
        if self._sorted is not None:
            values = keys.to_numpy().astype(np.int64, copy=False)
            if (values[1:] > values[:-1]).all():
                return [_search_ascending(values, wanted) for wanted in self._sorted]
            offsets = _OffsetTable.of(values)
            if offsets is not None:
                return [offsets.find(wanted) for wanted in self._sorted]
        if self._hashed is None:
            self._hashed = _HashedLayers(self._layers)
        return self._hashed.search(keys)


def _search_ascending(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return positions of wanted keys in a column; both are ascending and distinct."""
    first = np.searchsorted(wanted, keys[0])
    last = np.searchsorted(wanted, keys[-1], side="right")
    possible = wanted[first:last]
    if int(keys[-1]) - int(keys[0]) + 1 == len(keys):
        found: np.ndarray = possible - keys[0]  # no key between the first and the last is missing
    else:
        positions = np.searchsorted(keys, possible)
        found = positions[keys[positions] == possible]
    return found.astype(np.uint32)


class _OffsetTable:
    """Positions of integer keys within a narrow range, without repeated keys."""

    def __init__(self, lowest: int, table: np.ndarray) -> None:
        self._lowest = lowest
        self._table = table

    @staticmethod
    def of(keys: np.ndarray) -> _OffsetTable | None:
        """Build the table; return None if the range is too wide or a key repeats."""
        lowest, highest = int(keys.min()), int(keys.max())
        span = highest - lowest + 1
        if span > MAX_SLOTS_PER_ROW * max(len(keys), 1 << 16):
            return None
        slots = keys - lowest
        positions = np.arange(len(keys), dtype=np.int32)
        table = np.full(span, _ABSENT, dtype=np.int32)
        table[slots] = positions
        # A repeated key kept only its last position.
        return _OffsetTable(lowest, table) if np.array_equal(table[slots], positions) else None

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """Return ascending positions of wanted keys, which are ascending and distinct."""
        first = np.searchsorted(wanted, self._lowest)
        last = np.searchsorted(wanted, self._lowest + len(self._table) - 1, side="right")
        found: np.ndarray = self._table[wanted[first:last] - self._lowest]
        found = found[found != _ABSENT]
        found.sort()
        return found.astype(np.uint32)


class _HashedLayers:
    """Sets of wanted keys in one hash table, for keys of any type."""

    def __init__(self, layers: Sequence[pa.Array]) -> None:
        self._layers = len(layers)
        encoded = pc.dictionary_encode(pa.concat_arrays(layers))
        self._wanted = encoded.dictionary
        codes = encoded.indices.to_numpy()
        layer_of = np.repeat(np.arange(self._layers, dtype=np.int32), [len(layer) for layer in layers])
        self._layer_of = layer_of[np.argsort(codes)]
        self._counts = np.bincount(codes)
        self._starts = np.cumsum(self._counts) - self._counts

    def search(self, keys: pa.Array) -> list[np.ndarray]:
        """Search the keys; see `KeyProbe.search`."""
        codes = pc.index_in(keys, value_set=self._wanted)
        positions = np.flatnonzero(codes.is_valid().to_numpy(zero_copy_only=False)).astype(np.uint32)
        if self._layers == 1:
            return [positions]
        found = codes.drop_null().to_numpy()
        counts = self._counts[found]
        rows = np.repeat(positions, counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        layers = self._layer_of[np.repeat(self._starts[found], counts) + within]
        order = np.argsort(layers, kind="stable")
        cuts = np.cumsum(np.bincount(layers, minlength=self._layers))[:-1]
        # The stable sort left the positions of a layer ascending.
        return [_drop_repeats(part) for part in np.split(rows[order], cuts)]


def _drop_repeats(ascending: np.ndarray) -> np.ndarray:
    if len(ascending) < 2:
        return ascending
    return ascending[np.concatenate(([True], ascending[1:] != ascending[:-1]))]
