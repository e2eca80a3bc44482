"""Whether a table is still the one that was opened."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from lance_gateway.memwal.base.index_details import (
    MemWalIndexDetails,
    find_newest_details,
    read_base_manifest,
    read_newest_version,
)
from lance_gateway.memwal.base.table_mark import read_table_mark
from lance_gateway.memwal.storage.files import VERSIONS, FileIdentity, Storage, base_manifest_paths


@dataclass(eq=False)
class Watch:
    """Detects that a table was dropped or replaced, or lost its MemWAL; safe to share between threads.

    Attributes:
        name: of the table, for messages.
        storage: its directory.
        dataset: a `lance.LanceDataset` of it.
        mark: by which the table is known.
        details: the MemWAL index when it was opened.
        version: newest base version that was looked at.
        directory: of versions, before that was found to be the newest; None where there are no directories.
        looked_at: monotonic time.
        lock: one looks for all who wait.
    """

    name: str
    storage: Storage
    dataset: Any
    mark: FileIdentity
    details: MemWalIndexDetails
    version: int
    directory: FileIdentity | None
    looked_at: float
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_same(self) -> bool:
        """Return whether the table is the one that was opened and still has its MemWAL.

        It may have been dropped, recreated, or overwritten. Costs little; on S3 it is asked once a second.

        Raises:
            UnsupportedError: it got a feature that Lance can't write.
            UnavailableError: storage failed to answer.
        """
        trusted = self.storage.backend.identity_seconds
        if not trusted:
            # While nothing came to the directory, no version was committed. The time of a directory is
            # coarse, so the next version is looked for by its names as well.
            found = self.storage.identities(VERSIONS, *base_manifest_paths(self.version + 1))
            is_unchanged = self.directory is not None and found == (self.directory, None, None)
            return is_unchanged or self._has_same_mark()
        with self.lock:
            now = time.monotonic()
            if now - self.looked_at < trusted:
                return True
            if not self._has_same_mark():
                return False
            self.looked_at = now
            return True

    def _has_same_mark(self) -> bool:
        """Return whether the table has the same mark and its newest version the same region specs."""
        directory = identify_versions_directory(self.storage)
        if read_table_mark(self.storage) != self.mark:
            return False
        newest = read_newest_version(self.name, self.dataset)
        if newest != self.version:
            read_base_manifest(self.storage, newest).check_writable(self.name)
            found = find_newest_details(self.name, self.storage, self.dataset)
            if found is None or found.region_specs != self.details.region_specs:
                return False
        self.version, self.directory = newest, directory
        return True


def identify_versions_directory(storage: Storage) -> FileIdentity | None:
    """Return the identity of the versions directory; it changes with every commit. None on object stores."""
    return None if storage.backend.identity_seconds else storage.identity(VERSIONS)
