"""Keep the directory of a table where it is while somebody commits to it (ADR 51).

Lance commits to a path. If another table takes that path between the version that a commit is based on and
the commit, it makes a version of the other table, whose files are missing. So whoever commits shares a lock,
and whoever moves a directory takes it alone. It is the system's lock on the directory of versions: it ends
with its process, and nothing is left of it. Object stores move no directories, and so need no lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from memwal.errors import UnavailableError
from memwal.storage.files import VERSIONS, Storage

_WAIT_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.01


@contextmanager
def keep_in_place(table: Storage) -> Iterator[None]:
    """Let nobody move the directory of a table while the block runs; any number of processes may do so.

    Raises:
        UnavailableError: it is being moved, for longer than that takes.
    """
    with _locked(table, fcntl.LOCK_SH, "is renamed or replaced"):
        yield


@contextmanager
def reserve_place(table: Storage) -> Iterator[None]:
    """Let nobody commit to a table while the block runs, which moves its directory.

    Raises:
        UnavailableError: a job that commits to the table takes too long.
    """
    with _locked(table, fcntl.LOCK_EX, "is being merged, indexed, altered or cleaned up"):
        yield


@contextmanager
def _locked(table: Storage, kind: int, obstacle: str) -> Iterator[None]:
    file = _lock(table, kind, obstacle) if table.can_move else None
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


def _lock(table: Storage, kind: int, obstacle: str) -> int | None:
    """Return the locked directory of versions; None where there is none, or no lock."""
    path = f"{table.root}/{VERSIONS}"
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
