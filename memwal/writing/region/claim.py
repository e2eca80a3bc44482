"""A claimed region: one Lance `ShardWriter`, its epoch, and its position in the log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Any, overload

import numpy as np
import pyarrow as pa

from lance_gateway.memwal.columns.lance_rows import export_to_log
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE
from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    UnavailableError,
    find_storage_cause,
)
from lance_gateway.memwal.lance_errors import is_invalid_input
from lance_gateway.memwal.regions.manifest import RegionManifest, commit_manifest, read_latest_manifest
from lance_gateway.memwal.regions.wal import WalEntry, find_appended_position
from lance_gateway.memwal.writing.region.discarded_writers import DiscardedWriters
from lance_gateway.memwal.writing.region.doubts import InDoubtError
from lance_gateway.memwal.writing.table.open_table import OpenTable

_log = logging.getLogger(__name__)
_MANY_BYTES = 1 << 20
_MANY_CHUNKS = 256
"""Batches of an entry count as entries where a MemTable's are limited."""


@dataclass(frozen=True, eq=False)
class OwnTail:
    """The unflushed rows that this process wrote to a region and holds in memory.

    Whoever finds `writer_epoch` in the region's newest manifest knows its whole log up to `last` without
    looking at storage, and the rows of all positions from `first` on. Positions below `first` that the
    manifest does not cover are in storage: those of former writers, and those of generations that were
    flushed since the manifest was read.

    Attributes:
        writer_epoch: of the claim.
        first: position of the oldest entry that is held; `last` + 1 where none is.
        last: position of the newest durable entry.
        entries: with rows, ascending, all those of positions `first` to `last`; what lies between them are
            fences, and entries that Lance appended again behind them.
    """

    writer_epoch: int
    first: int
    last: int
    entries: Sequence[WalEntry]

    def after(self, position: int) -> list[WalEntry]:
        """Return the entries after a position, ascending."""
        newer = list(takewhile(lambda one: one.position > position, reversed(self.entries)))
        return newer[::-1]


class BufferedEntry:
    """One durable append; its WAL entry is built when a reader first asks for it."""

    __slots__ = ("_deleted", "_entry", "_rows", "_schema", "epoch", "generation", "nbytes", "position")

    def __init__(
        self, position: int, epoch: int, generation: int, rows: pa.Table, schema: pa.Schema, *, deleted: bool
    ) -> None:
        self.position = position
        self.epoch = epoch
        self.generation = generation
        self.nbytes = int(rows.nbytes)
        self._rows = rows
        self._schema = schema
        self._deleted = deleted
        self._entry: WalEntry | None = None

    @property
    def num_rows(self) -> int:
        """Number of rows or keys."""
        return int(self._rows.num_rows)

    @property
    def entry(self) -> WalEntry:
        """The WAL entry."""
        made = self._entry
        if made is None:
            rows = build_entry_rows(self._rows, self._schema, deleted=self._deleted)
            made = self._entry = WalEntry(
                self.position, self.epoch, self.generation, is_fence=False, rows=rows
            )
        return made


class _Entries(Sequence[WalEntry]):
    """A prefix of a list that only grows, without a copy."""

    __slots__ = ("_held", "_size")

    def __init__(self, entries: list[BufferedEntry], size: int) -> None:
        self._held = entries
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> WalEntry: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[WalEntry, ...]: ...

    def __getitem__(self, at: int | slice) -> WalEntry | tuple[WalEntry, ...]:
        if isinstance(at, slice):
            return tuple(self._held[number].entry for number in range(*at.indices(self._size)))
        if not -self._size <= at < self._size:
            raise IndexError(at)
        return self._held[at % self._size].entry

    def __iter__(self) -> Iterator[WalEntry]:
        return (self._held[at].entry for at in range(self._size))


class TailKeeper:
    """Collects the appended entries of a claim; one thread writes, any number reads.

    Attributes:
        held: what is held now; replaced as a whole, so that readers need no lock.
        rows: in it.
        bytes: of these.

    Args:
        epoch: of the claim.
        position: of the newest entry when it began.
    """

    def __init__(self, epoch: int, position: int) -> None:
        self._lock = threading.Lock()
        self._entries: list[BufferedEntry] = []
        self.held = OwnTail(epoch, position + 1, position, ())
        self.rows = 0
        self.bytes = 0

    def append(self, entry: BufferedEntry) -> None:
        """Add a durable entry; only fences, and the same rows, may lie between it and the one before."""
        with self._lock:
            self._entries.append(entry)
            self.rows += entry.num_rows
            self.bytes += entry.nbytes
            self._publish(self.held.first, entry.position)

    def drop(self, generation: int) -> None:
        """Drop the entries of all generations before this one: they are flushed."""
        if not self._entries or self._entries[0].generation >= generation:
            return
        with self._lock:
            dropped = [entry for entry in self._entries if entry.generation < generation]
            self.rows -= sum(entry.num_rows for entry in dropped)
            self.bytes -= sum(entry.nbytes for entry in dropped)
            # Another list: those who read the one before keep it.
            self._entries = self._entries[len(dropped) :]
            last = self.held.last
            self._publish(self._entries[0].position if self._entries else last + 1, last)

    def _publish(self, first: int, last: int) -> None:
        entries = _Entries(self._entries, len(self._entries))
        self.held = OwnTail(self.held.writer_epoch, first, last, entries)


@dataclass(eq=False)
class Claim:
    """A claimed region; for one thread at a time, except for `tail` and plain attributes.

    Attributes:
        table: with which it was opened.
        newest: the table as it was newest after the claim; a rule that was committed before the claim is
            among its rules.
        region_id: UUID in its usual text form.
        manifest: of the region, as the claim left it.
        epoch: fencing token.
        position: of the newest entry that it appended and `settle_position` has found; before the first, of
            its fence.
        tail: what was appended and is not flushed.
        discarded: where its Lance writer goes if it is not closed.
        since: when it was claimed, in UTC.
        used_at: monotonic time of the last append.
        is_lost: whether another writer is known to have claimed the region, or the log refused an entry.
    """

    table: OpenTable
    region_id: str
    manifest: RegionManifest
    epoch: int
    position: int
    tail: TailKeeper
    discarded: DiscardedWriters = field(repr=False)
    _writer: Any = field(repr=False)
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    used_at: float = field(default_factory=time.monotonic)
    is_lost: bool = False
    newest: OpenTable | None = None
    _unsettled: tuple[Future[int], BufferedEntry, int] | None = None
    """The pending position of the newest entry, the entry, and the oldest generation that is held."""
    _settling: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def append(self, parts: Sequence[pa.Table], *, deleted: bool) -> None:
        """Append one entry durably; `settle_position` must have been called since the append before.

        Args:
            parts: rows of the table's columns; of a delete, its key columns.
            deleted: whether they are keys to delete.

        Raises:
            InvalidInputError: Lance refuses the rows; nothing was written.
            InDoubtError: the entry may or may not be in the log; nothing more can be appended.
        """
        rows = concat_parts(parts)
        try:
            (self._writer.delete if deleted else self._writer.put)(
                export_to_log(rows, self.table.dataset.schema)
            )
            stats = self._writer.memtable_stats()
        except (OSError, RuntimeError) as error:
            raise self._classify_error(error) from error
        storage, following = self.table.storage, self.position + 1
        find = partial(find_appended_position, storage, self.region_id, following, self.epoch)
        generation = stats["generation"]
        entry = BufferedEntry(
            following, self.epoch, generation, rows, self.table.entry_schema, deleted=deleted
        )
        found = storage.start(find)
        self._unsettled = found, entry, generation - stats["frozen_count"]
        self.used_at = time.monotonic()
        if found.done():
            self.settle_position()

    def settle_position(self) -> None:
        """Wait until the position of the newest entry is known. Thread-safe; required before each append.

        If storage fails to answer, the claim is abandoned. The entry is durable, and the next write claims
        the region again.
        """
        with self._settling:
            if self._unsettled is None:
                return
            found, entry, oldest = self._unsettled
            try:
                entry.position = self.position = found.result()
            except LanceGatewayError as error:
                _log.warning(
                    "table %r, region %s is claimed again: %s", self.table.name, self.region_id, error
                )
                self.abandon()
            else:
                self.tail.append(entry)
                self.tail.drop(oldest)
            self._unsettled = None

    def _classify_error(self, error: Exception) -> InvalidInputError | InDoubtError:
        text = shorten_text(error)
        if is_invalid_input(error):
            return InvalidInputError(f"table {self.table.name!r}: {text}")
        self.is_lost = True
        msg = f"table {self.table.name!r}, region {self.region_id}: {text}"
        is_claimed = is_claimed_after(self.table, self.region_id, self.epoch)
        return InDoubtError(msg, self.position + 1, self.epoch, by_peer=is_claimed)

    def close(self) -> bool:
        """Flush and release the region; return False if another writer has claimed it.

        Raises:
            UnavailableError: it was not flushed; what was acknowledged is durable in the log.
        """
        if self._writer is None or self.is_lost:
            self.abandon()
            return False
        newest = read_latest_manifest(self.table.storage, self.region_id)
        is_same = self.table.watch.is_same()
        if newest is None or newest.writer_epoch != self.epoch or not is_same:
            # To flush would only fail, or bring the rows into another table.
            self.abandon()
            if newest is not None and is_same:
                self.discarded.close_before(newest.writer_epoch)
            return False
        writer, self._writer = self._writer, None
        try:
            writer.close()
        except (OSError, RuntimeError) as error:
            self.is_lost = True
            if is_claimed_after(self.table, self.region_id, self.epoch):
                return False
            reason = shorten_text(error)
            msg = f"table {self.table.name!r}: region {self.region_id} was not flushed: {reason}"
            raise UnavailableError(msg) from error
        return True

    def fence_off(self) -> None:
        """Take the region from its own Lance writer and close that, without a flush.

        Leaves no fence in the log (ADR 25): only for a table whose files are about to be deleted.

        Raises:
            LanceGatewayError: storage failed; the writer is left as `abandon` leaves it.
        """
        self.abandon()
        newest = read_latest_manifest(self.table.storage, self.region_id)
        if newest is None or not self.table.watch.is_same():
            return
        if newest.writer_epoch == self.epoch:
            newest = replace(newest, version=newest.version + 1, writer_epoch=self.epoch + 1)
            if not commit_manifest(self.table.storage, newest):
                return
        self.discarded.close_before(newest.writer_epoch, waits=True)

    def abandon(self) -> None:
        """Release the writer without a flush; it is closed once another claim fenced it off."""
        self.is_lost = True
        writer, self._writer = self._writer, None
        if writer is not None:
            self.discarded.add(self.epoch, writer)


def is_claimed_after(table: OpenTable, region_id: str, epoch: int) -> bool:
    """Return whether a region was claimed after an epoch; False where storage does not tell."""
    newest = find_newest_manifest(table, region_id)
    return newest is not None and newest.writer_epoch > epoch


def find_newest_manifest(table: OpenTable, region_id: str) -> RegionManifest | None:
    """Return a region's newest manifest, to tell why Lance failed; None where storage does not tell."""
    try:
        return read_latest_manifest(table.storage, region_id)
    except LanceGatewayError:
        return None


def shorten_text(error: Exception) -> str:
    """Return Lance's message without positions in its source code and without repetitions."""
    text = str(error)
    kept = [part for part in text.split(", /") if ".rs:" not in part.split(" ")[0]]
    short = kept[0].split("\n")[0][:500] if kept else text[:500]
    cause = find_storage_cause(text)
    return short if cause is None else f"{cause}: {short}"


def concat_parts(parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate the rows of several requests; copy small ones, and many chunks, into one chunk."""
    rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
    chunks = max((column.num_chunks for column in rows.columns), default=0)
    if chunks > _MANY_CHUNKS or (chunks > 1 and rows.nbytes < _MANY_BYTES):
        rows = rows.combine_chunks()
    return rows


def build_entry_rows(rows: pa.Table, schema: pa.Schema, *, deleted: bool) -> pa.Table:
    """Return the rows of a WAL entry for upserted rows or deleted keys.

    Args:
        rows: of the table's columns; of a delete, its key columns.
        schema: of the WAL entry; nothing but keys is set in tombstones.
        deleted: whether they are keys that were deleted.
    """
    columns = []
    for wanted in schema:
        if wanted.name == TOMBSTONE:
            column = pa.array(np.full(rows.num_rows, deleted))
        elif deleted and rows.schema.get_field_index(wanted.name) < 0:
            column = pa.nulls(rows.num_rows, wanted.type)
        else:
            column = rows.column(wanted.name)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)
