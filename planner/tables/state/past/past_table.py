"""A table at a past moment: a base version, and the generations that were flushed and not merged then.

Where a moment is asked for, and not a version, the rows that were in the log then belong to it (ADR 91).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property

from lance_gateway.execnodes import KeySet
from lance_gateway.memwal.base.index_details import read_base_manifest
from lance_gateway.memwal.base.version_list import list_manifests
from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.regions.generation_numbers import check_not_restarted
from lance_gateway.memwal.regions.manifest import (
    RegionManifest,
    list_regions,
    manifest_directory,
    manifest_path,
    parse_manifest_version,
    read_latest_manifest,
)
from lance_gateway.memwal.regions.wal import (
    WalEntry,
    check_log_is_read,
    find_last_wal_position,
    wal_entry_path,
)
from lance_gateway.memwal.writing import OwnTail
from lance_gateway.planner.predicates.pruning import RegionAssignments
from lance_gateway.planner.sql.text.as_of import format_moment
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.sources.generations import GenerationVanishedError
from lance_gateway.planner.tables.sources.keys import KeyPlaces
from lance_gateway.planner.tables.sources.log_tail import Tail
from lance_gateway.planner.tables.sources.snapshot import Consistency, RegionSnapshot, TableSnapshot
from lance_gateway.planner.tables.state.table import Table


class PastTable(Table):
    """Table at a past moment, which never changes. Thread-safe.

    It shares caches of files with the current table. Decoded columns have a small cache of their own, so that
    reading the past evicts nothing that current queries need.

    Attributes:
        version: of the base.
        moment: microseconds since 1970: what was flushed later is left out.
        has_log: whether the rows that were in the log at that moment belong to it.
        today: the table as it is now.

    Args:
        newest: the table of today.
        base: its version.
        moment: see the attribute.
        columns: keeps decoded columns of past versions.
        has_log: see the attribute.
    """

    def __init__(
        self, newest: Table, base: BaseTable, moment: int, columns: DecodedColumns, *, has_log: bool = False
    ) -> None:
        super().__init__(
            newest.name,
            newest.storage,
            newest.cache,
            columns,
            _NO_KEY_PLACES,
            base.session,
            own_tails=_hold_nothing,
        )
        self.version = base.version
        self.moment = moment
        self.has_log = has_log
        self._tails: dict[str, Tail | None] = {}
        self._base = base
        self.today = newest

    @property
    def described_time(self) -> str:
        """Time of the table for EXPLAIN."""
        return f"as of {format_moment(self.moment)}"

    def replace_with(self, other: Table) -> Table:  # noqa: ARG002
        """Return this table, which needs no newer state."""
        return self

    def base(self) -> BaseTable:
        """Return the base version."""
        return self._base

    def read_log_entry(self, region_id: str, position: int) -> WalEntry:
        """Read an entry of a log, which past tables share with today's; see `Table.read_log_entry`."""
        return self.today.read_log_entry(region_id, position)

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """Return all regions of that moment; see `Table.assignments`."""
        del consistency
        return RegionAssignments() if base.details is None else self._assignments

    def take_snapshot(
        self, regions: Iterable[str], consistency: Consistency = "strong", max_staleness_ms: int = 0
    ) -> TableSnapshot:
        """Return the base version and the generations on top of it.

        Raises:
            PreconditionError: a generation that the version needs was cleaned up.
            LanceGatewayError: something can't be read.
        """
        del consistency, max_staleness_ms
        merged = self._base.merged_generations
        found = {}
        needed_ids = tuple(regions)
        for region_id in needed_ids:
            manifest = self._manifests.get(region_id)
            newest_merged = merged.get(region_id, 0)
            if manifest is not None:
                check_not_restarted(self.storage, manifest, newest_merged)
            needed = () if manifest is None else manifest.unmerged_generations(newest_merged)
            flushed = range(newest_merged + 1, 1 if manifest is None else manifest.current_generation)
            if len(needed) < len(flushed):
                # Merged by a version that is gone, and taken out of the manifest before this moment.
                raise self._build_cleaned_up_error(region_id, flushed)
            try:
                generations = self.open_generations(self._base, region_id, needed)
            except GenerationVanishedError as error:
                raise self._build_cleaned_up_error(region_id, [one.generation for one in needed]) from error
            if self.has_log and manifest is not None and region_id not in self._tails:
                self._tails[region_id] = self._read_tail(manifest, newest_merged)
            found[region_id] = RegionSnapshot(region_id, generations, self._tails.get(region_id))
        return TableSnapshot(self._base, found)

    def _read_tail(self, manifest: RegionManifest, newest_merged: int) -> Tail | None:
        """Return the rows that were in the log of a region at that moment.

        Args:
            manifest: the newest of that moment.
            newest_merged: newest generation that the base version contains.

        Raises:
            PreconditionError: entries were cleaned up that may have been there.
            LanceGatewayError: one can't be read.
        """
        region_id, after = manifest.region_id, manifest.replay_after_wal_entry_position
        last = find_last_wal_position(self.storage, region_id, after=after)
        check_log_is_read(self.storage, manifest, last)
        end = after + bisect_right(
            range(after + 1, last + 1),
            self.moment,
            key=lambda position: self._read_time(wal_entry_path(region_id, position)),
        )
        newest = read_latest_manifest(self.storage, region_id)
        if end == last and newest is not None and newest.replay_after_wal_entry_position > last:
            raise self._build_log_gone_error(region_id, last)
        try:
            positions = []
            for position in range(after + 1, end + 1):
                entry = self.read_log_entry(region_id, position)
                if entry.is_fence or (entry.generation or newest_merged + 1) <= newest_merged:
                    continue
                if manifest.replay_start.is_unflushed(position, entry.generation):
                    positions.append(position)
            return self.today.open_tail(self._base, region_id, tuple(positions))
        except FileNotFoundError as error:
            raise self._build_log_gone_error(region_id, after) from error

    def _build_log_gone_error(self, region_id: str, last: int) -> PreconditionError:
        return PreconditionError(
            f"table {self.name!r} {self.described_time}: log entries of region {region_id} behind position "
            f"{last} were flushed and cleaned up since, and which of them were there then is no longer "
            f"known. FOR VERSION AS OF {self.version} reads what was flushed when that version was "
            "committed; lance-gateway pipeline clean --keep-changes keeps log entries for longer"
        )

    @cached_property
    def _manifests(self) -> Mapping[str, RegionManifest]:
        """Newest manifest of each region at that moment, by region id.

        Raises:
            PreconditionError: what a region had flushed then is not known.
        """
        merged = self.today.base().merged_generations
        ids = sorted({*list_regions(self.storage), *merged})
        found = self.storage.each(lambda one: self._find_manifest(one, merged.get(one, 0)), ids)
        return {one.region_id: one for one in found if one is not None}

    @cached_property
    def _assignments(self) -> RegionAssignments:
        details = self._base.details
        return RegionAssignments.of(self._manifests.values(), () if details is None else details.region_specs)

    def _find_manifest(self, region_id: str, merged_today: int) -> RegionManifest | None:
        """Return the manifest of a region at that moment; None if the region was created later.

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
        at = bisect_right(
            versions, self.moment, key=lambda version: self._read_time(manifest_path(region_id, version))
        )
        if at and (at == len(versions) or versions[at] == versions[at - 1] + 1):
            return self._read_manifest(region_id, versions[at - 1])
        if at or (versions and versions[0] > 1):
            since = format_moment(self._read_time(manifest_path(region_id, versions[at])))
            msg = (
                f"table {self.name!r} {self.described_time}: what region {region_id} had flushed then is no "
                f"longer known, since its manifests of before {since} were cleaned up. Read a version that "
                "was committed later (system.versions lists them)"
            )
            raise PreconditionError(msg)
        self._check_is_later(region_id, merged_today, is_there=bool(versions))
        return None

    def _check_is_later(self, region_id: str, merged_today: int, *, is_there: bool) -> None:
        """Refuse a region that had generations before its oldest manifest was written.

        Raises:
            PreconditionError: it had them in another directory, or its manifests have lost their times.
        """
        details = self._base.details
        merged = 0 if details is None else details.newest_merged(region_id)
        flushed = self._read_manifest(region_id, 1).current_generation - 1 if is_there else merged_today
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

    def _read_manifest(self, region_id: str, version: int) -> RegionManifest:
        path = manifest_path(region_id, version)
        return RegionManifest.decode(self.storage.read(path), source=self.storage.locate(path))

    def _read_time(self, path: str) -> int:
        """Return when a file was written, in microseconds since 1970; 0 if it is gone."""
        identity = self.storage.identity(path)
        return 0 if identity is None else identity.written // 1000

    def _build_cleaned_up_error(self, region_id: str, needed: Iterable[int]) -> PreconditionError:
        numbers = list(needed)
        first = self._find_version_with(region_id, numbers[-1])
        hint = "no version is known that has its rows" if first is None else f"version {first} has their rows"
        return PreconditionError(
            f"table {self.name!r} as of version {self.version}: it needs flushed generations {numbers} of "
            f"region {region_id}, of which some were merged later and cleaned up; {hint}"
        )

    def _find_version_with(self, region_id: str, generation: int) -> int | None:
        later = sorted(version for version in list_manifests(self.storage) if version > self.version)

        def has_merged(version: int) -> bool:
            details = read_base_manifest(self.storage, version).details
            return details is not None and details.newest_merged(region_id) >= generation

        at = bisect_left(later, 1, key=has_merged)
        return later[at] if at < len(later) else None


class _NoKeyPlaces(KeyPlaces):
    """Key positions of past tables, which are never read."""

    def __init__(self) -> None:
        pass

    def find(self, base: BaseTable, keys: KeySet) -> None:
        """Return None: positions are unknown."""


_NO_KEY_PLACES = _NoKeyPlaces()


def _hold_nothing(_: Iterable[str]) -> Mapping[str, OwnTail]:
    """Return the rows that this process wrote to a past state: none."""
    return {}


def check_past_access(newest: BaseTable, past: BaseTable) -> None:
    """Refuse a version with columns that an access policy might not know.

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
