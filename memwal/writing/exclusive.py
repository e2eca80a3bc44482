"""Regions that one statement holds while it reads and writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Protocol

from lance_gateway.memwal.regions.manifest import read_latest_manifests
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing.changes import Changes, FencedError, WriteReceipt
from lance_gateway.memwal.writing.region.region_writer import RegionWriter

LATE_SECONDS = 2.0
"""Out of order, a region is waited for only so long: two statements may wait for one another."""


class HeldWrite(Protocol):
    """The signature of a write on behalf of a holder."""

    def __call__(
        self, changes: Changes, *, durable: bool, deadline: float, holder: ExclusiveRegions
    ) -> WriteReceipt:
        """Write changes, as `TableWriter.write` does."""


class ExclusiveRegions:
    """Regions to which no other writer of this process writes while they are held.

    Used by one thread at a time.

    Args:
        region: finds the writer of a region.
        write: writes for a holder.
        deadline: monotonic time until which regions are waited for.
    """

    def __init__(
        self,
        region: Callable[[str], RegionWriter],
        write: HeldWrite,
        deadline: float,
    ) -> None:
        self._region = region
        self._write = write
        self._deadline = deadline
        self._held: dict[str, tuple[RegionWriter, int]] = {}

    @property
    def regions(self) -> frozenset[str]:
        """Ids of the held regions."""
        return frozenset(self._held)

    def epoch(self, region_id: str) -> int:
        """Return the epoch of the newest claim of a held region.

        Raises:
            KeyError: it is not held.
        """
        return self._held[region_id][0].last_epoch

    def write(self, changes: Changes, *, durable: bool = True) -> WriteReceipt:
        """Write changes that were computed from rows read since the regions are held.

        Raises:
            FencedError: a region was claimed by another process since, or is not among those that are held
                and not new: begin again, from reading.
            LanceGatewayError: as `TableWriter.write`.
        """
        return self._write(changes, durable=durable, deadline=time.monotonic() + LATE_SECONDS, holder=self)

    def claim(self, region_id: str) -> None:
        """Hold and claim one more region.

        Raises:
            LanceGatewayError: another process owns it, or others keep it for too long.
        """
        self._take(region_id, self._deadline)

    def check(self, region_id: str) -> None:
        """Check that a region is still held before it is written; hold it if it is new.

        Raises:
            FencedError: the region was lost, or others may have written to it before it was held.
        """
        held = self._held.get(region_id)
        if held is None:
            # It came into being after the others were taken: if it is still empty, nothing was overlooked.
            if not self._take(region_id, time.monotonic() + LATE_SECONDS):
                msg = f"region {region_id} came into being meanwhile; nothing was written, retry"
                raise FencedError(msg)
        elif held[0].losses != held[1]:
            msg = f"region {region_id} was lost to another writer; nothing was written, retry"
            raise FencedError(msg)

    def check_epochs(self, storage: Storage, region_ids: Collection[str]) -> None:
        """Check that no other process claimed a region, before the first of several is written.

        One that is claimed only then fails all the same, but others are written by that time.

        Raises:
            FencedError: another process claimed one.
        """
        writers = [self._held[region_id][0] for region_id in region_ids]
        cached = {
            writer.region_id: manifest_seen
            for writer in writers
            if (manifest_seen := writer.ownership.manifest) is not None
        }
        newest = read_latest_manifests(storage, [writer.region_id for writer in writers], cached=cached)
        for writer, manifest in zip(writers, newest, strict=True):
            if manifest is None or manifest.writer_epoch != writer.last_epoch:
                msg = f"region {writer.region_id} was lost to another writer; nothing was written, retry"
                raise FencedError(msg)

    def release(self) -> None:
        """Admit other writers again."""
        held, self._held = self._held, {}
        for writer, _ in held.values():
            writer.queue.release(self)

    def _take(self, region_id: str, deadline: float) -> bool:
        """Hold a region; return whether it has never had rows."""
        writer = self._region(region_id)
        writer.queue.hold(self, deadline)
        try:
            is_new = writer.ensure_claim(deadline)
        except BaseException:
            writer.queue.release(self)
            raise
        self._held[region_id] = writer, writer.losses
        return is_new
