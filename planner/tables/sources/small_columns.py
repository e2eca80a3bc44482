"""Columns of small fragments, of which many are read together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.execnodes.node import TARGET_ROWS
from lance_gateway.execnodes.rows.row_mask import FragmentMask
from lance_gateway.execnodes.storage.data_files import StoredFragment, StoredValues
from lance_gateway.execnodes.storage.source import LanceSource, ReadTogether
from lance_gateway.planner.tables.shared.cache import SHARED_BYTES, FileName, SharedCache
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.column_chunks import (
    EVERY_ROW,
    Chunk,
    ColumnFile,
    FragmentChunks,
    name_column,
    read_column,
)
from lance_gateway.planner.tables.sources.read_together import Fragment


@dataclass(frozen=True, slots=True)
class _AheadFile:
    """Name of the file of a column of several fragments: all physical rows of one after the other."""

    columns: tuple[ColumnFile, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ShownFragment:
    """A fragment that has one chunk, and the rows of it that are shown.

    Attributes:
        part: number of what it belongs to.
        source: the dataset.
        fragment: of it.
        mask: which rows are shown; None if all are.
    """

    part: int
    source: LanceSource
    fragment: StoredFragment
    mask: FragmentMask | None

    @property
    def digest(self) -> bytes:
        """Of the rows that are shown."""
        return EVERY_ROW if self.hidden is None else self.hidden.digests[0]

    @property
    def hidden(self) -> FragmentMask | None:
        """The mask, if it hides rows."""
        mask = self.mask
        return None if mask is None or mask.visible_rows == self.fragment.physical_rows else mask


@dataclass(frozen=True, eq=False)
class SmallColumns:
    """Reads columns of fragments that have one chunk each.

    Attributes:
        kept: the cache that gets them.
        shared: files, of which one has a column of all fragments that are read together.
        note_requests: returns how often columns were requested before, and counts these requests.
    """

    kept: ByteCache
    shared: SharedCache
    note_requests: Callable[[Sequence[StoredValues | Chunk]], list[int]]

    def read_ahead(self, read: ReadTogether, fragments: Sequence[Fragment], columns: Sequence[str]) -> None:
        """Read stored columns of fragments before they are asked for, from their files if all are there."""
        if all(self._load(fragments, one, self._name(fragments, one)) for one in columns):
            return
        found = list(read(fragments, columns))
        for at, column in enumerate(columns):
            self._keep([one for one, _ in found], column, [rows[at] for _, rows in found])

    def _load(self, fragments: Sequence[Fragment], column: str, file: FileName | None) -> bool:
        """Find the file of a column, and keep what lies in it; return whether it is there."""
        batch = None if file is None or self.shared.files is None else self.shared.files.get(file.name)
        values = None if batch is None else read_column(_find_values(fragments[0], column).type, batch)
        if file is None or values is None:
            return False
        self._hold(fragments, column, values, file)
        return True

    def _keep(self, fragments: Sequence[Fragment], column: str, found: Sequence[pa.Array]) -> None:
        """Keep a column of fragments, in a file if it can be shared."""
        sizes = [int(one.nbytes) for one in found]
        file = self._name(fragments, column) if sum(sizes) >= SHARED_BYTES else None
        if file is not None and self.shared.files is not None and file.is_certain():
            values = pa.concat_arrays(found)
            batch = self.shared.files.put(file.name, pa.RecordBatch.from_arrays([values], names=[""]))
            mapped = None if batch is None else read_column(values.type, batch)
            if mapped is not None:
                self._hold(fragments, column, mapped, file)
                return
        names = [_find_values(fragment, column) for fragment in fragments]
        self.note_requests(names)
        self.kept.put_many(
            [
                (Chunk(name, 0, EVERY_ROW), values, size)
                for name, values, size in zip(names, found, sizes, strict=True)
            ]
        )

    def _hold(self, fragments: Sequence[Fragment], column: str, values: pa.Array, file: FileName) -> None:
        start = 0
        for fragment in fragments:
            name = _find_values(fragment, column)
            self.note_requests([name])
            rows = values.slice(start, fragment[1].physical_rows)
            self.shared.hold(self.kept, Chunk(name, 0, EVERY_ROW), file, rows)
            start += len(rows)

    def _name(self, fragments: Sequence[Fragment], column: str) -> FileName | None:
        """Return the name of the file of a column of fragments; None if it is not shared."""
        if self.shared.files is None:
            return None
        names = [name_column(self.shared, *one, _find_values(one, column)) for one in fragments]
        known = tuple([name for name in names if name is not None])
        if len(known) < len(names) or not known:
            return None
        return self.shared.build_name(_AheadFile(known), [(source, (part,)) for source, part in fragments])

    def read_kept(
        self, fragments: Sequence[ShownFragment], columns: list[str]
    ) -> tuple[Iterable[int], Iterator[pa.RecordBatch]]:
        """Read stored columns of the shown rows of those parts of which all fragments are in memory.

        Returns:
            The numbers of these parts, and their rows in large batches.
        """
        keys = [
            [Chunk(name, 0, one.digest) for name in one.fragment.columns(columns, one.source.stored_types)]
            for one in fragments
        ]
        shown = self._get_each(keys)
        # Of those that are only kept with all of their rows, rows are hidden here.
        unmasked = [at for at, one in enumerate(fragments) if shown[at] is None and one.hidden is not None]
        whole = self._get_each([[Chunk(key.column, 0, EVERY_ROW) for key in keys[at]] for at in unmasked])
        stored = dict(zip(unmasked, whole, strict=True))
        missing = {
            one.part for at, one in enumerate(fragments) if shown[at] is None and stored.get(at) is None
        }
        pieces: list[tuple[Sequence[pa.Array], pa.BooleanArray | None]] = []
        masked = [at for at in unmasked if fragments[at].part not in missing]
        noted = iter(self.note_requests([key for at in masked for key in keys[at]]))
        for at, one in enumerate(fragments):
            values, every, mask = shown[at], stored.get(at), one.hidden
            if one.part in missing:
                continue
            if values is not None:
                pieces.append((values, None))
            elif every is not None and mask is not None:
                requests = min(itertools.islice(noted, len(columns)), default=1)
                pieces.append(
                    (self._mask(one, keys[at], every, mask, requests), None)
                    if requests
                    else (every, mask.visible)
                )
        return {one.part for one in fragments} - missing, _join(pieces, columns)

    def _mask(
        self,
        one: ShownFragment,
        keys: Sequence[Chunk],
        columns: Sequence[pa.Array],
        mask: FragmentMask,
        requests: int,
    ) -> list[pa.Array]:
        """Keep the shown rows of columns, and return them."""
        chunks = FragmentChunks(self.kept, self.shared, one.source, one.fragment)
        shown = [column.filter(mask.visible) for column in columns]
        for key, column in zip(keys, shown, strict=True):
            chunks.put_masked(key, column, requests)
        return shown

    def _get_each(self, keys: Sequence[Sequence[Chunk]]) -> list[list[pa.Array] | None]:
        """Return the columns of each fragment; None for one that has not all of them."""
        found = iter(self.kept.get_many(itertools.chain.from_iterable(keys)))
        columns = [list(itertools.islice(found, len(of_one))) for of_one in keys]
        return [None if any(value is None for value in one) else one for one in columns]


def _join(
    pieces: Iterable[tuple[Sequence[pa.Array], pa.BooleanArray | None]], columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of many pieces together: those that the mask of a piece shows, if it has one."""
    for is_masked, same in itertools.groupby(pieces, lambda piece: piece[1] is not None):
        waiting: list[tuple[Sequence[pa.Array], pa.BooleanArray | None]] = []
        rows = 0
        for piece in (*same, None):
            if piece is not None:
                waiting.append(piece)
                rows += len(piece[0][0])
            if waiting and (piece is None or rows >= TARGET_ROWS):
                arrays = [pa.concat_arrays(parts) for parts in zip(*(one for one, _ in waiting), strict=True)]
                batch = pa.RecordBatch.from_arrays(arrays, names=columns)
                yield batch.filter(pa.concat_arrays([one for _, one in waiting])) if is_masked else batch
                waiting, rows = [], 0


def _find_values(fragment: Fragment, column: str) -> StoredValues:
    source, stored = fragment
    return stored.columns((column,), source.stored_types)[0]
