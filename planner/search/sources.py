"""Which sources a search has.

The rows of a snapshot are divided among sources so that every live row is in exactly one of them, and so that
the rows of a source are covered by one index, or by none. Most of what is found out belongs to immutable
things, a base version or a generation, and is kept with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from execnodes.row_mask import EVERYTHING_VISIBLE, RowMask
from execnodes.search.source import IndexDescription, SearchSource
from execnodes.source import LanceSource, MemTableSource
from planner.base_table import BaseTable
from planner.fresh_rows import GenerationDataset
from planner.search.catch_up import NOTHING_MOVED, CatchUp
from planner.search.coverage import Coverage, IndexKind, coverage, described, metric_of, says_the_same
from planner.snapshot import TableSnapshot
from planner.visibility import SnapshotMasks

MIN_VECTOR_BYTES = 64 << 20
"""Vectors of a generation that take less are kept in memory: looking at all of them is exact and quicker than
its index, which is a graph over quantised vectors."""


def search_sources(
    snapshot: TableSnapshot,
    masks: SnapshotMasks | None,
    regions: frozenset[str],
    column: str,
    kind: IndexKind,
    *,
    metric: str | None = None,
    catch_up: CatchUp | None = None,
) -> tuple[SearchSource, ...]:
    """The base table where an index covers it and where none does, merged generations, fresh rows.

    Args:
        snapshot: of the table; may have more regions than are searched: their rows only supersede.
        masks: of the snapshot; None where no row supersedes another.
        regions: whose rows are searched.
        column: that is searched.
        kind: of index that serves the search.
        metric: of distances, for vectors; None for the one of `planner.search.coverage.index_metric`.
        catch_up: finds merged generations that answer for rows which the base table's index lacks; None
            leaves such rows to be searched without an index.

    Raises:
        LanceGatewayError: a source can't be read.
    """
    base = snapshot.base
    of_base = coverage(base, column, kind, metric)
    live = EVERYTHING_VISIBLE if masks is None else masks.base
    moved = NOTHING_MOVED if catch_up is None else catch_up.moved(snapshot, regions, live, (of_base,))
    if moved.generations:
        live = moved.live
    found = _Collected()
    _add_base(found, base, column, of_base, live, moved.empty_fragments)
    for one in moved.generations:
        dataset = one.generation
        index = _index_of(base, dataset, column, of_base)
        found.add(
            one.source, _generation_identity(base, dataset, column), one.live,
            tuple(sorted(dataset.fragment_rows)), None if index is None else described(index), dataset.region_id,
        )
    for region in snapshot.regions.values():
        if region.region_id not in regions:
            continue
        for generation in region.generations:
            _add_generation(found, base, generation, column, of_base, masks)
        if region.tail is not None:
            span = (region.tail.first, region.tail.last)
            identity = ("tail", base.place, region.region_id, *span, _field(base, column))
            shown = EVERYTHING_VISIBLE if masks is None else masks.tails[region.region_id]
            found.add(region.tail.source, identity, shown, region_id=region.region_id)
    return found.sources
