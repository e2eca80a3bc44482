"""Where a source that never changes has given keys: asked over and over while a tail grows."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from execnodes.rows import lance_filter
from execnodes.storage.data_files import StoredFragment
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.byte_cache import ByteCache
from planner.tables.sources.key_column import physical_keys
from planner.tables.sources.key_locator import FragmentKeys, FragmentKeysName

INDEX_PROBE_KEYS = 2_000
"""Up to so many keys, looking each up in the base table's BTREE index beats reading its key column."""
LARGEST_SHARE = 4
"""The keys of one base table take at most one part in so many of the cache."""
INTEGER_BYTES = 12
OTHER_BYTES = 48
"""What a kept key is taken for before it is read."""


@dataclass(frozen=True, eq=False)
class LayerPlaces:
    """Finds rows by key.

    Args:
        keys: of all rows of the source.
    """

    keys: pa.Array

    @cached_property
    def _ordered(self) -> FragmentKeys | None:
        return FragmentKeys.of(self.keys) if pa.types.is_signed_integer(self.keys.type) else None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 2 * int(self.keys.nbytes)

    def find(self, wanted: pa.Array) -> np.ndarray:
        """Ascending numbers of the rows that have one of these distinct keys."""
        if self._ordered is not None:
            return self._ordered.find(wanted.to_numpy().astype(np.int64, copy=False))
        return np.flatnonzero(pc.is_in(self.keys, value_set=wanted).to_numpy(zero_copy_only=False))


class BasePlaces:
    """Where base tables have keys.

    Args:
        cache: keeps keys.
        executor: reads several fragments at a time.
    """

    def __init__(self, cache: ByteCache, executor: Executor) -> None:
        self._cache = cache
        self._executor = executor

    def are_kept(self, base: BaseTable) -> bool:
        """Whether the keys of all fragments are, or may be, kept in memory."""
        is_integer = self._is_integer(base)
        if not is_integer and base.key_index:
            return False
        size = INTEGER_BYTES if is_integer else OTHER_BYTES
        return base.physical_rows * size * LARGEST_SHARE <= self._cache.max_bytes

    def read(self, base: BaseTable, fragments: Sequence[StoredFragment]) -> None:
        """Have the keys of fragments in memory."""
        missing = [one for one in fragments if self._cache.get(FragmentKeysName(one.files, base.key)) is None]
        if len(missing) > 1:
            list(self._executor.map(lambda one: self._keys(base, one), missing))

    def in_fragment(self, base: BaseTable, fragment: StoredFragment, wanted: pa.Array) -> np.ndarray:
        """Offsets (uint32) of the rows of a fragment that have one of these distinct keys."""
        keys = self._keys(base, fragment)
        if isinstance(keys, FragmentKeys):
            found = keys.find(wanted.to_numpy().astype(np.int64, copy=False))
        else:
            found = keys.find(wanted)
        return found.astype(np.uint32)

    def by_index(self, base: BaseTable, wanted: pa.Array) -> np.ndarray | None:
        """Row addresses (uint64) as the table's BTREE index tells them; None where it can't be asked."""
        if not base.key_index or len(wanted) > INDEX_PROBE_KEYS:
            return None
        condition = lance_filter.one_of(base.primary_key[0], wanted)
        if condition is None:
            return None
        rows = base.dataset.scanner(columns=[], filter=condition, with_row_address=True).to_table()
        found: np.ndarray = rows.column(0).to_numpy()
        return found

    def _keys(self, base: BaseTable, fragment: StoredFragment) -> FragmentKeys | LayerPlaces:
        make = FragmentKeys.of if self._is_integer(base) else LayerPlaces
        found: FragmentKeys | LayerPlaces = self._cache.compute(
            FragmentKeysName(fragment.files, base.key),
            lambda: make(physical_keys(base, fragment)),
            lambda keys: keys.nbytes,
        )
        return found

    def _is_integer(self, base: BaseTable) -> bool:
        if len(base.primary_key) != 1:
            return False
        return bool(pa.types.is_signed_integer(base.schema.field(base.primary_key[0]).type))
