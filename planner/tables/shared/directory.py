"""Directories with rows on the disk of the gateway, which nobody else on the machine may look into."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from lance_gateway.memwal.errors import PreconditionError

_OTHERS = 0o077


def open_directory(path: Path, setting: str = "cache.directory") -> int:
    """Open a directory for its owner alone; create it, and those above it, if it is absent.

    All that is done in it afterwards is done by the descriptor: what is renamed above it does not matter.

    Args:
        path: of the directory.
        setting: that names it, for messages.

    Returns:
        A descriptor of the directory.

    Raises:
        PreconditionError: it is a link or no directory, belongs to somebody else, others may enter it, or it
            can't be created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        reason = "it is a link, or no directory" if path.is_symlink() or path.is_file() else error.strerror
        raise _refuse(path, setting, str(reason)) from None
    found = os.fstat(descriptor)
    problem = ""
    if found.st_uid != os.geteuid():
        problem = f"it belongs to user {found.st_uid}, and this process runs as {os.geteuid()}"
    elif stat.S_IMODE(found.st_mode) & _OTHERS:
        problem = f"others may enter it (mode {stat.S_IMODE(found.st_mode):o})"
    if problem:
        os.close(descriptor)
        raise _refuse(path, setting, problem)
    return descriptor


def find_default_directory() -> Path | None:
    """Return a directory in memory for the user of this process, with most room; None where there is none."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    memory = Path("/dev/shm")  # noqa: S108 - the directory in it is checked
    candidates = [Path(own) / "lance-gateway"] if own and Path(own).is_dir() else []
    if memory.is_dir():
        candidates.append(memory / f"lance-gateway-{os.geteuid()}")
    # systemd gives a user's runtime directory a tenth of the memory, and /dev/shm half of it.
    return max(candidates, key=measure_room, default=None)


def measure_room(path: Path) -> int:
    """Return the bytes that may be used of the file system of a directory, there or not: half of it."""
    # Of a directory that may not be looked into, nothing is raised here: opening it tells.
    existing = next(one for one in (path, *path.parents) if os.path.isdir(one))  # noqa: PTH112
    space = os.statvfs(existing)
    return space.f_blocks * space.f_frsize // 2


def _refuse(path: Path, setting: str, reason: str) -> PreconditionError:
    return PreconditionError(
        f"{setting} {str(path)!r} can't be used: {reason}. Rows of tables are kept there, so it must be a "
        "directory of mode 700 that belongs to the user of the gateway: remove it, or name another one"
    )
