"""Keeps a table's writer, and reads what is new in its logs: from storage, or from the writer's memory."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from execnodes.storage.data_files import Place
from memwal.errors import PreconditionError
from memwal.regions.manifest import RegionManifest
from memwal.regions.wal import WalEntry, find_last_wal_position, read_wal_entry, wal_entry_path
from memwal.storage.files import Storage
from memwal.writing import OwnTail, TableWriter, WriteOptions
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.caches import ByteCache
from planner.tables.sources.log_tail import Tail, TailRows
from planner.tables.sources.region_log import RegionLog
from planner.tables.state.table_state import KnownState, Newest

OwnTails = Callable[[Iterable[str]], Mapping[str, OwnTail]]
ENTRIES_FOR_A_GENERATION = 512
"""So many entries that are flushed already are still read, where the rest of their generation was."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Names an entry of a log. Equal if it is the same one: positions are taken once."""

    place: Place
    region_id: str
    position: int


@dataclass(frozen=True, slots=True)
class FlushedGenerationName:
    """Names `FlushedRows`. Equal if it is the same generation of the same table's region.

    What they are read as, the rows tell themselves: see `TailRows.reads_as`.
    """

    place: Place
    region_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class FlushedRows:
    """A generation as it was while it was unflushed, if all of its entries were read.

    Attributes:
        rows: of the region's log.
        start: its first row among them.
        stop: behind its last row.
    """

    rows: TailRows
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class LogReader:
    """Finds the unflushed entries of regions.

    Args:
        storage: directory of the table.
        cache: for entries, and for what was known of generations while they were unflushed.
        own_tails: what this process holds in memory of regions, by region id, of those that it owns.
        newest: knows the base version that was read last, if any.
    """

    storage: Storage
    cache: ByteCache
    own_tails: OwnTails
    newest: Newest

    def unflushed(self, kept: KnownState, manifests: Sequence[RegionManifest]) -> dict[str, RegionLog]:
        """The logs of regions as they are now, without what the manifests call flushed, by region id.

        A manifest that has this process's epoch was the newest when it was read, and so nobody else had
        written by then: the log is what memory says, and storage need not be asked. Other logs that are known
        are asked in one go whether anything was written since.

        Args:
            kept: what is known of the table.
            manifests: the newest of the regions.

        Raises:
            FileNotFoundError: entries were flushed and removed since a manifest was read.
            LanceGatewayError: one can't be read.
        """
        tails = self.own_tails([one.region_id for one in manifests])
        logs: dict[str, RegionLog] = {}
        following: dict[str, int] = {}
        others: list[tuple[RegionManifest, OwnTail | None, int]] = []
        for manifest in manifests:
            region_id = manifest.region_id
            own, log = tails.get(region_id), kept.logs.get(region_id)
            if own is not None and own.writer_epoch != manifest.writer_epoch:
                own = None
            if log is None or log.replay_start != manifest.replay_start:
                others.append((manifest, own, 0))
                continue
            logs[region_id] = log
            if own is None:
                following[region_id] = log.last + 1
            elif own.last > log.last:
                log.advance(list(self._entries(kept, region_id, log.last, own.last, own)), own.last)
        if following:
            are_there = self.storage.exists(*map(wal_entry_path, following.keys(), following.values()))
            grown = {one for one, is_there in zip(following, are_there, strict=True) if is_there}
            others += [(one, None, following[one.region_id]) for one in manifests if one.region_id in grown]
        if others:
            read = self.storage.each(lambda one: self._log(kept, *one), others)
            logs |= {log.region_id: log for log in read}
        return logs

    def tails(
        self, kept: KnownState, logs: Mapping[str, RegionLog], base: BaseTable
    ) -> Mapping[str, Tail | None]:
        """Rows of logs that are in no generation, by region id; None where there are none.

        Args:
            kept: what is known of the table.
            logs: by region id, found before the base version.
            base: by whose columns the rows are read.

        Raises:
            FileNotFoundError: some were flushed, merged and removed since the manifests were read.
            LanceGatewayError: one can't be read.
        """
        found = {}
        for region_id, log in logs.items():
            newest_merged = base.merged_generations.get(region_id, 0)
            rest = log
            if log.floor <= newest_merged:
                # Flushed and merged since the manifest was read.
                if not self.storage.exists(wal_entry_path(region_id, log.after + 1))[0]:
                    msg = f"the log of region {region_id} was cleaned up behind entry {log.after}"
                    raise FileNotFoundError(msg)  # Newer entries were not found behind the gap.
                rest = log.flushed_up_to(log.after, newest_merged + 1, base)
            found[region_id] = rest.tail(base, partial(self._held_entry, kept, region_id))
        return found

    def _held_entry(self, kept: KnownState, region_id: str, position: int) -> WalEntry:
        """One entry, from memory where this process wrote it."""
        own = self.own_tails((region_id,)).get(region_id)
        if own is not None and own.first <= position <= own.last:
            at = bisect_left(own.entries, position, key=lambda one: one.position)
            if at < len(own.entries) and own.entries[at].position == position:
                return own.entries[at]
        return self.entry(kept, region_id, position)

    def _log(
        self, kept: KnownState, manifest: RegionManifest, own: OwnTail | None, seen: int = 0
    ) -> RegionLog:
        """The log of one region.

        Args:
            kept: what is known of the table.
            manifest: the region's newest.
            own: what this process holds in memory; None where others may have written since.
            seen: the position behind one that was looked at, where an entry is known to be; 0 for none.
        """
        region_id = manifest.region_id
        log = kept.logs.get(region_id)
        if log is not None and log.is_behind(manifest):
            log = kept.logs[region_id] = self._without_flushed(kept, log, manifest)
        if log is None or log.is_ahead_of(manifest):
            known = log
            log = RegionLog(region_id, manifest.replay_after_wal_entry_position, manifest.current_generation)
            if known is None:
                kept.logs[region_id] = log
        looked_at = log.last
        if own is None:
            last = find_last_wal_position(self.storage, region_id, after=max(looked_at, seen))
        else:
            last = own.last
        if last > looked_at:
            log.advance(list(self._entries(kept, region_id, looked_at, last, own)), last)
        return log

    def entry(self, kept: KnownState, region_id: str, position: int) -> WalEntry:
        """One entry.

        Raises:
            FileNotFoundError: there is none.
            LanceGatewayError: it can't be read.
        """
        return self.cache.compute(
            _Entry(kept.place, region_id, position),
            lambda: read_wal_entry(self.storage, region_id, position),
            lambda entry: 256 + (0 if entry.rows is None else int(entry.rows.nbytes)),
        )

    def _entries(
        self, kept: KnownState, region_id: str, after: int, last: int, own: OwnTail | None
    ) -> Iterator[WalEntry]:
        """All entries behind a position, ascending; from memory as far as it has them."""
        held = last + 1 if own is None else own.first
        for position in range(after + 1, held):
            yield self.entry(kept, region_id, position)
        if own is not None:
            yield from own.after(after)

    def _without_flushed(self, kept: KnownState, log: RegionLog, manifest: RegionManifest) -> RegionLog:
        """The log without what was flushed since, whose rows are remembered by generation."""
        base = self.newest.last
        after = manifest.replay_after_wal_entry_position
        if base is not None and log.rows is not None and after - log.last <= ENTRIES_FOR_A_GENERATION:
            self._remember_flushed(kept, log, manifest, base)
        return log.flushed_up_to(after, manifest.current_generation, base)

    def _remember_flushed(
        self, kept: KnownState, log: RegionLog, manifest: RegionManifest, base: BaseTable
    ) -> None:
        region_id = manifest.region_id
        try:
            # What came between the query before and the flush; it may be gone already.
            looked_at = log.last
            last = find_last_wal_position(self.storage, region_id, after=looked_at)
            entries = [self.entry(kept, region_id, one) for one in range(looked_at + 1, last + 1)]
            log.advance(entries, last)
            log.tail(base, lambda position: self.entry(kept, region_id, position))
        except FileNotFoundError:
            return
        rows = log.rows
        for flushed in reversed(manifest.flushed_generations):
            name = FlushedGenerationName(kept.place, region_id, flushed.generation)
            stretch = None
            if rows is not None and flushed.generation >= log.floor:
                stretch = rows.stretch(flushed.generation)
            if rows is None or stretch is None:
                self.cache.put(name, None, 1)  # Whoever asks for masks now and then has asked for its by now.
                return
            self.cache.put(name, FlushedRows(rows, *stretch), rows.nbytes)


class TableWriting:
    """Makes the writer of a table when it is first asked for; safe to share between threads.

    Attributes:
        written_at: when rows were written last, in seconds of the monotonic clock.

    Args:
        name: of the table in the catalog.
        storage: directory of the table.
        options: how it is written; None where it is only read.
        newest: tells which table is in the directory now.
    """

    def __init__(self, name: str, storage: Storage, options: WriteOptions | None, newest: Newest) -> None:
        self._name = name
        self._storage = storage
        self._options = options
        self._newest = newest
        self._writer: TableWriter | None = None
        self._place: Place | None = None
        self._lock = threading.Lock()
        self.written_at = -math.inf

    @property
    def opened(self) -> TableWriter | None:
        """What `writer` made; None where nothing was written yet."""
        return self._writer

    def writer(self) -> TableWriter:
        """Return the writer; the same object while it is the same table.

        Raises:
            PreconditionError: the gateway only reads.
        """
        if self._options is None:
            msg = f"table {self._name!r} can't be written: this gateway was started read-only"
            raise PreconditionError(msg)
        known = self._newest.known
        with self._lock:
            if self._writer is not None and self._place != known.place:
                if self._writer.is_there():  # Readers know a table by less than writers do.
                    self._place = known.place
                else:
                    # Of a table that was dropped: to flush its rows would write them into the new one.
                    replaced, self._writer = self._writer, None
                    replaced.abandon()
            if self._writer is None:
                self._place = known.place
                self._writer = TableWriter(
                    self._name, self._storage, self._options, known.session, self.wrote
                )
            return self._writer

    def tails(self, region_ids: Iterable[str]) -> Mapping[str, OwnTail]:
        """Return what the writer holds of regions in memory, by region id; make no writer for it.

        Waits for rows that were acknowledged before they are durable.
        """
        writer = self._writer
        if writer is None or self._place != self._newest.known.place:
            return {}
        return writer.get_tails(region_ids)

    def wrote(self) -> None:
        """Take note that rows may have been written: no older snapshot is taken again."""
        self.written_at = time.monotonic()

    def close(self, timeout_seconds: float | None = None) -> Sequence[str]:
        """Flush what was written.

        Args:
            timeout_seconds: None as the options of writing say.

        Returns:
            Ids of regions that were not flushed; what was acknowledged is durable in their logs.
        """
        with self._lock:
            writer, self._writer = self._writer, None
        return () if writer is None else writer.close(timeout_seconds)

    def abandon(self) -> None:
        """Forget what was written and is not in storage: the table is dropped."""
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()
