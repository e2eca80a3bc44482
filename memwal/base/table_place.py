"""Keep the directory of a table where it is while somebody writes to it (ADR 51).

Lance commits and appends to paths. If another table takes a path between the version that a commit is based
on and the commit, it makes a version of the other table, whose files are missing; and an entry of one table
in the log of another can't be replayed. So whoever writes shares a lock, and whoever moves a directory takes
it alone. It is the system's lock on the directory of versions, which ends with its process.
Object stores move no directories, and so need no lock.

Whoever moves a table waits with a lock on the directory of the table itself, which writers pass on their way:
else they would never leave a moment between them.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lance_gateway.memwal.errors import NotFoundError, UnavailableError
from lance_gateway.memwal.storage.files import VERSIONS, Storage

_WAIT_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.002
_held = threading.local()
"""Directories that the thread keeps in place: a second lock would wait for who waits for the first."""


@contextmanager
def keep_in_place(table: Storage) -> Iterator[None]:
    """Let nobody move the directory of a table while the block runs; any number of threads may do so.

    Raises:
        NotFoundError: the table is not there, or not any more.
        UnavailableError: it is being moved, for longer than that takes.
    """
    kept: set[str] = _held.__dict__.setdefault("kept", set())
    if not table.is_local or table.root in kept:
        yield
        return
    obstacle = "is renamed or replaced"
    deadline = time.monotonic() + _WAIT_SECONDS
    gate = _lock(table, "", fcntl.LOCK_SH, obstacle, deadline)
    try:
        file = _lock(table, VERSIONS, fcntl.LOCK_SH, obstacle, deadline)
    finally:
        _close(gate)
    kept.add(table.root)
    try:
        yield
    finally:
        kept.discard(table.root)
        _close(file)


@contextmanager
def reserve_place(table: Storage) -> Iterator[None]:
    """Let nobody write to a table while the block runs, which moves its directory.

    Raises:
        UnavailableError: a job that commits to the table takes too long.
    """
    if not table.is_local:
        yield
        return
    obstacle = "is being merged, indexed, altered or cleaned up"
    deadline = time.monotonic() + _WAIT_SECONDS
    gate = _lock(table, "", fcntl.LOCK_EX, obstacle, deadline)
    try:
        file = _lock(table, VERSIONS, fcntl.LOCK_EX, obstacle, deadline)
        try:
            yield
        finally:
            _close(file)
    finally:
        _close(gate)


def _close(file: int | None) -> None:
    if file is not None:
        os.close(file)


def _lock(table: Storage, below: str, kind: int, obstacle: str, deadline: float) -> int | None:
    """Return a locked directory of the table; None where there are no locks, or nothing to move."""
    path = f"{table.root}/{below}"
    while True:
        try:
            file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            if kind == fcntl.LOCK_EX:
                return None
            msg = f"there is no table at {table.uri}: it was renamed or dropped"
            raise NotFoundError(msg) from error
        except OSError:
            return None
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            if _is_at(file, path):
                return file
        except BlockingIOError:
            pass
        except OSError:
            os.close(file)
            return None
        os.close(file)
        if time.monotonic() > deadline:
            msg = f"{table.uri} {obstacle}, which takes longer than {_WAIT_SECONDS:.0f} s: retry later"
            raise UnavailableError(msg)
        time.sleep(_PAUSE_SECONDS)


def _is_at(file: int, path: str) -> bool:
    """Return whether a path still leads to an open file: another table may have taken its place."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))  # noqa: PTH116 - text stays text
    except OSError:
        return False
