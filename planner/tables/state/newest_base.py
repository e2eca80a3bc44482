"""The newest version of a base table, looked for as rarely as consistency allows."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lance_gateway.execnodes.storage.data_files import Place
from lance_gateway.memwal.base.table_mark import read_table_mark
from lance_gateway.memwal.base.version_list import list_manifests
from lance_gateway.memwal.creating import table_exists
from lance_gateway.memwal.errors import NotFoundError
from lance_gateway.memwal.storage.files import VERSIONS, FileIdentity, Storage
from lance_gateway.planner.tables.sources.base_table import BaseTable, ManifestFile, open_base_table
from lance_gateway.planner.tables.state.table_state import TableState

_ATTEMPTS = 8


class NewestBase:
    """Newest version of a base table. Thread-safe.

    A recreated table may reuse version numbers, so the file of its manifest identifies a version. If that was
    cleaned up, the mark that writers leave identifies the table; without a mark it counts as another table.

    Attributes:
        last: the version that was found last; None before the first.
        state: of the table that it belongs to.

    Args:
        name: of the table, in the catalog.
        storage: directory of the table.
        session: the `lance.Session` in which the table's files are opened, until it is recreated.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        session: Any,  # noqa: ANN401 - lance types
    ) -> None:
        self.last: BaseTable | None = None
        self.state = TableState(Place.new(storage.uri), session)
        self._name = name
        self._storage = storage
        self._lock = threading.Lock()
        self._recent_lock = threading.Lock()
        self._newest_listing: tuple[BaseTable, FileIdentity] | None = None
        """A version that Lance found to be the newest, and the directory of versions just before that."""
        self._mark: FileIdentity | None = None
        """Mark of the table; None if it had none when a version was opened last."""
        self._identified_at = -math.inf
        self._found_at = 0.0

    def find(self) -> BaseTable:
        """Find the newest version; return the same object while it is the newest.

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
                other = self._open_newest(other)
            self._found_at = started
            return other

    def list_checks(self, base: BaseTable) -> Sequence[Callable[[], bool]]:
        """Return requests that all return True if a version is still the newest."""
        manifest = base.manifest
        if manifest is None:
            return (lambda: False,)
        return lambda: not _has_newer(base), lambda: self._is_identical(manifest)

    def _is_identical(self, manifest: ManifestFile) -> bool:
        is_there = manifest.is_there(self._storage)
        if not is_there:
            self._identified_at = -math.inf  # `find` asks for it, too.
        return is_there

    def recent(self) -> BaseTable:
        """Return the newest version, or one found a moment ago if storage is slow.

        For those who need the columns of the table, and not its rows.

        Raises:
            LanceGatewayError: as `find`.
        """
        trusted = self._storage.backend.identity_seconds
        if not trusted:
            return self.find()
        with self._recent_lock:  # One looks for all who wait.
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
            # While nothing came to the directory, Lance need not list it. The time of a directory is coarse,
            # so the next version is looked for by its name as well.
            directory, following, current = self._storage.identities(
                VERSIONS, manifest.following, manifest.path
            )
            if self._newest_listing == (base, directory) and following is None:
                return current == manifest.identity
            newer = _has_newer(base)
            self._newest_listing = None if newer or directory is None else (base, directory)
            # The manifest is checked again: the table may have been recreated in between.
            return not newer and manifest.is_there(self._storage)
        if _has_newer(base):
            return False
        now = time.monotonic()
        if now - self._identified_at >= trusted:
            if not manifest.is_there(self._storage):
                return False
            self._identified_at = now
        return True

    def _is_same(self, before: BaseTable) -> bool:
        if before.manifest is not None and before.manifest.is_there(self._storage):
            return True
        return self._mark is not None and read_table_mark(self._storage) == self._mark

    def _open_newest(self, before: BaseTable | None) -> BaseTable:
        """Open the newest version, of one table: another one may take its place meanwhile (ADR 51).

        Raises:
            NotFoundError: there is none.
        """
        for _ in range(_ATTEMPTS):
            try:
                opened, mark = self._open_once(before)
            except NotFoundError:
                if not table_exists(self._storage):
                    raise
                continue
            if opened.manifest is None:
                return opened
            if opened.manifest.is_there(self._storage):
                self._mark = mark  # The manifest was there before and after, and so it is of the same table.
                return opened
            before = opened
        return self._open_once(before)[0]

    def _open_once(self, before: BaseTable | None) -> tuple[BaseTable, FileIdentity | None]:
        """Open the newest version; start with empty state if the table was recreated.

        Returns:
            The version, and the mark of the table, if the version's manifest is still there.
        """
        started = time.monotonic()
        state, newest = self.state, self._find_newest(before)
        expected = None if newest is None else ManifestFile.of(self._storage, newest)
        marking = self._storage.start(partial(read_table_mark, self._storage)) if self._mark is None else None
        opened = self._open(state, newest)
        if before is not None and not self._is_same(before):
            # Asked afterwards (ADR 33): what was opened while the old manifest was there is the old table.
            state, expected, self._mark, marking = state.create_successor(), None, None, None
        if expected is None or expected.version != opened.version:
            # The file is looked at before it is read: it may be replaced in between, which is noticed then.
            expected = ManifestFile.of(self._storage, opened.version)
            marking = None
            opened = self._open(state, opened.version)
        if expected is not None and expected.version == opened.version:
            opened = replace(opened, manifest=expected)
        mark = self._mark
        if mark is None:
            mark = read_table_mark(self._storage) if marking is None else marking.result()
        self.state, self.last, self._identified_at = state, opened, started
        return opened, mark

    def _find_newest(self, before: BaseTable | None) -> int | None:
        """Return the newest version; None if it cannot be read, in which case opening the table fails."""
        if before is None:
            return max(list_manifests(self._storage), default=None)
        with contextlib.suppress(OSError, ValueError):
            return int(before.dataset.latest_version)
        return None

    def _open(self, state: TableState, expected: int | None) -> BaseTable:
        return open_base_table(self._name, self._storage, None, state.session, state.place, expected=expected)


def _has_newer(base: BaseTable) -> bool:
    """Return whether Lance finds another version, or none: opening the table tells why."""
    try:
        newest: int = base.dataset.latest_version
    except (OSError, ValueError):
        return True
    return newest != base.version
