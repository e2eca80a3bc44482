"""Log of one region, without the entries that flushed generations cover."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from memwal.regions.manifest import RegionManifest, ReplayStart
from memwal.regions.wal import WalEntry
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.log_tail import Tail, TailRows

ReadEntry = Callable[[int], WalEntry]


class RegionLog:
    """Unflushed entries of one region; append-only and thread-safe.

    Attributes:
        region_id: region.
        after: the manifest's replay position: entries up to it are flushed.
        floor: the manifest's current generation: entries of older ones are flushed.
        replay_start: both: a manifest that has the same calls the same entries flushed.
        last: newest position that was looked at.

    Args:
        region_id: see there.
        after: see there.
        floor: see there.
    """

    def __init__(self, region_id: str, after: int, floor: int) -> None:
        self.region_id = region_id
        self.after = after
        self.floor = floor
        self.replay_start = ReplayStart(after, floor)
        self.last = after
        self._lock = threading.Lock()
        self._positions: list[tuple[int, int | None]] = []
        self._unread: list[WalEntry] = []
        self._rows: TailRows | None = None
        self._last_tail: tuple[BaseTable, Tail | None] | None = None
        """Last result of `tail`, until more entries are added."""

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions of all entries with rows, ascending."""
        return tuple(position for position, _ in list(self._positions))

    @property
    def rows(self) -> TailRows | None:
        """Rows that were read so far."""
        return self._rows

    def is_behind(self, manifest: RegionManifest) -> bool:
        """Return whether the manifest covers entries that the log still has."""
        return (
            manifest.replay_after_wal_entry_position > self.after or manifest.current_generation > self.floor
        )

    def is_ahead_of(self, manifest: RegionManifest) -> bool:
        """Return whether the log lacks entries that the (older) manifest calls unflushed."""
        return (
            manifest.replay_after_wal_entry_position < self.after or manifest.current_generation < self.floor
        )

    def advance(self, entries: Sequence[WalEntry], last: int) -> None:
        """Add the entries up to a position.

        Args:
            entries: all those behind some position that was looked at already, ascending.
            last: the newest position.
        """
        with self._lock:
            for entry in entries:
                if entry.position <= self.last or entry.is_fence:
                    continue
                if self.replay_start.is_unflushed(entry.position, entry.generation):
                    self._positions.append((entry.position, entry.generation))
                    self._unread.append(entry)
                    self._last_tail = None
            self.last = max(self.last, last)

    def tail(self, base: BaseTable, read: ReadEntry) -> Tail | None:
        """Return the rows of all entries; None if there are none.

        Args:
            base: by whose columns they are read.
            read: an entry at a position.
        """
        with self._lock:
            if not self._positions:
                return None
            if self._last_tail is not None and self._last_tail[0] is base:
                return self._last_tail[1]
            if self._rows is None or not self._rows.has_same_columns(base):
                entries = [read(position) for position, _ in self._positions]
                self._rows = TailRows(self.region_id, base)
            else:
                entries = self._unread
            self._rows.append(entries, base)
            self._unread = []
            self._last_tail = base, self._rows.tail()
            return self._last_tail[1]

    def drop_flushed(self, after: int, floor: int, base: BaseTable | None) -> RegionLog:
        """Return a log without entries that were flushed since, which shares what was read of the rest.

        Args:
            after: see the attribute.
            floor: see the attribute.
            base: any version of the table by whose columns the rows were read; None where none is at hand.
        """
        later = RegionLog(self.region_id, max(after, self.after), max(floor, self.floor))
        with self._lock:
            later._positions = [
                (position, generation)
                for position, generation in self._positions
                if later.replay_start.is_unflushed(position, generation)
            ]
            later.last = max(self.last, later.after)
            kept = later._positions
            waiting = [entry for entry in self._unread if (entry.position, entry.generation) in set(kept)]
            rows = self._rows
            if kept == self._positions:
                later._rows, later._unread = rows, waiting
            elif (
                kept
                and kept == self._positions[-len(kept) :]
                and rows is not None
                and base is not None
                and rows.has_same_columns(base)
            ):
                later._rows = rows.copy_from(kept[0][0], base)
                later._unread = waiting
        return later
