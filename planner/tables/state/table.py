"""A table of the catalog: finds its newest state cheaply and takes snapshots of it."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa

from execnodes.storage.data_files import Place
from execnodes.storage.source import ColumnCache
from memwal.base.index_details import MemWalIndexDetails, merged_generations
from memwal.errors import (
    LanceGatewayError,
    UnavailableError,
)
from memwal.regions.generation_numbers import check_listed, check_not_restarted, is_given_up, is_restarted
from memwal.regions.manifest import (
    FlushedGeneration,
    RegionManifest,
    list_regions,
    read_latest_manifest,
    read_latest_manifests,
)
from memwal.regions.region_snapshots import read_region_snapshots
from memwal.regions.wal import WalEntry, wal_entry_path
from memwal.storage.files import Storage
from memwal.writing import OwnTail, TableWriter, WriteOptions
from planner.predicates.pruning import RegionAssignments
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.caches import ByteCache
from planner.tables.sources.generations import GenerationDataset, GenerationVanishedError, open_generation
from planner.tables.sources.keys import KeyPlaces
from planner.tables.sources.log_tail import Tail
from planner.tables.sources.region_log import RegionLog
from planner.tables.sources.snapshot import Consistency, RegionSnapshot, SnapshotDescription, TableSnapshot
from planner.tables.state.described_snapshot import DescribedSnapshots
from planner.tables.state.log_reader import LogReader
from planner.tables.state.table_state import (
    KnownState,
    NewestBase,
    RememberedRegions,
    check_ids,
    named_values,
)
from planner.tables.state.table_writing import TableWriting

SNAPSHOT_ATTEMPTS = 4
OPEN_GENERATION_BYTES = 1 << 16
"""What an open dataset is booked at in the cache."""


@dataclass(frozen=True, slots=True)
class _OpenGeneration:
    """Names a generation. Equal if it is the same directory of the same table.

    With its number: a description of a snapshot may give another one than the manifest does.
    """

    place: Place
    region_id: str
    path: str
    generation: int


class Table:
    """Safe to share between threads.

    Args:
        name: in the catalog.
        storage: directory of the table.
        cache: for generations, WAL entries, keys and masks.
        columns: columns of flushed generations.
        places: where keys of base tables are.
        session: the `lance.Session` in which the table's files are opened, until it is made anew.
        writing: how it is written; None where it is only read.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        cache: ByteCache,
        columns: ColumnCache,
        places: KeyPlaces,
        session: Any,  # noqa: ANN401 (lance types)
        writing: WriteOptions | None = None,
    ) -> None:
        self.name = name
        self.storage = storage
        self.cache = cache
        self.columns = columns
        self.places = places
        self._newest = NewestBase(name, storage, session)
        self._writing = TableWriting(name, storage, writing, self._newest)
        self._logs = LogReader(storage, cache, self.own_tail, lambda: self._newest.last)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the newest base version, as it declares them."""
        declared: pa.Schema = self.base().dataset.schema
        return declared

    @property
    def session(self) -> Any:  # noqa: ANN401 (lance types)
        """The `lance.Session` in which files of the table are opened."""
        return self._newest.known.session

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Key columns, in key order; empty where the table declares none."""
        return self.base().primary_key

    @property
    def last_snapshot(self) -> TableSnapshot | None:
        """The newest snapshot that a query took; None where there was none."""
        return max(self._newest.known.last.copy().values(), key=itemgetter(0), default=(0.0, None))[1]

    @property
    def looked_at(self) -> float | None:
        """When a query took a snapshot last, in seconds of the monotonic clock; None where none did."""
        return max((taken_at for taken_at, _ in self._newest.known.last.copy().values()), default=None)

    @property
    def described_time(self) -> str:
        """For EXPLAIN: as of when the table is read; "" where that is now."""
        return ""

    def writer(self) -> TableWriter:
        """Writes to the table; the same object while it is the same table.

        Raises:
            PreconditionError: the gateway only reads.
        """
        return self._writing.writer()

    def read_by(self, other: Table) -> Table:
        """What this table shows, where `other` reads the table in its directory."""
        return other

    @property
    def opened_writer(self) -> TableWriter | None:
        """What `writer` made; None where nothing was written yet."""
        return self._writing.opened

    def wrote(self) -> None:
        """Take note that rows may have been written: no older snapshot is taken again."""
        self._writing.wrote()

    def close(self, timeout_seconds: float | None = None) -> Sequence[str]:
        """Flush what was written; see `TableWriting.close`."""
        return self._writing.close(timeout_seconds)

    def abandon(self) -> None:
        """Forget what was written and is not in storage: the table is dropped."""
        self._writing.abandon()

    def base(self) -> BaseTable:
        """The newest version of the base table.

        Raises:
            NotFoundError: the table was dropped.
            CorruptDataError: its manifest can't be read.
        """
        return self._newest.find()

    def recent_base(self) -> BaseTable:
        """The newest version, or on S3 the one that was the newest within the last second: for its columns.

        Raises:
            LanceGatewayError: as `base`.
        """
        return self._newest.recent()

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """All regions and what is known of their region values; the same object while they last."""
        details = base.details
        if details is None:
            return RegionAssignments()
        kept = self._newest.known
        if consistency == "snapshot":
            return self._remembered(kept, base).assignments
        state = kept.recorded_state
        region_ids = list_regions(self.storage)
        source, specs, assigned = kept.assigned
        is_same = source is state and specs == details.region_specs
        if is_same and assigned.region_ids == region_ids:
            return assigned
        known = {region_id: kept.manifests.get(region_id) for region_id in region_ids}
        known |= self._newest_manifests(kept, [region_id for region_id, one in known.items() if one is None])
        present = [manifest for manifest in known.values() if manifest is not None]
        if not is_same or assigned.region_ids != tuple(one.region_id for one in present):
            specs = details.region_specs
            assigned = RegionAssignments.of(present, specs, named_values(self.storage, kept, specs, present))
            kept.assigned = state, specs, assigned
        return assigned

    def snapshot(
        self, regions: Iterable[str], consistency: Consistency = "strong", max_staleness_ms: int = 0
    ) -> TableSnapshot:
        """Take a snapshot of some regions and the base table.

        Args:
            regions: ids of the regions that are needed.
            consistency: "strong" reads the newest manifests and the WAL, "flushed" the newest manifests,
                "snapshot" what the MemWAL index remembers.
            max_staleness_ms: a snapshot this young may be taken again.

        Raises:
            GenerationVanishedError: a generation that no base version contains is gone.
            PreconditionError: a region has rows under two ids.
            LanceGatewayError: something can't be read.
        """
        needed = tuple(regions)
        if max_staleness_ms > 0:
            taken_at, last = self._newest.known.last.get(consistency, (-math.inf, None))
            if (
                last is not None
                and taken_at > self._writing.written_at
                and (time.monotonic() - taken_at) * 1000 <= max_staleness_ms
                and all(region_id in last.regions for region_id in needed)
            ):
                return last.of(last.base, {one: last.regions[one] for one in needed})
        failure: Exception | None = None
        for _ in range(SNAPSHOT_ATTEMPTS):
            kept = self._newest.known
            started = time.monotonic()
            try:
                taken = self._take(kept, needed, consistency)
            except (GenerationVanishedError, FileNotFoundError) as error:
                # Merged and cleaned up between two reads: the manifests tell, read anew.
                for region_id in needed:
                    kept.forget(region_id)
                failure = error
                continue
            failure = None
            if taken is not None:
                kept.keep_last(consistency, started, taken)
                return taken
        if isinstance(failure, LanceGatewayError):
            raise failure
        reason = "it is dropped and made anew" if failure is None else f"files vanish ({failure})"
        msg = f"table {self.name!r}: {reason} while it is read; retry"
        raise UnavailableError(msg) from failure

    def reopen(self, description: SnapshotDescription) -> TableSnapshot:
        """Open the very snapshot that was described, whatever the table is now.

        Raises:
            SnapshotGoneError: part of it was merged or cleaned up since, or the table was made anew.
            LanceGatewayError: something can't be read.
        """
        reader = DescribedSnapshots(self.name, self._newest, self._logs, self.open_generations)
        return reader.open(description)

    def manifests(self) -> tuple[RegionManifest, ...]:
        """The newest manifest of every region.

        Raises:
            LanceGatewayError: one can't be read.
        """
        self.base()  # Finds out whether the table was made anew.
        found = self._newest_manifests(self._newest.known, list_regions(self.storage))
        return tuple(manifest for manifest in found.values() if manifest is not None)

    def unflushed(self, manifest: RegionManifest) -> tuple[WalEntry, ...]:
        """WAL entries with rows that no generation of a region's newest manifest covers.

        Raises:
            FileNotFoundError: some were flushed and removed since the manifest was read.
            LanceGatewayError: one can't be read.
        """
        region_id, kept = manifest.region_id, self._newest.known
        return tuple(
            self._logs.entry(kept, region_id, position)
            for position in self._logs.unflushed(kept, manifest).positions
        )

    def generation(self, region_id: str, flushed: FlushedGeneration) -> GenerationDataset:
        """Open one flushed generation.

        Raises:
            GenerationVanishedError: it was merged and cleaned up.
            LanceGatewayError: it can't be read.
        """
        return self.open_generations(self.base(), region_id, (flushed,))[0]

    def _take(
        self, kept: KnownState, needed: tuple[str, ...], consistency: Consistency
    ) -> TableSnapshot | None:
        """One attempt; None where the table turns out to be another than the one whose state is known.

        What did not change since the last snapshot is the same object.
        """
        # Manifests, then logs, then the base version: this order must not change (ADR 5).
        if consistency == "snapshot":
            manifests = self._remembered_manifests(kept, needed)
            logs: Mapping[str, RegionLog] = {}
            base = self.base()
        else:
            manifests = self._newest_manifests(kept, needed)
            present = [manifest for manifest in manifests.values() if manifest is not None]
            logs = {}
            if consistency == "strong":
                logs = self._logs.unflushed_each(kept, present)
            base = self.base()
        if base.place != kept.place:
            return None
        merged = merged_generations(base.details)
        _, last = kept.last.get(consistency, (0.0, TableSnapshot(base, {})))
        regions = {}
        for region_id in needed:
            manifest = manifests.get(region_id)
            newest_merged = merged.get(region_id, 0)
            log = logs.get(region_id)
            if manifest is not None and consistency != "snapshot":
                if is_given_up(manifest, newest_merged):
                    log = None
                elif not self._continues(manifest, base, newest_merged):
                    return None
            tail = self._tail(kept, base, log, newest_merged)
            before = last.regions.get(region_id)
            if (
                before is not None
                and before.manifest is manifest
                and before.newest_merged == newest_merged
                and before.tail is tail
            ):
                regions[region_id] = before
                continue
            unmerged = () if manifest is None else manifest.unmerged(newest_merged)
            try:
                generations = self.open_generations(base, region_id, unmerged)
            except GenerationVanishedError:
                if consistency != "snapshot" or manifest is None or self._has_had(manifest):
                    raise
                generations = ()
            regions[region_id] = RegionSnapshot(region_id, generations, tail, manifest, newest_merged)
        if base.details is not None and base.primary_key:
            unflushed = {region_id for region_id, one in regions.items() if one.tail is not None}
            found = {region_id: manifests.get(region_id) for region_id in needed}
            check_ids(self.name, kept, base.details, found, unflushed)
        return last.of(base, regions)

    def _continues(self, manifest: RegionManifest, base: BaseTable, newest_merged: int) -> bool:
        """Whether a region goes on from what the base version contains; False where the base is another now.

        Raises:
            RegionMismatchError: it does not.
        """
        check_listed(self.storage, manifest, newest_merged)
        if is_restarted(manifest, newest_merged):
            # As a rule, it was flushed and merged since the manifest was read.
            newest = read_latest_manifest(self.storage, manifest.region_id, known=manifest)
            if self.base() is not base:
                return False
            if newest is not None:
                check_not_restarted(self.storage, newest, newest_merged)
        return True

    def _tail(
        self, kept: KnownState, base: BaseTable, log: RegionLog | None, newest_merged: int
    ) -> Tail | None:
        """Rows of a region's log that are in no generation; None where there are none.

        Raises:
            FileNotFoundError: some were flushed, merged and removed since the manifest was read.
        """
        if log is None:
            return None
        region_id = log.region_id
        if log.floor <= newest_merged:
            # Flushed and merged since the manifest was read.
            if not self.storage.exists(wal_entry_path(region_id, log.after + 1))[0]:
                msg = f"the log of region {region_id} was cleaned up behind entry {log.after}"
                raise FileNotFoundError(msg)  # Newer entries were not found behind the gap.
            log = log.flushed_up_to(log.after, newest_merged + 1, base)
        return log.tail(base, partial(self._entry, kept, region_id))

    def _remembered(self, kept: KnownState, base: BaseTable) -> RememberedRegions:
        """What the index remembers of regions; read once for each version of it."""
        found, details = kept.remembered, base.details or MemWalIndexDetails()
        if found is None or found.details is not details:
            found = RememberedRegions(details, read_region_snapshots(self.storage, base.version, details))
            kept.remembered = found
        return found

    def _remembered_manifests(
        self, kept: KnownState, region_ids: Sequence[str]
    ) -> dict[str, RegionManifest | None]:
        """Manifests as the index remembers them; the newest of regions that it only knows to be there."""
        remembered = self._remembered(kept, self.base()).manifests
        named = [one for one in region_ids if one in remembered and remembered[one] is None]
        return {**remembered, **self._newest_manifests(kept, named)}

    def _has_had(self, manifest: RegionManifest) -> bool:
        """Whether a remembered region is this table's: versions of its manifest only grow.

        The index of a clone remembers regions of the table that it was made of.
        """
        newest = read_latest_manifest(self.storage, manifest.region_id)
        return newest is not None and newest.version >= manifest.version

    def _newest_manifests(
        self, kept: KnownState, region_ids: Sequence[str]
    ) -> dict[str, RegionManifest | None]:
        found = read_latest_manifests(self.storage, region_ids, known=kept.manifests)
        newest = dict(zip(region_ids, found, strict=True))
        for region_id, manifest in newest.items():
            before = kept.manifests.get(region_id)
            if manifest is before:
                continue
            if manifest is None:
                kept.manifests.pop(region_id, None)
            else:
                kept.manifests[region_id] = manifest
            if before is None or manifest is None or not _records_the_same(before, manifest):
                kept.recorded_state = object()
        return newest

    def open_generations(
        self, base: BaseTable, region_id: str, flushed: Iterable[FlushedGeneration]
    ) -> tuple[GenerationDataset, ...]:
        """Open flushed generations of a region.

        Raises:
            GenerationVanishedError: the directory of one is gone.
            LanceGatewayError: one can't be read.
        """

        def opened(generation: int, path: str) -> GenerationDataset:
            return self.cache.compute(
                _OpenGeneration(base.place, region_id, path, generation),
                lambda: open_generation(base, region_id, generation, path),
                lambda _: OPEN_GENERATION_BYTES,
            )

        return tuple(opened(one.generation, one.path) for one in flushed)

    def _entry(self, kept: KnownState, region_id: str, position: int) -> WalEntry:
        """An entry of a region's log, from memory where this process wrote it."""
        own = self.own_tail(region_id)
        if own is not None and own.first <= position <= own.last:
            at = bisect_left(own.entries, position, key=lambda one: one.position)
            if at < len(own.entries) and own.entries[at].position == position:
                return own.entries[at]
        return self._logs.entry(kept, region_id, position)

    def own_tail(self, region_id: str) -> OwnTail | None:
        """What this process wrote to a region and holds in memory; makes no writer.

        Waits for rows that were acknowledged before they are durable.
        """
        return self._writing.tail(region_id)


def _records_the_same(one: RegionManifest, other: RegionManifest) -> bool:
    return (one.region_spec_id, one.region_values) == (other.region_spec_id, other.region_values)
