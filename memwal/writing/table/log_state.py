"""What a region's log tells beyond its manifest."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from memwal.regions.generation_numbers import is_given_up
from memwal.regions.manifest import RegionManifest, read_latest_manifest
from memwal.regions.region_ids import is_retired
from memwal.regions.wal import WalEntry, last_wal_position, read_wal_entry, wal_entry_path
from memwal.storage.files import Storage


class Arrival(Enum):
    """What became of an append that failed."""

    WRITTEN = "written"
    NOT_WRITTEN = "not written"
    UNKNOWN = "unknown"


def entry_at(storage: Storage, region_id: str, position: int) -> WalEntry | None:
    """The entry at a position; None where there is none."""
    try:
        return read_wal_entry(storage, region_id, position)
    except FileNotFoundError:
        return None


def has_unflushed(storage: Storage, manifest: RegionManifest) -> bool:
    """Whether a region's log has rows that no generation of its manifest has.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    region_id, after = manifest.region_id, manifest.replay_after_wal_entry_position
    last = last_wal_position(storage, region_id, after=after)
    for position in range(last, after, -1):
        entry = entry_at(storage, region_id, position)
        if entry is None or entry.is_fence:
            continue
        return manifest.replay_start.is_unflushed(position, entry.generation)
    return False


def is_over(storage: Storage, manifest: RegionManifest, merged: int) -> bool:
    """Whether a region has no rows that the base table lacks, and never gets any again.

    Args:
        storage: directory of the table.
        manifest: of the region.
        merged: newest generation of it that the base table contains; 0 for none.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    return is_given_up(manifest, merged) or (
        is_retired(manifest, merged) and not has_unflushed(storage, manifest)
    )


def are_left(storage: Storage, region_id: str, position: int) -> bool:
    """Whether a region's log has rows that are not flushed, and nobody wrote any behind a position.

    Args:
        storage: directory of the table.
        region_id: of the region.
        position: of the newest entry of a writer that lost the region.

    Raises:
        LanceGatewayError: the region can't be read.
    """
    manifest = read_latest_manifest(storage, region_id)
    if manifest is None or manifest.sealed or not has_unflushed(storage, manifest):
        return False
    following = range(position + 1, last_wal_position(storage, region_id, after=position) + 1)
    entries = (entry_at(storage, region_id, one) for one in following)
    return all(entry is None or entry.is_fence for entry in entries)


def unflushed(storage: Storage, manifest: RegionManifest) -> Iterator[WalEntry]:
    """Entries of a region's log that no generation of its manifest has, ascending; fences too.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    region_id, after = manifest.region_id, manifest.replay_after_wal_entry_position
    for position in range(after + 1, last_wal_position(storage, region_id, after=after) + 1):
        entry = entry_at(storage, region_id, position)
        if entry is not None and manifest.replay_start.is_unflushed(position, entry.generation):
            yield entry


def position_of(storage: Storage, region_id: str, position: int, epoch: int) -> int:
    """Where the entry is that the writer with this epoch has just appended.

    It is the next one as a rule. A writer that claimed the region earlier, and lost it before it left its
    fence in the log, may leave it in between: Lance's writers step over fences of older epochs.

    Args:
        storage: directory of the table.
        region_id: of the region.
        position: that follows the newest entry of the writer before.
        epoch: of the writer.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    while storage.exists(wal_entry_path(region_id, position + 1))[0]:
        entry = entry_at(storage, region_id, position)
        if entry is not None and entry.writer_epoch == epoch and not entry.is_fence:
            break
        position += 1
    return position


def arrival(storage: Storage, region_id: str, position: int, epoch: int) -> Arrival | None:
    """What became of an append of the writer with this epoch; None while nothing tells.

    Whoever appends at a position takes it for good, so the entry of a writer that claimed the region later is
    an answer too. Fences of writers that claimed it earlier tell nothing: see `position_of`.

    Args:
        storage: directory of the table.
        region_id: of the region.
        position: that follows the newest entry of the writer before.
        epoch: of the writer.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    while (entry := entry_at(storage, region_id, position)) is not None:
        if entry.writer_epoch > epoch:
            return Arrival.NOT_WRITTEN
        if entry.writer_epoch == epoch and not entry.is_fence:
            return Arrival.WRITTEN
        position += 1
    return None
