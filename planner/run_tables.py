"""The tables of one run, as far as its session lets it take what earlier runs have kept.

A run that may take everything reads the tables of the catalog themselves. Any other run has tables of its
own, which begin with empty caches in place of those that it may not use.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor

from memwal.manifest import FlushedGeneration
from planner.assignments import RegionAssignments
from planner.base_table import BaseTable
from planner.byte_cache import ByteCache
from planner.fresh_rows import GenerationDataset
from planner.key_places import KeyPlaces
from planner.shortcuts import Shortcut, Shortcuts
from planner.snapshot import Consistency, TableSnapshot
from planner.stored_columns import StoredColumns
from planner.stored_visibility import StoredVisibility
from planner.table import Table
from planner.table_anew import TableAnew
from planner.visibility import Visibility

_KEPT = frozenset({Shortcut.KEPT_STATE, Shortcut.KEPT_MASKS, Shortcut.KEPT_SEARCHES, Shortcut.KEPT_COLUMNS})
_RUN_BYTES = 256 << 20
"""What one run may keep for itself."""


class RunTables:
    """What one run reads from.

    Attributes:
        visibility: where masks come from.

    Args:
        shortcuts: that the run may take.
        shared: where masks come from that are kept.
    """

    def __init__(self, shortcuts: Shortcuts, shared: Visibility) -> None:
        self.visibility = shared
        self._shortcuts = shortcuts
        self._tables: dict[Table, Table] | None = None
        if not shortcuts >= _KEPT:
            self._tables = {}
            if not shortcuts.issuperset((Shortcut.KEPT_STATE, Shortcut.KEPT_MASKS)):
                self.visibility = StoredVisibility(shared.executor)

    def table(self, shared: Table) -> Table:
        """A table of the catalog as the run reads it; the same object for all scans of the run."""
        if self._tables is None:
            return shared
        found = self._tables.get(shared)
        if found is None:
            found = self._tables[shared] = RunTable(shared, self._shortcuts, self.visibility.executor)
        return found


class RunTable(Table):
    """A table for one run: its state is that of `source`, and its caches are its own where they must be.

    Args:
        shared: the table of the catalog.
        shortcuts: that the run may take.
        executor: reads several sources at a time.
    """

    def __init__(self, shared: Table, shortcuts: Shortcuts, executor: Executor) -> None:
        cache, columns, places = shared.cache, shared.columns, shared.places
        keeps_state = Shortcut.KEPT_STATE in shortcuts
        if not (keeps_state and shortcuts.issuperset((Shortcut.KEPT_MASKS, Shortcut.KEPT_SEARCHES))):
            cache = ByteCache(_RUN_BYTES)
        if not (keeps_state and Shortcut.KEPT_MASKS in shortcuts):
            places = KeyPlaces(cache, executor)  # knows nothing until much has been looked up
        if not (keeps_state and Shortcut.KEPT_COLUMNS in shortcuts):
            columns = StoredColumns()
        super().__init__(shared.name, shared.storage, cache, columns, places, None)
        self._source = shared if keeps_state else shared.read_by(TableAnew(shared))

    @property
    def described_time(self) -> str:
        """See `Table.described_time`."""
        return self._source.described_time

    def base(self) -> BaseTable:
        """See `Table.base`."""
        return self._source.base()

    def recent_base(self) -> BaseTable:
        """See `Table.recent_base`."""
        return self._source.recent_base()

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """See `Table.assignments`."""
        return self._source.assignments(base, consistency)

    def snapshot(
        self, regions: Iterable[str], consistency: Consistency = "strong", max_staleness_ms: int = 0
    ) -> TableSnapshot:
        """See `Table.snapshot`."""
        return self._source.snapshot(regions, consistency, max_staleness_ms)

    def open_generations(
        self, base: BaseTable, region_id: str, flushed: Iterable[FlushedGeneration]
    ) -> tuple[GenerationDataset, ...]:
        """See `Table.open_generations`."""
        return self._source.open_generations(base, region_id, flushed)
