"""Logs whose owners are gone: heartbeats of writers, and flushes in their place.

A process that owns regions of a table writes a small file at least every minute. Who finds rows in the log
of a region, the last of them old, and the owner's file as old, may flush the log: its owner has died, or
has been stopped for so long that others may take its regions anyway. Writers that leave no such file, as
Lance's own, are never taken for dead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from lance_gateway.memwal.base.table_place import keep_in_place
from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.memwal.regions.manifest import RegionManifest
from lance_gateway.memwal.regions.wal import find_last_wal_position, has_unflushed_rows, wal_entry_path
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.writing.changes import FencedError, SealedError
from lance_gateway.memwal.writing.options import WriteOptions
from lance_gateway.memwal.writing.region.discarded_writers import DiscardedWriters
from lance_gateway.memwal.writing.region.ownership import RegionOwnership, read_owner_record
from lance_gateway.memwal.writing.table.open_table import OpenTable

WRITERS: Final = "_gateway/writers"
HEARTBEAT_SECONDS: Final = 60.0
"""A process that owns regions shows that it lives at least so often."""
_FORGET_SECONDS: Final = 7 * 86400.0
_CLAIM_SECONDS: Final = 30.0


def heartbeat_path(writer_id: str) -> str:
    """Return the file by which a writer shows that it lives, below the directory of the table."""
    return f"{WRITERS}/{writer_id}"


def write_heartbeat(table: Storage, writer_id: str) -> None:
    """Show that a writer lives; if storage fails, that stays unknown to others."""
    with suppress(UnavailableError):
        table.put(heartbeat_path(writer_id), b"")


def remove_heartbeat(table: Storage, writer_id: str) -> None:
    """Remove the heartbeat of a writer that owns nothing any more."""
    with suppress(UnavailableError):
        table.delete(heartbeat_path(writer_id))


def is_abandoned(
    table: Storage, manifest: RegionManifest, seconds: float, clock: Callable[[], float] = time.time
) -> bool:
    """Return whether a region's log has unflushed rows, and its owner is gone or let go of it.

    Args:
        table: directory of the table.
        manifest: newest manifest of the region.
        seconds: since the last heartbeat, and since the last entry.
        clock: Unix time in seconds.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    if manifest.sealed:
        return False
    record = read_owner_record(table, manifest)
    if record is None:
        return False
    last = find_last_wal_position(table, manifest.region_id, after=manifest.replay_after_wal_entry_position)
    entry, sign = table.identities(wal_entry_path(manifest.region_id, last), heartbeat_path(record.writer))
    signs = [entry] if record.is_released else [entry, sign]
    if any(one is None or clock() - one.written / 1e9 <= seconds for one in signs):
        return False
    return has_unflushed_rows(table, manifest)


def flush_abandoned(name: TableName, table: Storage, manifest: RegionManifest) -> bool:
    """Flush the log of a region in place of its owner; return False if somebody else took the region.

    Args:
        name: of the table.
        table: its directory.
        manifest: by which the region was found abandoned.

    Raises:
        LanceGatewayError: it was not flushed; its rows are in the log as before.
    """
    opened = OpenTable.open(name, table)
    ownership = RegionOwnership(
        manifest.region_id,
        lambda: opened,
        WriteOptions(hold_ms=0, idle_close_seconds=0),
        "",
        threading.Event(),
        DiscardedWriters(),
    )
    with keep_in_place(table):
        try:
            claim = ownership.claim(time.monotonic() + _CLAIM_SECONDS, manifest.writer_epoch)
        except (FencedError, SealedError):
            return False
        if not claim.close():
            return False
    ownership.release(claim)
    return True


def forget_signs(table: Storage, clock: Callable[[], float] = time.time) -> None:
    """Remove heartbeats that are a week old."""
    with suppress(LanceGatewayError):
        expired = [one for one in table.list(WRITERS) if clock() - one.written / 1e9 > _FORGET_SECONDS]
        table.delete_each([f"{WRITERS}/{one.name}" for one in expired])
