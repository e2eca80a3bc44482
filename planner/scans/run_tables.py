"""Tables of one run, without the caches that its session switched off.

A run with all shortcuts reads the tables of the catalog. Any other run has tables of its own, with empty
caches in place of those that it must not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.rows.row_mask import OFFSET_MASK, FragmentMask, RowMask, build_mask
from lance_gateway.execnodes.storage.data_files import StoredFragment
from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.memwal.writing import OwnTail
from lance_gateway.planner.predicates.pruning import RegionAssignments
from lance_gateway.planner.scans.settings import Shortcut, Shortcuts
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.decoded_columns import StoredColumns
from lance_gateway.planner.tables.sources.generations import GenerationDataset, LayerKeys
from lance_gateway.planner.tables.sources.keys import KeyPlaces, read_physical_keys
from lance_gateway.planner.tables.sources.snapshot import Consistency, TableSnapshot
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.visibility.key_join import KeysAhead
from lance_gateway.planner.tables.visibility.repeated_keys import RepeatedKeys
from lance_gateway.planner.tables.visibility.visibility import SnapshotMasks, Visibility

_ONE_STATEMENT_BYTES = 64 << 20


class StoredVisibility(Visibility):
    """Compute masks from all keys of a snapshot, one by one, for one statement.

    Args:
        executor: reads several sources at a time, for searches.
    """

    def __init__(self, executor: Executor) -> None:
        cache = ByteCache(_ONE_STATEMENT_BYTES)
        super().__init__(cache, executor)
        self.repeated = RepeatedKeys(cache, SharedCache(), uses_history=False)

    def read_base_ahead(self, snapshot: TableSnapshot) -> KeysAhead | None:  # noqa: ARG002
        """Return None: nothing is read ahead."""
        return None

    def compute_masks(self, snapshot: TableSnapshot, ahead: KeysAhead | None = None) -> SnapshotMasks:  # noqa: ARG002
        """Compute the masks of a snapshot; see `Visibility.compute_masks`.

        In each region, from its newest row to its oldest, a row is shown if its key did not come before and
        it is not a tombstone. A base row is shown if no fresh row of any region has its key, and no base row
        with a higher address.
        """
        base = snapshot.base
        generations: dict[str, RowMask] = {}
        tails: dict[str, RowMask] = {}
        fresh: set[object] = set()
        for region in snapshot.regions.values():
            newer: set[object] = set()
            if region.tail is not None:
                shown = _find_newest(region.tail.keys(base), newer)
                tails[region.region_id] = RowMask({0: FragmentMask(pa.array(shown))})
            for generation in reversed(region.generations):
                layer = generation.read_keys(base)
                shown = _find_newest(layer, newer)
                generations[generation.path] = build_mask(layer.addresses[shown], generation.fragment_rows)
            fresh |= newer
        return SnapshotMasks(_exclude_keys(base, fresh), generations, tails)


def _find_newest(layer: LayerKeys, newer: set[object]) -> np.ndarray:
    """Flag the visible rows of a layer, and add its keys to those of newer rows."""
    shown = np.zeros(len(layer.keys), dtype=np.bool_)
    keys = layer.keys.to_pylist()
    for row in reversed(range(len(keys))):
        shown[row] = keys[row] not in newer and not layer.dead[row]
        newer.add(keys[row])
    return shown


def _exclude_keys(base: BaseTable, fresh: set[object]) -> RowMask:
    """Build the mask of base rows whose key neither a fresh row has, nor a base row with a higher address."""
    masks = {}
    newer = set(fresh)
    for fragment in reversed(base.fragments):
        keys = read_physical_keys(base, fragment).to_pylist()
        flags = np.ones(len(keys), dtype=np.bool_)
        for row in reversed(_list_live_rows(base, fragment)):
            flags[row] = keys[row] not in newer
            if base.details is not None:
                newer.add(keys[row])
        if not flags.all():
            masks[fragment.fragment_id] = FragmentMask(pa.array(flags))
    return RowMask(masks)


def _list_live_rows(base: BaseTable, fragment: StoredFragment) -> list[int]:
    dataset: Any = base.dataset
    scanner = dataset.scanner(columns=[], fragments=[fragment.handle], with_row_address=True)
    return [address & OFFSET_MASK for address in scanner.to_table().column(0).to_pylist()]


UNCACHED_TABLE_BYTES = 256 << 20
"""What one run may hold of a table's state."""


class UncachedTable(Table):
    """Table of the catalog with an empty cache: the run reads all of its state from storage.

    Args:
        shared: the table of the catalog.
    """

    def __init__(self, shared: Table) -> None:
        cache, session = ByteCache(UNCACHED_TABLE_BYTES), lance.Session()
        super().__init__(
            shared.name,
            shared.storage,
            cache,
            shared.columns,
            shared.places,
            session,
            own_tails=self._flush_own_tails,
        )
        self._shared = shared

    def _flush_own_tails(self, region_ids: Iterable[str]) -> Mapping[str, OwnTail]:
        """Wait until the table's own writer has written its rows to the log; return no tails."""
        self._shared.own_tails(region_ids)
        return {}


CACHE_SHORTCUTS = frozenset(
    {Shortcut.KEPT_STATE, Shortcut.KEPT_MASKS, Shortcut.KEPT_SEARCHES, Shortcut.KEPT_COLUMNS}
)
"""Shortcuts of a run that reads the tables of the catalog themselves."""

_RUN_BYTES = 256 << 20
"""What one run may keep for itself."""


class RunTables:
    """Tables of a run that must not use all of `CACHE_SHORTCUTS`.

    Attributes:
        visibility: where masks come from.

    Args:
        shortcuts: that the run may take.
        shared: where masks come from that are kept.
    """

    def __init__(self, shortcuts: Shortcuts, shared: Visibility) -> None:
        self.visibility = shared
        self._shortcuts = shortcuts
        self._tables: dict[Table, Table] = {}
        if not shortcuts.issuperset((Shortcut.KEPT_STATE, Shortcut.KEPT_MASKS)):
            self.visibility = StoredVisibility(shared.executor)

    def table(self, shared: Table) -> Table:
        """Return the run's table for a table of the catalog; the same object for all scans of the run."""
        found = self._tables.get(shared)
        if found is None:
            found = self._tables[shared] = RunTable(shared, self._shortcuts, self.visibility.executor)
        return found


class RunTable(Table):
    """Table of one run, with the state of `shared` and caches of its own where shortcuts are off.

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
        self._source = shared if keeps_state else shared.replace_with(UncachedTable(shared))

    @property
    def described_time(self) -> str:
        """See `Table.described_time`."""
        return self._source.described_time

    @property
    def has_own_rows(self) -> bool:
        """See `Table.has_own_rows`."""
        return self._source.has_own_rows

    def base(self) -> BaseTable:
        """See `Table.base`."""
        return self._source.base()

    def find_recent_base(self) -> BaseTable:
        """See `Table.find_recent_base`."""
        return self._source.find_recent_base()

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """See `Table.assignments`."""
        return self._source.assignments(base, consistency)

    def take_snapshot(
        self, regions: Iterable[str], consistency: Consistency = "strong", max_staleness_ms: int = 0
    ) -> TableSnapshot:
        """See `Table.take_snapshot`."""
        return self._source.take_snapshot(regions, consistency, max_staleness_ms)

    def open_generations(
        self, base: BaseTable, region_id: str, flushed: Iterable[FlushedGeneration]
    ) -> tuple[GenerationDataset, ...]:
        """See `Table.open_generations`."""
        return self._source.open_generations(base, region_id, flushed)
