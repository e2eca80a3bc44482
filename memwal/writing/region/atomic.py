"""Changes of one region that become one entry of its log although they don't fit one append.

Rows and keys together, or more rows than a MemTable takes: a Lance writer that is told to put nothing into
the log before it is closed writes all of it as one entry then, in order, and flushes a generation.
"""

from __future__ import annotations

import pyarrow as pa

from memwal.errors import InvalidInputError
from memwal.regions.manifest import RegionManifest
from memwal.writing.changes import FencedError
from memwal.writing.region.claim import INVALID, PEER, InDoubtError, claimed, plain
from memwal.writing.table.open_table import OpenTable
from memwal.writing.table.rows import exported

_ROOM_ROWS = 100_000
_ROOM_BYTES = 1 << 30


def append_atomically(
    table: OpenTable,
    region_id: str,
    upserts: pa.Table | None,
    deletes: pa.Table | None,
    *,
    after_epoch: int | None,
    known: RegionManifest | None,
) -> int:
    """Claim a region, append all of it as one entry, flush, and let go.

    Args:
        table: with whose columns the rows are.
        region_id: UUID in its usual text form.
        upserts: rows to write; None for none.
        deletes: keys to delete; None for none.
        after_epoch: nobody may have claimed the region since this epoch; None where that does not matter.
        known: the newest manifest read before.

    Returns:
        Epoch of the claim, which was let go.

    Raises:
        InDoubtError: whether it was appended must be looked up; its `epoch` is that of the claim.
        LanceGatewayError: nothing was written.
    """
    parts = [part for part in (upserts, deletes) if part is not None]
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
    epoch, position, writer = claimed(table, region_id, settings, known)
    where = f"table {table.name!r}, region {region_id}"
    if after_epoch is not None and epoch != after_epoch + 1:
        msg = f"{where}: another writer claimed it in between"
        raise FencedError(msg)
    try:
        if upserts is not None:
            writer.put(exported(upserts))
        if deletes is not None:
            writer.delete(exported(deletes))
    except (OSError, RuntimeError) as error:
        # Nothing reaches the log but by closing, and this writer is never closed.
        text = plain(error)
        if text.startswith(INVALID):
            raise InvalidInputError(f"{where}: {text}") from error
        raise InDoubtError(f"{where}: {text}", position + 1, epoch, by_peer=PEER in text) from error
    try:
        writer.close()
    except (OSError, RuntimeError) as error:
        text = plain(error)
        raise InDoubtError(f"{where}: {text}", position + 1, epoch, by_peer=PEER in text) from error
    return epoch
