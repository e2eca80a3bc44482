"""Rows of a source by number, so that whatever is known of each row is one array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK, RowMask


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """Numbers of a source's physical rows: fragment after fragment, deleted rows included.

    Args:
        physical_rows: fragment id -> rows stored, of the fragments that are searched.
    """

    physical_rows: Mapping[int, int]

    @cached_property
    def count(self) -> int:
        """How many rows have a number."""
        return sum(self.physical_rows.values())

    @cached_property
    def _fragments(self) -> np.ndarray:
        return np.array(sorted(self.physical_rows), dtype=np.int64)

    @cached_property
    def _starts(self) -> np.ndarray:
        """Number of each fragment's first row, in the order of ids, and of the row after the last."""
        sizes = [self.physical_rows[int(one)] for one in self._fragments]
        return np.concatenate(([0], np.cumsum(np.array(sizes, dtype=np.int64))))

    def numbers(self, addresses: np.ndarray) -> np.ndarray:
        """Numbers (int64) of rows by their addresses (uint64); -1 for rows of other fragments."""
        if not len(self._fragments):
            return np.full(len(addresses), -1, dtype=np.int64)
        fragment_ids = (addresses >> OFFSET_BITS).astype(np.int64)
        places = np.minimum(np.searchsorted(self._fragments, fragment_ids), len(self._fragments) - 1)
        numbers = self._starts[places] + (addresses & OFFSET_MASK).astype(np.int64)
        outside = (self._fragments[places] != fragment_ids) | (numbers >= self._starts[places + 1])
        numbers[outside] = -1
        return numbers

    def addresses(self, numbers: np.ndarray) -> np.ndarray:
        """Addresses (uint64) of rows by their numbers."""
        places = np.searchsorted(self._starts, numbers, side="right") - 1
        offsets = (numbers - self._starts[places]).astype(np.uint64)
        found: np.ndarray = (self._fragments[places].astype(np.uint64) << OFFSET_BITS) | offsets
        return found

    def flags(self, mask: RowMask) -> np.ndarray:
        """One bool per row: whether the mask shows it."""
        shown = np.ones(self.count, dtype=np.bool_)
        for place, fragment_id in enumerate(self._fragments.tolist()):
            of_fragment = mask.fragments.get(fragment_id)
            if of_fragment is not None:
                start, stop = self._starts[place], self._starts[place + 1]
                shown[start:stop] = of_fragment.visible.to_numpy(zero_copy_only=False)
        return shown
