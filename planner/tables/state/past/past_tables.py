"""Past tables that are open, found by version, moment, tag or branch."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from cachetools import LRUCache

from lance_gateway.memwal.base.version_list import (
    CommittedVersion,
    list_manifests,
    list_versions,
    read_commit_time,
)
from lance_gateway.memwal.errors import NotFoundError, UnavailableError
from lance_gateway.planner.bridge.run_control import run_isolated
from lance_gateway.planner.sql.text.as_of import AsOf, format_moment
from lance_gateway.planner.tables.sources.base_table import BaseTable, BaseVersion, open_base_table
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.state.past.branches import BranchName, BranchTable, read_branches
from lance_gateway.planner.tables.state.past.past_table import PastTable
from lance_gateway.planner.tables.state.past.tags import read_tags
from lance_gateway.planner.tables.state.table import Table

OPEN_TABLES = 64
"""So many past versions, of all tables together, stay open."""
COLUMN_BYTES = 32 << 20
_MAX_NAMES = 12
Kept = TypeVar("Kept", bound=Table)


@dataclass(frozen=True, slots=True)
class _PastTableName:
    """Cache key of a past table: its base version and moment.

    Attributes:
        version: of the base.
        moment: microseconds since 1970; None for that of the version's commit.
    """

    version: BaseVersion
    moment: int | None


@dataclass(frozen=True, slots=True)
class _VersionList:
    base: BaseTable
    versions: tuple[CommittedVersion, ...]


class PastTables:
    """Past tables that are open. Thread-safe.

    Attributes:
        columns: keeps decoded columns of all of them.
    """

    def __init__(self) -> None:
        self.columns = DecodedColumns(COLUMN_BYTES)
        self._lock = threading.Lock()
        self._open: LRUCache[Hashable, Table] = LRUCache(OPEN_TABLES)
        self._bases: LRUCache[BaseVersion, BaseTable] = LRUCache(OPEN_TABLES)
        self._version_lists: LRUCache[str, _VersionList] = LRUCache(OPEN_TABLES)

    def find(self, table: Table, as_of: AsOf) -> Table:
        """Open a table at a past moment or version, or a branch of it.

        Raises:
            NotFoundError: there is no such version, tag or branch, or the table did not exist.
            InvalidInputError: the moment can't be evaluated.
        """
        newest = table.base()
        if as_of.tag is not None:
            return self._find_named(table, newest, as_of.tag)
        asked = as_of.moment if as_of.expression is None else run_isolated(None, as_of.evaluate_moment)
        if asked is None:
            assert as_of.version is not None  # noqa: S101 - tokens are found elsewhere
            return self._open_version(table, newest, as_of.version, None)
        # The future is unknown: the next query with the same moment may see more.
        moment = min(asked, time.time_ns() // 1000)
        versions = self.versions(newest)
        at = bisect_right(versions, moment, key=lambda one: one.committed_at)
        if not at:
            first = versions[0]
            msg = (
                f"table {newest.name!r} as of {format_moment(moment)}: the oldest version that is kept is "
                f"{first.version}, of {format_moment(first.committed_at)}"
            )
            raise NotFoundError(msg)
        return self._open_version(table, newest, versions[at - 1].version, moment)

    def versions(self, newest: BaseTable) -> tuple[CommittedVersion, ...]:
        """Return all versions that exist, ascending.

        Args:
            newest: of the table.
        """
        with self._lock:
            known = self._version_lists.get(newest.storage.uri)
        if known is not None and known.base is newest:
            return known.versions
        found = list_versions(newest.dataset, newest.storage)
        with self._lock:
            self._version_lists[newest.storage.uri] = _VersionList(newest, found)
        return found

    def find_branch(self, table: Table, branch: str) -> BranchTable:
        """Open the newest state of a branch.

        Raises:
            NotFoundError: there is no such branch.
        """
        newest = table.base()
        if branch not in read_branches(newest):
            listed = ", ".join(map(repr, sorted(read_branches(newest))[:_MAX_NAMES])) or "none"
            msg = f"table {newest.name!r} has no branch {branch!r}; it has {listed}"
            raise NotFoundError(msg)
        name = BranchName(newest.place, branch)
        return self.keep(name, lambda: BranchTable(table, branch, self.columns))

    def _find_named(self, table: Table, newest: BaseTable, name: str) -> Table:
        """Open the version of a tag, or the newest one of a branch."""
        tags = read_tags(newest)
        if name in tags:
            tag = tags[name]
            on = table if tag.branch is None else self.find_branch(table, tag.branch)
            return self._open_version(on, on.base(), tag.version, None)
        branches = read_branches(newest)
        if name in branches:
            return self.find_branch(table, name)
        listed = ", ".join(map(repr, sorted({*tags, *branches})[:_MAX_NAMES])) or "no tags"
        number = f"; version {name} is written without quotes" if name.isdigit() else ""
        msg = f"table {newest.name!r} has no tag {name!r}; it has {listed}{number}"
        raise NotFoundError(msg)

    def _open_version(self, table: Table, newest: BaseTable, version: int, moment: int | None) -> PastTable:
        """Open a version, with what was fresh at a moment; None for what was flushed before its commit."""
        if version > newest.version:
            newest = table.base()  # Tags and versions are listed later than it was found.

        def open_past() -> PastTable:
            base = self._base(newest, version)
            if moment is None:
                return PastTable(table, base, read_commit_time(base.dataset), self.columns)
            return PastTable(table, base, moment, self.columns, has_log=True)

        return self.keep(_PastTableName(BaseVersion(newest.place, version), moment), open_past)

    def keep(self, key: Hashable, open_past: Callable[[], Kept]) -> Kept:
        """Return the open table of a key, or open it."""
        with self._lock:
            known: Any = self._open.get(key)
        if known is None:
            past = open_past()
            with self._lock:
                known = self._open.setdefault(key, past)
        kept: Kept = known
        return kept

    def _base(self, newest: BaseTable, version: int) -> BaseTable:
        if version == newest.version:
            return newest
        if version > newest.version:
            raise self._build_unknown_error(newest, version)
        key = BaseVersion(newest.place, version)
        with self._lock:
            known = self._bases.get(key)
        if known is not None:
            return known
        try:
            base = open_base_table(newest.name, newest.storage, version, newest.session, newest.place)
        except NotFoundError as error:
            raise self._build_unknown_error(newest, version) from error
        with self._lock:
            return self._bases.setdefault(key, base)

    def _build_unknown_error(self, newest: BaseTable, version: int) -> NotFoundError:
        try:
            numbers = sorted(list_manifests(newest.storage))
        except UnavailableError as error:
            return NotFoundError(f"table {newest.name!r} has no version {version} ({error})")
        return NotFoundError(
            f"table {newest.name!r} has no version {version}; it has {_format_ranges(numbers)}"
        )


def _format_ranges(numbers: list[int]) -> str:
    """Format numbers like "versions 1 to 4, 7 and 9 to 12"."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in runs[-_MAX_NAMES:]]
    listed = " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    return (
        f"{'versions' if len(numbers) > 1 else 'version'} {'.. ' if len(runs) > _MAX_NAMES else ''}{listed}"
    )
