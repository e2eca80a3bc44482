"""Where the rows of the base table lie by key, once it is clear that many are looked up.

An index of Lance's costs a millisecond a lookup, most of it planning. For integer keys an ascending array per
fragment answers in microseconds, and the row is then taken by its place.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from execnodes import KeySet
from execnodes.storage.data_files import Columns, FragmentFiles
from planner.tables.sources.base_table import BaseTable, BaseVersion
from planner.tables.sources.byte_cache import ByteCache
from planner.tables.sources.key_column import physical_keys

LOOKUPS_BEFORE = 16
"""Reading all keys of a table is worth it only for somebody who keeps asking."""
LARGEST_SHARE = 4
"""The keys of one table take at most one part in so many of the cache."""


@dataclass(frozen=True, slots=True)
class FragmentKeysName:
    """Names the keys of a fragment in the cache. Equal for the same stored rows and key columns."""

    files: FragmentFiles
    key: Columns


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
        starts, ends = self.keys.searchsorted(wanted), self.keys.searchsorted(wanted, side="right")
        if len(wanted) == 1:
            first, stop = int(starts[0]), int(ends[0])
            return np.arange(first, stop) if self.offsets is None else np.sort(self.offsets[first:stop])
        counts = ends - starts
        if counts.max(initial=0) <= 1:
            places = starts[counts > 0]
        else:
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            places = np.repeat(starts, counts) + within
        return np.sort(places if self.offsets is None else self.offsets[places])


@dataclass(frozen=True, eq=False)
class KeyRanges:
    """Smallest and largest key of each fragment of one version of a table.

    Attributes:
        version: whose fragments they are.
        fragments: those with rows: id, and what names its keys in the cache.
        lowest: of each.
        highest: of each.
    """

    version: BaseVersion
    fragments: Sequence[tuple[int, FragmentKeysName]]
    lowest: np.ndarray
    highest: np.ndarray

    @staticmethod
    def of(version: BaseVersion, fragments: Iterable[tuple[int, FragmentKeysName, np.ndarray]]) -> KeyRanges:
        """Of fragments, each with its keys, ascending."""
        filled = [one for one in fragments if len(one[2])]
        return KeyRanges(
            version,
            [(fragment_id, name) for fragment_id, name, _ in filled],
            np.array([keys[0] for _, _, keys in filled], dtype=np.int64),
            np.array([keys[-1] for _, _, keys in filled], dtype=np.int64),
        )

    def meeting(self, wanted: np.ndarray) -> list[tuple[int, FragmentKeysName]]:
        """Fragments that may have one of these keys, of which there is at least one."""
        first, last = (wanted[0], wanted[0]) if len(wanted) == 1 else (wanted.min(), wanted.max())
        meets = (self.lowest <= last) & (self.highest >= first)
        return [self.fragments[number] for number in meets.nonzero()[0].tolist()]


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
        self._begun: dict[str, BaseVersion] = {}
        self._ranges: dict[str, KeyRanges] = {}

    def find(self, base: BaseTable, keys: KeySet) -> Mapping[int, np.ndarray] | None:
        """Fragment id -> physical offsets of rows with one of the keys; None where that is not known."""
        if not len(keys):
            return {}
        uri, version = base.storage.uri, base.version_id
        ranges = self._ranges.get(uri)
        if ranges is None or ranges.version != version:
            if not self._is_eligible(base):
                return None
            ranges = self._known_ranges(base)
            if ranges is None:
                self._prepare(base)
                return None
            self._ranges[uri] = ranges
        wanted = np.array([key for (key,) in keys.rows], dtype=np.int64)
        located: dict[int, np.ndarray] = {}
        for fragment_id, name in ranges.meeting(wanted):
            of_fragment: FragmentKeys | None = self._cache.get(name)
            if of_fragment is None:
                self._begin_anew(uri)
                return None
            offsets = of_fragment.find(wanted)
            if len(offsets):
                located[fragment_id] = offsets
        return located

    def _known_ranges(self, base: BaseTable) -> KeyRanges | None:
        """None where the keys of a fragment are not known."""
        found: list[tuple[int, FragmentKeysName, np.ndarray]] = []
        for fragment in base.fragments:
            name = FragmentKeysName(fragment.files, base.key)
            of_fragment: FragmentKeys | None = self._cache.get(name)
            if of_fragment is None:
                return None
            found.append((fragment.fragment_id, name, of_fragment.keys))
        return KeyRanges.of(base.version_id, found)

    def _begin_anew(self, uri: str) -> None:
        """Keys left the cache, since others were asked for more: read them again for who keeps asking."""
        with self._lock:
            self._ranges.pop(uri, None)
            self._begun.pop(uri, None)
            self._lookups[uri] = 1

    def _is_eligible(self, base: BaseTable) -> bool:
        if len(base.primary_key) != 1 or base.physical_rows * 12 * LARGEST_SHARE > self._cache.max_bytes:
            return False
        return bool(pa.types.is_signed_integer(base.schema.field(base.primary_key[0]).type))

    def _prepare(self, base: BaseTable) -> None:
        uri, version = base.storage.uri, base.version_id
        with self._lock:
            self._lookups[uri] += 1
            if self._lookups[uri] < LOOKUPS_BEFORE or self._begun.get(uri) == version:
                return
            self._begun[uri] = version
        self._executor.submit(self._read, base)

    def _read(self, base: BaseTable) -> None:
        for fragment in base.fragments:
            self._cache.compute(
                FragmentKeysName(fragment.files, base.key),
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
