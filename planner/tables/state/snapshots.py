"""Takes snapshots of a table, and finds its regions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lance_gateway.execnodes.storage.data_files import Place
from lance_gateway.memwal.base.index_details import MemWalIndexDetails, RegionSpec
from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.memwal.regions.generation_numbers import RegionMismatchError, check_generations
from lance_gateway.memwal.regions.manifest import (
    FlushedGeneration,
    RegionManifest,
    are_newest,
    list_regions,
    read_latest_manifest,
    read_latest_manifests,
)
from lance_gateway.memwal.regions.region_ids import (
    can_be_identity_region,
    find_region_values,
)
from lance_gateway.memwal.regions.region_snapshots import read_region_snapshots
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.predicates.pruning import RegionAssignments
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.generations import (
    GenerationDataset,
    GenerationVanishedError,
    open_generation,
)
from lance_gateway.planner.tables.sources.log_tail import RegionLog
from lance_gateway.planner.tables.sources.snapshot import Consistency, RegionSnapshot, TableSnapshot
from lance_gateway.planner.tables.state.log_reader import LogReader
from lance_gateway.planner.tables.state.table_state import Confirmed, Newest, RememberedRegions, TableState

SNAPSHOT_ATTEMPTS = 4
OPEN_GENERATION_BYTES = 1 << 16
"""What an open dataset is booked at in the cache."""


@dataclass(frozen=True, slots=True)
class _GenerationName:
    """Cache key of an open generation.

    With its number: a description of a snapshot may give another one than the manifest does.
    """

    place: Place
    region_id: str
    path: str
    generation: int


class Snapshots:
    """Take snapshots of a table. Thread-safe.

    Args:
        name: of the table, in the catalog.
        cache: for open generations.
        logs: reads the table's logs.
        newest: finds the newest version of the base table.
    """

    def __init__(self, name: str, cache: ByteCache, logs: LogReader, newest: Newest) -> None:
        self._name = name
        self._storage = logs.storage
        self._cache = cache
        self._logs = logs
        self._newest = newest

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """Return all regions with their region values; the same object until they change."""
        details = base.details
        if details is None:
            return RegionAssignments()
        state = self._newest.state
        if consistency == "snapshot":
            return self._read_remembered(state, base).assignments
        recorded_state, specs = state.recorded_state, details.region_specs
        region_ids = list_regions(self._storage)
        source, source_specs, assigned = state.assigned
        is_same = source is recorded_state and source_specs == specs
        if is_same and assigned.region_ids == region_ids:
            return assigned
        known = {region_id: state.manifests.get(region_id) for region_id in region_ids}
        unread = [region_id for region_id, manifest in known.items() if manifest is None]
        known |= self._read_newest_manifests(state, unread)
        present = [manifest for manifest in known.values() if manifest is not None]
        if not is_same or assigned.region_ids != tuple(one.region_id for one in present):
            values = find_named_values(self._storage, state, specs, present)
            assigned = RegionAssignments.of(present, specs, values)
            # Reading has changed the state. What others changed meanwhile is read by the next who asks.
            recorded_state = state.recorded_state
            is_newest = all(state.manifests.get(one) is manifest for one, manifest in known.items())
            state.assigned = recorded_state if is_newest else None, specs, assigned
        return assigned

    def confirm(self) -> Confirmed | None:
        """Check in parallel whether the known state of the table is still the newest; see `Table.confirm`."""
        state, base, started = self._newest.state, self._newest.last, time.monotonic()
        if base is None or base.place != state.place:
            return None
        regions = RegionAssignments()
        requests: list[Callable[[], bool]] = [*self._newest.list_checks(base)]
        if base.details is not None:
            source, specs, regions = state.assigned
            if source is not state.recorded_state or specs != base.details.region_specs:
                return None
            requests.append(lambda: list_regions(self._storage) == regions.region_ids)
        found = [state.manifests.get(region_id) for region_id in regions.region_ids]
        manifests = [one for one in found if one is not None]
        if len(manifests) < len(found):
            return None
        requests.append(lambda: are_newest(self._storage, manifests))
        logs: list[Callable[[], int | None]] = [
            partial(self._logs.find_end, state, manifest) for manifest in manifests
        ]
        answers = self._storage.each(lambda ask: ask(), [*requests, *logs])
        if not all(answers[: len(requests)]):
            return None
        ends = dict(zip(regions.region_ids, answers[len(requests) :], strict=True))
        return Confirmed(started, base, regions, {one.region_id: one for one in manifests}, ends)

    def take(
        self,
        needed: Sequence[str],
        consistency: Consistency,
        after: float,
        confirmed: Confirmed | None = None,
    ) -> TableSnapshot:
        """Take a snapshot, or reuse one that was taken after a time of the monotonic clock; see `Table`."""
        taken_at, last = self._newest.state.last.get(consistency, (-math.inf, None))
        if last is not None and taken_at > after and all(one in last.regions for one in needed):
            return _reuse_last(last, last.base, {one: last.regions[one] for one in needed})
        failure: Exception | None = None
        for _ in range(SNAPSHOT_ATTEMPTS):
            state = self._newest.state
            started = time.monotonic() if confirmed is None else confirmed.at
            try:
                taken = self._take(state, needed, consistency, confirmed)
            except (GenerationVanishedError, FileNotFoundError) as error:
                # Merged and cleaned up between two reads: read the manifests again.
                for region_id in needed:
                    state.forget(region_id)
                failure, confirmed = error, None
                continue
            failure = None
            if taken is not None:
                keep_last(state, consistency, started, taken)
                return taken
            confirmed = None
        if isinstance(failure, LanceGatewayError):
            raise failure
        reason = "it is dropped and recreated" if failure is None else f"files vanish ({failure})"
        msg = f"table {self._name!r}: {reason} while it is read; retry"
        raise UnavailableError(msg) from failure

    def read_manifests(self) -> tuple[RegionManifest, ...]:
        """The newest manifest of every region.

        Raises:
            LanceGatewayError: one can't be read.
        """
        self._newest.find()  # Detects whether the table was recreated.
        found = self._read_newest_manifests(self._newest.state, list_regions(self._storage))
        return tuple(manifest for manifest in found.values() if manifest is not None)

    def _take(
        self,
        state: TableState,
        needed: Sequence[str],
        consistency: Consistency,
        confirmed: Confirmed | None,
    ) -> TableSnapshot | None:
        """Try to take a snapshot; return None if the table turns out to be recreated.

        What did not change since the last snapshot is the same object.
        """
        if confirmed is not None:
            manifests: dict[str, RegionManifest | None] = {one: confirmed.manifests[one] for one in needed}
            present = [confirmed.manifests[one] for one in needed]
            logs: Mapping[str, RegionLog] = self._logs.read_unflushed(state, present, confirmed.ends)
            base = confirmed.base
        # Manifests, then logs, then the base version: this order must not change (ADR 5).
        elif consistency == "snapshot":
            manifests = self._read_remembered_manifests(state, needed)
            logs = {}
            base = self._newest.find()
        else:
            manifests = self._read_newest_manifests(state, needed)
            present = [manifest for manifest in manifests.values() if manifest is not None]
            logs = {}
            if consistency == "strong":
                logs = self._logs.read_unflushed(state, present)
            base = self._newest.find()
        if base.place != state.place:
            return None
        merged = base.merged_generations
        if consistency != "snapshot":
            try:
                given_up = self._find_given_up(state, base, present)
            except RegionMismatchError:
                if self._newest.find() is base:
                    raise
                return None
            logs = {one: log for one, log in logs.items() if one not in given_up}
        tails = self._logs.tails(state, logs, base)
        _, last = state.last.get(consistency, (0.0, TableSnapshot(base, {})))
        regions = {}
        for region_id in needed:
            manifest = manifests.get(region_id)
            newest_merged = merged.get(region_id, 0)
            tail = tails.get(region_id)
            before = last.regions.get(region_id)
            if (
                before is not None
                and before.manifest is manifest
                and before.newest_merged == newest_merged
                and before.tail is tail
            ):
                regions[region_id] = before
                continue
            generations: tuple[GenerationDataset, ...] = ()
            if manifest is not None:
                is_remembered = consistency == "snapshot"
                generations = self._open_unmerged(base, manifest, newest_merged, is_remembered=is_remembered)
            regions[region_id] = RegionSnapshot(region_id, generations, tail, manifest, newest_merged)
        return _reuse_last(last, base, regions)

    def _find_given_up(
        self, state: TableState, base: BaseTable, manifests: Sequence[RegionManifest]
    ) -> frozenset[str]:
        """Return the ids of regions that were given up; what was checked last is not checked again.

        Raises:
            RegionMismatchError: generations of a region don't agree with the base version.
        """
        checked_base, checked, given_up = state.checked
        if checked_base is not base or checked != manifests:
            given_up = check_generations(self._storage, manifests, base.merged_generations)
            state.checked = base, manifests, given_up
        return given_up

    def _read_remembered(self, state: TableState, base: BaseTable) -> RememberedRegions:
        """Read the regions that the MemWAL index remembers, once for each version of it."""
        found, details = state.remembered, base.details or MemWalIndexDetails()
        if found is None or found.details is not details:
            found = RememberedRegions(details, read_region_snapshots(self._storage, base.version, details))
            state.remembered = found
        return found

    def _read_remembered_manifests(
        self, state: TableState, region_ids: Sequence[str]
    ) -> dict[str, RegionManifest | None]:
        """Return the manifests that the index remembers; the newest manifest if it only has the region id."""
        remembered = self._read_remembered(state, self._newest.find()).manifests
        named = [
            region_id for region_id in region_ids if region_id in remembered and remembered[region_id] is None
        ]
        return {**remembered, **self._read_newest_manifests(state, named)}

    def _open_unmerged(
        self, base: BaseTable, manifest: RegionManifest, newest_merged: int, *, is_remembered: bool
    ) -> tuple[GenerationDataset, ...]:
        """Open the generations that the base version lacks.

        The index of a clone remembers regions of the original table, of which it has no or older manifests.
        """
        try:
            return self.open_generations(
                base, manifest.region_id, manifest.unmerged_generations(newest_merged)
            )
        except GenerationVanishedError:
            newest = read_latest_manifest(self._storage, manifest.region_id) if is_remembered else manifest
            if newest is not None and newest.version >= manifest.version:
                raise
            return ()

    def _read_newest_manifests(
        self, state: TableState, region_ids: Sequence[str]
    ) -> dict[str, RegionManifest | None]:
        found = read_latest_manifests(self._storage, region_ids, cached=state.manifests)
        newest = dict(zip(region_ids, found, strict=True))
        for region_id, manifest in newest.items():
            before = state.manifests.get(region_id)
            if manifest is before:
                continue
            if manifest is None:
                state.manifests.pop(region_id, None)
            else:
                state.manifests[region_id] = manifest
            if before is None or manifest is None or not _has_same_assignment(before, manifest):
                state.recorded_state = object()
        return newest

    def open_generations(
        self, base: BaseTable, region_id: str, flushed: Iterable[FlushedGeneration]
    ) -> tuple[GenerationDataset, ...]:
        """Open flushed generations of a region.

        Raises:
            GenerationVanishedError: the directory of one is gone.
            LanceGatewayError: one can't be read.
        """

        def open_cached(name: _GenerationName) -> GenerationDataset:
            return self._cache.compute(
                name,
                lambda: open_generation(base, region_id, name.generation, name.path),
                lambda _: OPEN_GENERATION_BYTES,
            )

        names = [_GenerationName(base.place, region_id, one.path, one.generation) for one in flushed]
        known: list[GenerationDataset | None] = self._cache.get_many(names)
        missing = [name for name, one in zip(names, known, strict=True) if one is None]
        # One is opened here, since those who open many one by one do so in threads of the storage.
        each = self._storage.each if len(missing) > 1 else map
        opened = dict(zip(missing, each(open_cached, missing), strict=True))
        return tuple([one or opened[name] for name, one in zip(names, known, strict=True)])


def keep_last(state: TableState, consistency: Consistency, taken_at: float, taken: TableSnapshot) -> None:
    """Keep a snapshot for reuse, unless a newer one was taken meanwhile."""
    before = state.last.get(consistency)
    if before is None or before[0] <= taken_at:
        state.last[consistency] = taken_at, taken


def _reuse_last(last: TableSnapshot, base: BaseTable, regions: Mapping[str, RegionSnapshot]) -> TableSnapshot:
    # Regions are compared by identity, and in their order.
    is_same = base is last.base and list(regions.items()) == list(last.regions.items())
    return last if is_same else TableSnapshot(base, regions)


def find_named_values(
    storage: Storage, state: TableState, specs: Sequence[RegionSpec], manifests: Sequence[RegionManifest]
) -> Mapping[str, Mapping[str, bytes]]:
    """Return values of regions that record none, by region id, as read from a row of the region.

    Args:
        storage: directory of the table.
        state: of the table; values that are found are added.
        specs: of the table.
        manifests: of its regions.

    Raises:
        LanceGatewayError: a region can't be read.
    """
    by_id = {spec.spec_id: spec for spec in specs}
    asked = [
        (spec, manifest)
        for manifest in manifests
        if not manifest.region_values
        and manifest.region_id not in state.named
        and (spec := by_id.get(manifest.region_spec_id)) is not None
        and can_be_identity_region(spec, manifest.region_id)
    ]
    if asked:
        found = storage.each(lambda pair: find_region_values(storage, *pair), asked)
        state.named |= {
            one.region_id: values for (_, one), values in zip(asked, found, strict=True) if values
        }
    return state.named


def _has_same_assignment(one: RegionManifest, other: RegionManifest) -> bool:
    return (one.region_spec_id, one.region_values) == (other.region_spec_id, other.region_values)
