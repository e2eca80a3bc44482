"""Where the rows of the base table lie by key, once it is clear that many are looked up.

An index of Lance's costs a millisecond a lookup, most of it planning. For integer keys an ascending array per
fragment answers in microseconds, and the row is then taken by its place.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from execnodes import KeySet
from planner.base_table import BaseTable, Fragment, Place
from planner.byte_cache import ByteCache
from planner.physical_keys import physical_keys

LOOKUPS_BEFORE = 16
"""Reading all keys of a table is worth it only for somebody who keeps asking."""
LARGEST_SHARE = 4
"""The keys of one table take at most one part in so many of the cache."""


@dataclass(frozen=True, eq=False)
class FragmentKeys:
    """Keys of one fragment, deleted rows included.

    Attributes:
        keys: ascending, int64.
        offsets: physical row of each key; None where the rows are in ascending order themselves.
    """

    keys: np.ndarray
    offsets: np.ndarray | None

    @staticmethod
    def of(column: pa.Array) -> FragmentKeys:
        """Of a fragment's key column."""
        keys = column.to_numpy().astype(np.int64, copy=False)
        if (keys[1:] >= keys[:-1]).all():
            return FragmentKeys(keys, None)
        order = np.argsort(keys, kind="stable").astype(np.uint32)
        return FragmentKeys(keys[order], order)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.keys.nbytes + (0 if self.offsets is None else self.offsets.nbytes))

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """Ascending offsets of the rows that have any of these keys."""
        if not len(self.keys):
            return np.empty(0, dtype=np.int64)
        starts, ends = np.searchsorted(self.keys, wanted), np.searchsorted(self.keys, wanted, side="right")
        counts = ends - starts
        if counts.max(initial=0) <= 1:
            places = starts[counts > 0]
        else:
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            places = np.repeat(starts, counts) + within
        return np.sort(places if self.offsets is None else self.offsets[places])


class KeyPlaces:
    """Answers once it has read a table's keys, in the background, and knows nothing until then.

    Args:
        cache: keeps the keys of fragments.
        executor: reads them.
    """

    def __init__(self, cache: ByteCache, executor: Executor) -> None:
        self._cache = cache
        self._executor = executor
        self._lock = threading.Lock()
        self._lookups: Counter[str] = Counter()
        self._begun: dict[str, tuple[Place, int]] = {}

    def find(self, base: BaseTable, keys: KeySet) -> Mapping[int, np.ndarray] | None:
        """Fragment id -> physical offsets of rows with one of the keys; None where that is not known."""
        if not self._is_eligible(base):
            return None
        known: list[tuple[int, FragmentKeys]] = []
        for fragment in base.fragments:
            of_fragment = self._cache.get(fragment_keys_name(base, fragment))
            if of_fragment is None:
                self._prepare(base)
                return None
            known.append((fragment.fragment_id, of_fragment))
        wanted = keys.table.column(0).to_numpy().astype(np.int64)
        located = ((fragment_id, one.find(wanted)) for fragment_id, one in known)
        return {fragment_id: offsets for fragment_id, offsets in located if len(offsets)}

    def _is_eligible(self, base: BaseTable) -> bool:
        if len(base.primary_key) != 1 or base.physical_rows * 12 * LARGEST_SHARE > self._cache.max_bytes:
            return False
        return bool(pa.types.is_signed_integer(base.schema.field(base.primary_key[0]).type))

    def _prepare(self, base: BaseTable) -> None:
        uri, version = base.storage.uri, (base.place, base.version)
        with self._lock:
            self._lookups[uri] += 1
            if self._lookups[uri] < LOOKUPS_BEFORE or self._begun.get(uri) == version:
                return
            self._begun[uri] = version
        self._executor.submit(self._read, base)

    def _read(self, base: BaseTable) -> None:
        for fragment in base.fragments:
            self._cache.compute(
                fragment_keys_name(base, fragment),
                lambda one=fragment: FragmentKeys.of(physical_keys(base, one)),  # type: ignore[misc]
                lambda found: found.nbytes,
            )


@dataclass(frozen=True, eq=False)
class BaseKeyLocator:
    """A `KeyLocator` for one version of a base table."""

    places: KeyPlaces
    base: BaseTable

    def find(self, keys: KeySet) -> Mapping[int, np.ndarray] | None:
        """See `KeyPlaces.find`."""
        return self.places.find(self.base, keys)


def fragment_keys_name(base: BaseTable, fragment: Fragment) -> tuple[object, ...]:
    """What names the keys of a fragment in the cache."""
    return ("key places", base.place, fragment.files, base.primary_key)
