"""What is kept in memory: values of any kind within a byte budget, and decoded columns of visible rows.

Opening a scanner costs more than the few rows of a flushed generation, and decoding and masking a column
costs more than handing it over. What is kept is named by its content: the fragment's stored rows, which never
change, and the rows that are visible of a chunk. So it stays right for every snapshot. Chunks are kept whole
and, once the same rows of them are asked for again, masked: while rows stream in, every query sees others.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, rows_without_columns
from execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_MASK, FragmentMask, RowMask
from execnodes.storage.data_files import Deletions, FragmentFiles, StoredFragment, StoredValues
from execnodes.storage.source import LanceSource

Value = TypeVar("Value")

ENTRY_OVERHEAD = 128
"""What an entry is booked at, beside its value."""


class ByteCache:
    """Computes each value once, however many threads ask at the same time.

    Keys are frozen dataclasses that hold all that their values depend on, so nothing is ever invalidated;
    what no longer is asked for leaves when room is needed.

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
        self._held = 0
        self._under_way: dict[Hashable, Future[Any]] = {}
        self.hits = 0
        self.misses = 0

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return self._held

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 (values of many types share one budget)
        """The value, or None."""
        return self.get_many((key,))[0]

    def get_many(self, keys: Iterable[Hashable]) -> list[Any]:
        """The value of each key, or None."""
        with self._lock:
            entries = [self._entry(key) for key in keys]
        return [None if entry is None else entry[0] for entry in entries]

    def put(self, key: Hashable, value: object, nbytes: int) -> None:
        """Keep a value that was computed elsewhere."""
        self.put_many(((key, value, nbytes),))

    def put_many(self, values: Iterable[tuple[Hashable, object, int]]) -> None:
        """Keep values that were computed elsewhere: key, value and bytes of each."""
        with self._lock:
            for key, value, nbytes in values:
                if nbytes > self.max_bytes:
                    continue
                before = self._entries.pop(key, None)
                self._held += nbytes - (0 if before is None else before[1])
                self._entries[key] = (value, nbytes)
                while self._held > self.max_bytes:
                    _, (_, freed) = self._entries.popitem(last=False)
                    self._held -= freed

    def compute(self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """The cached value, or what `make` returns, which is then kept.

        Raises:
            Exception: whatever `make` raises; nothing is kept then.
        """
        with self._lock:
            entry = self._entry(key)
            if entry is not None:
                found: Value = entry[0]
                return found
            future = self._under_way.get(key)
            mine = future is None
            if future is None:
                future = self._under_way[key] = Future()
        if not mine:
            shared: Value = future.result()
            return shared
        try:
            value = make()
            self.put(key, value, size(value))
        except BaseException as error:
            with self._lock:
                del self._under_way[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._under_way[key]
        future.set_result(value)
        return value

    def _entry(self, key: Hashable) -> tuple[Any, int] | None:
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
"""What a value of variable length is taken for before anything is read."""

COLUMNS_REMEMBERED = 1 << 16

_EVERY_ROW = b""


@dataclass(frozen=True, slots=True)
class _LiveRows:
    """Rows of a fragment that are not deleted. Equal if the same ones of the same rows are deleted."""

    files: FragmentFiles
    deletions: Deletions


@dataclass(frozen=True, slots=True)
class _ShownRows:
    """Those of them that the mask shows which was applied last: the value tells which mask that was."""

    live: _LiveRows


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The visible rows of a chunk of a column. Equal if they are the same rows, with the same values.

    Attributes:
        column: whose values they are.
        number: of the chunk in the fragment.
        visible: digest of the rows that are shown of it.
    """

    column: StoredValues
    number: int
    visible: bytes


class DecodedColumns:
    """A `ColumnCache`.

    Attributes:
        kept: the columns.

    Args:
        max_bytes: budget.
    """

    def __init__(self, max_bytes: int) -> None:
        self.kept = ByteCache(max_bytes)
        self._read_before = ByteCache(COLUMNS_REMEMBERED)
        self._max_scan_bytes = max_bytes // 2

    def fits(self, types: Iterable[pa.DataType], rows: int) -> bool:
        """Whether a scan of so many rows may be kept: a larger one would only flush the cache."""
        return sum(_expected_bytes(kind, rows) for kind in types) <= self._max_scan_bytes

    def visible(
        self, source: LanceSource, fragment_ids: Sequence[int], mask: RowMask
    ) -> list[FragmentMask | None]:
        """See `ColumnCache.visible`."""
        fragments = source.fragments.get_each(fragment_ids)
        return [self._visible(source, one, mask.fragments.get(one.fragment_id)) for one in fragments]

    def _visible(
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
            if all(_expected_bytes(one.type, fragment.physical_rows) <= MAX_COLUMN_BYTES for one in values):
                kept.append((fragment, values))
            else:
                too_large.append(fragment.fragment_id)
        return self._batches(source, kept, list(columns), mask), tuple(too_large)

    def _batches(
        self,
        source: LanceSource,
        fragments: Iterable[tuple[StoredFragment, list[StoredValues]]],
        columns: list[str],
        mask: RowMask,
    ) -> Iterator[pa.RecordBatch]:
        for fragment, names in fragments:
            visible = self._visible(source, fragment, mask.fragments.get(fragment.fragment_id))
            sizes = [min(CHUNK_ROWS, left) for left in range(fragment.physical_rows, 0, -CHUNK_ROWS)]
            masks = [None for _ in sizes] if visible is None else visible.chunks()
            if columns:
                digests = [_EVERY_ROW for _ in sizes] if visible is None else visible.digests
                for arrays in self._chunks(source, fragment, columns, names, masks, digests):
                    yield pa.RecordBatch.from_arrays(arrays, names=columns)
            else:
                for size, shown in zip(sizes, masks, strict=True):
                    yield rows_without_columns(size if shown is None else int(shown.true_count))

    def _chunks(
        self,
        source: LanceSource,
        fragment: StoredFragment,
        columns: list[str],
        names: list[StoredValues],
        masks: list[pa.BooleanArray | None],
        digests: Sequence[bytes],
    ) -> Iterator[list[pa.Array]]:
        """The visible rows of each chunk; neighbours that are not kept yet are decoded together."""
        kept = self._kept(names, masks, digests)

        def is_kept(number: int) -> bool:
            return all(column is not None for column in kept[number])

        for all_kept, run in itertools.groupby(range(len(masks)), is_kept):
            if all_kept:
                yield from (kept[number] for number in run)
            else:
                yield from self._decoded(source, fragment, columns, names, masks, list(run))

    def _kept(
        self, names: list[StoredValues], masks: list[pa.BooleanArray | None], digests: Sequence[bytes]
    ) -> list[list[pa.Array | None]]:
        """The visible rows of each chunk in each column; None where they have to be read."""
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
        again = self._were_asked_for([chunks[number][at] for number, at, _ in masked])
        kept: list[tuple[_Chunk, pa.Array, int]] = []
        for (number, at, column), is_asked_again in zip(masked, again, strict=True):
            shown = found[number][at] = column.filter(masks[number])
            if is_asked_again:
                kept.append((chunks[number][at], shown, int(shown.nbytes)))
        self.kept.put_many(kept)
        return found

    def _decoded(
        self,
        source: LanceSource,
        fragment: StoredFragment,
        columns: list[str],
        names: list[StoredValues],
        masks: list[pa.BooleanArray | None],
        numbers: list[int],
    ) -> Iterator[list[pa.Array]]:
        """Read neighbouring chunks in one scan, keep them, and produce their visible rows."""
        first = numbers[0] * CHUNK_ROWS
        count = min(len(numbers) * CHUNK_ROWS, fragment.physical_rows - first)
        scope = {} if count == fragment.physical_rows else {"offset": first, "limit": count}
        if fragment.deletions is not None:
            scope |= {"with_row_id": True, "include_deleted_rows": True}  # offsets are physical
        # Not a column of many chunks that is read for the first time: memory that is kept has to be got from
        # the system first, which a single query need not pay for.
        keep = [again or fragment.physical_rows <= CHUNK_ROWS for again in self._were_asked_for(names)]
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

    def _were_asked_for(self, names: Sequence[StoredValues | _Chunk]) -> list[bool]:
        """Whether this is not the first time, as far as that is remembered."""
        before = [known is not None for known in self._read_before.get_many(names)]
        new = [name for name, known in zip(names, before, strict=True) if not known]
        self._read_before.put_many([(name, True, 1) for name in new])
        return before


def _expected_bytes(kind: pa.DataType, rows: int) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _expected_bytes(kind.value_type, rows)
    try:
        return rows * max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return rows * TEXT_BYTES
