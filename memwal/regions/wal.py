"""The write-ahead log of a region: one Arrow IPC stream per entry; positions start at 1."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError, UnsupportedError
from lance_gateway.memwal.regions.log_values import hide_blob_type, read_values
from lance_gateway.memwal.regions.manifest import (
    RegionManifest,
    format_reversed_bits,
    parse_reversed_bits,
    read_latest_manifest,
)
from lance_gateway.memwal.storage.files import MEM_WAL, Storage, find_last_in_sequence

_OLD_SUFFIX: Final = ".lance"
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass(frozen=True, slots=True)
class WalEntry:
    """One entry of the WAL: a durable append, or a fence.

    Attributes:
        position: 1 or more.
        writer_epoch: fencing token of the writer that appended it.
        generation: generation that its rows will be flushed in; None when the writer keeps no MemTable.
        is_fence: whether it only fences off older writers and carries no rows.
        rows: the appended rows in write order, with `_tombstone` where the table has a primary key; None for
            a fence.
    """

    position: int
    writer_epoch: int
    generation: int | None
    is_fence: bool
    rows: pa.Table | None

    def __post_init__(self) -> None:
        if self.position < 1:
            msg = f"WAL position {self.position}: positions start at 1"
            raise InvalidInputError(msg)
        if self.is_fence == (self.rows is not None):
            msg = f"WAL entry {self.position}: a fence carries no rows and every other entry does"
            raise InvalidInputError(msg)


def wal_directory(region_id: str) -> str:
    """Return the directory of a region's log."""
    return f"{MEM_WAL}/{region_id}/wal"


def wal_entry_path(region_id: str, position: int) -> str:
    """Return the file of a WAL entry; positions start at 1."""
    return f"{wal_directory(region_id)}/{format_reversed_bits(position)}.arrow"


def parse_wal_entry_position(name: str) -> int | None:
    """Return the position of a WAL entry's file name; None for any other file."""
    return parse_reversed_bits(name.removesuffix(".arrow")) if name.endswith(".arrow") else None


def read_wal_entry(table: Storage, region_id: str, position: int) -> WalEntry:
    """Read one WAL entry.

    Raises:
        FileNotFoundError: there is no entry at that position.
        CorruptDataError: the file is cut short or is not a WAL entry.
        UnavailableError: storage failed to answer.
    """
    path = wal_entry_path(region_id, position)
    data = table.read(path)
    try:
        entry = _decode(data, position)
        return entry if entry.rows is None else replace(entry, rows=read_values(table, region_id, entry.rows))
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        msg = (
            f"{table.locate(path)} ({len(data)} bytes) is not a whole WAL entry: {error}. An entry is an "
            "Arrow IPC stream with its end marker and writer_epoch in its schema metadata. Restore the file; "
            "if its append was never acknowledged, remove it"
        )
        raise CorruptDataError(msg) from error


def _decode(data: bytes, position: int) -> WalEntry:
    if not data.endswith(_END_OF_STREAM):
        # To pyarrow the end of the bytes is an end of the stream too, so it would drop batches silently.
        msg = "the end of the stream is missing"
        raise ValueError(msg)
    with pa.ipc.open_stream(hide_blob_type(data)) as reader:
        rows = reader.read_all()
    metadata = rows.schema.metadata or {}
    if b"writer_epoch" not in metadata:
        msg = "its schema metadata has no writer_epoch"
        raise ValueError(msg)
    generation = metadata.get(b"generation")
    is_fence = b"fence_sentinel" in metadata
    return WalEntry(
        position=position,
        writer_epoch=int(metadata[b"writer_epoch"]),
        generation=None if generation is None else int(generation),
        is_fence=is_fence,
        rows=None if is_fence else rows,
    )


def find_last_wal_position(table: Storage, region_id: str, *, after: int) -> int:
    """Return the newest position that follows `after` without a gap; `after` if none follows.

    Raises:
        UnavailableError: storage failed to answer.
    """
    return find_last_in_sequence(table, partial(wal_entry_path, region_id), after)


def find_last_epoch(table: Storage, region_id: str) -> int:
    """Return the writer epoch of the last entry of a region's log; 0 without entries.

    Raises:
        CorruptDataError: the entry can't be read.
        UnavailableError: storage failed to answer.
    """
    last = find_last_wal_position(table, region_id, after=0)
    return read_wal_entry(table, region_id, last).writer_epoch if last else 0


def check_log_is_read(storage: Storage, manifest: RegionManifest, last: int) -> None:
    """Refuse a log with entries that are not read: their rows would be missing from answers silently.

    Args:
        storage: directory of the table.
        manifest: of the region.
        last: newest position that follows what is flushed without a gap.

    Raises:
        UnsupportedError: there is an entry at position 0, or one in the older layout, a Lance file.
        UnavailableError: storage failed to answer.
    """
    region_id, after = manifest.region_id, manifest.replay_after_wal_entry_position
    paths = [_old_entry_path(region_id, position) for position in sorted({after + 1, last + 1})]
    if not after:
        # Nothing is flushed, so it can't be an entry that counts no more.
        paths += [wal_entry_path(region_id, 0), _old_entry_path(region_id, 0)]
    for path, is_there in zip(paths, storage.exists(*paths), strict=True):
        if is_there:
            kind = "of an older layout" if path.endswith(_OLD_SUFFIX) else "at position 0"
            msg = (
                f"{storage.locate(path)} is a log entry {kind}, and these are not read: its rows would be "
                "missing. Flush the region with the version of Lance that wrote it; if its rows were "
                "flushed, or written again, remove the file"
            )
            raise UnsupportedError(msg)


def check_epochs(storage: Storage, manifest: RegionManifest, entries: Iterable[WalEntry]) -> None:
    """Refuse entries whose writer epoch is above that of their region.

    MemWAL specification, "Writer Fencing": a claim commits its epoch in a manifest before it appends, so
    entries are valid only up to the epoch of the newest manifest. Lance's writers refuse to replay others.

    Args:
        storage: directory of the table.
        manifest: of the region; claims since it was read are looked up.
        entries: of its log.

    Raises:
        CorruptDataError: there is such an entry.
        UnavailableError: storage failed to answer.
    """
    newest = max(entries, key=lambda one: one.writer_epoch, default=None)
    if newest is None or newest.writer_epoch <= manifest.writer_epoch:
        return
    current = read_latest_manifest(storage, manifest.region_id)
    epoch = manifest.writer_epoch if current is None else current.writer_epoch
    if newest.writer_epoch > epoch:
        msg = (
            f"{storage.locate(wal_entry_path(manifest.region_id, newest.position))} is a log entry of writer "
            f"epoch {newest.writer_epoch}, and the newest manifest of its region has epoch {epoch}: such an "
            "entry is invalid. Restore the manifests of the region that are missing; if the entry was never "
            "acknowledged, or was copied from elsewhere, remove the file"
        )
        raise CorruptDataError(msg)


def _old_entry_path(region_id: str, position: int) -> str:
    return f"{wal_directory(region_id)}/{format_reversed_bits(position)}{_OLD_SUFFIX}"


def read_wal_entry_if_present(storage: Storage, region_id: str, position: int) -> WalEntry | None:
    """Read the entry at a position; None if there is none."""
    try:
        return read_wal_entry(storage, region_id, position)
    except FileNotFoundError:
        return None


def has_unflushed_rows(storage: Storage, manifest: RegionManifest) -> bool:
    """Return whether a region's log has rows that no generation of its manifest covers.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    entry = find_last_rows(storage, manifest)
    return entry is not None and manifest.replay_start.is_unflushed(entry.position, entry.generation)


def find_last_rows(storage: Storage, manifest: RegionManifest) -> WalEntry | None:
    """Return the newest entry with rows behind the replay position of a manifest; None if there is none.

    Raises:
        LanceGatewayError: the log can't be read, or must not be.
    """
    region_id, after = manifest.region_id, manifest.replay_after_wal_entry_position
    last = find_last_wal_position(storage, region_id, after=after)
    check_log_is_read(storage, manifest, last)
    for position in range(last, after, -1):
        entry = read_wal_entry_if_present(storage, region_id, position)
        if entry is not None:
            check_epochs(storage, manifest, (entry,))
            if not entry.is_fence:
                return entry
    return None


def read_unflushed_entries(storage: Storage, manifest: RegionManifest) -> Iterator[WalEntry]:
    """Read the entries of a region's log that no generation covers, ascending, fences included.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    region_id, after = manifest.region_id, manifest.replay_after_wal_entry_position
    last = find_last_wal_position(storage, region_id, after=after)
    check_log_is_read(storage, manifest, last)
    for position in range(after + 1, last + 1):
        entry = read_wal_entry_if_present(storage, region_id, position)
        if entry is not None and manifest.replay_start.is_unflushed(position, entry.generation):
            check_epochs(storage, manifest, (entry,))
            yield entry


def has_abandoned_rows(storage: Storage, region_id: str, position: int) -> bool:
    """Return whether a log has unflushed rows and no rows after a position.

    Args:
        storage: directory of the table.
        region_id: of the region.
        position: of the newest entry of a writer that lost the region.

    Raises:
        LanceGatewayError: the region can't be read.
    """
    manifest = read_latest_manifest(storage, region_id)
    if manifest is None or manifest.sealed or not has_unflushed_rows(storage, manifest):
        return False
    following = range(position + 1, find_last_wal_position(storage, region_id, after=position) + 1)
    entries = (read_wal_entry_if_present(storage, region_id, one) for one in following)
    return all(entry is None or entry.is_fence for entry in entries)


def find_appended_position(storage: Storage, region_id: str, position: int, epoch: int) -> int:
    """Return the newest position of what the writer with this epoch has just appended.

    It is the next one as a rule. A writer that claimed the region earlier, and lost it before it left its
    fence in the log, may leave it in between: Lance's writers step over fences of older epochs. And where
    storage did not confirm an entry, Lance's writers append it once more, behind their own.

    Args:
        storage: directory of the table.
        region_id: of the region.
        position: that follows the newest entry of the writer before.
        epoch: of the writer.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    found = None
    while storage.exists(wal_entry_path(region_id, position + 1))[0]:
        if _is_of_writer(storage, region_id, position, epoch):
            found = position
        position += 1
    return position if found is None or _is_of_writer(storage, region_id, position, epoch) else found


def _is_of_writer(storage: Storage, region_id: str, position: int, epoch: int) -> bool:
    entry = read_wal_entry_if_present(storage, region_id, position)
    return entry is not None and entry.writer_epoch == epoch and not entry.is_fence
