"""Finds the newest version of a base table, and finds out when it is another table's."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import Any

from execnodes.data_files import Place
from memwal.layout import VERSIONS
from memwal.storage import FileIdentity, Storage
from memwal.table_mark import table_mark
from planner.base_table import BaseTable, ManifestFile, open_base_table
from planner.known_state import KnownState


class NewestBase:
    """Safe to share between threads.

    A table that was dropped and made anew may have as many versions as it had before: a version is known by
    the file of its manifest and not by its number alone. Where that was cleaned up, the table is known by its
    mark, which writers leave in it; without one, it is taken for another.

    Attributes:
        last: the version that was found last; None before the first.
        known: what is known of the table that it belongs to.

    Args:
        name: of the table, in the catalog.
        storage: directory of the table.
        session: the `lance.Session` in which the table's files are opened, until it is made anew.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        session: Any,  # noqa: ANN401 (lance types)
    ) -> None:
        self.last: BaseTable | None = None
        self.known = KnownState(Place.new(storage.uri), session)
        self._name = name
        self._storage = storage
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._listed: tuple[BaseTable, FileIdentity] | None = None
        """A version that Lance found to be the newest, and the directory of versions just before that."""
        self._mark: FileIdentity | None = None
        """Of the table; None where nobody had marked it when a version was opened last."""
        self._identified_at = 0.0
        self._found_at = 0.0

    def find(self) -> BaseTable:
        """The newest version; the same object while it is.

        Raises:
            NotFoundError: the table was dropped.
            CorruptDataError: its manifest can't be read.
            UnavailableError: storage failed to answer.
        """
        last, started = self.last, time.monotonic()
        if last is not None and self._is_newest(last):
            self._found_at = started
            return last
        with self._lock:
            other = self.last
            if other is None or other is last or not self._is_newest(other):
                other = self._opened(other)
            self._found_at = started
            return other

    def recent(self) -> BaseTable:
        """The newest version, as it was found a moment ago where looking for it takes long.

        For those who need the columns of the table, and not its rows.

        Raises:
            LanceGatewayError: as `find`.
        """
        trusted = self._storage.backend.identity_seconds
        if not trusted:
            return self.find()
        with self._looking:  # One looks for all who wait.
            last = self.last
            if last is None or time.monotonic() - self._found_at >= trusted:
                last = self.find()
            return last

    def _is_newest(self, base: BaseTable) -> bool:
        manifest = base.manifest
        if manifest is None:
            return False
        trusted = self._storage.backend.identity_seconds
        if not trusted:
            return not self._has_newer_file(base, manifest) and manifest.is_there(self._storage)
        if _has_newer(base):
            return False
        now = time.monotonic()
        if now - self._identified_at >= trusted:
            if not manifest.is_there(self._storage):
                return False
            self._identified_at = now
        return True

    def _is_same(self, before: BaseTable) -> bool:
        """Whether the table is still the one that a version was opened of."""
        if before.manifest is not None and before.manifest.is_there(self._storage):
            return True
        return self._mark is not None and table_mark(self._storage) == self._mark

    def _has_newer_file(self, base: BaseTable, manifest: ManifestFile) -> bool:
        """The same where files are local: while nothing came to the directory, Lance need not list it.

        The time of a directory is coarse, so the next version is looked for by its name as well.
        """
        directory = self._storage.identity(VERSIONS)
        if self._listed == (base, directory) and not self._storage.exists(manifest.following)[0]:
            return False
        newer = _has_newer(base)
        self._listed = None if newer or directory is None else (base, directory)
        return newer

    def _opened(self, before: BaseTable | None) -> BaseTable:
        """Open the newest version; let go of all that is known where that is another table's."""
        started = time.monotonic()
        known, expected = self.known, None
        if before is not None:
            with contextlib.suppress(OSError, ValueError):
                expected = ManifestFile.of(self._storage, before.dataset.latest_version)
        opened = self._open(known)
        if before is not None and not self._is_same(before):
            # Asked afterwards: what was opened while the old manifest was there is the old table.
            known, expected, self._mark = known.made_anew(), None, None
        if expected is None or expected.version != opened.version:
            # The file is looked at before it is read: it may be replaced in between, which is noticed then.
            expected = ManifestFile.of(self._storage, opened.version)
            opened = self._open(known)
        if expected is not None and expected.version == opened.version:
            opened = replace(opened, manifest=expected)
        if self._mark is None:
            mark = table_mark(self._storage)
            if opened.manifest is not None and opened.manifest.is_there(self._storage):
                self._mark = mark  # It was there before the manifest was, and so it is of the same table.
        self.known, self.last, self._identified_at = known, opened, started
        return opened

    def _open(self, known: KnownState) -> BaseTable:
        return open_base_table(self._name, self._storage, None, known.session, known.place)


def _has_newer(base: BaseTable) -> bool:
    """Whether Lance finds another version, or none: opening the table tells what became of it."""
    try:
        newest: int = base.dataset.latest_version
    except (OSError, ValueError):
        return True
    return newest != base.version
