"""Rows of base tables whose key a newer row of them has, found once for each version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.rows.row_mask import group_by_fragment
from lance_gateway.execnodes.storage.data_files import Columns, Place
from lance_gateway.memwal.base.repeated_rows import KeyHistory, find_repeated_rows
from lance_gateway.planner.tables.shared.cache import SHARED_BYTES, FileName, SharedCache
from lance_gateway.planner.tables.sources.base_table import BaseTable, BaseVersion
from lance_gateway.planner.tables.sources.caches import ENTRY_OVERHEAD, ByteCache

Offsets = Mapping[int, np.ndarray]
"""Fragment id -> ascending offsets (uint32) of rows."""

_LEAST_SHARED_ROWS: Final = SHARED_BYTES * 8


@dataclass(frozen=True, slots=True)
class _RepeatedName:
    """Cache key of the repeated rows of a base version where these columns are the key."""

    base: BaseVersion
    key: Columns


@dataclass(frozen=True, slots=True)
class _DistinctName:
    """Cache key of the number of the last version of a table that was found to have one row a key."""

    place: Place
    key: Columns


@dataclass(frozen=True, slots=True)
class _RepeatedFile:
    """Name of the file of the repeated rows of a dataset."""

    key: Columns
    rows: bytes


class RepeatedKeys:
    """Find and cache the repeated rows of base tables (ADR 90). Thread-safe.

    Args:
        cache: keeps them.
        shared: keeps them for other processes as well.
        uses_history: whether to trust the history of a table; else the keys of each version are read.
    """

    def __init__(self, cache: ByteCache, shared: SharedCache, *, uses_history: bool = True) -> None:
        self._cache = cache
        self._shared = shared
        self._uses_history = uses_history

    def find(self, base: BaseTable) -> Offsets:
        """Return the rows whose key a row with a higher address has; {} where each key has one row.

        Tables without MemWAL are no LSM trees: all of their rows are shown.

        Raises:
            LanceGatewayError: a key column can't be read.
        """
        if not base.primary_key or base.details is None or not base.physical_rows:
            return {}
        return self._cache.compute(
            _RepeatedName(base.version_id, base.key),
            lambda: self._find(base),
            lambda found: ENTRY_OVERHEAD + sum(offsets.nbytes for offsets in found.values()),
        )

    def _find(self, base: BaseTable) -> Offsets:
        name = _DistinctName(base.place, base.key)
        known: int = self._cache.get(name) or 0
        history = KeyHistory(base.storage, base.dataset, base.primary_key)
        found: Offsets = {}
        if not (self._uses_history and history.shows_distinct_keys(known)):
            found = self._load_or_search(base)
        if not found and known < base.version:
            self._cache.put(name, base.version, ENTRY_OVERHEAD)
        return found

    def _load_or_search(self, base: BaseTable) -> Offsets:
        name, files = self._name_file(base), self._shared.files
        batch = None if name is None or files is None else files.get(name.name)
        if batch is not None:
            return group_by_fragment(batch.column(0).to_numpy())
        addresses = find_repeated_rows(base.dataset, base.primary_key)
        if name is not None and files is not None and name.is_certain():
            files.put(name.name, pa.record_batch([pa.array(addresses)], names=["addresses"]))
        return group_by_fragment(addresses)

    def _name_file(self, base: BaseTable) -> FileName | None:
        if base.physical_rows < _LEAST_SHARED_ROWS:
            return None
        rows = self._shared.name_dataset(base.source)
        if rows is None:
            return None
        return self._shared.build_name(_RepeatedFile(base.key, rows), [(base.source, base.fragments)])
