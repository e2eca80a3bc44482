"""Open a described snapshot, whatever the newest state of the table is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lance_gateway.execnodes.storage.data_files import Columns, Place
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.planner.tables.sources.base_table import BaseTable, BaseVersion, open_base_table
from lance_gateway.planner.tables.sources.caches import ENTRY_OVERHEAD
from lance_gateway.planner.tables.sources.generations import GenerationDataset, GenerationVanishedError
from lance_gateway.planner.tables.sources.log_tail import Tail, TailRows
from lance_gateway.planner.tables.sources.snapshot import (
    MAX_WAL_ENTRIES,
    RegionDescription,
    RegionSnapshot,
    SnapshotDescription,
    SnapshotGoneError,
    TableSnapshot,
)
from lance_gateway.planner.tables.state.log_reader import LogReader
from lance_gateway.planner.tables.state.table_state import Newest, TableState

RECREATED = "the table was dropped and recreated"
OPEN_BASE_BYTES = 1 << 16
"""What an open dataset is booked at in the cache."""

OpenGenerations = Callable[[BaseTable, str, Iterable[FlushedGeneration]], tuple[GenerationDataset, ...]]


@dataclass(frozen=True, slots=True)
class _TailRowsName:
    """Cache key of the rows of a region's log from an entry on, as far as they were read, as these columns.

    Attributes:
        place: the table.
        region_id: region.
        first: position of the first entry; no later one with rows is left out.
        columns: of the table, as which the rows are read.
        key: by which they supersede one another.
    """

    place: Place
    region_id: str
    first: int
    columns: Columns
    key: Columns


@dataclass(frozen=True, slots=True)
class DescribedSnapshots:
    """Open the files that a description names.

    Args:
        name: of the table.
        newest: finds its newest version.
        logs: reads its logs.
        open_generations: see `Table.open_generations`.
    """

    name: str
    newest: Newest
    logs: LogReader
    open_generations: OpenGenerations

    def open(self, description: SnapshotDescription) -> TableSnapshot:
        """Open a snapshot; see `Table.reopen`."""
        try:
            newest = self.newest.find()  # Detects whether the table was recreated.
            state = self.newest.state
            base = self._open_base(state, newest, description)
            if base.place != state.place:
                raise SnapshotGoneError(self.name, base.version, RECREATED)
            return TableSnapshot(
                base,
                {region.region_id: self._open_region(state, base, region) for region in description.regions},
            )
        except (GenerationVanishedError, FileNotFoundError, NotFoundError) as error:
            raise SnapshotGoneError(self.name, description.base_version, error) from error

    def _open_base(self, state: TableState, newest: BaseTable, description: SnapshotDescription) -> BaseTable:
        version, fingerprint = description.base_version, description.base_fingerprint
        key, cache = BaseVersion(state.place, version), self.logs.cache
        for known in (newest, cache.get(key)):
            if isinstance(known, BaseTable) and (known.version, known.fingerprint) == (version, fingerprint):
                return known
        base = open_base_table(self.name, self.logs.storage, version, state.session, state.place)
        if base.fingerprint != fingerprint:
            raise SnapshotGoneError(self.name, version, RECREATED)
        cache.put(key, base, OPEN_BASE_BYTES)
        return base

    def _open_region(
        self, state: TableState, base: BaseTable, description: RegionDescription
    ) -> RegionSnapshot:
        region_id, positions = description.region_id, description.wal_positions
        generations = self.open_generations(base, region_id, description.generations)
        tail = None if not positions else self.open_tail(state, base, region_id, positions)
        return RegionSnapshot(region_id, generations, tail)

    def open_tail(
        self, state: TableState, base: BaseTable, region_id: str, positions: tuple[int, ...]
    ) -> Tail | None:
        """Open the rows of entries, which are the first ones of those that others have read, or are about to.

        States that follow one another share the rows of a log: each has a few more than the one before.
        """
        log, cache = state.logs.get(region_id), self.logs.cache
        if log is not None and log.rows is not None and log.rows.has_same_columns(base):
            current = log.rows.find_tail(positions)
            if current is not None:
                return current
        first, last = positions[0], positions[-1]
        key = _TailRowsName(state.place, region_id, first, base.columns, base.key)
        rows = cache.compute(key, lambda: TailRows(region_id, base), lambda _: ENTRY_OVERHEAD)
        read = max(first, rows.last + 1)
        if read <= last < first + MAX_WAL_ENTRIES:
            entries = [self.logs.read_entry(state, region_id, position) for position in range(read, last + 1)]
            rows.append([entry for entry in entries if not entry.is_fence], base)
            cache.put(key, rows, ENTRY_OVERHEAD + rows.nbytes)
        tail = rows.find_tail(positions)
        if tail is None:
            msg = f"a snapshot of region {region_id} leaves out WAL entries between {first} and {last}"
            raise InvalidInputError(msg)
        return tail
