"""Directories below the root that no name leads to: tables are made there, and taken away."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.memwal.storage.files import Storage

_log = logging.getLogger(__name__)
SCRATCH: Final = ".lance-gateway"
"""Below the root, so that directories can be moved to and from it in one step."""
_LOCK: Final = "lock"
_YOUNG_SECONDS: Final = 3600.0
"""Within this time, an area without a lock may be one whose process is about to lock it."""
_ATTEMPTS: Final = 8


class Scratch:
    """The scratch directories of one process; safe to share between threads.

    They lie in an area that the process keeps locked as long as it lives. Only for local roots.

    Args:
        root: directory of all tables.
    """

    def __init__(self, root: Storage) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._area: Storage | None = None
        self._file: int | None = None

    def create(self) -> Storage:
        """Return a directory that is not there yet, and that nobody else will use.

        Raises:
            UnavailableError: the file system refuses it.
        """
        with self._lock:
            if self._area is None:
                self._area, self._file = self._open_area()
            return self._area.child(uuid.uuid4().hex)

    def close(self) -> None:
        """Remove the area with everything in it."""
        with self._lock:
            area, self._area = self._area, None
            file, self._file = self._file, None
        if area is not None:
            with suppress(LanceGatewayError):
                area.delete_all()
        if file is not None:
            os.close(file)
            _remove_if_empty(Path(self._root.root) / SCRATCH)

    def _open_area(self) -> tuple[Storage, int]:
        failure: OSError | None = None
        for _ in range(_ATTEMPTS):
            area = self._root.child(SCRATCH, uuid.uuid4().hex)
            try:
                Path(area.root).mkdir(parents=True)
                file = os.open(f"{area.root}/{_LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError as error:
                failure = error  # Another process has just removed the directory of all areas.
                continue
            except OSError as error:
                failure = error
                break
            if _lock(file):
                return area, file
            os.close(file)
        msg = f"no scratch directory can be made below {self._root.uri}: {failure}"
        raise UnavailableError(msg) from failure


def _lock(file: int) -> bool:
    """Lock the file of a new area; return False if a sweep came first. Some file systems lock nothing."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return os.fstat(file).st_nlink > 0


def sweep_scratch(root: Storage) -> None:
    """Remove what processes that ended without notice left in their scratch areas."""
    if not root.is_local:
        return
    areas = Path(root.root) / SCRATCH
    with suppress(OSError):
        for area in list(areas.iterdir()):
            with suppress(OSError, LanceGatewayError):
                _sweep_area(root.child(SCRATCH, area.name), area)
        _remove_if_empty(areas)


def _sweep_area(area: Storage, path: Path) -> None:
    try:
        file = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - path.stat().st_mtime > _YOUNG_SECONDS:
            area.delete_all()
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process lives
        _log.info("removing %s, which a gateway left behind", path)
        area.delete_all()
    finally:
        os.close(file)


def _remove_if_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()
