"""A primary key of any shape as one Arrow column that can be hashed and compared."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from execnodes.storage.data_files import StoredFragment
from planner.tables.sources.base_table import BaseTable

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


SEPARATOR = b":"


def key_column(keys: pa.Table) -> pa.Array:
    """One value per row; two rows are equal exactly if all their key columns are.

    A single column stays as it is. Several columns become one binary column in which each part is preceded
    by its length, so that ("a", "bc") and ("ab", "c") differ.

    Args:
        keys: the key columns, without NULLs, in the table's own types.
    """
    if keys.num_columns == 1:
        return _combined(keys.column(0))
    parts: list[pa.Array] = []
    for column in keys.columns:
        text = _as_binary(_combined(column))
        parts += [pc.cast(pc.cast(pc.binary_length(text), pa.string()), pa.binary()), text]
    return pc.binary_join_element_wise(*parts, pa.scalar(SEPARATOR, pa.binary()))


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _as_binary(column: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_binary(column.type) or pa.types.is_large_binary(column.type):
        return column.cast(pa.binary())
    if pa.types.is_binary(column.type):
        return column
    return column.cast(pa.string()).cast(pa.binary())


def physical_keys(base: BaseTable, fragment: StoredFragment) -> pa.Array:
    """Key of every physical row, deleted ones too: what is found stays true whatever is deleted later."""
    dataset: Any = base.dataset
    stored = dataset.get_fragment(fragment.fragment_id)
    deleted = {"with_row_id": True, "include_deleted_rows": True} if stored.num_deletions else {}
    rows = dataset.scanner(
        columns=list(base.primary_key), fragments=[stored], batch_size=1 << 18, **deleted
    ).to_table()
    return key_column(rows.select(list(base.primary_key)))
