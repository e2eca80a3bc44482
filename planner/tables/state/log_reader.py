"""Reads what is new in the logs of regions: from storage, or from memory where this process wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from execnodes.storage.data_files import Place
from memwal.regions.manifest import RegionManifest
from memwal.regions.wal import WalEntry, last_wal_position, read_wal_entry, wal_entry_path
from memwal.storage.files import Storage
from memwal.writing import OwnTail
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.caches import ByteCache
from planner.tables.sources.log_tail import TailRows
from planner.tables.sources.region_log import RegionLog
from planner.tables.state.table_state import KnownState

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
        own_tail: what this process wrote to a region and holds in memory; None where it does not own it.
        newest_base: the base version that was read last, if any.
    """

    storage: Storage
    cache: ByteCache
    own_tail: Callable[[str], OwnTail | None]
    newest_base: Callable[[], BaseTable | None]

    def unflushed_each(self, kept: KnownState, manifests: Sequence[RegionManifest]) -> dict[str, RegionLog]:
        """See `unflushed`: region id -> log, of several regions.

        Those whose logs are known are asked in one go whether anything was written since.
        """
        logs: dict[str, RegionLog] = {}
        following: dict[str, int] = {}
        for manifest in manifests:
            region_id = manifest.region_id
            log = kept.logs.get(region_id)
            if log is not None and log.fits(manifest) and self.own_tail(region_id) is None:
                logs[region_id], following[region_id] = log, log.last + 1
        are_there = self.storage.exists(*map(wal_entry_path, following.keys(), following.values()))
        seen = {one: following[one] for one, is_there in zip(following, are_there, strict=True) if is_there}
        others = [one for one in manifests if one.region_id in seen or one.region_id not in logs]
        if others:
            read = self.storage.each(
                lambda one: self.unflushed(kept, one, seen.get(one.region_id, 0)), others
            )
            logs |= {log.region_id: log for log in read}
        return logs

    def unflushed(self, kept: KnownState, manifest: RegionManifest, seen: int = 0) -> RegionLog:
        """The region's log as it is now, without what the manifest calls flushed.

        A manifest that has this process's epoch was the newest when it was read, and so nobody else had
        written by then: the log is what memory says, and storage need not be asked.

        Args:
            kept: what is known of the table.
            manifest: the region's newest.
            seen: the position behind one that was looked at, where an entry is known to be; 0 for none.

        Raises:
            FileNotFoundError: entries were flushed and removed since the manifest was read.
            LanceGatewayError: one can't be read.
        """
        region_id = manifest.region_id
        own = self.own_tail(region_id)
        if own is not None and own.writer_epoch != manifest.writer_epoch:
            own = None
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
            last = last_wal_position(self.storage, region_id, after=max(looked_at, seen))
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
            newer = list(takewhile(lambda one: one.position > after, reversed(own.entries)))
            yield from reversed(newer)

    def _without_flushed(self, kept: KnownState, log: RegionLog, manifest: RegionManifest) -> RegionLog:
        """The log without what was flushed since, whose rows are remembered by generation."""
        base = self.newest_base()
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
            last = last_wal_position(self.storage, region_id, after=looked_at)
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
