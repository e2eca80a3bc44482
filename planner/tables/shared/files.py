"""The files that processes share: found by name, within one budget, the longest unused leave first.

Any process may write, read and evict at any time; there is none that has to run. A file appears under its
name as a whole, and never changes. One that is evicted stays readable for those who have mapped it.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import logging
import os
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from lance_gateway.planner.tables.shared.directory import measure_room, open_directory
from lance_gateway.planner.tables.shared.file_format import encode, map_file

logger = logging.getLogger(__name__)

_PAGE = 4096
_STATE = "state"
_TOTALS = struct.Struct("<QQQQ")
_NOTE = "note-"
_PART = ".part-"
_LASTS = MappingProxyType({_PART: 60.0, _NOTE: 30 * 86400.0})
"""Seconds after which a file of such a name is of no use: the process that wrote it has ended."""
LARGEST_SHARE = 8
"""One file takes at most one part in so many of the budget."""


class Totals(NamedTuple):
    """What all processes together have done in the directory.

    Attributes:
        nbytes: of all files.
        evictions: how often files were evicted.
        hits: lookups that found a file, as far as the processes have told.
        misses: lookups that found none, likewise.
    """

    nbytes: int = 0
    evictions: int = 0
    hits: int = 0
    misses: int = 0


class SharedFiles:
    """Record batches in files of one directory. Thread-safe, and safe among processes.

    Attributes:
        max_bytes: the budget of all files.
        hits: files that this process has found.
        misses: files that it has not found.
        damaged: those of them that were there, and not as they were written.

    Args:
        directory: of this user alone; created if it is absent.
        max_bytes: budget; no more than half of the file system is used.

    Raises:
        PreconditionError: the directory can't be used.
    """

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = open_directory(directory)
        self.max_bytes = min(max_bytes, measure_room(directory))
        self.hits = self.misses = self.damaged = 0
        self._told = (0, 0)
        self._lock = threading.Lock()
        self._parts = itertools.count()
        self._state = os.open(_STATE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=self._directory)
        with self._locked():
            totals = self.read_totals()
            nbytes = self._evict(self.max_bytes)
            self._write_totals(totals._replace(nbytes=nbytes, evictions=totals.evictions + 1))

    def read_totals(self) -> Totals:
        """Return what all processes have done."""
        data = os.pread(self._state, _TOTALS.size, 0)
        return Totals(*_TOTALS.unpack(data)) if len(data) == _TOTALS.size else Totals()

    def report_lookups(self) -> None:
        """Add the lookups of this process to those of all."""
        if (self.hits, self.misses) == self._told:
            return
        with self._locked():
            told, self._told = self._told, (self.hits, self.misses)
            totals = self.read_totals()
            hits, misses = totals.hits + self._told[0] - told[0], totals.misses + self._told[1] - told[1]
            self._write_totals(totals._replace(hits=hits, misses=misses))

    def get(self, name: bytes) -> pa.RecordBatch | None:
        """Map a file; return None if it is absent or damaged."""
        text = name.hex()
        try:
            descriptor = os.open(text, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory)
        except OSError:
            self.misses += 1
            return None
        try:
            batch = map_file(descriptor, name)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if batch is None:
            self.misses += 1
            self.damaged += 1
            logger.warning("shared cache: %s is damaged, and removed", text)
            self._remove(text, size)
            return None
        self.hits += 1
        self.touch((name,))
        return batch

    def __contains__(self, name: bytes) -> bool:
        """Return whether there is a file, without requesting it."""
        try:
            os.stat(name.hex(), dir_fd=self._directory, follow_symlinks=False)
        except OSError:
            return False
        return True

    def put(self, name: bytes, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Write a file and map it; return None if it was not kept, for want of space or whatever else."""
        header, stream = encode(name, batch)
        size = len(header) + stream.size
        if size * LARGEST_SHARE > self.max_bytes:
            return None
        text, part = name.hex(), self._name_part()
        try:
            self._reserve(size)
        except OSError:
            return None
        try:
            self._write(part, header, stream)
            with suppress(FileNotFoundError):  # Another process was faster.
                self._release(os.stat(text, dir_fd=self._directory).st_size)
            os.rename(part, text, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            descriptor = os.open(text, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory)
        except OSError as error:
            with suppress(OSError):
                os.unlink(part, dir_fd=self._directory)
            with suppress(OSError):
                self._release(size)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.ENOENT):
                logger.warning("shared cache: a file can't be written: %s", error.strerror)
            return None
        try:
            return map_file(descriptor, name)
        finally:
            os.close(descriptor)

    def touch(self, names: Iterable[bytes]) -> None:
        """Note that files were used."""
        for name in names:
            with suppress(OSError):
                os.utime(name.hex(), dir_fd=self._directory)

    def read_note(self, name: bytes) -> pa.RecordBatch | None:
        """Return what a note says; None if it is absent or damaged."""
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(f"{_NOTE}{name.hex()}", flags, dir_fd=self._directory)
            try:
                return map_file(descriptor, name)
            finally:
                os.close(descriptor)
        return None

    def write_note(self, name: bytes, batch: pa.RecordBatch) -> None:
        """Write a few rows for those who come later, in place of what was there; outside of the budget."""
        part = self._name_part()
        try:
            self._write(part, *encode(name, batch))
            os.rename(part, f"{_NOTE}{name.hex()}", src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except OSError:  # Nobody depends on it.
            with suppress(OSError):
                os.unlink(part, dir_fd=self._directory)

    def list_names(self) -> frozenset[bytes]:
        """Return the names of all files."""
        with self._lock:  # The descriptor has one position for all who list by it.
            names = os.listdir(self._directory)  # noqa: PTH208 - by descriptor
        return frozenset(
            bytes.fromhex(name) for name in names if name != _STATE and not name.startswith((_PART, _NOTE))
        )

    def close(self) -> None:
        """Close the directory; what is mapped stays mapped."""
        os.close(self._state)
        os.close(self._directory)

    def _name_part(self) -> str:
        return f"{_PART}{os.getpid()}-{next(self._parts)}"

    def _write(self, part: str, header: bytes, stream: pa.Buffer) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(part, flags, 0o400, dir_fd=self._directory)
        try:
            rest = memoryview(stream)
            written = os.writev(descriptor, [header, rest]) - len(header)
            while written < len(rest):
                written += os.write(descriptor, rest[max(written, 0) :])
        finally:
            os.close(descriptor)

    # The budget

    def _reserve(self, size: int) -> None:
        with self._locked():
            totals = self.read_totals()
            nbytes, evictions = totals.nbytes + _round_up(size), totals.evictions
            if nbytes > self.max_bytes:
                # Some more than needed, so that not every file lists the directory.
                nbytes = _round_up(size) + self._evict(self.max_bytes - self.max_bytes // 8 - _round_up(size))
                evictions += 1
            self._write_totals(totals._replace(nbytes=nbytes, evictions=evictions))

    def _release(self, size: int) -> None:
        with self._locked():
            totals = self.read_totals()
            self._write_totals(totals._replace(nbytes=max(totals.nbytes - _round_up(size), 0)))

    def _remove(self, text: str, size: int) -> None:
        with suppress(OSError):
            os.unlink(text, dir_fd=self._directory)
            self._release(size)

    def _evict(self, max_bytes: int) -> int:
        """Remove the longest unused files until so many bytes are left; return the bytes that are left."""
        files: list[tuple[int, int, str]] = []
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name == _STATE:
                    continue
                with suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    size = 0 if entry.name.startswith(_NOTE) else _round_up(found.st_size)
                    files.append((found.st_mtime_ns, size, entry.name))
        total = sum(size for _, size, _ in files)
        now = time.time_ns()
        for written, size, name in sorted(files):
            lasts = next((seconds for prefix, seconds in _LASTS.items() if name.startswith(prefix)), None)
            if total > max_bytes if lasts is None else now - written > lasts * 1e9:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._directory)
                total -= size
        return total

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:  # The other lock is that of the process.
            fcntl.flock(self._state, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._state, fcntl.LOCK_UN)

    def _write_totals(self, totals: Totals) -> None:
        os.pwrite(self._state, _TOTALS.pack(*totals), 0)


def _round_up(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
