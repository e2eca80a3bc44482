"""Temporary tables: where they are kept, and how much room they have.

Those of a session are a schema of their own, in a directory on the disk of the gateway. Nothing of them is in
the root. Directories lie in an area that the process keeps locked; a gateway that starts removes those that
nobody holds.
"""

from __future__ import annotations

import math
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lance_gateway.memwal.errors import PreconditionError, ResourcesExhaustedError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.table_names import TEMPORARY, is_temporary_schema
from lance_gateway.planner.tables.local.scratch import Scratch, sweep_scratch
from lance_gateway.planner.tables.shared.directory import open_directory

_MEASURED_SECONDS: Final = 1.0
"""For so long, what a schema was measured to have is taken for what it has."""


@dataclass(frozen=True, slots=True)
class TemporaryOptions:
    """Where temporary tables are kept, and how much.

    Attributes:
        directory: on a local disk; None for one below that of temporary files.
        max_bytes: of the tables of one session, on disk.
        max_all_bytes: of all sessions.
    """

    directory: Path | None = None
    max_bytes: int = 1 << 30
    max_all_bytes: int = 8 << 30

    @property
    def path(self) -> Path:
        """The directory, which may not be there yet."""
        return self.directory or Path(tempfile.gettempdir()) / f"lance-gateway-{os.getuid()}"

    def open_directory(self) -> Storage:
        """Open the directory, which is made if it is not there.

        Raises:
            PreconditionError: the file system refuses it, or others may look into it.
        """
        chosen = self.path
        os.close(open_directory(chosen, "server.temporary_directory"))
        return Storage.open(str(chosen))


class TemporaryTables:
    """The directories of temporary tables of one process; safe to share between threads.

    Args:
        options: where they are, and how large.
    """

    def __init__(self, options: TemporaryOptions | None = None) -> None:
        self.options = options or TemporaryOptions()
        self._lock = threading.Lock()
        self._scratch: Scratch | None = None
        self._room_lock = threading.Lock()
        self._measured: dict[str, tuple[float, int]] = {}
        """Schema, or "" for all -> when it was measured, and its bytes, with those taken since."""
        self.storage: Storage | None = None
        """The directory of the schemas; None before the first one."""

    def sweep(self) -> None:
        """Remove what gateways that ended without notice have left."""
        with suppress(PreconditionError):  # said where a table is to be made
            sweep_scratch(self.options.open_directory())

    def follow(self, directory: str) -> None:
        """Read the tables of another process, which keeps them in a directory."""
        if self.storage is None or self.storage.root != directory:
            self.storage = Storage.open(directory)

    def open_schema(self) -> str:
        """Make a schema, and return its name, which no other one has.

        Raises:
            PreconditionError: the directory can't be used.
            UnavailableError: the file system refuses it.
        """
        with self._lock:
            if self._scratch is None or self.storage is None:
                self._scratch = Scratch(self.options.open_directory())
                self.storage = self._scratch.create()
            schema = f"{TEMPORARY}_{secrets.token_hex(6)}"
            Path(self.storage.root, schema).mkdir(mode=0o700, parents=True)
            return schema

    def has_schema(self, schema: str) -> bool:
        """Return whether there is a schema of temporary tables of a name."""
        return is_temporary_schema(schema) and self.storage is not None and self.storage.exists(schema)[0]

    def drop_schema(self, schema: str) -> None:
        """Remove a schema with everything in it."""
        storage = self.storage
        if storage is not None:
            storage.child(schema).delete_all()
        self.measure_again()

    def create(self) -> Storage:
        """Return a directory that is not there yet, from which tables are moved to their place."""
        assert self._scratch is not None  # noqa: S101 - there is a schema
        return self._scratch.create()

    def take_room(self, schema: str, nbytes: int) -> None:
        """Take room for rows that are about to be written to tables of a schema.

        Args:
            schema: of temporary tables.
            nbytes: of the rows, in memory.

        Raises:
            ResourcesExhaustedError: the session's tables, or those of all sessions, have as much as they may.
        """
        options = self.options
        rooms = (
            ("the temporary tables of this session", schema, options.max_bytes, "max_temporary_bytes"),
            ("the temporary tables of all sessions", "", options.max_all_bytes, "max_all_temporary_bytes"),
        )
        with self._room_lock:
            used = [self._measure(place) + nbytes for _, place, _, _ in rooms]
            for (what, _, most, option), size in zip(rooms, used, strict=True):
                if size > most:
                    msg = (
                        f"{what} would have {size} bytes, and {most} are allowed: drop some, end the "
                        f"session, or ask the operator to raise {option}"
                    )
                    raise ResourcesExhaustedError(msg)
            for (_, place, _, _), size in zip(rooms, used, strict=True):
                self._measured[place] = (self._measured[place][0], size)

    def measure_again(self) -> None:
        """Forget what tables were measured to have, since one was dropped."""
        with self._room_lock:
            self._measured.clear()

    def close(self) -> None:
        """Remove all schemas of this process."""
        with self._lock:
            scratch, self._scratch, self.storage = self._scratch, None, None
        if scratch is not None:
            scratch.close()

    def _measure(self, schema: str) -> int:
        """Return the bytes of a schema on disk a moment ago, and those that it took since."""
        now = time.monotonic()
        measured_at, size = self._measured.get(schema, (-math.inf, 0))
        if now - measured_at >= _MEASURED_SECONDS:
            size = 0 if self.storage is None else sum(_list_sizes(Path(self.storage.root, schema)))
            self._measured[schema] = (now, size)
        return size


def _list_sizes(directory: Path) -> Iterator[int]:
    for where, _, files in os.walk(directory):
        for name in files:
            with suppress(OSError):  # removed meanwhile
                yield os.stat(os.path.join(where, name)).st_size  # noqa: PTH116, PTH118 - many files
