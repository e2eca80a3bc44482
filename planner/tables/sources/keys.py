"""Primary keys as columns that can be hashed and compared, and the positions of keys in the base table.

A lookup in Lance's index takes a millisecond, most of it planning. After several lookups of integer keys, an
ascending array of keys per fragment is read, which finds the position of a row in microseconds.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes import KeySet
from lance_gateway.execnodes.storage.data_files import Columns, FragmentFiles, StoredFragment
from lance_gateway.planner.tables.shared.cache import Encoding, FileName, SharedCache
from lance_gateway.planner.tables.sources.base_table import BaseTable, BaseVersion
from lance_gateway.planner.tables.sources.caches import ByteCache

_NEVER = np.iinfo(np.int64).max


class KeyHistory:
    """Rows numbered from 0, each with the row that superseded it. Not thread-safe.

    It finds the newest rows among any first rows, not only among all.
    """

    def __init__(self) -> None:
        self.rows = 0
        """How many there are."""
        self._last: dict[Hashable, int] = {}
        self._next = np.empty(64, dtype=np.int64)
        self._dead = np.empty(64, dtype=np.bool_)

    def extend(self, keys: pa.Array, dead: np.ndarray, cuts: Sequence[int]) -> None:
        """Append rows.

        Args:
            keys: one value per row, without NULLs.
            dead: whether a row is a tombstone.
            cuts: ascending, from 0 to the number of rows; only these numbers of rows are queried.
        """
        stop = self.rows + len(keys)
        if stop > len(self._next):
            size = max(stop, 2 * len(self._next))
            self._next = np.concatenate((self._next[: self.rows], np.empty(size - self.rows, np.int64)))
            self._dead = np.concatenate((self._dead[: self.rows], np.empty(size - self.rows, np.bool_)))
        self._next[self.rows : stop] = _NEVER
        self._dead[self.rows : stop] = dead
        values = to_hashable(keys)
        for start, end in pairwise(cuts):
            self._link_repeats(values[start:end])

    def find_newest(self, rows: int) -> np.ndarray:
        """Flag those of the first `rows` rows that are the last of their key and no tombstone."""
        found: np.ndarray = (self._next[:rows] >= rows) & ~self._dead[:rows]
        return found

    def count_keys(self, start: int, stop: int) -> int:
        """Count the distinct keys of a range of rows."""
        return int(np.count_nonzero(self._next[start:stop] >= stop))

    def find(self, keys: pa.Array, rows: int) -> np.ndarray | None:
        """Return ascending numbers of the last row of each key among the first `rows` rows.

        Return None if a later row of one of the keys hides it.
        """
        found = [at for value in to_hashable(keys) if (at := self._last.get(value)) is not None]
        if found and max(found) >= rows:
            return None
        return np.sort(np.array(found, dtype=np.int64))

    def _link_repeats(self, values: list[Any]) -> None:
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


def to_hashable(keys: pa.Array) -> list[Any]:
    """Convert keys to Python values that are equal exactly if the keys are."""
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


def combine_key_columns(keys: pa.Table) -> pa.Array:
    """Combine key columns into one column, in which two rows are equal exactly if all parts are.

    A single column stays as it is. Several columns become one binary column: the bytes of all parts, where
    all have a fixed number of them, otherwise the texts of the parts, each preceded by its length, so that
    ("a", "bc") and ("ab", "c") differ.

    Args:
        keys: the key columns, without NULLs, in the table's own types.
    """
    if keys.num_columns == 1:
        return _combine_chunks(keys.column(0))
    if all(_has_fixed_bytes(column.type) for column in keys.columns):
        return _join_bytes([_combine_chunks(column) for column in keys.columns])
    parts: list[pa.Array] = []
    for column in keys.columns:
        text = _cast_to_binary(_combine_chunks(column))
        parts += [pc.cast(pc.cast(pc.binary_length(text), pa.string()), pa.binary()), text]
    return pc.binary_join_element_wise(*parts, pa.scalar(SEPARATOR, pa.binary()))


def _has_fixed_bytes(kind: pa.DataType) -> bool:
    """Return whether equal values have equal bytes, the same number in each row."""
    return bool(pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _join_bytes(columns: Sequence[pa.Array]) -> pa.Array:
    widths = [column.type.bit_width // 8 for column in columns]
    rows, width = len(columns[0]), sum(widths)
    joined = np.empty((rows, width), dtype=np.uint8)
    start = 0
    for column, size in zip(columns, widths, strict=True):
        if rows:
            values = np.frombuffer(column.buffers()[1], np.uint8, rows * size, column.offset * size)
            joined[:, start : start + size] = values.reshape(rows, size)
        start += size
    return pa.Array.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(joined)])


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _cast_to_binary(column: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_binary(column.type) or pa.types.is_large_binary(column.type):
        return column.cast(pa.binary())
    if pa.types.is_binary(column.type):
        return column
    return column.cast(pa.string()).cast(pa.binary())


def read_physical_keys(base: BaseTable, fragment: StoredFragment) -> pa.Array:
    """Read the key of every physical row of a fragment, deleted rows included."""
    rows = _scan_physical_keys(base, fragment, 1 << 18).to_table()
    return combine_key_columns(rows.select(list(base.primary_key)))


def stream_physical_keys(
    base: BaseTable, fragment: StoredFragment, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read the key columns of every physical row of a fragment, deleted rows included, in their order."""
    for batch in _scan_physical_keys(base, fragment, batch_rows).to_batches():
        yield batch.select(list(base.primary_key))


def _scan_physical_keys(base: BaseTable, fragment: StoredFragment, batch_rows: int) -> Any:  # noqa: ANN401 - lance types
    dataset: Any = base.dataset
    stored = dataset.get_fragment(fragment.fragment_id)
    deleted = {"with_row_id": True, "include_deleted_rows": True} if stored.num_deletions else {}
    return dataset.scanner(
        columns=list(base.primary_key), fragments=[stored], batch_size=batch_rows, **deleted
    )


LOOKUPS_BEFORE = 16
"""All keys of a table are read after so many lookups."""
LARGEST_SHARE = 4
"""The keys of one table take at most one part in so many of the cache."""


@dataclass(frozen=True, slots=True)
class FragmentKeysName:
    """Cache key of the keys of a fragment."""

    files: FragmentFiles
    key: Columns


@dataclass(frozen=True, eq=False)
class FragmentKeys:
    """Sorted keys of one fragment, deleted rows included.

    Attributes:
        keys: ascending, int64.
        offsets: physical row of each key; None where the rows are in ascending order themselves.
    """

    keys: np.ndarray
    offsets: np.ndarray | None

    @staticmethod
    def of(column: pa.Array) -> FragmentKeys:
        """Sort a fragment's key column."""
        keys = column.to_numpy().astype(np.int64, copy=False)
        if (keys[1:] >= keys[:-1]).all():
            return FragmentKeys(keys, None)
        order = np.argsort(keys, kind="stable").astype(np.uint32)
        return FragmentKeys(keys[order], order)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.keys.nbytes + (0 if self.offsets is None else self.offsets.nbytes))

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """Return ascending offsets of the rows that have any of these keys."""
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


@dataclass(frozen=True, slots=True)
class FragmentKeysFile:
    """Name of the file of the keys of a fragment: what stored rows they are of, and which columns."""

    rows: bytes
    key: Columns


def name_fragment_keys(shared: SharedCache, base: BaseTable, fragment: StoredFragment) -> FileName | None:
    """Return the name of the file of the keys of a fragment; None if they are not shared."""
    rows = shared.name_rows(base.source, fragment)
    if rows is None:
        return None
    return shared.build_name(FragmentKeysFile(rows, base.key), [(base.source, (fragment,))])


def compute_fragment_keys(
    cache: ByteCache, shared: SharedCache, base: BaseTable, fragment: StoredFragment
) -> FragmentKeys:
    """Return the sorted integer keys of a fragment, from a cache, a file or the table."""
    return shared.compute(
        cache,
        FragmentKeysName(fragment.files, base.key),
        lambda: name_fragment_keys(shared, base, fragment),
        _FRAGMENT_KEYS,
        lambda: FragmentKeys.of(read_physical_keys(base, fragment)),
        lambda found: found.nbytes,
    )


def _encode_fragment_keys(keys: FragmentKeys) -> pa.RecordBatch:
    columns = {"keys": pa.array(keys.keys)}
    if keys.offsets is not None:
        columns["offsets"] = pa.array(keys.offsets)
    return pa.record_batch(columns)


def _decode_fragment_keys(batch: pa.RecordBatch) -> FragmentKeys:
    columns = [column.to_numpy() for column in batch.columns]
    return FragmentKeys(columns[0], columns[1] if len(columns) > 1 else None)


_FRAGMENT_KEYS = Encoding(_encode_fragment_keys, _decode_fragment_keys)


@dataclass(frozen=True, eq=False)
class KeyRanges:
    """Lowest and highest key of each fragment of one version of a table.

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
        """Build the ranges of fragments, given the ascending keys of each."""
        filled = [fragment for fragment in fragments if len(fragment[2])]
        return KeyRanges(
            version,
            [(fragment_id, name) for fragment_id, name, _ in filled],
            np.array([keys[0] for _, _, keys in filled], dtype=np.int64),
            np.array([keys[-1] for _, _, keys in filled], dtype=np.int64),
        )

    def find_fragments(self, wanted: np.ndarray) -> list[tuple[int, FragmentKeysName]]:
        """Return the fragments whose range overlaps that of the wanted keys (at least one)."""
        first, last = (wanted[0], wanted[0]) if len(wanted) == 1 else (wanted.min(), wanted.max())
        meets = (self.lowest <= last) & (self.highest >= first)
        return [self.fragments[number] for number in meets.nonzero()[0].tolist()]


class KeyPlaces:
    """Positions of keys in base tables, read in the background; unknown until then.

    Args:
        cache: keeps the keys of fragments.
        executor: reads them.
        shared: keeps them for other processes as well; None where nothing is shared.
    """

    def __init__(self, cache: ByteCache, executor: Executor, shared: SharedCache | None = None) -> None:
        self._cache = cache
        self._executor = executor
        self._shared = shared or SharedCache()
        self._lock = threading.Lock()
        self._lookups: Counter[str] = Counter()
        self._started: dict[str, BaseVersion] = {}
        self._ranges: dict[str, KeyRanges] = {}

    def find(self, base: BaseTable, keys: KeySet) -> Mapping[int, np.ndarray] | None:
        """Return fragment id -> physical offsets of rows with one of the keys; None if unknown."""
        if not len(keys):
            return {}
        uri, version = base.storage.uri, base.version_id
        ranges = self._ranges.get(uri)
        if ranges is None or ranges.version != version:
            if not self._is_eligible(base):
                return None
            ranges = self._find_ranges(base)
            if ranges is None:
                self._prepare(base)
                return None
            self._ranges[uri] = ranges
        wanted = np.array([key for (key,) in keys.rows], dtype=np.int64)
        located: dict[int, np.ndarray] = {}
        for fragment_id, name in ranges.find_fragments(wanted):
            of_fragment: FragmentKeys | None = self._cache.get(name)
            if of_fragment is None:
                self._restart(uri)
                return None
            offsets = of_fragment.find(wanted)
            if len(offsets):
                located[fragment_id] = offsets
        return located

    def _find_ranges(self, base: BaseTable) -> KeyRanges | None:
        found: list[tuple[int, FragmentKeysName, np.ndarray]] = []
        for fragment in base.fragments:
            name = FragmentKeysName(fragment.files, base.key)
            of_fragment: FragmentKeys | None = self._cache.get(name)
            if of_fragment is None:
                return None
            found.append((fragment.fragment_id, name, of_fragment.keys))
        return KeyRanges.of(base.version_id, found)

    def _restart(self, uri: str) -> None:
        """Start over after keys were evicted from the cache; they are read again after more lookups."""
        with self._lock:
            self._ranges.pop(uri, None)
            self._started.pop(uri, None)
            self._lookups[uri] = 1

    def _is_eligible(self, base: BaseTable) -> bool:
        room = self._shared.find_room(base.source, self._cache)
        if len(base.primary_key) != 1 or base.physical_rows * 12 * LARGEST_SHARE > room:
            return False
        return bool(pa.types.is_signed_integer(base.schema.field(base.primary_key[0]).type))

    def _prepare(self, base: BaseTable) -> None:
        uri, version = base.storage.uri, base.version_id
        with self._lock:
            self._lookups[uri] += 1
            if self._lookups[uri] < LOOKUPS_BEFORE or self._started.get(uri) == version:
                return
            self._started[uri] = version
        self._executor.submit(self._read_fragments, base)

    def _read_fragments(self, base: BaseTable) -> None:
        for fragment in base.fragments:
            compute_fragment_keys(self._cache, self._shared, base, fragment)


@dataclass(frozen=True, eq=False)
class BaseKeyLocator:
    """A `KeyLocator` for one version of a base table."""

    places: KeyPlaces
    base: BaseTable

    def find(self, keys: KeySet) -> Mapping[int, np.ndarray] | None:
        """See `KeyPlaces.find`."""
        return self.places.find(self.base, keys)
