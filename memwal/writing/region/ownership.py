"""Ownership of a region: when it may be claimed, and by whom.

After each claim, an owner writes a small record beside the table. Only the region's manifest decides who may
write; the record tells others the owner's address, the time of its claim, and whether it released the region.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, UnavailableError
from lance_gateway.memwal.regions.manifest import RegionManifest, manifest_path, read_latest_manifest
from lance_gateway.memwal.regions.wal import has_unflushed_rows
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing.changes import FencedError, NotOwnerError, SealedError
from lance_gateway.memwal.writing.options import OwnershipPolicy, WriteOptions
from lance_gateway.memwal.writing.region.claim import Claim
from lance_gateway.memwal.writing.region.discarded_writers import DiscardedWriters
from lance_gateway.memwal.writing.region.lance_writers import ContestedError, open_claim
from lance_gateway.memwal.writing.table.open_table import OpenTable

_JITTER = 0.1
"""Part of the hold time by which claims are spread, and the unit of waiting after a contested one."""
_LOOK_AGAIN_SECONDS = 0.2
_PAUSES = (0.002, 0.01, 0.05, 0.2, 0.5)
RECORD_SECONDS = 0.5
"""Within this time after its claim, an owner that can be reached has left its record."""
_LOOK_SECONDS = 0.01
OWNERS = "_gateway/owners"
_KEPT = 16


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """The address and the state of the owner of a region.

    Attributes:
        epoch: of its claim.
        url: by which other processes reach it; empty where they can't.
        writer: names it among all writers.
        claimed_at: Unix time in seconds.
        is_released: whether it flushed the region and let go.
    """

    epoch: int
    url: str
    writer: str
    claimed_at: float
    is_released: bool = False

    def __post_init__(self) -> None:
        if self.epoch < 1:
            msg = f"owner record of {self.writer!r}: epoch {self.epoch}, but epochs of claims start at 1"
            raise InvalidInputError(msg)


def owner_record_path(region_id: str, epoch: int) -> str:
    """Return the file of the owner record of one claim, below the table's directory.

    Each claim has its own file, so a former owner that is late can't overwrite the newer record.
    """
    return f"{OWNERS}/{region_id}/{epoch % _KEPT}.json"


def write_owner_record(storage: Storage, region_id: str, record: OwnerRecord) -> None:
    """Write an owner record; if storage fails, the owner stays unknown to others."""
    with suppress(UnavailableError):
        storage.put(owner_record_path(region_id, record.epoch), json.dumps(asdict(record)).encode())


def delete_owner_record(storage: Storage, region_id: str, epoch: int) -> None:
    """Delete the record of a claim that ended; if storage fails, the record stays, without harm."""
    with suppress(UnavailableError):
        storage.delete(owner_record_path(region_id, epoch))


def read_owner_record(storage: Storage, manifest: RegionManifest) -> OwnerRecord | None:
    """Return the record of the writer that a region's manifest names; None if there is none.

    Raises:
        UnavailableError: storage failed to answer.
    """
    try:
        data = storage.read(owner_record_path(manifest.region_id, manifest.writer_epoch))
        record = OwnerRecord(**json.loads(data))
    except (FileNotFoundError, ValueError, TypeError, InvalidInputError):
        return None  # Anyone may have written there: a record is never more than a hint.
    return record if record.epoch == manifest.writer_epoch else None


def measure_manifest_age(storage: Storage, manifest: RegionManifest) -> float:
    """Return the age of the manifest in seconds, by the clocks of storage and of this machine.

    Raises:
        UnavailableError: storage failed to answer.
    """
    identity = storage.identity(manifest_path(manifest.region_id, manifest.version))
    return 0.0 if identity is None else time.time() - identity.written / 1e9


class RegionOwnership:
    """Claims one region for one writer; for one thread at a time, except for `find_other_owner`.

    Args:
        region_id: UUID in its usual text form.
        table: the table as it is open now.
        options: of the process.
        writer_id: names this writer among all.
        stopped: whoever waits for a region is to give up.
        discarded: Lance writers of the region.
    """

    def __init__(
        self,
        region_id: str,
        table: Callable[[], OpenTable],
        options: WriteOptions,
        writer_id: str,
        stopped: threading.Event,
        discarded: DiscardedWriters,
    ) -> None:
        self.region_id = region_id
        self.manifest: RegionManifest | None = None
        self.found: RegionManifest | None = None
        """The manifest before the newest claim's first attempt, which may have opened the region itself."""
        self._table = table
        self._options = options
        self._writer_id = writer_id
        self._stopped = stopped
        self._discarded = discarded
        self._seen: tuple[int, float] = (0, 0.0)
        self.lost_epoch = 0
        self.gone_epoch = 0
        self._contested_epoch = 0
        self._recorded_epoch = 0
        self._recording: Future[None] | None = None

    def claim(self, deadline: float, after_epoch: int | None = None, *, spares_owner: bool = False) -> Claim:
        """Claim the region as soon as its owner has held it for the time that the options grant.

        Args:
            deadline: monotonic time.
            after_epoch: nobody may have claimed it since this epoch; None where that does not matter.
            spares_owner: leave it to another process that owns it and can be reached.

        Raises:
            FencedError: somebody claimed it since `after_epoch`, or is spared.
            NotOwnerError: another process owns it, and the options say to leave it so.
            SealedError: it takes no more rows.
            NotFoundError: the table was dropped.
            UnavailableError: storage failed, or the deadline came first.
        """
        attempts = 0
        began = time.monotonic()
        found: RegionManifest | None = None
        while True:
            table = self._table()
            manifest = self.read_newest_manifest(table)
            if after_epoch is not None and manifest.writer_epoch != after_epoch:
                raise FencedError(self._describe(table, "another writer claimed it since it was read"))
            if spares_owner and self._find_reachable_owner(table, manifest) is not None:
                raise FencedError(
                    self._describe(table, "another process owns it by now; nothing was written, retry")
                )
            seconds = self._seconds_to_wait(table, manifest, began)
            if spares_owner and seconds <= 0 and self._is_owner_starting(table, manifest, began):
                seconds = _LOOK_SECONDS
            if seconds <= 0:
                found = found or manifest
                try:
                    claim = open_claim(table, self.region_id, self._options, manifest, self._discarded)
                except ContestedError:
                    attempts += 1
                    # All who saw that left the region to nobody; who did not, leaves a record at once.
                    self._contested_epoch = self.read_newest_manifest(table).writer_epoch
                    seconds = random.uniform(0.0, _JITTER * min(attempts, 5))  # noqa: S311 - no secret
                else:
                    if after_epoch is not None and claim.epoch != after_epoch + 1:
                        claim.abandon()
                        raise FencedError(
                            self._describe(table, "another writer claimed it since it was read")
                        )
                    self.found, self.manifest = found, claim.manifest
                    return claim
            else:
                seconds += random.uniform(0.0, _JITTER * self._options.hold_ms / 1000)  # noqa: S311
            # Its owner may let go earlier, or tell who it is.
            left = deadline - time.monotonic()
            if self._stopped.wait(max(0.0, min(seconds, left, _LOOK_AGAIN_SECONDS))) or left <= 0:
                raise UnavailableError(
                    self._describe(
                        table, "its owner did not let go of it in time; nothing was written, retry"
                    )
                )

    def read_newest_manifest(self, table: OpenTable) -> RegionManifest:
        """Return the region's newest manifest.

        Raises:
            NotFoundError: there is none.
            SealedError: it takes no more rows.
        """
        known = self.manifest or table.regions.manifests.get(self.region_id)
        manifest = read_latest_manifest(table.storage, self.region_id, cached=known)
        if manifest is None and known is None:
            manifest = self._wait_for_manifest(table)
        self.manifest = manifest
        if manifest is None:
            raise NotFoundError(self._describe(table, "it is gone: was the table dropped?"))
        if manifest.sealed:
            raise SealedError(self._describe(table, "it is sealed, which means that it takes no more rows"))
        return manifest

    def _wait_for_manifest(self, table: OpenTable) -> RegionManifest | None:
        """Return the manifest of a region that another writer may be creating; None if it does not appear."""
        for pause in _PAUSES:
            self._stopped.wait(pause)
            manifest = read_latest_manifest(table.storage, self.region_id)
            if manifest is not None:
                return manifest
        return None

    def find_other_owner(self, table: OpenTable) -> OwnerRecord | None:
        """Return the other process that owns the region and can be reached; None if there is none.

        Args:
            table: as it is open; not looked for again, since rows may be forwarded often.

        Raises:
            LanceGatewayError: storage failed, or the region can't be written.
        """
        return self._find_reachable_owner(table, self.read_newest_manifest(table))

    def announce(self, claim: Claim) -> None:
        """Publish that this process owns the region, and its address."""
        self._write_record(claim.table, claim, is_released=False)

    def release(self, claim: Claim) -> None:
        """Publish that the region was flushed and released."""
        self._write_record(claim.table, claim, is_released=True)

    def _find_reachable_owner(self, table: OpenTable, manifest: RegionManifest) -> OwnerRecord | None:
        record = read_owner_record(table.storage, manifest)
        if record is None or record.is_released or not record.url or self._is_own(record):
            return None
        return None if record.epoch == self.gone_epoch else record

    def _is_owner_starting(self, table: OpenTable, manifest: RegionManifest, began: float) -> bool:
        """Return whether the claim is so recent that its owner record may not be written yet."""
        if manifest.writer_epoch in (0, self.gone_epoch) or time.monotonic() - began > RECORD_SECONDS:
            return False
        if read_owner_record(table.storage, manifest) is not None:
            return False
        return measure_manifest_age(table.storage, manifest) < RECORD_SECONDS

    def _is_own(self, record: OwnerRecord) -> bool:
        return record.writer == self._writer_id or (bool(record.url) and record.url == self._options.url)

    def _seconds_to_wait(self, table: OpenTable, manifest: RegionManifest, began: float) -> float:
        """Return how many seconds the owner may keep the region.

        Args:
            table: as it is open.
            manifest: the newest.
            began: monotonic time since when the region is waited for.

        Raises:
            NotOwnerError: the options forbid to take it.
        """
        epoch = manifest.writer_epoch
        if epoch in (0, self.gone_epoch):
            return 0.0
        record = read_owner_record(table.storage, manifest)
        if record is not None and (record.is_released or self._is_own(record)):
            return 0.0
        refuses = self._options.ownership is OwnershipPolicy.REFUSE
        if record is not None and refuses:
            where = record.url or "an address that it doesn't tell"
            raise NotOwnerError(
                self._describe(
                    table, f"the gateway at {where} owns it, and this one leaves it so: write there"
                )
            )
        if self._seen[0] != epoch:
            self._seen = epoch, time.monotonic()
        hold, seen = self._options.hold_ms / 1000, self._seen[1]
        if record is not None:
            age = time.time() - record.claimed_at
        elif epoch > self.lost_epoch > 0 or has_unflushed_rows(table.storage, manifest):
            age = measure_manifest_age(table.storage, manifest)
            # A writer without a record may claim again and again: it is granted only one turn.
            seen = min(seen, began)
            if epoch == self._contested_epoch:
                hold = min(hold, RECORD_SECONDS)
        else:
            return 0.0  # A writer that left no rows in its log loses nothing.
        # Clocks may differ; but nobody waits longer than that from the first sight on.
        left = hold - max(age, time.monotonic() - seen)
        if left > 0 and refuses:
            raise NotOwnerError(self._describe(table, "another writer has just claimed it: retry later"))
        return left

    def _write_record(self, table: OpenTable, claim: Claim, *, is_released: bool) -> None:
        """Write a record while the claim is already used, behind the record before."""
        ended = {claim.epoch - 1, self._recorded_epoch} - {0, claim.epoch}
        self._recorded_epoch = claim.epoch
        url, since = self._options.url, claim.since.timestamp()
        record = OwnerRecord(claim.epoch, url, self._writer_id, since, is_released)

        def write() -> None:
            for epoch in ended:
                delete_owner_record(table.storage, self.region_id, epoch)
            write_owner_record(table.storage, self.region_id, record)

        if self._recording is not None:
            self._recording.result()
        self._recording = table.storage.start(write)

    def _describe(self, table: OpenTable, reason: str) -> str:
        return f"table {table.name!r}, region {self.region_id}: {reason}"
