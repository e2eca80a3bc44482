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
from typing import Any

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, rows_without_columns
from lance_gateway.execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_MASK, FragmentMask, RowMask, pack_flags
from lance_gateway.execnodes.storage.data_files import (
    Deletions,
    FragmentFiles,
    Place,
    StoredFragment,
    StoredValues,
)
from lance_gateway.execnodes.storage.source import LanceSource, ReadTogether
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.column_chunks import (
    EVERY_ROW,
    Chunk,
    FragmentChunks,
    estimate_bytes,
    is_variable,
)
from lance_gateway.planner.tables.sources.read_together import FEWEST, Fragment
from lance_gateway.planner.tables.sources.small_columns import ShownFragment, SmallColumns

MAX_COLUMN_BYTES = 16 << 20
"""A larger column of one fragment (wide vectors, long texts) is read from Lance every time."""

COLUMNS_REMEMBERED = 1 << 16
_SAMPLE_ROWS = 256
_VALIDITY_BYTES = 1 / 8


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
class _Ahead:
    """Cache key that tells whether a column of a fragment was to be read ahead."""

    column: StoredValues


@dataclass(frozen=True, slots=True)
class _Width:
    """Cache key of the estimated bytes of a value of a column of a dataset, whatever its version."""

    place: Place
    field_id: int
    type: pa.DataType


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
        self._decodes = True
        self.missing_rows = 0
        """Values that `find_kept` has not found, all columns together."""

    def fits(self, types: Iterable[pa.DataType], rows: int) -> bool:
        """Return whether a scan of so many rows may be cached: a larger one would evict all else."""
        return self._keeps_all or sum(estimate_bytes(kind, rows) for kind in types) <= self.max_scan_bytes

    def estimate_row_bytes(self, source: LanceSource, columns: Iterable[str]) -> float:
        """See `ColumnCache.estimate_row_bytes`; texts are as wide as those of the first rows."""
        stored = [source.stored_names[name] for name in columns if name in source.stored_names]
        types = {name: source.stored_types[name][1] for name in stored if name in source.stored_types}
        texts = [name for name, kind in types.items() if is_variable(kind)]
        fixed = sum(estimate_bytes(kind, 1) for kind in types.values() if not is_variable(kind))
        return fixed + sum(self._find_widths(source, texts))

    def keep_all(self) -> DecodedColumns:
        """Return the same cache for those who keep whatever they read."""
        other = copy(self)
        other._keeps_all = True  # noqa: SLF001 - of this class
        return other

    def find_kept(self) -> DecodedColumns:
        """Return the same cache for those who read what is kept, here or in files, and decode nothing."""
        other = self.keep_all()
        other._decodes, other.missing_rows = False, 0  # noqa: SLF001 - of this class
        return other

    def find_size(self, source: LanceSource, columns: Iterable[str]) -> int | None:
        """Return the bytes that columns of a dataset take, decoded.

        Returns None for columns that are read for the first time, and for blobs.

        A query that nobody repeats does not pay for memory.

        Args:
            source: the dataset.
            columns: of the table.
        """
        stored = [source.stored_names[name] for name in columns if name in source.stored_names]
        if not source.blobs.isdisjoint(stored):
            return None
        fragments = source.fragments.all
        values = [one.columns(stored, source.stored_types) for one in fragments]
        if not all(self._note_requests([value for row in values for value in row])):
            return None
        rows = sum(fragment.physical_rows for fragment in fragments)
        types = [source.stored_types[name] for name in stored]
        fixed = sum(estimate_bytes(kind, rows) for _, kind in types if not is_variable(kind))
        texts = [name for name in stored if is_variable(source.stored_types[name][1])]
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
            return FragmentMask(pack_flags(flags))

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
        wanted = list(columns)
        small: list[tuple[Fragment, list[str]]] = []
        for source in sources:
            stored = [source.stored_names[name] for name in wanted if name in source.stored_names]
            found = [one for one in source.fragments.all if 0 < one.physical_rows <= CHUNK_ROWS]
            small += [((source, one), stored) for one in found]
        if len(small) < FEWEST:
            return
        values = [
            value
            for (source, fragment), stored in small
            for value in fragment.columns(stored, source.stored_types)
        ]
        known = iter(self._note_requests([_Ahead(one) for one in values]))
        groups: defaultdict[tuple[str, ...], list[Fragment]] = defaultdict(list)
        for one, stored in small:
            groups[tuple([name for name in stored if not next(known)])].append(one)
        for new, fragments in groups.items():
            if new and len(fragments) >= FEWEST:
                self._small.read_ahead(read, fragments, new)

    def read(
        self,
        source: LanceSource,
        fragment_ids: Sequence[int],
        columns: Sequence[str],
        mask: RowMask,
        within: range | None = None,
    ) -> tuple[Iterator[pa.RecordBatch], tuple[int, ...]]:
        """See `ColumnCache.read`."""
        fragments = source.fragments.get_each(fragment_ids)
        names = [one.columns(columns, source.stored_types) for one in fragments]
        kept, too_large = [], []
        for fragment, values in zip(fragments, names, strict=True):
            if self._keeps_all or all(
                estimate_bytes(value.type, fragment.physical_rows) <= MAX_COLUMN_BYTES for value in values
            ):
                kept.append((fragment, values))
            else:
                too_large.append(fragment.fragment_id)
        return self._read_batches(source, kept, list(columns), mask, within), tuple(too_large)

    def read_kept(
        self, parts: Sequence[tuple[LanceSource, Sequence[int], RowMask]], columns: Sequence[str]
    ) -> tuple[Iterable[int], Iterator[pa.RecordBatch]]:
        """See `ColumnCache.read_kept`."""
        small = []
        for number, (source, fragment_ids, mask) in enumerate(parts):
            fragments = source.fragments.get_each(fragment_ids)
            if all(0 < fragment.physical_rows <= CHUNK_ROWS for fragment in fragments):
                shown = self.visible(source, fragment_ids, mask)
                small += [
                    ShownFragment(number, source, fragment, one)
                    for fragment, one in zip(fragments, shown, strict=True)
                ]
        return self._small.read_kept(small, list(columns))

    @property
    def _small(self) -> SmallColumns:
        return SmallColumns(self.kept, self._shared, self._note_requests)

    def _read_batches(
        self,
        source: LanceSource,
        fragments: Iterable[tuple[StoredFragment, list[StoredValues]]],
        columns: list[str],
        mask: RowMask,
        within: range | None,
    ) -> Iterator[pa.RecordBatch]:
        for fragment, names in fragments:
            visible = self._combine_masks(source, fragment, mask.fragments.get(fragment.fragment_id))
            sizes = [min(CHUNK_ROWS, left) for left in range(fragment.physical_rows, 0, -CHUNK_ROWS)]
            masks = [None for _ in sizes] if visible is None else visible.chunks()
            rows = range(fragment.physical_rows) if within is None else within
            numbers = range(rows.start // CHUNK_ROWS, -(-rows.stop // CHUNK_ROWS))
            if columns:
                digests = [EVERY_ROW for _ in sizes] if visible is None else visible.digests
                for arrays in self._read_chunks(source, fragment, columns, names, masks, digests, numbers):
                    yield pa.RecordBatch.from_arrays(arrays, names=columns)
            else:
                for number in numbers:
                    shown = masks[number]
                    yield rows_without_columns(sizes[number] if shown is None else int(shown.true_count))

    def _read_chunks(
        self,
        source: LanceSource,
        fragment: StoredFragment,
        columns: list[str],
        names: list[StoredValues],
        masks: list[pa.BooleanArray | None],
        digests: Sequence[bytes],
        numbers: range,
    ) -> Iterator[list[pa.Array]]:
        """Yield the visible rows of some chunks; neighbouring ones that are not cached are read together."""
        chunks = FragmentChunks(self.kept, self._shared, source, fragment)
        kept = self._find_chunks(chunks, names, masks, digests, numbers)

        def is_kept(number: int) -> bool:
            return all(column is not None for column in kept[number])

        for all_kept, run in itertools.groupby(numbers, is_kept):
            if all_kept:
                yield from (kept[number] for number in run)
            elif not self._decodes:
                self.missing_rows += sum(
                    min(CHUNK_ROWS, fragment.physical_rows - number * CHUNK_ROWS) for number in run
                )
            else:
                yield from self._decode_chunks(source, fragment, columns, names, masks, list(run), chunks)

    def _find_chunks(
        self,
        chunks: FragmentChunks,
        names: list[StoredValues],
        masks: list[pa.BooleanArray | None],
        digests: Sequence[bytes],
        numbers: range,
    ) -> dict[int, list[pa.Array | None]]:
        """Return the visible rows of some chunks in each column; None for those that have to be read."""
        keys = {
            number: [
                Chunk(name, number, EVERY_ROW if masks[number] is None else digests[number]) for name in names
            ]
            for number in numbers
        }
        values = iter(chunks.get_many(list(itertools.chain.from_iterable(keys.values()))))
        found = {number: list(itertools.islice(values, len(names))) for number in numbers}
        missing = [
            (number, at)
            for number, columns in found.items()
            for at, column in enumerate(columns)
            if column is None and masks[number] is not None
        ]
        if not missing:
            return found
        whole = chunks.get_many([Chunk(names[at], number, EVERY_ROW) for number, at in missing])
        unknown = {number for (number, _), column in zip(missing, whole, strict=True) if column is None}
        masked = [
            (*place, column) for place, column in zip(missing, whole, strict=True) if place[0] not in unknown
        ]
        again = self._note_requests([keys[number][at] for number, at, _ in masked])
        for (number, at, column), requests in zip(masked, again, strict=True):
            assert column is not None  # noqa: S101 - those without are unknown
            shown = column.filter(masks[number])
            found[number][at] = shown
            chunks.put_masked(keys[number][at], shown, requests)
        return found

    def _decode_chunks(
        self,
        source: LanceSource,
        fragment: StoredFragment,
        columns: list[str],
        names: list[StoredValues],
        masks: list[pa.BooleanArray | None],
        numbers: list[int],
        chunks: FragmentChunks,
    ) -> Iterator[list[pa.Array]]:
        """Read neighbouring chunks in one scan, cache them, and yield their visible rows."""
        first = numbers[0] * CHUNK_ROWS
        count = min(len(numbers) * CHUNK_ROWS, fragment.physical_rows - first)
        scope = {} if count == fragment.physical_rows else {"offset": first, "limit": count}
        if fragment.deletions is not None:
            scope |= {"with_row_id": True, "include_deleted_rows": True}  # offsets are physical
        # A large column is cached from its second read on, so that a single query does not pay for memory.
        is_small = self._keeps_all or fragment.physical_rows <= CHUNK_ROWS
        keep = [is_small or requests > 0 for requests in self._note_requests(names)]
        dataset: Any = source.dataset
        scanner = dataset.scanner(
            columns=source.list_scanned(columns),
            fragments=[fragment.handle],
            batch_size=CHUNK_ROWS,
            strict_batch_size=True,
            **scope,
        )
        for number, batch in zip(numbers, scanner.to_batches(), strict=True):
            arrays = batch.select(columns).columns
            chunks.put_many(
                (Chunk(name, number, EVERY_ROW), column)
                for name, column, is_kept in zip(names, arrays, keep, strict=True)
                if is_kept
            )
            mask = masks[number]
            yield arrays if mask is None else [column.filter(mask) for column in arrays]

    def _note_requests(self, names: Sequence[StoredValues | Chunk | _Ahead]) -> list[int]:
        """Return how often each name was requested before, and count this request."""
        before: list[int] = [known or 0 for known in self._requested.get_many(names)]
        self._requested.put_many([(name, count + 1, 1) for name, count in zip(names, before, strict=True)])
        return before


class StoredColumns(DecodedColumns):
    """Column cache that stores nothing, and only finds the rows that Lance has deleted."""

    def __init__(self) -> None:
        super().__init__(max_bytes=1)

    def fits(self, types: Iterable[pa.DataType], rows: int) -> bool:  # noqa: ARG002
        """Return False: nothing is cached."""
        return False

    def find_size(self, source: LanceSource, columns: Iterable[str]) -> int | None:  # noqa: ARG002
        """Return None: nothing is kept."""
        return None

    def read_kept(
        self,
        parts: Sequence[tuple[LanceSource, Sequence[int], RowMask]],  # noqa: ARG002
        columns: Sequence[str],  # noqa: ARG002
    ) -> tuple[Iterable[int], Iterator[pa.RecordBatch]]:
        """Read nothing."""
        return (), iter(())

    def read_ahead(self, read: ReadTogether, sources: Sequence[LanceSource], columns: Iterable[str]) -> None:
        """Read nothing: it would not be kept."""

    def read(
        self,
        source: LanceSource,  # noqa: ARG002
        fragment_ids: Sequence[int],
        columns: Sequence[str],  # noqa: ARG002
        mask: RowMask,  # noqa: ARG002
        within: range | None = None,  # noqa: ARG002
    ) -> tuple[Iterator[pa.RecordBatch], tuple[int, ...]]:
        """Return no batches and all fragments, which are then read from the dataset."""
        return iter(()), tuple(fragment_ids)
