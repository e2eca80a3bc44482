"""A table's status, found in few round trips."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lance_gateway.memwal.base.index_details import (
    BaseManifest,
    MemWalIndexDetails,
    list_merged_generations,
    read_base_manifest,
)
from lance_gateway.memwal.errors import CorruptDataError, LanceGatewayError
from lance_gateway.memwal.regions.manifest import RegionManifest, list_regions, read_latest_manifests
from lance_gateway.memwal.regions.wal import find_last_wal_position, read_wal_entry, wal_entry_path
from lance_gateway.memwal.storage.files import Storage, generation_directory
from lance_gateway.pipeline.jobs.lake import LakeTable, RegionState

_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """A region at one moment.

    Attributes:
        region_id: UUID in its usual text form.
        writer_epoch: of the writer that claimed it last; 0 for none.
        current_generation: number that the next flushed generation will have.
        merged_generation: newest generation that the base table contains; 0 for none.
        pending_generations: flushed generations that the base table lacks.
        pending_rows: rows in them, older duplicates of a key included.
        pending_bytes: of their data files.
        oldest_pending_seconds: since the oldest of them was flushed; None where none is pending.
        merged_listed: generations that are merged and wait to be cleaned up.
        unflushed_entries: entries of its log that no generation has.
        is_sealed: whether writers may no longer claim it.
    """

    region_id: str
    writer_epoch: int
    current_generation: int
    merged_generation: int
    pending_generations: int
    pending_rows: int
    pending_bytes: int
    oldest_pending_seconds: float | None
    merged_listed: int
    unflushed_entries: int
    is_sealed: bool


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """An index of the base table.

    Attributes:
        name: of the index.
        generations_behind: merged generations, of all regions, that it is not known to cover.
        regions_behind: regions that they belong to.
    """

    name: str
    generations_behind: int
    regions_behind: int


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table at one moment.

    Attributes:
        table: its name.
        version: of the base table.
        rows: of the base table, deleted ones left out.
        deleted_rows: that its files still hold.
        fragments: that it consists of.
        has_mem_wal: whether rows can be written by region.
        snapshot_age_seconds: since regions were remembered last; None for never.
        regions: ascending by id.
        indexes: ascending by name.
    """

    table: str
    version: int
    rows: int
    deleted_rows: int
    fragments: int
    has_mem_wal: bool
    snapshot_age_seconds: float | None
    regions: tuple[RegionStatus, ...] = field(repr=False)
    indexes: tuple[IndexStatus, ...]

    # Of all regions.
    pending_generations = property(lambda self: self._sum("pending_generations"))
    pending_rows = property(lambda self: self._sum("pending_rows"))
    pending_bytes = property(lambda self: self._sum("pending_bytes"))
    merged_listed = property(lambda self: self._sum("merged_listed"))
    unflushed_entries = property(lambda self: self._sum("unflushed_entries"))

    @property
    def oldest_pending_seconds(self) -> float | None:
        """Of all regions; None where nothing is pending."""
        return max(
            (
                region.oldest_pending_seconds
                for region in self.regions
                if region.oldest_pending_seconds is not None
            ),
            default=None,
        )

    def _sum(self, name: str) -> int:
        return sum(getattr(region, name) for region in self.regions)


def read_status(table: LakeTable, *, now: Callable[[], float] = time.time) -> TableStatus:
    """Look at a table.

    What is pending is listed, one directory for each generation; of logs, only those of regions with new
    entries are looked at.
    """
    storage = table.storage
    # Manifests before the base version: this order must not change (ADR 5).
    found = read_latest_manifests(storage, list_regions(storage), cached={})
    manifests = [one for one in found if one is not None]
    unflushed = _count_unflushed(storage, manifests)
    dataset = table.dataset()
    base = read_base_manifest(storage, dataset.version)
    merged = list_merged_generations(base.details)
    regions = [RegionState(manifest, merged.get(manifest.region_id, 0)) for manifest in manifests]
    moment = now()
    waiting = _waiting(storage, regions, moment)
    try:
        files = dataset.stats.dataset_stats()
        rows = dataset.count_rows()
    except (OSError, ValueError) as error:
        raise CorruptDataError(
            f"table {table.name!r}: version {dataset.version} can't be read: {str(error).split(', /')[0]}"
        ) from error
    taken = base.details.snapshot_ts_millis if base.details else 0
    return TableStatus(
        table=table.name,
        version=dataset.version,
        rows=rows,
        deleted_rows=files["num_deleted_rows"],
        fragments=files["num_fragments"],
        has_mem_wal=base.details is not None,
        snapshot_age_seconds=max(0.0, moment - taken / 1000) if taken else None,
        regions=tuple(
            _region_status(
                region,
                waiting.get(region.region_id, _NOTHING),
                unflushed.get(region.region_id, 0),
            )
            for region in regions
        ),
        indexes=tuple(_index_status(name, base) for name in sorted(base.index_names)),
    )


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Generations of a region that are pending: rows, bytes, and the age of the oldest in seconds."""

    rows: int
    size: int
    seconds: float | None


_NOTHING = _Waiting(0, 0, None)


def _region_status(region: RegionState, waiting: _Waiting, unflushed: int) -> RegionStatus:
    manifest = region.manifest
    return RegionStatus(
        region_id=manifest.region_id,
        writer_epoch=manifest.writer_epoch,
        current_generation=manifest.current_generation,
        merged_generation=region.merged,
        pending_generations=len(region.pending),
        pending_rows=waiting.rows,
        pending_bytes=waiting.size,
        oldest_pending_seconds=waiting.seconds,
        merged_listed=len(region.done),
        unflushed_entries=unflushed,
        is_sealed=manifest.sealed,
    )


def _index_status(name: str, base: BaseManifest) -> IndexStatus:
    details = base.details or MemWalIndexDetails()
    lags = (newest - details.newest_covered(name, one) for one, newest in details.merged_generations.items())
    behind = [lag for lag in lags if lag > 0]
    return IndexStatus(name, sum(behind), len(behind))


def _waiting(storage: Storage, regions: list[RegionState], now: float) -> dict[str, _Waiting]:
    pending = [(region.region_id, generation) for region in regions for generation in region.pending]
    files = storage.each(
        lambda one: storage.list(f"{generation_directory(one[0], one[1].path)}/data"), pending
    )
    found: dict[str, _Waiting] = {}
    for (region_id, generation), entries in zip(pending, files, strict=True):
        known = found.get(region_id, _NOTHING)
        written = min((entry.written for entry in entries), default=0)
        age = max(0.0, now - written / _NANOSECONDS) if written else None
        # The first one listed is the oldest, unless its files vanished since: merged, and cleaned up.
        found[region_id] = _Waiting(
            known.rows + (generation.physical_rows or 0),
            known.size + sum(entry.size for entry in entries),
            age if known.seconds is None else known.seconds,
        )
    return found


def _count_unflushed(storage: Storage, manifests: list[RegionManifest]) -> dict[str, int]:
    """How many entries each region's log has that no generation has; regions that have none are left out."""
    first = [
        wal_entry_path(manifest.region_id, manifest.replay_after_wal_entry_position + 1)
        for manifest in manifests
    ]
    is_longer = storage.exists(*first) if first else ()
    longer = [one for one, more in zip(manifests, is_longer, strict=True) if more]
    counts = storage.each(lambda one: _entries(storage, one), longer)
    return {one.region_id: count for one, count in zip(longer, counts, strict=True) if count}


def _entries(storage: Storage, manifest: RegionManifest) -> int:
    region_id, after = manifest.region_id, manifest.replay_after_wal_entry_position
    last = find_last_wal_position(storage, region_id, after=after)
    for position in range(after + 1, last + 1):
        try:
            entry = read_wal_entry(storage, region_id, position)
        except (FileNotFoundError, LanceGatewayError):
            return last - position + 1  # Whoever reads the rows says what is wrong.
        if not entry.is_fence and manifest.replay_start.is_unflushed(position, entry.generation):
            return last - position + 1
    return 0
