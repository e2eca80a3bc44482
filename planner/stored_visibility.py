"""Visibility masks without the shortcut `kept_masks`: each statement computes them from the stored keys."""

from __future__ import annotations

from concurrent.futures import Executor

import numpy as np
import pyarrow as pa

from execnodes.row_mask import FragmentMask, RowMask
from planner.base_table import BaseTable
from planner.byte_cache import ByteCache
from planner.fresh_rows import LayerKeys
from planner.masks import SnapshotMasks, layer_mask
from planner.physical_keys import physical_keys
from planner.snapshot import TableSnapshot
from planner.visibility import Visibility

_ONE_STATEMENT_BYTES = 64 << 20


class StoredVisibility(Visibility):
    """Reads every key of a snapshot and compares them one by one; belongs to one statement.

    Args:
        executor: reads several sources at a time, for searches.
    """

    def __init__(self, executor: Executor) -> None:
        super().__init__(ByteCache(_ONE_STATEMENT_BYTES), executor)

    def masks(self, snapshot: TableSnapshot) -> SnapshotMasks:
        """See `Visibility.masks`.

        In each region, from its newest row to its oldest, a row is shown if its key did not come before and
        it is no tombstone. A base row is shown if no fresh row of any region has its key.
        """
        base = snapshot.base
        generations: dict[str, RowMask] = {}
        tails: dict[str, RowMask] = {}
        fresh: set[object] = set()
        for region in snapshot.regions.values():
            newer: set[object] = set()
            if region.tail is not None:
                shown = _newest(region.tail.keys(base), newer)
                tails[region.region_id] = RowMask({0: FragmentMask(pa.array(shown))})
            for generation in reversed(region.generations):
                layer = generation.read_keys(base)
                shown = _newest(layer, newer)
                generations[generation.path] = layer_mask(layer, shown, generation.fragment_rows)
            fresh |= newer
        return SnapshotMasks(_not_among(base, fresh), generations, tails)


def _newest(layer: LayerKeys, newer: set[object]) -> np.ndarray:
    """Which rows of a layer are shown; its keys are added to those of newer rows."""
    shown = np.zeros(len(layer.keys), dtype=np.bool_)
    keys = layer.keys.to_pylist()
    for row in reversed(range(len(keys))):
        shown[row] = keys[row] not in newer and not layer.dead[row]
        newer.add(keys[row])
    return shown


def _not_among(base: BaseTable, fresh: set[object]) -> RowMask:
    """Rows of the base table whose key no fresh row has."""
    masks = {}
    for fragment in base.fragments:
        flags = np.array(
            [key not in fresh for key in physical_keys(base, fragment).to_pylist()], dtype=np.bool_
        )
        if not flags.all():
            masks[fragment.fragment_id] = FragmentMask(pa.array(flags))
    return RowMask(masks)
