"""Finds what tables were: versions of their bases by number, tag and time."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cachetools import LRUCache

from memwal.errors import NotFoundError, PreconditionError, brief
from planner.sql.as_of import AsOf, microseconds, moment_text
from planner.tables.sources.base_table import BaseTable, BaseVersion, open_base_table
from planner.tables.sources.caches import DecodedColumns
from planner.tables.state.past_table import PastTable
from planner.tables.state.table import Table

OPEN_TABLES = 64
"""So many past versions, of all tables together, stay open."""
COLUMN_BYTES = 32 << 20
_SHOWN = 12


class CommittedVersion(NamedTuple):
    """A version of a base table.

    Attributes:
        version: number.
        committed_at: microseconds since 1970.
        rows: in it, deleted ones not counted; None where that is not recorded.
    """

    version: int
    committed_at: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class _PastMoment:
    """Names a past table. Equal if it is the same version, with what was flushed by the same moment.

    Attributes:
        version: of the base.
        moment: microseconds since 1970; None for that of the version's commit.
    """

    version: BaseVersion
    moment: int | None


@dataclass(frozen=True, slots=True)
class _Listed:
    base: BaseTable
    versions: tuple[CommittedVersion, ...]


class PastTables:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._columns = DecodedColumns(COLUMN_BYTES)
        self._lock = threading.Lock()
        self._open: LRUCache[_PastMoment, PastTable] = LRUCache(OPEN_TABLES)
        self._bases: LRUCache[BaseVersion, BaseTable] = LRUCache(OPEN_TABLES)
        self._listed: LRUCache[str, _Listed] = LRUCache(OPEN_TABLES)

    def find(self, table: Table, as_of: AsOf) -> PastTable:
        """The table as it was.

        Raises:
            NotFoundError: there is no such version, or tag, or there was no table yet; tells what there is.
            InvalidInputError: the moment can't be found out.
        """
        newest = table.base()
        asked = as_of.asked_moment()
        if asked is None:
            version = as_of.version or self._tagged(newest, as_of.tag or "")
            return self._opened(table, newest, version, None)
        # What is yet to come is not known: the next query with the same moment may see more.
        moment = min(asked, time.time_ns() // 1000)
        versions = self.versions(newest)
        at = bisect_right(versions, moment, key=lambda one: one.committed_at)
        if not at:
            first = versions[0]
            msg = (
                f"table {newest.name!r} as of {moment_text(moment)}: the oldest version that is kept is "
                f"{first.version}, of {moment_text(first.committed_at)}"
            )
            raise NotFoundError(msg)
        return self._opened(table, newest, versions[at - 1].version, moment)

    def versions(self, newest: BaseTable) -> tuple[CommittedVersion, ...]:
        """All versions that are kept, ascending.

        Args:
            newest: of the table.
        """
        with self._lock:
            known = self._listed.get(newest.storage.uri)
        if known is not None and known.base is newest:
            return known.versions
        found = tuple(
            CommittedVersion(int(one["version"]), microseconds(one["timestamp"].astimezone()), _rows(one))
            for one in newest.dataset.versions()
        )
        with self._lock:
            self._listed[newest.storage.uri] = _Listed(newest, found)
        return found

    def _tagged(self, newest: BaseTable, tag: str) -> int:
        tags = tags_of(newest)
        if tag in tags:
            return tags[tag]
        listed = ", ".join(map(repr, sorted(tags)[:_SHOWN])) or "no tags"
        number = f"; version {tag} is written without quotes" if tag.isdigit() else ""
        msg = f"table {newest.name!r} has no tag {tag!r}; it has {listed}{number}"
        raise NotFoundError(msg)

    def _opened(self, table: Table, newest: BaseTable, version: int, moment: int | None) -> PastTable:
        """A version, with what was flushed by a moment; None is the moment of its own commit."""
        key = _PastMoment(BaseVersion(newest.place, version), moment)
        with self._lock:
            known = self._open.get(key)
        if known is not None:
            return known
        base = self._base(newest, version)
        committed = microseconds(base.dataset.get_version()["timestamp"].astimezone())
        past = PastTable(table, base, committed if moment is None else moment, self._columns)
        with self._lock:
            return self._open.setdefault(key, past)

    def _base(self, newest: BaseTable, version: int) -> BaseTable:
        if version == newest.version:
            return newest
        if version > newest.version:
            raise self._unknown(newest, version)
        key = BaseVersion(newest.place, version)
        with self._lock:
            known = self._bases.get(key)
        if known is not None:
            return known
        try:
            base = open_base_table(newest.name, newest.storage, version, newest.session, newest.place)
        except NotFoundError as error:
            raise self._unknown(newest, version) from error
        with self._lock:
            return self._bases.setdefault(key, base)

    def _unknown(self, newest: BaseTable, version: int) -> NotFoundError:
        try:
            numbers = [int(one["version"]) for one in newest.dataset.versions()]
        except (OSError, ValueError) as error:
            return NotFoundError(f"table {newest.name!r} has no version {version} ({brief(error)})")
        return NotFoundError(f"table {newest.name!r} has no version {version}; it has {_ranges(numbers)}")


def tags_of(newest: BaseTable) -> Mapping[str, int]:
    """Tag -> version, of the main branch."""
    listed = newest.dataset.tags.list()
    return {name: int(one["version"]) for name, one in listed.items() if one.get("branch") is None}


def check_past_access(newest: BaseTable, past: BaseTable) -> None:
    """Refuse a version whose columns an access policy might not know.

    A policy speaks of columns by their names of today: what was renamed, or dropped, since then would be
    shown unrestricted.

    Raises:
        PreconditionError: the version has columns that the newest does not have.
    """
    if not past.field_names.items() <= newest.field_names.items():
        msg = (
            f"table {newest.name!r} as of version {past.version}: columns were renamed or dropped since, and "
            "an access policy applies to this table: read a version with no other columns than today's"
        )
        raise PreconditionError(msg)


def _rows(version: Mapping[str, Any]) -> int | None:
    recorded = version.get("metadata", {}).get("total_rows")
    return None if recorded is None else int(recorded)


def _ranges(numbers: list[int]) -> str:
    """Like "versions 1 to 4, 7 and 9 to 12"."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in runs[-_SHOWN:]]
    listed = " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    return f"{'versions' if len(numbers) > 1 else 'version'} {'.. ' if len(runs) > _SHOWN else ''}{listed}"
