"""A region as this process owns it: one Lance `ShardWriter`, its epoch, and its place in the log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from memwal.errors import InvalidInputError, LanceGatewayError, UnavailableError
from memwal.regions.generation_numbers import check_not_restarted
from memwal.regions.manifest import RegionManifest, read_latest_manifest
from memwal.regions.wal import last_wal_position
from memwal.writing.changes import FencedError, SealedError
from memwal.writing.options import WriteOptions
from memwal.writing.region.own_tail import HeldEntry, TailKeeper
from memwal.writing.table.log_state import entry_at, position_of, unflushed
from memwal.writing.table.open_table import OpenTable
from memwal.writing.table.rows import exported

INVALID = "Invalid user input"
PEER = "peer claimed epoch"
_SEALED = "is sealed"
_TOO_LONG = "past what the memtable replaying it can hold"
_LEAST_UNFLUSHED_BYTES = 256 << 20
_ROOM_BYTES = 1 << 30
_ROOM_ENTRIES = 1000
"""For what comes in while the log is measured."""
_TICK_MS = 5_000
"""How often Lance's writer looks whether there is more; every put is written at once, whatever this is.
One that lost its region never stops looking: at the default of 100 ms a hundred of them fill half a core."""
_RACES = (PEER, "another writer claimed", "commit conflict")


class ContestedError(FencedError):
    """Others claimed the region at the same time; nothing was written."""


class _LogTooLongError(ContestedError):
    """The log has more than one MemTable takes."""


class InDoubtError(UnavailableError):
    """An append failed, and whether the rows arrived must be looked up.

    Attributes:
        position: at which they are if they arrived, or behind fences that begin there.
        epoch: with which they are there.
        by_peer: whether another writer's claim was the reason.
    """

    def __init__(self, message: str, position: int, epoch: int, *, by_peer: bool) -> None:
        super().__init__(message)
        self.position = position
        self.epoch = epoch
        self.by_peer = by_peer


@dataclass(eq=False)
class Claim:
    """Used by one thread at a time, except for `tail` and the plain values.

    Attributes:
        table: with which it was opened.
        region_id: UUID in its usual text form.
        epoch: fencing token.
        position: of the newest entry that it appended; before the first, of its fence.
        tail: what was appended and is not flushed.
        since: when it was claimed, in UTC.
        used_at: monotonic time of the last append.
        is_lost: whether another writer is known to have claimed the region, or the log refused an entry.
    """

    table: OpenTable
    region_id: str
    epoch: int
    position: int
    tail: TailKeeper
    _writer: Any = field(repr=False)
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    used_at: float = field(default_factory=time.monotonic)
    is_lost: bool = False

    def append(self, rows: pa.Table, *, deleted: bool) -> None:
        """Append one entry durably.

        Args:
            rows: of the table's columns; of a delete, its key columns.
            deleted: whether they are keys to delete.

        Raises:
            InvalidInputError: Lance refuses the rows; nothing was written.
            InDoubtError: the entry may or may not be in the log; nothing more can be appended.
        """
        try:
            (self._writer.delete if deleted else self._writer.put)(exported(rows))
            stats = self._writer.memtable_stats()
            position = position_of(self.table.storage, self.region_id, self.position + 1, self.epoch)
        except (OSError, RuntimeError, LanceGatewayError) as error:
            raise self._judged(error) from error
        self.position = position
        self.used_at = time.monotonic()
        generation = stats["generation"]
        self.tail.append(
            HeldEntry(self.position, self.epoch, generation, rows, self.table.entry_schema, deleted=deleted)
        )
        self.tail.drop(generation - stats["frozen_count"])

    def _judged(self, error: Exception) -> InvalidInputError | InDoubtError:
        text = plain(error)
        if text.startswith(INVALID):
            return InvalidInputError(f"table {self.table.name!r}: {text}")
        self.is_lost = True
        msg = f"table {self.table.name!r}, region {self.region_id}: {text}"
        return InDoubtError(msg, self.position + 1, self.epoch, by_peer=PEER in text)

    def close(self) -> bool:
        """Flush and let go; False where another writer has the region already, and the rows with it.

        Raises:
            UnavailableError: it was not flushed; what was acknowledged is durable in the log.
        """
        writer, self._writer = self._writer, None
        if writer is None or self.is_lost:
            return False
        newest = read_latest_manifest(self.table.storage, self.region_id)
        if newest is None or newest.writer_epoch != self.epoch or not self.table.is_there():
            # To close it would only fail, noisily, or bring the rows into another table.
            self.is_lost = True
            return False
        try:
            writer.close()
        except (OSError, RuntimeError) as error:
            self.is_lost = True
            if PEER in str(error):
                return False
            msg = f"table {self.table.name!r}: region {self.region_id} was not flushed: {plain(error)}"
            raise UnavailableError(msg) from error
        return True

    def abandon(self) -> None:
        """Let go of a writer that lost the region, without a flush: closing it might write what failed."""
        self.is_lost = True
        self._writer = None


def open_claim(
    table: OpenTable, region_id: str, options: WriteOptions, known: RegionManifest | None = None
) -> Claim:
    """Claim a region, whoever owns it.

    Raises:
        ContestedError: others did so too.
        SealedError: the region takes no more rows.
        UnavailableError: storage failed.
    """
    settings = {
        "durable_write": True,
        "max_wal_buffer_size": 1,
        "max_wal_flush_interval_ms": _TICK_MS,
        "max_memtable_rows": options.max_memtable_rows,
        "max_memtable_size": options.max_memtable_bytes,
        "max_unflushed_memtable_bytes": 4 * max(options.max_memtable_bytes, _LEAST_UNFLUSHED_BYTES),
    }
    try:
        epoch, position, writer = claimed(table, region_id, settings, known)
    except _LogTooLongError:
        _flush_log(table, region_id)
        epoch, position, writer = claimed(table, region_id, settings, None)
    return Claim(table, region_id, epoch, position, TailKeeper(epoch, position), writer)


def _flush_log(table: OpenTable, region_id: str) -> None:
    """Flush what a writer with a larger MemTable left in the log: ours can't hold it."""
    manifest = read_latest_manifest(table.storage, region_id)
    rows = batches = nbytes = 0
    for entry in () if manifest is None else unflushed(table.storage, manifest):
        if entry.rows is not None:
            rows += entry.rows.num_rows
            batches += entry.rows.column(0).num_chunks
            nbytes += int(entry.rows.nbytes)
    room = 4 * nbytes + _ROOM_BYTES
    settings = {
        "max_memtable_rows": 2 * rows + _ROOM_ENTRIES,
        "max_memtable_batches": 2 * batches + _ROOM_ENTRIES,
        "max_memtable_size": room,
        "max_unflushed_memtable_bytes": 4 * room,
    }
    _, _, writer = claimed(table, region_id, settings, None)
    try:
        writer.close()
    except (OSError, RuntimeError) as error:
        if PEER in str(error):
            raise _contested(table, region_id) from error
        msg = f"table {table.name!r}: region {region_id} was not flushed: {plain(error)}"
        raise UnavailableError(msg) from error


def claimed(
    table: OpenTable, region_id: str, settings: Mapping[str, Any], known: RegionManifest | None
) -> tuple[int, int, Any]:
    """Claim a region with a Lance writer; its epoch, the newest position in the log, and the writer.

    Raises:
        LanceGatewayError: as `open_claim`.
    """
    before = read_latest_manifest(table.storage, region_id, known=known)
    if before is not None:
        check_not_restarted(table.storage, before, table.details.newest_merged(region_id))
    try:
        writer = table.written.mem_wal_writer(region_id, **settings)
    except (OSError, RuntimeError, ValueError) as error:
        if _SEALED in str(error):
            msg = (
                f"table {table.name!r}: region {region_id} is sealed, which means that it takes no more rows"
            )
            raise SealedError(msg) from error
        if any(part in str(error) for part in _RACES):
            raise _contested(table, region_id) from error
        if _TOO_LONG in str(error):
            raise _LogTooLongError(plain(error)) from error
        msg = f"table {table.name!r}: region {region_id} can't be claimed: {plain(error)}"
        raise UnavailableError(msg) from error
    # The manifest and the log are looked at after the claim: this order must not change (ADR 18).
    after = read_latest_manifest(table.storage, region_id, known=before)
    epoch = 0 if before is None else before.writer_epoch
    if after is None or after.writer_epoch != epoch + 1:
        # Which of several claims is ours, nobody tells.
        raise _contested(table, region_id)
    position = last_wal_position(
        table.storage,
        region_id,
        after=max(after.replay_after_wal_entry_position, after.wal_entry_position_last_seen - 1, 0),
    )
    if position and epoch:
        # Lance fences off older writers with an entry of its own: nobody comes in between after that.
        entry = entry_at(table.storage, region_id, position)
        if entry is None or not entry.is_fence or entry.writer_epoch != after.writer_epoch:
            raise _contested(table, region_id)
    return after.writer_epoch, position, writer


def _contested(table: OpenTable, region_id: str) -> ContestedError:
    return ContestedError(
        f"table {table.name!r}: region {region_id} is claimed by several writers at once; retry"
    )


def plain(error: Exception) -> str:
    """Lance's message without the places in its source and without saying things twice."""
    text = str(error)
    kept = [part for part in text.split(", /") if ".rs:" not in part.split(" ")[0]]
    return kept[0].split("\n")[0][:500] if kept else text[:500]
