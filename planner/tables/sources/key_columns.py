"""The column of a composite key whose index finds the fewest rows.

Given conditions on several indexed columns, Lance asks each index and intersects what they find. If one of
them finds a twentieth of the table, that takes longer than the lookup by the other one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from lance_gateway.execnodes.storage.data_files import Columns, Place
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.caches import ENTRY_OVERHEAD, ByteCache

SAMPLE_ROWS = 256


@dataclass(frozen=True, slots=True)
class _SoughtColumnName:
    """Cache key of the column of a key by which rows are looked up.

    Attributes:
        place: the table.
        key: its key columns.
        indexed: names of those that have an index.
        magnitude: of its number of rows: the column is chosen again when the table has doubled.
    """

    place: Place
    key: Columns
    indexed: tuple[str, ...]
    magnitude: int


def choose_sought_columns(base: BaseTable, cache: ByteCache) -> tuple[str, ...]:
    """Return the key columns by which Lance looks up rows; () for all."""
    if len(base.primary_key) < 2 or len(base.indexed_key_columns) < 2:
        return ()
    name = _SoughtColumnName(base.place, base.key, base.indexed_key_columns, base.physical_rows.bit_length())
    return cache.compute(
        name, lambda: (_find_most_distinct(base, base.indexed_key_columns),), lambda _: ENTRY_OVERHEAD
    )


def _find_most_distinct(base: BaseTable, columns: tuple[str, ...]) -> str:
    """Return the column with the most distinct values in a sample of rows; the first of equals."""
    dataset: Any = base.dataset
    rows = dataset.count_rows()
    if not rows:
        return columns[0]
    numbers = np.unique(np.random.default_rng(rows).integers(0, rows, SAMPLE_ROWS))
    sample = dataset.take(numbers.tolist(), columns=list(columns))
    return max(columns, key=lambda name: pc.count_distinct(sample.column(name)).as_py())
