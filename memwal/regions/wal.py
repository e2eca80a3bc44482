"""The write-ahead log of a region: one Arrow IPC stream per entry, at positions counted from 1."""

from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from memwal.errors import CorruptDataError, InvalidInputError
from memwal.regions.manifest import bit_reversed, from_bit_reversed
from memwal.storage.files import MEM_WAL, Storage, last_in_sequence

_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass(frozen=True, slots=True)
class WalEntry:
    """One durable append.

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
    """Returns the directory of a region's log."""
    return f"{MEM_WAL}/{region_id}/wal"


def wal_entry_path(region_id: str, position: int) -> str:
    """Returns the file of one WAL entry; positions start at 1."""
    return f"{wal_directory(region_id)}/{bit_reversed(position)}.arrow"


def wal_entry_position(name: str) -> int | None:
    """Returns the position of a WAL entry by the name of its file; None for any other file."""
    return from_bit_reversed(name.removesuffix(".arrow")) if name.endswith(".arrow") else None


def read_wal_entry(table: Storage, region_id: str, position: int) -> WalEntry:
    """Reads one WAL entry.

    Raises:
        FileNotFoundError: there is no entry at that position.
        CorruptDataError: the file is cut short or is no WAL entry.
        UnavailableError: storage failed to answer.
    """
    path = wal_entry_path(region_id, position)
    data = table.read(path)
    try:
        return _decode(data, position)
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
    with pa.ipc.open_stream(data) as reader:
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


def last_wal_position(table: Storage, region_id: str, *, after: int) -> int:
    """Returns the newest position that follows `after` without a gap, or `after` when nothing follows.

    Raises:
        UnavailableError: storage failed to answer.
    """
    return last_in_sequence(table, partial(wal_entry_path, region_id), after)
