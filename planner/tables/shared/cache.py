"""Shared files as values in the caches of a process.

A value that came from a file is kept in a cache like others, at the cost of its entry: its bytes are those of
the file, which all processes map. What any of them evicts leaves these caches soon, and its memory is free.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from lance_gateway.execnodes.storage.data_files import Deletions, FragmentFiles, StoredFragment
from lance_gateway.execnodes.storage.source import LanceSource
from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.planner.tables.shared.files import SharedFiles
from lance_gateway.planner.tables.shared.names import digest

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

SHARED_BYTES = 16 << 10
"""Smaller values are computed again by each process: a file takes as long to open as they take to make."""
ENTRY_BYTES = 1024
"""What a value of a file is booked at in the cache of a process."""
_LOOK_SECONDS = 1.0
_WAITING_BYTES = 64 << 20
"""Limit of the values that wait to be written."""


class Holder(Protocol):
    """A cache of a process that holds values of files."""

    max_bytes: int
    """Its budget."""

    def put(self, key: Hashable, value: object, nbytes: int) -> None:
        """Store a value."""

    def compute(
        self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int] | None = None
    ) -> Value:
        """Return the value; if there is none, compute and store it."""

    def discard(self, keys: Iterable[Hashable]) -> None:
        """Drop values."""

    def take_used(self) -> Sequence[Hashable]:
        """Return the keys that were requested since the last call."""

    def __contains__(self, key: Hashable) -> bool:
        """Return whether a value is there, without asking for it."""


@dataclass(frozen=True)
class Encoding:
    """How values of a kind are written to files.

    Attributes:
        encode: returns a record batch.
        decode: returns the value that lies in a batch; its arrays are those of the batch.
    """

    encode: Callable[[Any], pa.RecordBatch]
    decode: Callable[[pa.RecordBatch], Any]


@dataclass(frozen=True, slots=True)
class _DatasetRows:
    """Name of all rows of a dataset: fragment id, stored rows and deletions of each; and of its columns."""

    fragments: tuple[tuple[int, bytes, bytes | None], ...]
    columns: tuple[tuple[int, str, pa.DataType], ...]


@dataclass(frozen=True, eq=False)
class FileName:
    """The name of a shared file.

    Attributes:
        name: digest of what its content depends on.
        is_certain: tells whether that is still what lies in the storage.
    """

    name: bytes
    is_certain: Callable[[], bool]


class SharedCache:
    """What processes share, as far as the caches of this one are concerned. Thread-safe.

    Args:
        files: None where nothing is shared.
    """

    def __init__(self, files: SharedFiles | None = None) -> None:
        self.files = files
        self._rows: WeakKeyDictionary[FragmentFiles, bytes] = WeakKeyDictionary()
        self._deletions: WeakKeyDictionary[FragmentFiles, dict[Deletions, bytes]] = WeakKeyDictionary()
        self._datasets: WeakKeyDictionary[LanceSource, bytes] = WeakKeyDictionary()
        self._held: dict[Holder, dict[Hashable, bytes]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="shared-writer")
        self._waiting_bytes = 0
        self._evictions = 0 if files is None else files.read_totals().evictions
        if files is not None:
            keeper = threading.Thread(
                target=_look_after, args=(weakref.ref(self), self._closed), name="shared-cache", daemon=True
            )
            keeper.start()

    @staticmethod
    def open(directory: Path | None, max_bytes: int, *, is_required: bool) -> SharedCache:
        """Open the shared files of a directory.

        Args:
            directory: None where nothing is shared.
            max_bytes: budget.
            is_required: whether a directory that can't be used is an error; else nothing is shared then.

        Raises:
            PreconditionError: the directory can't be used.
        """
        if directory is None or max_bytes <= 0:
            return SharedCache()
        try:
            return SharedCache(SharedFiles(directory, max_bytes))
        except (PreconditionError, OSError) as error:
            if is_required:
                if isinstance(error, PreconditionError):
                    raise
                raise PreconditionError(
                    f"cache.directory {str(directory)!r} can't be used: {error.strerror}: name another one, "
                    "or say none"
                ) from None
            logger.warning("each process keeps its own cache: %s", error)
            return SharedCache()

    @property
    def max_bytes(self) -> int:
        """The budget of the files; 0 where nothing is shared."""
        return 0 if self.files is None else self.files.max_bytes

    def find_room(self, source: LanceSource, holder: Holder) -> int:
        """Return the bytes that values of a dataset may take: in files where they are shared."""
        return holder.max_bytes if source.origin is None else max(holder.max_bytes, self.max_bytes)

    # Names

    def name_rows(self, source: LanceSource, fragment: StoredFragment) -> bytes | None:
        """Return the name of the stored rows of a fragment; None if they are not shared."""
        if self.files is None or source.origin is None:
            return None
        # A fragment keeps the name that it got while its table was known to be there.
        name = self._rows.get(fragment.files)
        if name is None:
            name = source.origin.name_rows(fragment.files)
            if name is not None:
                self._rows[fragment.files] = name
        return name

    def name_deletions(self, source: LanceSource, fragment: StoredFragment) -> bytes | None:
        """Return the name of the deletions of a fragment that has some; None if they are not shared."""
        if self.files is None or source.origin is None or fragment.deletions is None:
            return None
        known = self._deletions.setdefault(fragment.files, {})
        name = known.get(fragment.deletions)
        if name is None:
            name = source.origin.name_deletions(fragment.deletions)
            if name is not None:
                known[fragment.deletions] = name
        return name

    def name_dataset(self, source: LanceSource) -> bytes | None:
        """Return the name of all rows of a dataset that are not deleted; None if they are not shared."""
        if self.files is None:
            return None
        known = self._datasets.get(source)
        if known is not None:
            return known
        fragments = []
        for fragment in source.fragments.all:
            rows, deletions = self.name_rows(source, fragment), self.name_deletions(source, fragment)
            if rows is None or (deletions is None and fragment.deletions is not None):
                return None
            fragments.append((fragment.fragment_id, rows, deletions))
        types = source.stored_types
        columns = tuple([(field_id, name, kind) for name, (field_id, kind) in types.items()])
        known = self._datasets[source] = digest(_DatasetRows(tuple(fragments), columns))
        return known

    def build_name(
        self, key: object, sources: Iterable[tuple[LanceSource, Iterable[StoredFragment]]]
    ) -> FileName:
        """Return the name of a file.

        Args:
            key: everything that its content depends on, for `digest`.
            sources: fragments whose rows are read for it.
        """
        read = [(source, tuple(fragments)) for source, fragments in sources]

        def is_certain() -> bool:
            for source, fragments in read:
                for fragment in fragments:
                    name = None if source.origin is None else source.origin.name_rows(fragment.files)
                    if name is None or name != self._rows.get(fragment.files):
                        return False
            return True

        return FileName(digest(key), is_certain)

    # Values

    def load(
        self, holder: Holder, key: Hashable, name: FileName, decode: Callable[[Any], Value | None]
    ) -> Value | None:
        """Return the value of a file, and keep it in a cache; None if there is no such file.

        Args:
            holder: the cache.
            key: of the value in it.
            name: of the file.
            decode: returns the value that lies in a batch; None if it is not there as it was written.
        """
        batch = None if self.files is None else self.files.get(name.name)
        return None if batch is None else self.hold(holder, key, name, decode(batch))

    def store(
        self,
        holder: Holder,
        key: Hashable,
        name: FileName,
        batch: pa.RecordBatch,
        decode: Callable[[Any], Value | None],
    ) -> Value | None:
        """Write a value to a file, keep it in a cache, and return it as mapped; None if it is not kept."""
        if self.files is None or not name.is_certain():
            return None
        mapped = self.files.put(name.name, batch)
        return None if mapped is None else self.hold(holder, key, name, decode(mapped))

    def store_later(
        self,
        holder: Holder,
        key: Hashable,
        name: FileName,
        batch: pa.RecordBatch,
        decode: Callable[[Any], object | None],
    ) -> None:
        """Write a value to a file in the background, and keep it in a cache as mapped.

        If more than `_WAITING_BYTES` wait to be written, the value is written at once.
        """
        nbytes = batch.nbytes

        def store() -> None:
            try:
                self.store(holder, key, name, batch, decode)
            except Exception:
                logger.exception("shared cache: a column can't be written")
            finally:
                with self._lock:
                    self._waiting_bytes -= nbytes

        with self._lock:
            if self._closed.is_set():
                return
            waits = self._waiting_bytes + nbytes <= _WAITING_BYTES
            if waits:
                self._waiting_bytes += nbytes
                self._writer.submit(store)
        if not waits:
            self.store(holder, key, name, batch, decode)

    def await_stored(self) -> None:
        """Wait until all values that wait to be written have been written."""
        self._writer.submit(lambda: None).result()

    def compute(
        self,
        holder: Holder,
        key: Hashable,
        find_name: Callable[[], FileName | None],
        encoding: Encoding,
        make: Callable[[], Value],
        size: Callable[[Value], int],
    ) -> Value:
        """Return a value from a cache, or from its file; if there is none, compute and store it.

        Args:
            holder: the cache.
            key: of the value in it.
            find_name: returns the name of the file; None where the value is not shared.
            encoding: of the value.
            make: computes it.
            size: returns its bytes.
        """
        if self.files is None:
            return holder.compute(key, make, size)
        booked = ENTRY_BYTES

        def find_or_make() -> Value:
            nonlocal booked
            name = find_name()
            if name is not None:
                found: Value | None = self.load(holder, key, name, encoding.decode)
                if found is not None:
                    return found
            value = make()
            if name is not None and size(value) >= SHARED_BYTES:
                mapped: Value | None = self.store(holder, key, name, encoding.encode(value), encoding.decode)
                if mapped is not None:
                    return mapped
            booked = size(value)
            return value

        return holder.compute(key, find_or_make, lambda _: booked)

    def hold(self, holder: Holder, key: Hashable, name: FileName, value: Value | None) -> Value | None:
        """Keep a value of a file in a cache, as long as the file is there."""
        if value is None:
            return None
        holder.put(key, value, ENTRY_BYTES)
        with self._lock:
            self._held.setdefault(holder, {})[key] = name.name
        return value

    def close(self) -> None:
        """Stop looking after the files; values that wait to be written are not written."""
        with self._lock:
            self._closed.set()
        self._writer.shutdown(cancel_futures=True)

    def look_after(self) -> None:
        """Tell other processes which files were used, and drop what they have evicted."""
        files = self.files
        if files is None:
            return
        files.report_lookups()
        evictions = files.read_totals().evictions
        left = files.list_names() if evictions != self._evictions else None
        self._evictions = evictions
        with self._lock:
            holders = list(self._held.items())
        for holder, held in holders:
            files.touch({name for key in holder.take_used() if (name := held.get(key)) is not None})
            with self._lock:
                entries = list(held.items())
            gone = [key for key, name in entries if left is not None and name not in left]
            holder.discard(gone)
            with self._lock:
                for key, _ in entries:
                    if key not in holder:
                        held.pop(key, None)


def _look_after(cache: weakref.ref[SharedCache], closed: threading.Event) -> None:
    while not closed.wait(_LOOK_SECONDS):
        found = cache()
        if found is None:
            return
        found.look_after()
        del found
