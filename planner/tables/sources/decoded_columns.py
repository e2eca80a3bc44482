"""Decoded columns of visible rows, kept in memory and in files that processes share.

Opening a scanner costs more than reading the few rows of a flushed generation, and so does decoding a column.
The cache key of a chunk is its content: the fragment's stored rows, which never change, and the visible rows.
So it is valid for every snapshot. Chunks are cached whole, and masked if the same rows are requested again.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, rows_without_columns
from execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_MASK, FragmentMask, RowMask
from execnodes.storage.data_files import Deletions, FragmentFiles, Place, StoredFragment, StoredValues
from execnodes.storage.source import LanceSource, ReadTogether, combine_chunks
from planner.tables.shared.cache import SHARED_BYTES, FileName, SharedCache
from planner.tables.shared.names import digest
from planner.tables.sources.caches import ByteCache
from planner.tables.sources.read_together import FEWEST

MAX_COLUMN_BYTES = 16 << 20
"""A larger column of one fragment (wide vectors, long texts) is read from Lance every time."""

TEXT_BYTES = 64
"""Estimated bytes of a value of variable length."""

COLUMNS_REMEMBERED = 1 << 16
_SAMPLE_ROWS = 1024
_VALIDITY_BYTES = 1 / 8

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


@dataclass(frozen=True, slots=True)
class _Width:
    """Cache key of the estimated bytes of a value of a column of a dataset, whatever its version."""

    place: Place
    field_id: int
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class _ColumnFile:
    """Name of a column of a fragment, for files.

    Attributes:
        rows: name of the stored rows.
        field_id: of the column.
        nested_ids: of the fields in the column; () where there are none.
        type: as which it is read.
    """

    rows: bytes
    field_id: int
    nested_ids: tuple[int, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class _ChunkFile:
    """Name of the file of the visible rows of a chunk of a column.

    Attributes:
        column: digest of the `_ColumnFile`.
        number: of the chunk in the fragment.
        visible: digest of the rows that are shown of it.
    """

    column: bytes
    number: int
    visible: bytes


class DecodedColumns:
    """`ColumnCache` of decoded columns.

    Attributes:
        kept: the columns.

    Args:
        max_bytes: budget of this process, without what it shares.
        shared: files of the columns, where they are shared.
    """

    def __init__(self, max_bytes: int, shared: SharedCache | None = None) -> None:
        self.kept = ByteCache(max_bytes)
        self._shared = shared or SharedCache()
        self._requested = ByteCache(COLUMNS_REMEMBERED)
        self.max_scan_bytes = max(max_bytes, self._shared.max_bytes) // 2
        self._keeps_all = False

    def fits(self, types: Iterable[pa.DataType], rows: int) -> bool:
        """Return whether a scan of so many rows may be cached: a larger one would evict all else."""
        return self._keeps_all or sum(_estimate_bytes(kind, rows) for kind in types) <= self.max_scan_bytes

    def keep_all(self) -> DecodedColumns:
        """Return the same cache for those who keep whatever they read."""
        other = copy(self)
        other._keeps_all = True  # noqa: SLF001 - of this class
        return other

    def find_size(self, source: LanceSource, columns: Iterable[str]) -> int | None:
        """Return the bytes that columns of a dataset take, decoded; None if they are read for the first time.

        A query that nobody repeats does not pay for memory.

        Args:
            source: the dataset.
            columns: of the table.
        """
        stored = [source.stored_names[name] for name in columns if name in source.stored_names]
        fragments = source.fragments.all
        values = [one.columns(stored, source.stored_types) for one in fragments]
        if not all(self._note_requests([value for row in values for value in row])):
            return None
        rows = sum(fragment.physical_rows for fragment in fragments)
        types = [source.stored_types[name] for name in stored]
        fixed = sum(_estimate_bytes(kind, rows) for _, kind in types if not _is_variable(kind))
        texts = [name for name in stored if _is_variable(source.stored_types[name][1])]
        return fixed + sum(int(rows * width) for width in self._find_widths(source, texts))

    def _find_widths(self, source: LanceSource, columns: Sequence[str]) -> list[float]:
        """Return the bytes of a value of each column, as the first rows of the dataset have them."""
        names = [_Width(source.place, *source.stored_types[name]) for name in columns]
        known: list[float | None] = self._requested.get_many(names)
        new = [column for column, width in zip(columns, known, strict=True) if width is None]
        found: dict[str, float] = {}
        if new:
            dataset: Any = source.dataset
            rows = dataset.scanner(columns=new, limit=_SAMPLE_ROWS).to_table()
            found = {one: rows.column(one).nbytes / max(rows.num_rows, 1) + _VALIDITY_BYTES for one in new}
        for name, column in zip(names, columns, strict=True):
            if column in found:
                self._requested.put(name, found[column], 1)
        return [width or found[column] for column, width in zip(columns, known, strict=True)]

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

    def read_ahead(self, read: ReadTogether, sources: Sequence[LanceSource], columns: Iterable[str]) -> None:
        """See `ColumnCache.read_ahead`."""
        groups: defaultdict[tuple[str, ...], list[tuple[LanceSource, StoredFragment]]] = defaultdict(list)
        for source in sources:
            stored = tuple([source.stored_names[name] for name in columns if name in source.stored_names])
            groups[stored] += [
                (source, one) for one in source.fragments.all if self._is_ahead(source, one, stored)
            ]
        for stored, fragments in groups.items():
            if not stored or len(fragments) < FEWEST:
                continue
            for (source, fragment), table in read(fragments, stored):
                names = fragment.columns(stored, source.stored_types)
                self._note_requests(names)
                self.kept.put_many(
                    [
                        (_Chunk(name, 0, _EVERY_ROW), column := combine_chunks(values), int(column.nbytes))
                        for name, values in zip(names, table.columns, strict=True)
                    ]
                )

    def _is_ahead(self, source: LanceSource, fragment: StoredFragment, stored: Sequence[str]) -> bool:
        """Return whether columns of a fragment were never read, and don't lie in files."""
        rows = fragment.physical_rows
        if not 0 < rows <= CHUNK_ROWS:
            return False
        names = fragment.columns(stored, source.stored_types)
        is_shared = self._shared.files is not None and any(
            _estimate_bytes(name.type, rows) >= SHARED_BYTES for name in names
        )
        return not is_shared and None in self._requested.get_many(names)

    def read(
        self, source: LanceSource, fragment_ids: Sequence[int], columns: Sequence[str], mask: RowMask
    ) -> tuple[Iterator[pa.RecordBatch], tuple[int, ...]]:
        """See `ColumnCache.read`."""
        fragments = source.fragments.get_each(fragment_ids)
        names = [one.columns(columns, source.stored_types) for one in fragments]
        kept, too_large = [], []
        for fragment, values in zip(fragments, names, strict=True):
            if self._keeps_all or all(
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
        chunks = _FragmentChunks(self.kept, self._shared, source, fragment)
        kept = self._find_chunks(chunks, names, masks, digests)

        def is_kept(number: int) -> bool:
            return all(column is not None for column in kept[number])

        for all_kept, run in itertools.groupby(range(len(masks)), is_kept):
            if all_kept:
                yield from (kept[number] for number in run)
            else:
                yield from self._decode_chunks(source, fragment, columns, names, masks, list(run), chunks)

    def _find_chunks(
        self,
        chunks: _FragmentChunks,
        names: list[StoredValues],
        masks: list[pa.BooleanArray | None],
        digests: Sequence[bytes],
    ) -> list[list[pa.Array | None]]:
        """Return the visible rows of each chunk in each column; None for those that have to be read."""
        keys = [
            [_Chunk(name, number, _EVERY_ROW if mask is None else digest) for name in names]
            for number, (mask, digest) in enumerate(zip(masks, digests, strict=True))
        ]
        values = iter(chunks.get_many(list(itertools.chain.from_iterable(keys))))
        found = [list(itertools.islice(values, len(names))) for _ in keys]
        missing = [
            (number, at)
            for number, columns in enumerate(found)
            for at, column in enumerate(columns)
            if column is None and masks[number] is not None
        ]
        if not missing:
            return found
        whole = chunks.get_many([_Chunk(names[at], number, _EVERY_ROW) for number, at in missing])
        unknown = {number for (number, _), column in zip(missing, whole, strict=True) if column is None}
        masked = [
            (*place, column) for place, column in zip(missing, whole, strict=True) if place[0] not in unknown
        ]
        again = self._note_requests([keys[number][at] for number, at, _ in masked])
        for (number, at, column), is_asked_again in zip(masked, again, strict=True):
            assert column is not None  # noqa: S101 - those without are unknown
            shown = column.filter(masks[number])
            found[number][at] = chunks.put(keys[number][at], shown) if is_asked_again else shown
        return found

    def _decode_chunks(
        self,
        source: LanceSource,
        fragment: StoredFragment,
        columns: list[str],
        names: list[StoredValues],
        masks: list[pa.BooleanArray | None],
        numbers: list[int],
        chunks: _FragmentChunks,
    ) -> Iterator[list[pa.Array]]:
        """Read neighbouring chunks in one scan, cache them, and yield their visible rows."""
        first = numbers[0] * CHUNK_ROWS
        count = min(len(numbers) * CHUNK_ROWS, fragment.physical_rows - first)
        scope = {} if count == fragment.physical_rows else {"offset": first, "limit": count}
        if fragment.deletions is not None:
            scope |= {"with_row_id": True, "include_deleted_rows": True}  # offsets are physical
        # A large column is cached from its second read on, so that a single query does not pay for memory.
        is_small = self._keeps_all or fragment.physical_rows <= CHUNK_ROWS
        keep = [again or is_small for again in self._note_requests(names)]
        dataset: Any = source.dataset
        scanner = dataset.scanner(
            columns=columns,
            fragments=[fragment.handle],
            batch_size=CHUNK_ROWS,
            strict_batch_size=True,
            **scope,
        )
        for number, batch in zip(numbers, scanner.to_batches(), strict=True):
            arrays = [
                chunks.put(_Chunk(name, number, _EVERY_ROW), column) if is_kept else column
                for name, column, is_kept in zip(names, batch.select(columns).columns, keep, strict=True)
            ]
            mask = masks[number]
            yield arrays if mask is None else [column.filter(mask) for column in arrays]

    def _note_requests(self, names: Sequence[StoredValues | _Chunk]) -> list[bool]:
        """Return whether each name was requested before, and remember it."""
        before = [known is not None for known in self._requested.get_many(names)]
        new = [name for name, known in zip(names, before, strict=True) if not known]
        self._requested.put_many([(name, True, 1) for name in new])
        return before


class _FragmentChunks:
    """Chunks of columns of a fragment, in the cache of this process or in files.

    Args:
        kept: the cache.
        shared: the files.
        source: the dataset.
        fragment: of it.
    """

    def __init__(
        self, kept: ByteCache, shared: SharedCache, source: LanceSource, fragment: StoredFragment
    ) -> None:
        self._kept = kept
        self._shared = shared
        self._source = source
        self._fragment = fragment
        self._columns: dict[StoredValues, bytes] = {}

    def get_many(self, keys: Sequence[_Chunk]) -> list[pa.Array | None]:
        """Return the rows of each chunk, or None."""
        found = self._kept.get_many(keys)
        for at, value in enumerate(found):
            if value is None and (name := self._name(keys[at])) is not None:
                read = partial(_read_column, keys[at].column.type)
                found[at] = self._shared.load(self._kept, keys[at], name, read)
        return found

    def put(self, key: _Chunk, column: pa.Array) -> pa.Array:
        """Keep the rows of a chunk, and return them as they are kept."""
        name = self._name(key) if column.nbytes >= SHARED_BYTES else None
        if name is not None:
            batch = pa.RecordBatch.from_arrays([column], names=[""])
            read = partial(_read_column, key.column.type)
            mapped = self._shared.store(self._kept, key, name, batch, read)
            if mapped is not None:
                return mapped
        self._kept.put(key, column, int(column.nbytes))
        return column

    def _name(self, key: _Chunk) -> FileName | None:
        rows = min(CHUNK_ROWS, self._fragment.physical_rows - key.number * CHUNK_ROWS)
        if self._shared.files is None or _estimate_bytes(key.column.type, rows) < SHARED_BYTES:
            return None
        column = self._columns.get(key.column)
        if column is None:
            stored_rows = self._shared.name_rows(self._source, self._fragment)
            if stored_rows is None:
                return None
            field_id, kind = key.column.field_id, key.column.type
            nested = self._source.nested_ids.get(field_id, ()) if pa.types.is_nested(kind) else ()
            column = digest(_ColumnFile(stored_rows, field_id, nested, kind))
            self._columns[key.column] = column
        return self._shared.build_name(
            _ChunkFile(column, key.number, key.visible), [(self._source, (self._fragment,))]
        )


def _read_column(kind: pa.DataType, batch: pa.RecordBatch) -> pa.Array | None:
    """Return the only column of a batch; None if it lost its type in the file."""
    column = batch.column(0)
    return column if column.type == kind else None


def _is_variable(kind: pa.DataType) -> bool:
    try:
        return int(kind.bit_width) < 0
    except ValueError:
        return not (pa.types.is_fixed_size_list(kind) and not _is_variable(kind.value_type))


def _estimate_bytes(kind: pa.DataType, rows: int) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _estimate_bytes(kind.value_type, rows)
    try:
        return rows * max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return rows * TEXT_BYTES
