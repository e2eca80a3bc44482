"""Open Lance's writers: to claim a region, or to append one oversized entry.

An entry with rows and keys, or with more rows than a MemTable holds, does not fit an append. A Lance writer
that writes to the log only when it is closed writes it as one entry, and flushes a generation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lance_gateway.memwal.columns.lance_rows import export_to_log
from lance_gateway.memwal.errors import InvalidInputError, UnavailableError
from lance_gateway.memwal.lance_errors import is_contested_claim, is_invalid_input, is_log_too_long
from lance_gateway.memwal.regions.generation_numbers import check_not_restarted
from lance_gateway.memwal.regions.manifest import (
    RegionManifest,
    manifest_path,
    read_latest_manifest,
    read_manifest,
)
from lance_gateway.memwal.regions.wal import (
    find_last_rows,
    find_last_wal_position,
    read_unflushed_entries,
    read_wal_entry_if_present,
)
from lance_gateway.memwal.writing.changes import FencedError, SealedError
from lance_gateway.memwal.writing.options import WriteOptions
from lance_gateway.memwal.writing.region.claim import (
    Claim,
    TailKeeper,
    find_newest_manifest,
    is_claimed_after,
    shorten_text,
)
from lance_gateway.memwal.writing.region.discarded_writers import DiscardedWriters
from lance_gateway.memwal.writing.region.doubts import InDoubtError
from lance_gateway.memwal.writing.table.open_table import OpenTable
from lance_gateway.memwal.writing.table.splitting import Part

_LEAST_UNFLUSHED_BYTES = 256 << 20
_ROOM_BYTES = 1 << 30
_ROOM_ROWS = 100_000
_ROOM_ENTRIES = 1000
"""For what comes in while the log is measured."""
_MAX_ENTRIES = 2_000
"""In one MemTable. An entry takes some 20 KB of memory for writing and reading, however few rows it has, and
whoever claims the region reads all entries that are not flushed, file by file."""
_TICK_MS = 5_000
"""How often Lance's writer looks whether there is more; every put is written at once, whatever this is.
One that lost its region looks until it is closed."""


class ContestedError(FencedError):
    """Several writers claimed the region at the same time; nothing was written."""


class _LogTooLongError(ContestedError):
    """The unflushed log is larger than one MemTable."""


def open_claim(
    table: OpenTable,
    region_id: str,
    options: WriteOptions,
    before: RegionManifest | None = None,
    discarded: DiscardedWriters | None = None,
) -> Claim:
    """Claim a region, also from another owner.

    Args:
        table: as it is newest.
        region_id: UUID in its usual text form.
        options: of the process.
        before: the newest manifest, which was just read; None to read it.
        discarded: Lance writers of the region; None for none.

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
        "max_memtable_batches": _MAX_ENTRIES,
        "max_memtable_size": options.max_memtable_bytes,
        "max_unflushed_memtable_bytes": 4 * max(options.max_memtable_bytes, _LEAST_UNFLUSHED_BYTES),
    }
    kept = DiscardedWriters() if discarded is None else discarded
    try:
        manifest, position, writer = claim_region(table, region_id, settings, before, kept)
    except _LogTooLongError:
        _flush_log(table, region_id, kept)
        manifest, position, writer = claim_region(table, region_id, settings, None, kept)
    epoch = manifest.writer_epoch
    return Claim(table, region_id, manifest, epoch, position, TailKeeper(epoch, position), kept, writer)


def _flush_log(table: OpenTable, region_id: str, discarded: DiscardedWriters) -> None:
    """Flush a log that a writer with a larger MemTable left behind."""
    manifest = read_latest_manifest(table.storage, region_id)
    rows = batches = nbytes = 0
    for entry in () if manifest is None else read_unflushed_entries(table.storage, manifest):
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
    claimed, _, writer = claim_region(table, region_id, settings, None, discarded)
    try:
        writer.close()
    except (OSError, RuntimeError) as error:
        if is_claimed_after(table, region_id, claimed.writer_epoch):
            raise _contested_error(table, region_id) from error
        msg = f"table {table.name!r}: region {region_id} was not flushed: {shorten_text(error)}"
        raise UnavailableError(msg) from error


def claim_region(
    table: OpenTable,
    region_id: str,
    settings: Mapping[str, Any],
    before: RegionManifest | None,
    discarded: DiscardedWriters,
) -> tuple[RegionManifest, int, Any]:
    """Claim a region; return its manifest, the newest position in the log, and the Lance writer.

    The discarded writers of the region are closed then. Arguments and errors are those of `open_claim`.
    """
    if before is None:
        before = read_latest_manifest(table.storage, region_id)
    if before is not None:
        check_not_restarted(table.storage, before, table.details.newest_merged(region_id))
        # Lance replays what it reads, and flushes past the rest. What it refuses, it would accept once enough
        # claims have raised the epoch of the region.
        find_last_rows(table.storage, before)
    try:
        writer = table.writer_dataset.mem_wal_writer(region_id, **settings)
    except (OSError, RuntimeError, ValueError) as error:
        newest = find_newest_manifest(table, region_id)
        if newest is not None and newest.sealed:
            msg = (
                f"table {table.name!r}: region {region_id} is sealed, which means that it takes no more rows"
            )
            raise SealedError(msg) from error
        if is_contested_claim(error):
            raise _contested_error(table, region_id) from error
        if is_log_too_long(error):
            raise _LogTooLongError(shorten_text(error)) from error
        msg = f"table {table.name!r}: region {region_id} can't be claimed: {shorten_text(error)}"
        raise UnavailableError(msg) from error
    try:
        after, position = _look_after_claim(table, region_id, before)
    except BaseException:
        # Its epoch is not known; but the next claim that succeeds is a later one.
        discarded.add(0, writer)
        raise
    discarded.close_before(after.writer_epoch)
    return after, position, writer


def _look_after_claim(
    table: OpenTable, region_id: str, before: RegionManifest | None
) -> tuple[RegionManifest, int]:
    """Return the manifest and the newest position in the log, if nobody else claimed the region meanwhile."""
    # The manifest and the log are looked at after the claim: this order must not change (ADR 18).
    epoch, known = (0, 0) if before is None else (before.writer_epoch, _find_replay_end(before))
    finding = table.storage.start(partial(find_last_wal_position, table.storage, region_id, after=known))
    after = _read_manifest_after(table, region_id, before)
    if after is None or after.writer_epoch != epoch + 1:
        # Which of several claims is ours, nobody tells.
        raise _contested_error(table, region_id)
    position = finding.result()
    if (end := _find_replay_end(after)) > known:
        position = find_last_wal_position(table.storage, region_id, after=end)
    if position and epoch:
        # Lance fences off older writers with an entry of its own: nobody comes in between after that.
        entry = read_wal_entry_if_present(table.storage, region_id, position)
        if entry is None or not entry.is_fence or entry.writer_epoch != after.writer_epoch:
            raise _contested_error(table, region_id)
    return after, position


def _read_manifest_after(
    table: OpenTable, region_id: str, before: RegionManifest | None
) -> RegionManifest | None:
    """Return the newest manifest of a region, which usually is the successor of `before`."""
    if before is None:
        return read_latest_manifest(table.storage, region_id)
    reading = table.storage.start(partial(read_manifest, table.storage, region_id, before.version + 1))
    (is_outdated,) = table.storage.exists(manifest_path(region_id, before.version + 2))
    try:
        after = reading.result()
    except FileNotFoundError:
        return read_latest_manifest(table.storage, region_id)
    return read_latest_manifest(table.storage, region_id, cached=after) if is_outdated else after


def _find_replay_end(manifest: RegionManifest) -> int:
    """Return the position behind which the end of the log is searched."""
    return max(manifest.replay_after_wal_entry_position, manifest.wal_entry_position_last_seen - 1, 0)


def _contested_error(table: OpenTable, region_id: str) -> ContestedError:
    return ContestedError(
        f"table {table.name!r}: region {region_id} is claimed by several writers at once; retry"
    )


def append_atomically(
    table: OpenTable,
    region_id: str,
    changes: Part,
    discarded: DiscardedWriters,
    after_epoch: int | None,
    cached: RegionManifest | None,
    check: Callable[[], None],
) -> int:
    """Claim a region, append all changes as one entry, flush, and release the region.

    Args:
        table: with whose columns the rows are.
        region_id: UUID in its usual text form.
        changes: rows to write and keys to delete; None for none.
        discarded: Lance writers of the region.
        after_epoch: nobody may have claimed the region since this epoch; None where that does not matter.
        cached: the newest manifest read before.
        check: refuses the changes once the region is claimed.

    Returns:
        Epoch of the claim, which was let go.

    Raises:
        InDoubtError: whether it was appended must be looked up; its `epoch` is that of the claim.
        LanceGatewayError: nothing was written.
    """
    upserts, deletes = changes
    parts = [part for part in changes if part is not None]
    nbytes = sum(int(part.nbytes) for part in parts)
    room = 4 * nbytes + _ROOM_BYTES
    settings = {
        "durable_write": False,
        "max_wal_flush_interval_ms": 0,
        "max_wal_buffer_size": room,
        "max_memtable_size": room,
        "max_unflushed_memtable_bytes": 4 * room,
        "max_memtable_rows": sum(part.num_rows for part in parts) + _ROOM_ROWS,
        "max_memtable_batches": 1 << 20,
    }
    before = read_latest_manifest(table.storage, region_id, cached=cached)
    manifest, position, writer = claim_region(table, region_id, settings, before, discarded)
    epoch = manifest.writer_epoch
    where = f"table {table.name!r}, region {region_id}"

    def in_doubt(text: str) -> InDoubtError:
        is_claimed = is_claimed_after(table, region_id, epoch)
        return InDoubtError(f"{where}: {text}", position + 1, epoch, by_peer=is_claimed)

    if after_epoch is not None and epoch != after_epoch + 1:
        discarded.add(epoch, writer)
        msg = f"{where}: another writer claimed it in between"
        raise FencedError(msg)
    try:
        check()
    except BaseException:
        discarded.add(epoch, writer)
        raise
    try:
        if upserts is not None:
            writer.put(export_to_log(upserts, table.dataset.schema))
        if deletes is not None:
            writer.delete(export_to_log(deletes, table.dataset.schema))
    except (OSError, RuntimeError) as error:
        # Nothing reaches the log but by closing, and this writer is not closed before it is fenced off.
        discarded.add(epoch, writer)
        text = shorten_text(error)
        if is_invalid_input(error):
            raise InvalidInputError(f"{where}: {text}") from error
        raise in_doubt(text) from error
    try:
        writer.close()
    except (OSError, RuntimeError) as error:
        raise in_doubt(shorten_text(error)) from error
    return epoch
