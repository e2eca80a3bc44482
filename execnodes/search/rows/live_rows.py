"""Which rows of a source are live, by their addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK
from execnodes.search.source import SearchSource
from execnodes.storage.source import LanceSource


def physical_rows(source: SearchSource) -> int:
    """Rows of a source, hidden and deleted ones included."""
    rows = source.rows
    if not isinstance(rows, LanceSource):
        return int(rows.rows.num_rows)
    dataset: Any = rows.dataset
    masks = source.live.fragments
    return sum(
        len(masks[one].visible) if one in masks else dataset.get_fragment(one).physical_rows
        for one in source.fragments
    )


def hidden_rows(source: SearchSource) -> int:
    """Rows of a source that its mask hides."""
    masks = source.live.fragments
    return sum(masks[one].hidden_rows for one in source.fragments if one in masks)


def live_addresses(source: SearchSource) -> np.ndarray:
    """Addresses of the rows that masks show, uint64, ascending; every fragment must have a mask."""
    masks = source.live.fragments
    parts = [
        np.flatnonzero(masks[one].visible.to_numpy(zero_copy_only=False)).astype(np.uint64)
        | one << OFFSET_BITS
        for one in source.fragments
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def are_live(source: SearchSource, addresses: np.ndarray) -> np.ndarray:
    """Which of these rows are in the source and not hidden."""
    fragments = addresses >> OFFSET_BITS
    searched = set(source.fragments)
    live = np.zeros(len(addresses), dtype=np.bool_)
    for fragment_id in np.unique(fragments).tolist():
        if fragment_id not in searched:
            continue
        here = fragments == fragment_id
        mask = source.live.fragments.get(fragment_id)
        if mask is None:
            live[here] = True
        else:
            offsets = pa.array((addresses[here] & OFFSET_MASK).astype(np.uint32))
            live[here] = mask.visible.take(offsets).to_numpy(zero_copy_only=False)
    return live
