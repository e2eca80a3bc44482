"""Move and exchange local directories, each in one step of the file system."""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from lance_gateway.memwal.storage.backends import storage_error

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
