"""Caches in memory: values of any kind within a byte budget, and decoded columns of visible rows.

Opening a scanner costs more than reading the few rows of a flushed generation, and so does decoding a column.
The cache key of a chunk is its content: the fragment's stored rows, which never change, and the visible rows.
So it is valid for every snapshot. Chunks are cached whole, and masked if the same rows are requested again.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, rows_without_columns
from execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_MASK, FragmentMask, RowMask
from execnodes.storage.data_files import Deletions, FragmentFiles, StoredFragment, StoredValues
from execnodes.storage.source import LanceSource

Value = TypeVar("Value")

ENTRY_OVERHEAD = 128
"""Bytes of an entry beside its value."""

_count_bytes: Callable[[Any], int] = attrgetter("nbytes")


class ByteCache:
    """Cache that computes each value once for all threads that request it at the same time.

    Keys are frozen dataclasses that hold all that their values depend on, so nothing is ever invalidated;
    values that were not requested for the longest time are evicted first.

    Attributes:
        max_bytes: the budget.
        hits: lookups that found something.
        misses: lookups that found nothing.

    Args:
        max_bytes: upper bound for the sum of all values; a larger value is handed out but not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes <= 0:
            msg = f"a cache needs room: {max_bytes} bytes given"
            raise ValueError(msg)
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._nbytes = 0
        self._pending: dict[Hashable, Future[Any]] = {}
        self.hits = 0
        self.misses = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self._nbytes

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - values of many types share one budget
        """Return the value, or None."""
        return self.get_many((key,))[0]

    def get_many(self, keys: Iterable[Hashable]) -> list[Any]:
        """Return the value of each key, or None."""
        with self._lock:
            entries = [self._look_up(key) for key in keys]
        return [None if entry is None else entry[0] for entry in entries]

    def put(self, key: Hashable, value: object, nbytes: int) -> None:
        """Store a value that was computed elsewhere."""
        self.put_many(((key, value, nbytes),))

    def put_many(self, values: Iterable[tuple[Hashable, object, int]]) -> None:
        """Store values that were computed elsewhere, each as key, value and bytes."""
        with self._lock:
            for key, value, nbytes in values:
                if nbytes > self.max_bytes:
                    continue
                before = self._entries.pop(key, None)
                self._nbytes += nbytes - (0 if before is None else before[1])
                self._entries[key] = (value, nbytes)
                while self._nbytes > self.max_bytes:
                    _, (_, freed) = self._entries.popitem(last=False)
                    self._nbytes -= freed

    def compute(
        self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int] | None = None
    ) -> Value:
        """Return the cached value; if there is none, compute and store it.

        Args:
            key: of the value.
            make: computes it.
            size: returns its bytes; by default, its `nbytes`.

        Raises:
            Exception: whatever `make` raises; nothing is kept then.
        """
        with self._lock:
            entry = self._look_up(key)
            if entry is not None:
                found: Value = entry[0]
                return found
            future = self._pending.get(key)
            mine = future is None
            if future is None:
                future = self._pending[key] = Future()
        if not mine:
            shared: Value = future.result()
            return shared
        try:
            value = make()
            self.put(key, value, (size or _count_bytes)(value))
        except BaseException as error:
            with self._lock:
                del self._pending[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._pending[key]
        future.set_result(value)
        return value

    def _look_up(self, key: Hashable) -> tuple[Any, int] | None:
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
        else:
            self._entries.move_to_end(key)
            self.hits += 1
        return entry


MAX_COLUMN_BYTES = 16 << 20
"""A larger column of one fragment (wide vectors, long texts) is read from Lance every time."""

TEXT_BYTES = 64
"""Estimated bytes of a value of variable length."""

COLUMNS_REMEMBERED = 1 << 16

_EVERY_ROW = b""


@dataclass(frozen=True, slots=True)
class _LiveRows:
    """Cache key of the rows of a fragment that are not deleted."""

    files: FragmentFiles
    deletions: Deletions


@dataclass(frozen=True, slots=True)
class _ShownRows:
    """Cache key of the last mask of live rows; the value tells which mask it was."""

    live: _LiveRows


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Cache key of the visible rows of a chunk of a column.

    Attributes:
        column: whose values they are.
        number: of the chunk in the fragment.
        visible: digest of the rows that are shown of it.
    """

    column: StoredValues
    number: int
    visible: bytes


class DecodedColumns:
    """`ColumnCache` of decoded columns.

    Attributes:
        kept: the columns.

    Args:
        max_bytes: budget.
    """

    def __init__(self, max_bytes: int) -> None:
        self.kept = ByteCache(max_bytes)
        self._requested = ByteCache(COLUMNS_REMEMBERED)
        self._max_scan_bytes = max_bytes // 2

    def fits(self, types: Iterable[pa.DataType], rows: int) -> bool:
        """Return whether a scan of so many rows may be cached: a larger one would evict all else."""
        return sum(_estimate_bytes(kind, rows) for kind in types) <= self._max_scan_bytes

    def visible(
        self, source: LanceSource, fragment_ids: Sequence[int], mask: RowMask
    ) -> list[FragmentMask | None]:
        """See `ColumnCache.visible`."""
        fragments = source.fragments.get_each(fragment_ids)
        return [
            self._combine_masks(source, fragment, mask.fragments.get(fragment.fragment_id))
            for fragment in fragments
        ]

    def _combine_masks(
        self, source: LanceSource, fragment: StoredFragment, mask: FragmentMask | None
    ) -> FragmentMask | None:
        if fragment.deletions is None or (mask is not None and mask.hides_deleted):
            return mask

        def live() -> FragmentMask:
            dataset: Any = source.dataset
            rows = dataset.scanner(columns=[], fragments=[fragment.handle], with_row_address=True).to_table()
            flags = np.zeros(fragment.physical_rows, dtype=np.bool_)
            flags[rows.column(ROW_ADDRESS).to_numpy() & OFFSET_MASK] = True
            return FragmentMask(pa.array(flags))

        def size(found: FragmentMask) -> int:
            return int(found.visible.nbytes)

        not_deleted_rows = _LiveRows(fragment.files, fragment.deletions)
        not_deleted = self.kept.compute(not_deleted_rows, live, size)
        if mask is None:
            return not_deleted
        # By content as well, and only the last one: masks come and go with snapshots.
        name = _ShownRows(not_deleted_rows)
        known: tuple[tuple[bytes, ...], FragmentMask] | None = self.kept.get(name)
        if known is not None and known[0] == mask.digests:
            return known[1]
        both = mask.both(not_deleted)
        self.kept.put(name, (mask.digests, both), size(both))
        return both

    def read(
        self, source: LanceSource, fragment_ids: Sequence[int], columns: Sequence[str], mask: RowMask
    ) -> tuple[Iterator[pa.RecordBatch], tuple[int, ...]]:
        """See `ColumnCache.read`."""
        fragments = source.fragments.get_each(fragment_ids)
        names = [one.columns(columns, source.stored_types) for one in fragments]
        kept, too_large = [], []
        for fragment, values in zip(fragments, names, strict=True):
            if all(
                _estimate_bytes(value.type, fragment.physical_rows) <= MAX_COLUMN_BYTES for value in values
            ):
                kept.append((fragment, values))
            else:
                too_large.append(fragment.fragment_id)
        return self._read_batches(source, kept, list(columns), mask), tuple(too_large)

    def _read_batches(
        self,
        source: LanceSource,
        fragments: Iterable[tuple[StoredFragment, list[StoredValues]]],
        columns: list[str],
        mask: RowMask,
    ) -> Iterator[pa.RecordBatch]:
        for fragment, names in fragments:
            visible = self._combine_masks(source, fragment, mask.fragments.get(fragment.fragment_id))
            sizes = [min(CHUNK_ROWS, left) for left in range(fragment.physical_rows, 0, -CHUNK_ROWS)]
            masks = [None for _ in sizes] if visible is None else visible.chunks()
            if columns:
                digests = [_EVERY_ROW for _ in sizes] if visible is None else visible.digests
                for arrays in self._read_chunks(source, fragment, columns, names, masks, digests):
                    yield pa.RecordBatch.from_arrays(arrays, names=columns)
            else:
                for size, shown in zip(sizes, masks, strict=True):
                    yield rows_without_columns(size if shown is None else int(shown.true_count))

    def _read_chunks(
        self,
        source: LanceSource,
        fragment: StoredFragment,
        columns: list[str],
        names: list[StoredValues],
        masks: list[pa.BooleanArray | None],
        digests: Sequence[bytes],
    ) -> Iterator[list[pa.Array]]:
        """Yield the visible rows of each chunk; neighbouring chunks that are not cached are read together."""
        kept = self._find_chunks(names, masks, digests)

        def is_kept(number: int) -> bool:
            return all(column is not None for column in kept[number])

        for all_kept, run in itertools.groupby(range(len(masks)), is_kept):
            if all_kept:
                yield from (kept[number] for number in run)
            else:
                yield from self._decode_chunks(source, fragment, columns, names, masks, list(run))

    def _find_chunks(
        self, names: list[StoredValues], masks: list[pa.BooleanArray | None], digests: Sequence[bytes]
    ) -> list[list[pa.Array | None]]:
        """Return the visible rows of each chunk in each column; None for those that have to be read."""
        chunks = [
            [_Chunk(name, number, _EVERY_ROW if mask is None else digest) for name in names]
            for number, (mask, digest) in enumerate(zip(masks, digests, strict=True))
        ]
        values = iter(self.kept.get_many(itertools.chain.from_iterable(chunks)))
        found = [list(itertools.islice(values, len(names))) for _ in chunks]
        missing = [
            (number, at)
            for number, columns in enumerate(found)
            for at, column in enumerate(columns)
            if column is None and masks[number] is not None
        ]
        if not missing:
            return found
        whole = self.kept.get_many([_Chunk(names[at], number, _EVERY_ROW) for number, at in missing])
        unknown = {number for (number, _), column in zip(missing, whole, strict=True) if column is None}
        masked = [
            (*place, column) for place, column in zip(missing, whole, strict=True) if place[0] not in unknown
        ]
        again = self._note_requests([chunks[number][at] for number, at, _ in masked])
        kept: list[tuple[_Chunk, pa.Array, int]] = []
        for (number, at, column), is_asked_again in zip(masked, again, strict=True):
            shown = found[number][at] = column.filter(masks[number])
            if is_asked_again:
                kept.append((chunks[number][at], shown, int(shown.nbytes)))
        self.kept.put_many(kept)
        return found

    def _decode_chunks(
        self,
        source: LanceSource,
        fragment: StoredFragment,
        columns: list[str],
        names: list[StoredValues],
        masks: list[pa.BooleanArray | None],
        numbers: list[int],
    ) -> Iterator[list[pa.Array]]:
        """Read neighbouring chunks in one scan, cache them, and yield their visible rows."""
        first = numbers[0] * CHUNK_ROWS
        count = min(len(numbers) * CHUNK_ROWS, fragment.physical_rows - first)
        scope = {} if count == fragment.physical_rows else {"offset": first, "limit": count}
        if fragment.deletions is not None:
            scope |= {"with_row_id": True, "include_deleted_rows": True}  # offsets are physical
        # A large column is cached from its second read on, so that a single query does not pay for memory.
        keep = [again or fragment.physical_rows <= CHUNK_ROWS for again in self._note_requests(names)]
        dataset: Any = source.dataset
        scanner = dataset.scanner(
            columns=columns,
            fragments=[fragment.handle],
            batch_size=CHUNK_ROWS,
            strict_batch_size=True,
            **scope,
        )
        for number, batch in zip(numbers, scanner.to_batches(), strict=True):
            arrays = batch.select(columns).columns
            self.kept.put_many(
                [
                    (_Chunk(name, number, _EVERY_ROW), column, int(column.nbytes))
                    for name, column, is_kept in zip(names, arrays, keep, strict=True)
                    if is_kept
                ]
            )
            mask = masks[number]
            yield arrays if mask is None else [column.filter(mask) for column in arrays]

    def _note_requests(self, names: Sequence[StoredValues | _Chunk]) -> list[bool]:
        """Return whether each name was requested before, and remember it."""
        before = [known is not None for known in self._requested.get_many(names)]
        new = [name for name, known in zip(names, before, strict=True) if not known]
        self._requested.put_many([(name, True, 1) for name in new])
        return before


def _estimate_bytes(kind: pa.DataType, rows: int) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _estimate_bytes(kind.value_type, rows)
    try:
        return rows * max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return rows * TEXT_BYTES
