"""The local directories of `memwal.storage.files.Storage`."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

import obstore
from obstore.store import LocalStore

from lance_gateway.memwal.storage.backends import (
    CHUNK_BYTES,
    Answer,
    Entry,
    FileIdentity,
    Item,
    create,
    run_request,
    run_write_request,
    storage_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_WORKING_DIRECTORY: Final = -100
_EXCHANGE: Final = 2
_PRESENT: Final = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_NOT_OFFERED: Final = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def move_directory(source: str, target: str) -> bool:
    """Rename a directory; return False if something other than empty directories has the new name.

    Raises:
        FileNotFoundError: there is no such directory.
        UnavailableError: the file system refuses it.
    """
    for directory, _, _ in os.walk(target, topdown=False):
        with suppress(OSError):
            os.rmdir(directory)  # noqa: PTH106 - text stays text
    try:
        os.rename(source, target)  # noqa: PTH104 - text stays text
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _PRESENT:
            return False
        raise storage_error(target, error) from error
    return True


def exchange_directories(first: str, second: str) -> bool:
    """Let two directories take each other's name at once; return False where that is not supported.

    Linux offers it, on its own file systems.

    Raises:
        FileNotFoundError: one of them does not exist.
        UnavailableError: the file system refuses it.
    """
    rename = _find_rename()
    if rename is None:
        return False
    here = _AT_WORKING_DIRECTORY  # has no meaning for absolute paths
    if not rename(here, os.fsencode(first), here, os.fsencode(second), _EXCHANGE):
        return True
    code = ctypes.get_errno()
    if code in _NOT_OFFERED:
        return False
    if code == errno.ENOENT:
        raise FileNotFoundError(code, os.strerror(code), first)
    raise storage_error(second, OSError(code, os.strerror(code)))


@cache
def _find_rename() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """Return the C library's `renameat2`; None where it has none."""
    found = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return found


class LocalBackend:
    """Directories of the local file system.

    Reads, probes and listings ask the operating system itself: they run for every query and every region.
    """

    scheme = "file"
    identity_seconds = 0.0

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - text stays text
                return file.read()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(str(error)) from error
        except OSError as error:
            raise storage_error(path, error) from error

    def exists(self, paths: tuple[str, ...]) -> tuple[bool, ...]:
        """Check one path after the other."""
        return tuple([_read_stat(path) is not None for path in paths])

    def identities(self, paths: tuple[str, ...]) -> tuple[FileIdentity | None, ...]:
        """Return the inodes and modification times."""
        return tuple(
            [
                None if found is None else FileIdentity(found.st_mtime_ns, found.st_size, found.st_ino)
                for found in map(_read_stat, paths)
            ]
        )

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return the entries of a directory."""
        try:
            with os.scandir(path) as found:
                entries = [entry for one in found if (entry := _build_entry(one)) is not None]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise storage_error(path, error) from error
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def directories(self, path: str) -> tuple[str, ...]:
        """Return the names of the directories in a directory, in the order of the operating system."""
        try:
            with os.scandir(path) as found:
                return tuple([entry.name for entry in found if entry.is_dir()])
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise storage_error(path, error) from error

    def files(self, path: str) -> Iterator[Entry]:
        """Yield all files of the tree; files that vanish meanwhile are left out."""
        for directory, _, names in os.walk(path):
            for name in names:
                one = f"{directory}/{name}"
                found = _read_stat(one)
                if found is not None:
                    below = one[len(path) + 1 :]
                    yield Entry(below, is_dir=False, size=found.st_size, written=found.st_mtime_ns)

    def each(self, function: Callable[[Item], Answer], items: Iterable[Item]) -> tuple[Answer, ...]:
        """Call a function for every item in turn: local files answer faster than a thread starts."""
        return tuple(map(function, items))

    each_request = each_table = each

    def start(self, request: Callable[[], Answer]) -> Future[Answer]:
        """Call a function at once."""
        answer: Future[Answer] = Future()
        try:
            answer.set_result(request())
        except Exception as error:  # noqa: BLE001 - raised where the answer is taken
            answer.set_exception(error)
        return answer

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """Yield a file's bytes."""
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - text stays text
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(str(error)) from error
        except OSError as error:
            raise storage_error(path, error) from error

    def put_chunks(self, path: str, chunks: Iterator[bytes]) -> None:
        """Write a temporary file and rename it."""
        store = _resolve_directory(path)
        run_write_request(path, lambda: obstore.put(store, posixpath.basename(path), chunks))

    def put(self, path: str, data: bytes) -> None:
        """Write a temporary file and rename it."""
        run_write_request(path, lambda: obstore.put(_resolve_directory(path), posixpath.basename(path), data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a temporary file and link it."""
        return create(_resolve_directory(path), posixpath.basename(path), data, path)

    def set_written(self, path: str, written: int) -> None:
        """Set the time of a file."""
        try:
            os.utime(path, ns=(written, written))
        except OSError as error:
            raise storage_error(path, error) from error

    def delete(self, path: str) -> None:
        """Delete a file."""
        try:
            os.unlink(path)  # noqa: PTH108 - text stays text
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise storage_error(path, error) from error

    def delete_each(self, paths: Sequence[str]) -> None:
        """Delete one file after the other."""
        for path in paths:
            self.delete(path)

    def move(self, path: str, target: str) -> bool:
        """Rename a directory."""
        return move_directory(path, target)

    def exchange(self, path: str, other: str) -> bool:
        """Let two directories take each other's name."""
        return exchange_directories(path, other)

    def delete_below(self, path: str, keep: frozenset[str]) -> None:
        """Delete the tree, leaves first."""
        for directory, directories, files in os.walk(path, topdown=False):
            for name in files:
                one = f"{directory}/{name}"
                if one not in keep:
                    self.delete(one)
            for name in directories:
                _remove_directory(f"{directory}/{name}")
        _remove_directory(path)


def _read_stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - a Path would cost more than the call
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(path, error) from error


def _build_entry(stat: os.DirEntry[str]) -> Entry | None:
    if stat.is_dir():
        return Entry(stat.name, is_dir=True, size=0)
    try:
        status = stat.stat()
        return Entry(stat.name, is_dir=False, size=status.st_size, written=status.st_mtime_ns)
    except FileNotFoundError:
        return None  # Renamed or removed since it was listed, as files being written are.


def _resolve_directory(path: str) -> LocalStore:
    # Rooted at the file's own directory: further up, obstore would escape special characters in names.
    return run_request(path, lambda: LocalStore(posixpath.dirname(path), mkdir=True))


def _remove_directory(path: str) -> None:
    """Remove a directory unless it still contains files."""
    with contextlib.suppress(OSError):
        os.rmdir(path)  # noqa: PTH106 - text stays text
