"""Which row of a key came last, while rows keep coming."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import pyarrow as pa

_NEVER = np.iinfo(np.int64).max


class KeyHistory:
    """Rows are numbered from 0; each knows the row that superseded it. Not safe to share between threads.

    So the newest rows are known as of any number of rows, not only of all.
    """

    def __init__(self) -> None:
        self.rows = 0
        """How many there are."""
        self._last: dict[Hashable, int] = {}
        self._next = np.empty(64, dtype=np.int64)
        self._dead = np.empty(64, dtype=np.bool_)

    def extend(self, keys: pa.Array, dead: np.ndarray, cuts: Sequence[int]) -> None:
        """Add rows.

        Args:
            keys: one value per row, without NULLs.
            dead: whether a row is a tombstone.
            cuts: ascending, from 0 to the number of rows: nobody asks for a number of rows between two.
        """
        stop = self.rows + len(keys)
        if stop > len(self._next):
            size = max(stop, 2 * len(self._next))
            self._next = np.concatenate((self._next[: self.rows], np.empty(size - self.rows, np.int64)))
            self._dead = np.concatenate((self._dead[: self.rows], np.empty(size - self.rows, np.bool_)))
        self._next[self.rows : stop] = _NEVER
        self._dead[self.rows : stop] = dead
        values = hashable(keys)
        for start, end in pairwise(cuts):
            self._extend(values[start:end])

    def newest(self, rows: int) -> np.ndarray:
        """Which of the first so many rows are the last of their key among them, and no tombstones."""
        found: np.ndarray = (self._next[:rows] >= rows) & ~self._dead[:rows]
        return found

    def distinct(self, start: int, stop: int) -> int:
        """How many keys a stretch of rows has."""
        return int(np.count_nonzero(self._next[start:stop] >= stop))

    def find(self, keys: pa.Array, rows: int) -> np.ndarray | None:
        """Ascending numbers of the last row of each key among the first so many.

        None where later rows of one of the keys hide which one that is.
        """
        found = [at for value in hashable(keys) if (at := self._last.get(value)) is not None]
        if found and max(found) >= rows:
            return None
        return np.sort(np.array(found, dtype=np.int64))

    def _extend(self, values: list[Any]) -> None:
        start, count, last = self.rows, len(values), self._last
        numbers, known_keys = np.arange(start, start + count), len(last)
        before = np.fromiter(map(last.get, values, repeat(-1)), np.int64, count)
        last.update(zip(values, range(start, start + count), strict=True))
        at = np.flatnonzero(before >= 0)
        self._next[before[at]] = numbers[at]
        if len(last) - known_keys != count - len(at) or len(np.unique(before[at])) != len(at):
            # A key repeats among these rows.
            after = np.fromiter(map(last.__getitem__, values), np.int64, count)
            repeated = after != numbers
            self._next[numbers[repeated]] = after[repeated]
        self.rows = start + count


def hashable(keys: pa.Array) -> list[Any]:
    """Python values that are equal exactly where the keys are."""
    kind = keys.type
    if keys.null_count:
        return list(keys.to_pylist())
    if pa.types.is_floating(kind):
        # As Arrow compares keys: one NaN equals another, and zero is not minus zero.
        values = keys.to_numpy()
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
        return list(values.view(f"i{values.dtype.itemsize}").tolist())
    if pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        keys = keys.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_integer(keys.type):
        return list(keys.to_numpy().tolist())
    return list(keys.to_pylist())
