"""Decoded columns of visible rows, kept within a byte budget.

Opening a scanner costs more than the few rows of a flushed generation, and decoding and masking a column
costs more than handing it over. What is kept is named by its content: the fragment's stored rows, which never
change, and the rows that are visible of a chunk. So it stays right for every snapshot. Chunks are kept whole
and, once the same rows of them are asked for again, masked: while rows stream in, every query sees others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, rows_without_columns
from execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_MASK, FragmentMask, shown
from execnodes.storage.data_files import Deletions, FragmentFiles, StoredFragment, StoredValues
from execnodes.storage.source import LanceSource
from planner.tables.sources.byte_cache import ByteCache

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
        self, source: LanceSource, fragment_id: int, mask: FragmentMask | None
    ) -> FragmentMask | None:
        """See `ColumnCache.visible`."""
        fragment = source.fragments.get(fragment_id)
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
        self, source: LanceSource, fragment_id: int, columns: Sequence[str], visible: FragmentMask | None
    ) -> Iterator[pa.RecordBatch] | None:
        """See `ColumnCache.read`; neighbouring chunks that are not kept yet are decoded together."""
        fragment = source.fragments.get(fragment_id)
        types = (source.stored_types[name][1] for name in columns)
        if any(_expected_bytes(kind, fragment.physical_rows) > MAX_COLUMN_BYTES for kind in types):
            return None
        return self._chunks(source, fragment, list(columns), visible)

    def _chunks(
        self,
        source: LanceSource,
        fragment: StoredFragment,
        columns: list[str],
        visible: FragmentMask | None,
    ) -> Iterator[pa.RecordBatch]:
        rows = fragment.physical_rows
        chunks = -(-rows // CHUNK_ROWS)
        digests = (_EVERY_ROW,) * chunks if visible is None else visible.digests
        names = column_keys(source, fragment, columns)
        kept = [self._kept(names, number, digest, visible) for number, digest in enumerate(digests)]

        def is_kept(number: int) -> bool:
            return all(column is not None for column in kept[number])

        for all_kept, run in itertools.groupby(range(chunks), is_kept):
            numbers = list(run)
            decoded = None if all_kept else self._decoded(source, fragment, columns, names, visible, numbers)
            for number in numbers:
                arrays = kept[number] if decoded is None else next(decoded)
                yield _batch(columns, arrays, _visible_rows(rows, number, visible))

    def _kept(
        self,
        names: list[StoredValues],
        number: int,
        digest: bytes,
        visible: FragmentMask | None,
    ) -> list[pa.Array | None]:
        """The visible rows of a chunk in each column; None where they have to be read."""
        found = [self.kept.get(_Chunk(name, number, digest)) for name in names]
        if visible is None or all(column is not None for column in found):
            return found
        missing = [at for at, column in enumerate(found) if column is None]
        whole = [self.kept.get(_Chunk(names[at], number, _EVERY_ROW)) for at in missing]
        if any(column is None for column in whole):
            return found
        mask = visible.chunk(number)
        asked_again = self._was_asked_for(_Chunk(names[missing[0]], number, digest))
        for at, column in zip(missing, whole, strict=True):
            shown_rows = column if mask.true_count == len(mask) else column.filter(mask)
            found[at] = shown_rows
            if asked_again:
                self.kept.put(_Chunk(names[at], number, digest), shown_rows, int(shown_rows.nbytes))
        return found

    def _decoded(
        self,
        source: LanceSource,
        fragment: StoredFragment,
        columns: list[str],
        names: list[StoredValues],
        visible: FragmentMask | None,
        numbers: list[int],
    ) -> Iterator[list[pa.Array]]:
        """Read neighbouring chunks in one scan, keep them, and produce their visible rows."""
        first = numbers[0] * CHUNK_ROWS
        count = min(len(numbers) * CHUNK_ROWS, fragment.physical_rows - first)
        scope = {} if count == fragment.physical_rows else {"offset": first, "limit": count}
        if fragment.deletions is not None:
            scope |= {"with_row_id": True, "include_deleted_rows": True}  # offsets are physical
        keep = [self._is_kept(name, fragment.physical_rows) for name in names]
        dataset: Any = source.dataset
        scanner = dataset.scanner(
            columns=columns,
            fragments=[fragment.handle],
            batch_size=CHUNK_ROWS,
            strict_batch_size=True,
            **scope,
        )
        for number, batch in zip(numbers, scanner.to_batches(), strict=True):
            chunk = batch.select(columns)
            for name, column, is_kept in zip(names, chunk.columns, keep, strict=True):
                if is_kept:
                    self.kept.put(_Chunk(name, number, _EVERY_ROW), column, int(column.nbytes))
            yield (chunk if visible is None else shown(chunk, visible.chunk(number))).columns

    def _is_kept(self, column: StoredValues, rows: int) -> bool:
        """Whether to keep what is decoded now: not a column of many chunks that is read for the first time.

        Memory that is kept has to be got from the system first, which a single query need not pay for.
        """
        return self._was_asked_for(column) or rows <= CHUNK_ROWS

    def _was_asked_for(self, name: StoredValues | _Chunk) -> bool:
        """Whether this is not the first time, as far as that is remembered."""
        before = self._read_before.get(name) is not None
        if not before:
            self._read_before.put(name, value=True, nbytes=1)
        return before


def _batch(columns: list[str], arrays: list[pa.Array], rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays, names=columns) if columns else rows_without_columns(rows)


def _visible_rows(rows: int, number: int, visible: FragmentMask | None) -> int:
    if visible is not None:
        return int(visible.chunk(number).true_count)
    return min(CHUNK_ROWS, rows - number * CHUNK_ROWS)


def column_keys(source: LanceSource, fragment: StoredFragment, columns: Iterable[str]) -> list[StoredValues]:
    """What names the values of stored columns in a fragment."""
    types = source.stored_types
    return [fragment.column(name, *types[name]) for name in columns]


def _expected_bytes(kind: pa.DataType, rows: int) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _expected_bytes(kind.value_type, rows)
    try:
        return rows * max(int(kind.bit_width) // 8, 1)
    except ValueError:
        return rows * TEXT_BYTES
