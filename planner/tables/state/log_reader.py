"""Reader of new log entries, from storage or from the writer's memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from lance_gateway.execnodes.storage.data_files import Place
from lance_gateway.memwal.regions.manifest import RegionManifest
from lance_gateway.memwal.regions.wal import (
    WalEntry,
    check_epochs,
    check_log_is_read,
    find_last_wal_position,
    read_wal_entry,
    wal_entry_path,
)
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing import OwnTail
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.log_tail import RegionLog, Tail, TailRows
from lance_gateway.planner.tables.state.table_state import Newest, TableState

OwnTails = Callable[[Iterable[str]], Mapping[str, OwnTail]]
ENTRIES_FOR_A_GENERATION = 512
"""Flushed entries that are still read if the rest of their generation was read before."""

_ENTRY_BYTES = 1024
_COLUMN_BYTES = 1536
"""Of each column of an entry, besides its values: a field with its metadata, an array, a chunk."""


@dataclass(frozen=True, slots=True)
class _EntryName:
    """Cache key of a log entry; positions are never reused."""

    place: Place
    region_id: str
    position: int


@dataclass(frozen=True, slots=True)
class FlushedGenerationName:
    """Cache key of `FlushedRows`; see `TailRows.has_same_columns` for how they are read."""

    place: Place
    region_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class FlushedRows:
    """Rows of a generation from before it was flushed, if all of its entries were read.

    Attributes:
        rows: of the region's log.
        start: its first row among them.
        stop: behind its last row.
    """

    rows: TailRows
    start: int
    stop: int


def _continues(log: RegionLog, manifest: RegionManifest, *, is_own: bool = False) -> bool:
    """Return whether a log that was read before is current except for entries behind its last one."""
    is_checked = is_own or log.checked_epoch >= manifest.writer_epoch
    return is_checked and log.replay_start == manifest.replay_start


def _measure_entry(entry: WalEntry) -> int:
    """Return about how many bytes of memory an entry takes; most are of its schema where it has few rows."""
    rows = entry.rows
    return _ENTRY_BYTES if rows is None else _ENTRY_BYTES + rows.num_columns * _COLUMN_BYTES + rows.nbytes


@dataclass(frozen=True, slots=True)
class LogReader:
    """Reader of the unflushed entries of regions.

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

    def read_unflushed(
        self,
        state: TableState,
        manifests: Sequence[RegionManifest],
        ends: Mapping[str, int | None] = MappingProxyType({}),
    ) -> dict[str, RegionLog]:
        """Return the current logs of regions, by region id, without entries that the manifests call flushed.

        If a manifest has this process's epoch, no other process had written when it was read: its log is
        complete in memory. For other known logs, one request checks whether there are newer entries.

        Args:
            state: of the table.
            manifests: the newest of the regions.
            ends: region id -> result of `find_end` since the statement began.

        Raises:
            FileNotFoundError: entries were flushed and removed since a manifest was read.
            LanceGatewayError: one can't be read.
        """
        tails = self.own_tails([manifest.region_id for manifest in manifests])
        logs: dict[str, RegionLog] = {}
        following: dict[str, int] = {}
        others: list[tuple[RegionManifest, OwnTail | None, int]] = []
        for manifest in manifests:
            region_id = manifest.region_id
            own, log = tails.get(region_id), state.logs.get(region_id)
            if own is not None and own.writer_epoch != manifest.writer_epoch:
                own = None
            if log is None or not _continues(log, manifest, is_own=own is not None):
                others.append((manifest, own, 0))
                continue
            logs[region_id] = log
            end = ends.get(region_id)
            if own is not None:
                if own.last > log.last:
                    new = list(self._read_entries(state, region_id, log.last, own.last, own))
                    log.advance(new, own.last)
            elif end is None:
                following[region_id] = log.last + 1
            elif end > log.last:
                others.append((manifest, None, end))
        if following:
            are_there = self.storage.exists(*map(wal_entry_path, following.keys(), following.values()))
            grown = {one for one, is_there in zip(following, are_there, strict=True) if is_there}
            others += [
                (manifest, None, following[manifest.region_id])
                for manifest in manifests
                if manifest.region_id in grown
            ]
        if others:
            read = self.storage.each(lambda other: self._read_log(state, *other, ends), others)
            logs |= {log.region_id: log for log in read}
        return logs

    def find_end(self, state: TableState, manifest: RegionManifest) -> int | None:
        """Read up to two new entries of a region's log into the cache.

        Args:
            state: of the table.
            manifest: the newest of the region.

        Returns:
            The position of the last entry; None if `read_unflushed` has to find it: the log was not read
            before, has more new entries, or is in this process's memory.

        Raises:
            LanceGatewayError: an entry can't be read.
        """
        region_id, log = manifest.region_id, state.logs.get(manifest.region_id)
        if log is None or not _continues(log, manifest) or self.own_tails((region_id,)):
            return None

        def is_there(position: int) -> bool:
            try:
                self.read_entry(state, region_id, position)
            except FileNotFoundError:
                return False
            return True

        last = log.last
        first, second = self.storage.each_request(is_there, (last + 1, last + 2))
        return None if first and second else last + first

    def tails(
        self, state: TableState, logs: Mapping[str, RegionLog], base: BaseTable
    ) -> Mapping[str, Tail | None]:
        """Read the rows of logs that are in no generation, by region id; None if there are none.

        Args:
            state: of the table.
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
                rest = log.drop_flushed(log.after, newest_merged + 1, base)
            found[region_id] = rest.tail(base, partial(self._find_entry, state, region_id))
        return found

    def _find_entry(self, state: TableState, region_id: str, position: int) -> WalEntry:
        """Return one entry, from memory if this process wrote it."""
        own = self.own_tails((region_id,)).get(region_id)
        if own is not None and own.first <= position <= own.last:
            at = bisect_left(own.entries, position, key=lambda one: one.position)
            if at < len(own.entries) and own.entries[at].position == position:
                return own.entries[at]
        return self.read_entry(state, region_id, position)

    def _read_log(
        self,
        state: TableState,
        manifest: RegionManifest,
        own: OwnTail | None,
        seen: int,
        ends: Mapping[str, int | None],
    ) -> RegionLog:
        """Read the new entries of the log of one region.

        Args:
            state: of the table.
            manifest: the region's newest.
            own: what this process holds in memory; None where others may have written since.
            seen: the position behind one that was looked at, where an entry is known to be; 0 for none.
            ends: see `read_unflushed`.
        """
        region_id = manifest.region_id
        known = log = state.logs.get(region_id)
        if log is not None and log.replay_start.is_behind(manifest.replay_start):
            known = log = self._drop_flushed(state, log, manifest)
        if log is None or manifest.replay_start.is_behind(log.replay_start):
            log = RegionLog(region_id, manifest.replay_after_wal_entry_position, manifest.current_generation)
        looked_at, checking = log.last, None
        if own is None:
            after, last = max(looked_at, seen), ends.get(region_id)
            if last is None or last < after:
                last = find_last_wal_position(self.storage, region_id, after=after)
            if log.checked_epoch < manifest.writer_epoch:
                checking = self.storage.start(partial(check_log_is_read, self.storage, manifest, last))
        else:
            last = own.last
        if last > looked_at:
            entries = list(self._read_entries(state, region_id, looked_at, last, own))
            check_epochs(self.storage, manifest, entries)
            log.advance(entries, last)
        if checking is not None:
            checking.result()
        log.checked_epoch = max(log.checked_epoch, manifest.writer_epoch)
        if known is None or known is log:
            state.logs[region_id] = log  # After the checks, so that each query refuses what they refuse.
        return log

    def read_entry(self, state: TableState, region_id: str, position: int) -> WalEntry:
        """Read one entry, or take it from the cache.

        Raises:
            FileNotFoundError: there is none.
            LanceGatewayError: it can't be read.
        """
        return self.cache.compute(
            _EntryName(state.place, region_id, position),
            lambda: read_wal_entry(self.storage, region_id, position),
            _measure_entry,
        )

    def _read_entries(
        self, state: TableState, region_id: str, after: int, last: int, own: OwnTail | None
    ) -> Iterator[WalEntry]:
        """Yield all entries after a position, ascending, from memory as far as they are there."""
        held = last + 1 if own is None else own.first
        positions = range(after + 1, held)
        yield from self.storage.each_request(partial(self.read_entry, state, region_id), positions)
        if own is not None:
            yield from own.after(after)

    def _drop_flushed(self, state: TableState, log: RegionLog, manifest: RegionManifest) -> RegionLog:
        """Return the log without entries flushed since, and remember their rows by generation."""
        base = self.newest.last
        after = manifest.replay_after_wal_entry_position
        if base is not None and log.rows is not None and after - log.last <= ENTRIES_FOR_A_GENERATION:
            self._remember_flushed(state, log, manifest, base)
        return log.drop_flushed(after, manifest.current_generation, base)

    def _remember_flushed(
        self, state: TableState, log: RegionLog, manifest: RegionManifest, base: BaseTable
    ) -> None:
        region_id = manifest.region_id
        try:
            # What came between the query before and the flush; it may be gone already.
            looked_at = log.last
            last = find_last_wal_position(self.storage, region_id, after=looked_at)
            entries = [self.read_entry(state, region_id, number) for number in range(looked_at + 1, last + 1)]
            log.advance(entries, last)
            log.tail(base, lambda position: self.read_entry(state, region_id, position))
        except FileNotFoundError:
            return
        rows = log.rows
        for flushed in reversed(manifest.flushed_generations):
            name = FlushedGenerationName(state.place, region_id, flushed.generation)
            stretch = None
            if rows is not None and flushed.generation >= log.floor:
                stretch = rows.find_generation(flushed.generation)
            if rows is None or stretch is None:
                self.cache.put(name, None, 1)  # The next queries do not need it.
                return
            self.cache.put(name, FlushedRows(rows, *stretch), rows.nbytes)
