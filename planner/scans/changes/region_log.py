"""Which entries of a region's log a state of the table has, and which came between two states.

Flushes and merges leave the log as it is, until `clean` removes entries that no reader needs. So every single
change is there, in the order in which it was acknowledged: a row for each, superseded ones included.

A state has all entries up to one of them: the last of its log tail, or, without a tail, the last one that was
flushed in its newest generation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property

from lance_gateway.memwal.regions.manifest import (
    RegionManifest,
    manifest_directory,
    manifest_path,
    parse_manifest_version,
)
from lance_gateway.memwal.regions.wal import WalEntry, parse_wal_entry_position, wal_directory
from lance_gateway.memwal.storage.files import Entry, Storage
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.snapshot import RegionSnapshot

ReadLogEntry = Callable[[str, int], WalEntry]
"""Reads the entry of a region at a position; raises FileNotFoundError if there is none."""


_AT_ONCE = 256
"""Entries that are read together, where storage is remote."""


class LogGoneError(Exception):
    """Entries of a log that would have to be read were removed."""


class RegionLogFiles:
    """The entries of a region's log that are in storage; for one thread.

    Args:
        storage: directory of the table.
        region_id: region.
        read: reads entries.
    """

    def __init__(self, storage: Storage, region_id: str, read: ReadLogEntry) -> None:
        self.region_id = region_id
        self._storage = storage
        self._read = read
        self._ends: dict[int, int] = {}

    @cached_property
    def _files(self) -> dict[int, Entry]:
        """Position -> file, ascending."""
        listed = self._storage.list(wal_directory(self.region_id))
        found = ((parse_wal_entry_position(entry.name), entry) for entry in listed)
        return dict(sorted((position, entry) for position, entry in found if position is not None))

    @cached_property
    def times(self) -> dict[int, int]:
        """Position -> when it was written in microseconds since 1970, never before the entries before it."""
        newest, times = 0, {}
        for position, entry in self._files.items():
            newest = times[position] = max(newest, entry.written // 1000)
        return times

    def count_bytes(self, after: int, last: int) -> int:
        """Return the size of the entries behind a position, up to another one."""
        return sum(entry.size for position, entry in self._files.items() if after < position <= last)

    @cached_property
    def _manifests(self) -> list[int]:
        """Versions of the readable manifests, ascending."""
        return sorted(
            version
            for entry in self._storage.list(manifest_directory(self.region_id))
            if entry.size and (version := parse_manifest_version(entry.name)) is not None
        )

    def find_end(self, region: RegionSnapshot | None, base: BaseTable) -> int:
        """Return the position of the last entry that a state has.

        Args:
            region: its fresh rows; None for a region that the state did not have.
            base: its base version.

        Raises:
            LogGoneError: that is no longer known.
        """
        if region is not None and region.tail is not None:
            return region.tail.last
        newest = base.merged_generations.get(self.region_id, 0)
        if region is not None and region.generations:
            newest = max(newest, region.generations[-1].generation)
        return self.find_end_of(newest)

    def find_end_of(self, generation: int) -> int:
        """Return the position of the last entry that was flushed in a generation, or in earlier ones.

        Raises:
            LogGoneError: that is no longer known.
        """
        if generation not in self._ends:
            after = self._read_replay_position(generation)
            self._ends[generation] = (
                self._search_back(generation) if after is None else self._search_on(generation, after)
            )
        return self._ends[generation]

    def read_between(self, after: int, last: int) -> Iterator[WalEntry]:
        """Yield the entries with rows behind a position, up to another one.

        Raises:
            LogGoneError: one was removed.
        """
        for first in range(after + 1, last + 1, _AT_ONCE):
            positions = range(first, min(first + _AT_ONCE, last + 1))
            found = self._storage.each(self._read_entry, positions)
            yield from (entry for entry in found if not entry.is_fence)

    def _read_entry(self, position: int) -> WalEntry:
        try:
            return self._read(self.region_id, position)
        except FileNotFoundError as error:
            raise LogGoneError(f"log entry {position} of region {self.region_id} was removed") from error

    def _read_replay_position(self, generation: int) -> int | None:
        """Return the position from which a writer replays behind a generation; None if no manifest tells.

        Entries of writers without a MemTable name no generation, and many may follow those that count.
        """
        versions = self._manifests
        at = bisect_right(
            versions, generation + 1, key=lambda one: self._read_manifest(one).current_generation
        )
        manifest = self._read_manifest(versions[at - 1]) if at else None
        if manifest is None or manifest.current_generation != generation + 1:
            return None
        return manifest.replay_after_wal_entry_position

    def _read_manifest(self, version: int) -> RegionManifest:
        path = manifest_path(self.region_id, version)
        data = self._storage.read(path)
        if not data:  # Of those that are cleaned up, the names stay.
            raise LogGoneError(f"manifest {version} of region {self.region_id} was removed")
        return RegionManifest.decode(data, source=self._storage.locate(path))

    def _search_on(self, generation: int, after: int) -> int:
        """Return the last entry of a generation, which may be behind the position of its flush."""
        position = end = after
        while position + 1 in self.times:
            position += 1
            entry = self._read_entry(position)
            if entry.is_fence:
                continue
            if entry.generation is None or entry.generation > generation:
                break
            end = position
        return end

    def _search_back(self, generation: int) -> int:
        position = max(self.times, default=0)
        while position:
            entry = self._read_entry(position)
            if not entry.is_fence and entry.generation is not None and entry.generation <= generation:
                break
            position -= 1
        return position
