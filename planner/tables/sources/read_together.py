"""Small fragments of several datasets, read in one scan.

A scan of a dataset takes half a millisecond before its first row, as long as a thousand rows of a flushed
generation take. So small fragments of several datasets are read as those of one: its manifest, which lies in
memory, names their files, and the directories of the datasets as bases.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa
from cachetools import LRUCache

from lance_gateway.execnodes.storage.data_files import FragmentFiles, StoredFragment
from lance_gateway.execnodes.storage.source import LanceSource
from lance_gateway.memwal.errors import is_panic
from lance_gateway.memwal.storage.files import is_local

FEWEST = 4
"""Fewer fragments are read one by one."""
LARGEST_BYTES = 1 << 20
"""Fragments with larger files are worth a scan of their own."""
_SCAN_BYTES = 32 << 20
"""So many bytes of files are read by one scan."""
_KEPT = 4
"""Datasets in memory that are kept."""

Fragment = tuple[LanceSource, StoredFragment]


class TogetherReader:
    """Reads small fragments of several datasets together. Thread-safe.

    The datasets in memory that were read last are kept: the next scan knows what was learned of their files.
    """

    def __init__(self) -> None:
        self._kept: LRUCache[tuple[FragmentFiles, ...], Any] = LRUCache(_KEPT)
        self._lock = threading.Lock()

    def read(
        self, fragments: Iterable[Fragment], columns: Sequence[str]
    ) -> Iterator[tuple[Fragment, Sequence[pa.Array]]]:
        """Read stored columns of those small fragments that can be read together.

        The caller reads those that are left out: they are few, or large, or in an object store, or their
        datasets have blobs, or other columns than all others; or files are gone, and reading tells which.

        Args:
            fragments: of local datasets.
            columns: stored names, which each dataset has.

        Yields:
            A fragment, and the columns of all its physical rows, deleted ones included.
        """
        groups: defaultdict[object, list[Fragment]] = defaultdict(list)
        for source, fragment in fragments:
            if source.stored_schema.layout is not None and _is_small(source, fragment):
                # The schema of one dataset is that of all, and so is the format of its files.
                formats = tuple([file.format for file in fragment.files.files])
                groups[source.stored_schema.layout, formats].append((source, fragment))
        for group in groups.values():
            for part in _divide(group):
                if len(part) >= FEWEST:
                    yield from zip(part, self._scan(part, columns), strict=False)

    def _scan(self, fragments: Sequence[Fragment], columns: Sequence[str]) -> Iterator[Sequence[pa.Array]]:
        """Yield the rows of each fragment; end early if one can't be read."""
        name = tuple([fragment.files for _, fragment in fragments])
        try:
            with self._lock:
                dataset = self._kept.get(name)
                if dataset is None:
                    dataset = self._kept[name] = _combine(fragments)
            batches = dataset.scanner(columns=list(columns)).to_batches()
            yield from _cut(batches, [fragment.physical_rows for _, fragment in fragments])
        except BaseException as error:
            if not (isinstance(error, OSError | ValueError) or is_panic(error)):
                raise


def _is_small(source: LanceSource, fragment: StoredFragment) -> bool:
    dataset: Any = source.dataset
    files = fragment.files
    return (
        is_local(dataset.uri)
        and fragment.physical_rows > 0
        and not files.overlays
        and all(file.base is None and file.size is not None for file in files.files)
        and _count_bytes(fragment) <= LARGEST_BYTES
    )


def _count_bytes(fragment: StoredFragment) -> int:
    return sum(file.size or 0 for file in fragment.files.files)


def _divide(fragments: Iterable[Fragment]) -> Iterator[list[Fragment]]:
    part: list[Fragment] = []
    nbytes = 0
    for source, fragment in fragments:
        nbytes += _count_bytes(fragment)
        if part and nbytes > _SCAN_BYTES:
            yield part
            part, nbytes = [], _count_bytes(fragment)
        part.append((source, fragment))
    if part:
        yield part


def _cut(batches: Iterator[pa.RecordBatch], sizes: Iterable[int]) -> Iterator[Sequence[pa.Array]]:
    """Yield the columns of these numbers of rows; end early if there are not as many."""
    rest: pa.RecordBatch | None = None
    for size in sizes:
        parts: list[pa.RecordBatch] = []
        missing = size
        while missing:
            batch = next(batches, None) if rest is None else rest
            if batch is None:
                return
            rest = batch.slice(missing) if batch.num_rows > missing else None
            parts.append(batch if rest is None else batch.slice(0, missing))
            missing -= parts[-1].num_rows
        if len(parts) == 1:
            yield parts[0].columns
        else:
            yield [pa.concat_arrays(chunks) for chunks in zip(*(one.columns for one in parts), strict=True)]


@dataclass(frozen=True, slots=True)
class _DataFile:
    """A data file as pylance takes it; its own class makes a class whenever it is asked for a path."""

    path: str
    fields: Sequence[int]
    column_indices: Sequence[int]
    file_major_version: int
    file_minor_version: int
    file_size_bytes: int | None
    base_id: int


def _combine(fragments: Sequence[Fragment]) -> Any:  # noqa: ANN401 - lance types
    """Return a `lance.LanceDataset` in memory with the physical rows of the fragments."""
    bases, described = [], []
    for number, (source, fragment) in enumerate(fragments):
        dataset: Any = source.dataset
        base = lance.DatasetBasePath(dataset.uri, name=str(number), is_dataset_root=True, id=number + 1)
        bases.append(base)
        files: list[Any] = [
            _DataFile(file.path, list(file.fields), list(file.columns), *file.format, file.size, number + 1)
            for file in fragment.files.files
        ]
        described.append(lance.FragmentMetadata(number, files, fragment.physical_rows))
    overwrite = lance.LanceOperation.Overwrite(
        fragments[0][0].stored_schema.lance, described, initial_bases=bases
    )
    # Each dataset in memory has a store of its own, whatever its name.
    return lance.LanceDataset.commit("memory://generations", overwrite)
