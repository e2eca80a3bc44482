"""Tables as they were: a version of the base, and the generations that were flushed, not merged, by then."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from cachetools import LRUCache

from execnodes import KeySet
from memwal.base.index_details import read_base_manifest
from memwal.errors import NotFoundError, PreconditionError, shorten_error
from memwal.regions.generation_numbers import check_not_restarted
from memwal.regions.manifest import (
    RegionManifest,
    list_regions,
    manifest_directory,
    manifest_path,
    parse_manifest_version,
)
from planner.predicates.pruning import RegionAssignments
from planner.sql.as_of import AsOf, microseconds, moment_text
from planner.tables.sources.base_table import BaseTable, BaseVersion, open_base_table
from planner.tables.sources.caches import DecodedColumns
from planner.tables.sources.generations import GenerationVanishedError
from planner.tables.sources.keys import KeyPlaces
from planner.tables.sources.snapshot import Consistency, RegionSnapshot, TableSnapshot
from planner.tables.state.snapshots import check_ids
from planner.tables.state.table import Table

OPEN_TABLES = 64
"""So many past versions, of all tables together, stay open."""
COLUMN_BYTES = 32 << 20
_SHOWN = 12


class PastTable(Table):
    """Nothing about it changes any more; safe to share between threads.

    What is cached of files that never change it shares with the table of today; decoded columns have a small
    room of their own, so that reading the past takes nothing away from the present.

    Attributes:
        version: of the base.
        moment: microseconds since 1970: what was flushed later is left out.

    Args:
        newest: the table of today.
        base: its version.
        moment: see there.
        columns: keeps decoded columns of past versions.
    """

    def __init__(self, newest: Table, base: BaseTable, moment: int, columns: DecodedColumns) -> None:
        super().__init__(newest.name, newest.storage, newest.cache, columns, _NO_PLACES, base.session)
        self.version = base.version
        self.moment = moment
        self._base = base
        self._today = newest

    @property
    def described_time(self) -> str:
        """For EXPLAIN, where tables of today tell how they are read."""
        return f"as of {moment_text(self.moment)}"

    def read_by(self, other: Table) -> Table:  # noqa: ARG002
        """This very table: what is known of the past stays true."""
        return self

    def base(self) -> BaseTable:
        """The version."""
        return self._base

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """All regions that there were; see `Table.assignments`."""
        del consistency
        return RegionAssignments() if base.details is None else self._assigned

    def snapshot(
        self, regions: Iterable[str], consistency: Consistency = "strong", max_staleness_ms: int = 0
    ) -> TableSnapshot:
        """The version and the generations on top of it; the same whenever it is taken.

        Raises:
            PreconditionError: a generation that the version needs was cleaned up, or a region had two ids.
            LanceGatewayError: something can't be read.
        """
        del consistency, max_staleness_ms
        merged = self._base.merged_generations
        found = {}
        needed_ids = tuple(regions)
        if self._base.details is not None and self._base.primary_key:
            then = {region_id: self._manifests.get(region_id) for region_id in needed_ids}
            check_ids(self.name, None, self._base.details, then)
        for region_id in needed_ids:
            manifest = self._manifests.get(region_id)
            newest_merged = merged.get(region_id, 0)
            if manifest is not None:
                check_not_restarted(self.storage, manifest, newest_merged)
            needed = () if manifest is None else manifest.unmerged_generations(newest_merged)
            flushed = range(newest_merged + 1, 1 if manifest is None else manifest.current_generation)
            if len(needed) < len(flushed):
                # Merged by a version that is gone, and taken out of the manifest before this moment.
                raise self._cleaned_up(region_id, flushed)
            try:
                generations = self.open_generations(self._base, region_id, needed)
            except GenerationVanishedError as error:
                raise self._cleaned_up(region_id, [one.generation for one in needed]) from error
            found[region_id] = RegionSnapshot(region_id, generations, None)
        return TableSnapshot(self._base, found)

    @cached_property
    def _manifests(self) -> Mapping[str, RegionManifest]:
        """Of each region that there was, the newest manifest of that time.

        Raises:
            PreconditionError: what a region had flushed then is not known.
        """
        merged = self._today.base().merged_generations
        ids = sorted({*list_regions(self.storage), *merged})
        found = self.storage.each(lambda one: self._manifest_then(one, merged.get(one, 0)), ids)
        return {one.region_id: one for one in found if one is not None}

    @cached_property
    def _assigned(self) -> RegionAssignments:
        details = self._base.details
        return RegionAssignments.of(self._manifests.values(), () if details is None else details.region_specs)

    def _manifest_then(self, region_id: str, merged_today: int) -> RegionManifest | None:
        """None where the region came later.

        Args:
            region_id: of a region that is there, or of which generations were merged.
            merged_today: newest generation that the newest base version contains.

        Raises:
            PreconditionError: the manifests of that time were cleaned up.
        """
        versions = sorted(
            version
            for entry in self.storage.list(manifest_directory(region_id))
            if entry.size  # Of those that were cleaned up, the names are left.
            and (version := parse_manifest_version(entry.name)) is not None
        )
        at = bisect_right(versions, self.moment, key=lambda version: self._written(region_id, version))
        if at and (at == len(versions) or versions[at] == versions[at - 1] + 1):
            return self._manifest(region_id, versions[at - 1])
        if at or (versions and versions[0] > 1):
            since = moment_text(self._written(region_id, versions[at]))
            msg = (
                f"table {self.name!r} {self.described_time}: what region {region_id} had flushed then is no "
                f"longer known, since its manifests of before {since} were cleaned up. Read a version that "
                "was committed later (system.versions lists them)"
            )
            raise PreconditionError(msg)
        self._check_came_later(region_id, merged_today, is_there=bool(versions))
        return None

    def _check_came_later(self, region_id: str, merged_today: int, *, is_there: bool) -> None:
        """Refuse a region that had generations before its oldest manifest was written.

        Raises:
            PreconditionError: it had them in another directory, or its manifests have lost their times.
        """
        details = self._base.details
        merged = 0 if details is None else details.newest_merged(region_id)
        flushed = self._manifest(region_id, 1).current_generation - 1 if is_there else merged_today
        if flushed == merged or (flushed < merged and not is_there):
            return
        msg = (
            f"table {self.name!r} {self.described_time}: generations of region {region_id} had been flushed "
            f"by then, of which the base table contained those up to {merged}; the manifests that tell which "
            "are not in this table's directory, or are younger: the table is a copy or a clone. Read the "
            "past of the original, copy it with all of _mem_wal and the times of its files, or read a "
            "version that was committed later (system.versions lists them)"
        )
        raise PreconditionError(msg)

    def _manifest(self, region_id: str, version: int) -> RegionManifest:
        path = manifest_path(region_id, version)
        return RegionManifest.decode(self.storage.read(path), source=self.storage.locate(path))

    def _written(self, region_id: str, version: int) -> int:
        """When a manifest was written, in microseconds since 1970; of one that is gone, long ago."""
        identity = self.storage.identity(manifest_path(region_id, version))
        return 0 if identity is None else identity.written // 1000

    def _cleaned_up(self, region_id: str, needed: Iterable[int]) -> PreconditionError:
        numbers = list(needed)
        first = self._first_without(region_id, numbers[-1])
        hint = "no version is known that has its rows" if first is None else f"version {first} has their rows"
        return PreconditionError(
            f"table {self.name!r} as of version {self.version}: it needs flushed generations {numbers} of "
            f"region {region_id}, of which some were merged later and cleaned up; {hint}"
        )

    def _first_without(self, region_id: str, generation: int) -> int | None:
        """The first later version that has merged a generation."""
        later = [
            int(one["version"]) for one in self._base.dataset.versions() if int(one["version"]) > self.version
        ]

        def has_merged(version: int) -> bool:
            details = read_base_manifest(self.storage, version).details
            return details is not None and details.newest_merged(region_id) >= generation

        at = bisect_left(later, 1, key=has_merged)
        return later[at] if at < len(later) else None


class _NoPlaces(KeyPlaces):
    """Never knows where a key is: to read all keys of the past is not worth it."""

    def __init__(self) -> None:
        pass

    def find(self, base: BaseTable, keys: KeySet) -> None:
        """Nothing."""


_NO_PLACES = _NoPlaces()


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
            return NotFoundError(f"table {newest.name!r} has no version {version} ({shorten_error(error)})")
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
