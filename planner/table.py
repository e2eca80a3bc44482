"""A table of the catalog: finds its newest state cheaply and takes snapshots of it."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from execnodes.source import ColumnCache
from memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, UnavailableError
from memwal.index_details import MemWalIndexDetails, decode_region_snapshots
from memwal.manifest import FlushedGeneration, RegionManifest, list_regions, read_latest_manifests
from memwal.storage import Storage
from memwal.wal import WalEntry, last_wal_position, read_wal_entry
from planner.assignments import RegionAssignments
from planner.base_table import BaseTable, open_base_table
from planner.byte_cache import ByteCache
from planner.fresh_rows import (
    GenerationDataset,
    GenerationVanishedError,
    Tail,
    entry_rows,
    open_generation,
)
from planner.key_places import KeyPlaces
from planner.snapshot import (
    MAX_WAL_ENTRIES,
    Consistency,
    RegionDescription,
    RegionSnapshot,
    SnapshotDescription,
    SnapshotGoneError,
    TableSnapshot,
)

SNAPSHOT_ATTEMPTS = 4
OPEN_GENERATION_BYTES = 1 << 16
"""What an open dataset is booked at in the cache."""
TAIL_CHUNKS = 32
"""A tail of more chunks than this is copied into one."""


@dataclass(frozen=True, slots=True)
class WalPositions:
    """WAL entries of one region that are not flushed yet, as far as its log was looked at.

    Attributes:
        after: the manifest's replay position: entries up to it are flushed.
        current_generation: of the manifest: entries of older generations are flushed.
        last: newest position that was looked at.
        entries: (position, generation) of entries with rows, ascending.
    """

    after: int
    current_generation: int
    last: int
    entries: tuple[tuple[int, int | None], ...]


class Table:
    """Safe to share between threads.

    Args:
        name: in the catalog.
        storage: directory of the table.
        cache: for generations, WAL entries, keys and masks.
        columns: columns of flushed generations.
        places: where keys of base tables are.
        session: the `lance.Session` that all datasets share.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        cache: ByteCache,
        columns: ColumnCache,
        places: KeyPlaces,
        session: Any,  # noqa: ANN401 (lance types)
    ) -> None:
        self.name = name
        self.storage = storage
        self.cache = cache
        self.columns = columns
        self.places = places
        self._session = session
        self._lock = threading.Lock()
        self._base: BaseTable | None = None
        self._manifests: dict[str, RegionManifest] = {}
        self._positions: dict[str, WalPositions] = {}
        self._tails: dict[str, Tail] = {}
        self._last: dict[Consistency, TableSnapshot] = {}
        # Region values never change, unless the whole table is dropped and created anew: another object then.
        self._recorded_state = object()
        # What regions record, and for which state, or which index details, that was found out.
        self._assigned: tuple[object, RegionAssignments] = (None, RegionAssignments())
        self._remembered: tuple[object, RegionAssignments] = (None, RegionAssignments())

    @property
    def schema(self) -> pa.Schema:
        """Columns of the newest base version, as it declares them."""
        declared: pa.Schema = self.base().dataset.schema
        return declared

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Key columns, in key order; empty where the table declares none."""
        return self.base().primary_key

    @property
    def last_snapshot(self) -> TableSnapshot | None:
        """The newest snapshot that a query took; None where there was none."""
        return max(list(self._last.values()), key=lambda one: one.taken_at, default=None)

    def base(self) -> BaseTable:
        """The newest version of the base table.

        Raises:
            NotFoundError: the table was dropped.
            CorruptDataError: its manifest can't be read.
        """
        known = self._base
        if known is not None:
            try:
                if known.dataset.latest_version == known.version:
                    return known
            except (OSError, ValueError):
                pass  # Dropped, or unreadable: opening it anew tells which.
        opened = open_base_table(self.name, self.storage, None, self._session)
        with self._lock:
            self._base = opened
        return opened

    def assignments(self, details: MemWalIndexDetails | None, consistency: Consistency) -> RegionAssignments:
        """All regions and the region values that their manifests record; the same object while they last."""
        if details is None:
            return RegionAssignments()
        if consistency == "snapshot":
            source, assigned = self._remembered
            if source is not details:
                assigned = RegionAssignments.of(decode_region_snapshots(details))
                self._remembered = details, assigned
            return assigned
        state = self._recorded_state
        region_ids = list_regions(self.storage)
        source, assigned = self._assigned
        if source is state and assigned.region_ids == region_ids:
            return assigned
        known = {region_id: self._manifests.get(region_id) for region_id in region_ids}
        known |= self._newest_manifests([region_id for region_id, one in known.items() if one is None])
        present = [manifest for manifest in known.values() if manifest is not None]
        if source is not state or assigned.region_ids != tuple(one.region_id for one in present):
            assigned = RegionAssignments.of(present)
            self._assigned = state, assigned
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
            LanceGatewayError: something can't be read.
        """
        needed = tuple(regions)
        if max_staleness_ms > 0:
            last = self._last.get(consistency)
            if (
                last is not None
                and (time.monotonic() - last.taken_at) * 1000 <= max_staleness_ms
                and all(region_id in last.regions for region_id in needed)
            ):
                return TableSnapshot(last.base, {one: last.regions[one] for one in needed}, last.taken_at)
        for attempt in range(SNAPSHOT_ATTEMPTS):
            try:
                taken = self._take(needed, consistency)
            except (GenerationVanishedError, FileNotFoundError) as error:
                # Merged and cleaned up between two reads: the manifests tell, read anew.
                for region_id in needed:
                    self._manifests.pop(region_id, None)
                    self._positions.pop(region_id, None)
                    self._tails.pop(region_id, None)
                if attempt == SNAPSHOT_ATTEMPTS - 1:
                    if isinstance(error, LanceGatewayError):
                        raise
                    msg = f"table {self.name!r}: files vanish while they are read ({error}); retry"
                    raise UnavailableError(msg) from error
            else:
                self._last[consistency] = taken
                return taken
        raise AssertionError

    def reopen(self, description: SnapshotDescription) -> TableSnapshot:
        """Open the very snapshot that was described, whatever the table is now.

        Raises:
            SnapshotGoneError: part of it was merged or cleaned up since, or the table was made anew.
            LanceGatewayError: something can't be read.
        """
        try:
            base = self._described_base(description)
            return TableSnapshot(
                base, {one.region_id: self._described_region(base, one) for one in description.regions}
            )
        except (GenerationVanishedError, FileNotFoundError, NotFoundError) as error:
            raise SnapshotGoneError(self.name, description.base_version, error) from error

    def _described_base(self, description: SnapshotDescription) -> BaseTable:
        version, fingerprint = description.base_version, description.base_fingerprint
        key = ("base", self.storage.uri, version)
        for known in (self._base, self.cache.get(key)):
            if isinstance(known, BaseTable) and (known.version, known.fingerprint) == (version, fingerprint):
                return known
        base = open_base_table(self.name, self.storage, version, self._session)
        if base.fingerprint != fingerprint:
            raise SnapshotGoneError(self.name, version, "the table was dropped and made anew")
        self.cache.put(key, base, OPEN_GENERATION_BYTES)
        return base

    def _described_region(self, base: BaseTable, description: RegionDescription) -> RegionSnapshot:
        region_id, positions = description.region_id, description.wal_positions
        generations = self._open_generations(base, region_id, description.generations)
        tail = None
        if positions:
            entries = self._described_entries(region_id, positions)
            parts = [entry_rows(entry, base) for entry in entries]
            tail = Tail(region_id, positions, pa.concat_tables(parts).combine_chunks(), base.field_names)
        return RegionSnapshot(region_id, generations, tail)

    def _described_entries(self, region_id: str, positions: tuple[int, ...]) -> list[WalEntry]:
        """All entries with rows from the first to the last: caches know a tail by these two positions."""
        first, last = positions[0], positions[-1]
        if last - first < MAX_WAL_ENTRIES:
            entries = [self._wal_entry(region_id, position) for position in range(first, last + 1)]
            entries = [entry for entry in entries if not entry.is_fence]
            if tuple(entry.position for entry in entries) == positions:
                return entries
        msg = f"a snapshot of region {region_id} leaves out WAL entries between {first} and {last}"
        raise InvalidInputError(msg)

    def manifests(self) -> tuple[RegionManifest, ...]:
        """The newest manifest of every region.

        Raises:
            LanceGatewayError: one can't be read.
        """
        found = self._newest_manifests(list_regions(self.storage))
        return tuple(manifest for manifest in found.values() if manifest is not None)

    def unflushed(self, manifest: RegionManifest) -> tuple[WalEntry, ...]:
        """WAL entries with rows that no generation of a region's newest manifest covers.

        Raises:
            FileNotFoundError: some were flushed and removed since the manifest was read.
            LanceGatewayError: one can't be read.
        """
        region_id = manifest.region_id
        return tuple(
            self._wal_entry(region_id, position) for position, _ in self._unflushed(manifest).entries
        )

    def generation(self, region_id: str, flushed: FlushedGeneration) -> GenerationDataset:
        """Open one flushed generation.

        Raises:
            GenerationVanishedError: it was merged and cleaned up.
            LanceGatewayError: it can't be read.
        """
        return self._open_generations(self.base(), region_id, (flushed,))[0]

    def _take(self, needed: tuple[str, ...], consistency: Consistency) -> TableSnapshot:
        if consistency == "snapshot":
            base = self.base()
            remembered = decode_region_snapshots(base.details) if base.details else ()
            manifests = {one.region_id: one.manifest for one in remembered}
            unflushed: Mapping[str, WalPositions] = {}
        else:
            manifests = self._newest_manifests(needed)
            present = [manifest for manifest in manifests.values() if manifest is not None]
            unflushed = {}
            if consistency == "strong":
                found = self.storage.each(self._unflushed, present)
                unflushed = {one.region_id: positions for one, positions in zip(present, found, strict=True)}
            base = self.base()
        merged = base.details.merged_generations if base.details else {}
        regions = {}
        for region_id in needed:
            manifest = manifests.get(region_id)
            newest_merged = merged.get(region_id, 0)
            generations: tuple[GenerationDataset, ...] = ()
            if manifest is not None:
                unmerged = [one for one in manifest.flushed_generations if one.generation > newest_merged]
                generations = self._open_generations(base, region_id, unmerged)
            positions = [
                position
                for position, generation in (unflushed[region_id].entries if region_id in unflushed else ())
                if generation is None or generation > newest_merged
            ]
            regions[region_id] = RegionSnapshot(
                region_id, generations, self._tail(base, region_id, positions)
            )
        return TableSnapshot(base, regions)

    def _newest_manifests(self, region_ids: Sequence[str]) -> dict[str, RegionManifest | None]:
        found = read_latest_manifests(self.storage, region_ids, known=self._manifests)
        newest = dict(zip(region_ids, found, strict=True))
        for region_id, manifest in newest.items():
            before = self._manifests.get(region_id)
            if manifest is before:
                continue
            if manifest is None:
                self._manifests.pop(region_id, None)
            else:
                self._manifests[region_id] = manifest
            if before is None or manifest is None or not _records_the_same(before, manifest):
                self._recorded_state = object()
        return newest

    def _open_generations(
        self, base: BaseTable, region_id: str, flushed: Iterable[FlushedGeneration]
    ) -> tuple[GenerationDataset, ...]:
        def opened(generation: int, path: str) -> GenerationDataset:
            return self.cache.compute(
                # With the number: a description of a snapshot may give another one than the manifest does.
                ("generation", self.storage.uri, region_id, path, generation),
                lambda: open_generation(base, region_id, generation, path, self._session),
                lambda _: OPEN_GENERATION_BYTES,
            )

        return tuple(opened(one.generation, one.path) for one in flushed)

    def _unflushed(self, manifest: RegionManifest) -> WalPositions:
        """WAL entries that no generation of the region's newest manifest covers."""
        region_id = manifest.region_id
        after, generation = manifest.replay_after_wal_entry_position, manifest.current_generation
        known = self._positions.get(region_id)
        if known is None or (known.after, known.current_generation) != (after, generation):
            known = WalPositions(after, generation, after, ())
        last = last_wal_position(self.storage, region_id, after=known.last)
        if last > known.last:
            entries = [self._wal_entry(region_id, position) for position in range(known.last + 1, last + 1)]
            fresh = tuple(
                (entry.position, entry.generation)
                for entry in entries
                if not entry.is_fence and (entry.generation is None or entry.generation >= generation)
            )
            known = WalPositions(after, generation, last, known.entries + fresh)
            self._positions[region_id] = known
        return known

    def _wal_entry(self, region_id: str, position: int) -> WalEntry:
        def size(entry: WalEntry) -> int:
            return 256 + (0 if entry.rows is None else int(entry.rows.nbytes))

        return self.cache.compute(
            ("wal", self.storage.uri, region_id, position),
            lambda: read_wal_entry(self.storage, region_id, position),
            size,
        )

    def _tail(self, base: BaseTable, region_id: str, positions: Sequence[int]) -> Tail | None:
        """The rows of the WAL entries at these positions; those of the last tail are taken over from it."""
        if not positions:
            self._tails.pop(region_id, None)
            return None
        known = self._tails.get(region_id)
        every = tuple(positions)
        parts = []
        if known is not None and known.first == positions[0] and known.reads_as(base):
            if known.last == positions[-1]:
                return known
            if known.last < positions[-1]:
                parts = [known.rows]
                positions = positions[bisect_right(positions, known.last) :]
        parts += [entry_rows(self._wal_entry(region_id, position), base) for position in positions]
        rows = pa.concat_tables(parts)
        if rows.column(0).num_chunks > TAIL_CHUNKS:
            rows = rows.combine_chunks()
        tail = self._tails[region_id] = Tail(region_id, every, rows, base.field_names)
        return tail


def _records_the_same(one: RegionManifest, other: RegionManifest) -> bool:
    return (one.region_spec_id, one.region_values) == (other.region_spec_id, other.region_values)
