"""Columns of small fragments that are read together before they are asked for one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from execnodes.storage.data_files import StoredValues
from execnodes.storage.source import ReadTogether
from planner.tables.shared.cache import SHARED_BYTES, FileName, SharedCache
from planner.tables.sources.caches import ByteCache
from planner.tables.sources.column_chunks import EVERY_ROW, Chunk, ColumnFile, name_column, read_column
from planner.tables.sources.read_together import Fragment


@dataclass(frozen=True, slots=True)
class _AheadFile:
    """Name of the file of a column of several fragments: all physical rows of one after the other."""

    columns: tuple[ColumnFile, ...]


@dataclass(frozen=True, eq=False)
class ColumnsAhead:
    """Reads columns of fragments that have one chunk each.

    Attributes:
        kept: the cache that gets them.
        shared: files, of which one has a column of all fragments that are read together.
        note_requests: returns which columns were requested before, and remembers them.
    """

    kept: ByteCache
    shared: SharedCache
    note_requests: Callable[[Sequence[StoredValues]], list[bool]]

    def read(self, read: ReadTogether, fragments: Sequence[Fragment], columns: Sequence[str]) -> None:
        """Read stored columns of fragments, from their files if all are there."""
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


def _find_values(fragment: Fragment, column: str) -> StoredValues:
    source, stored = fragment
    return stored.columns((column,), source.stored_types)[0]
