"""A table as it was: a version of its base, and the generations that were flushed, not merged, by then."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property

from execnodes import KeySet
from memwal.base.index_details import merged_generations, read_base_manifest
from memwal.errors import PreconditionError
from memwal.regions.generation_numbers import check_not_restarted
from memwal.regions.manifest import RegionManifest, list_regions
from memwal.storage.files import manifest_directory, manifest_path, manifest_version
from planner.predicates.pruning import RegionAssignments
from planner.sql.as_of import moment_text
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.caches import DecodedColumns
from planner.tables.sources.generations import GenerationVanishedError
from planner.tables.sources.keys import KeyPlaces
from planner.tables.sources.snapshot import Consistency, RegionSnapshot, TableSnapshot
from planner.tables.state.table import Table
from planner.tables.state.table_state import check_ids

_NANOSECONDS = 1000
"""In a microsecond."""


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

    def read_by(self, other: Table) -> Table:
        """This very table: what is known of the past stays true."""
        del other
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
        merged = merged_generations(self._base.details)
        found = {}
        needed_ids = tuple(regions)
        if self._base.details is not None and self._base.primary_key:
            then = {region_id: self._manifests.get(region_id) for region_id in needed_ids}
            check_ids(self.name, None, self._base.details, then)
        for region_id in needed_ids:
            manifest = self._manifests.get(region_id)
            if manifest is not None:
                check_not_restarted(self.storage, manifest, merged.get(region_id, 0))
            newest_merged = merged.get(region_id, 0)
            needed = () if manifest is None else manifest.unmerged(newest_merged)
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
        details = self._today.base().details
        merged = merged_generations(details)
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
            and (version := manifest_version(entry.name)) is not None
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
        return 0 if identity is None else identity.written // _NANOSECONDS

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

    def find(self, base: BaseTable, keys: KeySet) -> None:  # noqa: ARG002
        """Nothing."""
        return


_NO_PLACES = _NoPlaces()
