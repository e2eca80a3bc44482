"""The masks of all sources of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK, FragmentMask, RowMask
from planner.tables.sources.generations import LayerKeys

ENTRY_OVERHEAD = 128
NO_OFFSETS = np.empty(0, dtype=np.uint32)


@dataclass(frozen=True, eq=False)
class SnapshotMasks:
    """Masks of all sources of one snapshot.

    Attributes:
        base: rows of the base table that no fresh row supersedes.
        generations: path -> mask.
        tails: region id -> mask.
    """

    base: RowMask
    generations: Mapping[str, RowMask]
    tails: Mapping[str, RowMask]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        parts = (self.base, *self.generations.values(), *self.tails.values())
        return sum(mask.nbytes for mask in parts) + ENTRY_OVERHEAD


def by_fragment(addresses: np.ndarray) -> dict[int, np.ndarray]:
    """Row addresses as ascending offsets per fragment."""
    if not len(addresses):
        return {}
    ordered = np.sort(addresses)
    fragment_ids = ordered >> OFFSET_BITS
    starts = [0, *(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist()]
    offsets = np.split((ordered & OFFSET_MASK).astype(np.uint32), starts[1:])
    return {int(fragment_ids[start]): part for start, part in zip(starts, offsets, strict=True)}


def layer_mask(layer: LayerKeys, visible: np.ndarray, fragment_rows: Mapping[int, int]) -> RowMask:
    """What a layer shows: from what is visible, since its keys are those of rows that are not deleted."""
    return showing(layer.addresses[visible], fragment_rows)


def showing(addresses: np.ndarray, fragment_rows: Mapping[int, int]) -> RowMask:
    """The mask that shows rows at these addresses, none of which is deleted, and no others."""
    shown = by_fragment(addresses)
    masks = {}
    for fragment_id, rows in fragment_rows.items():
        flags = np.zeros(rows, dtype=np.bool_)
        flags[shown.get(fragment_id, NO_OFFSETS)] = True
        masks[fragment_id] = FragmentMask(pa.array(flags), hides_deleted=True)
    return RowMask(masks)
