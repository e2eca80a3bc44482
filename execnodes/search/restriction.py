"""What Lance may find in a source: its live rows, and none that other sources search."""

from __future__ import annotations

from typing import Any

import numpy as np

from execnodes import roaring
from execnodes.row_mask import OFFSET_BITS
from execnodes.search.row_ids import DELETED, fragment_ids, has_stable_ids
from execnodes.search.source import SearchSource
from execnodes.search.vector_blocks import Keep


def restriction(source: SearchSource, keep: Keep) -> dict[str, bytes]:
    """Arguments of `scanner` that restrict a search to the live rows of a source before they are ranked.

    Rows are blocked by their addresses. Only where row ids are stable, what is live is listed by id: the
    indexes of such a dataset go on naming rows that were deleted and compacted away.

    Args:
        source: a Lance dataset.
        keep: holds lists of ids.
    """
    if has_stable_ids(source):
        return {"row_addr_allowlist": _live_ids(source, keep)}
    dataset: Any = source.rows.dataset  # type: ignore[union-attr]
    searched = set(source.fragments)
    others = [one.fragment_id for one in dataset.get_fragments() if one.fragment_id not in searched]
    masks = ((one, mask) for one, mask in source.live.fragments.items() if one in searched)
    hidden = {one: mask.hidden_bitmap for one, mask in masks if mask.hidden_rows}
    return {"row_addr_blocklist": roaring.treemap(hidden, others)} if hidden or others else {}


def _live_ids(source: SearchSource, keep: Keep) -> bytes:
    masks = {one: source.live.fragments.get(one) for one in source.fragments}
    shown = tuple((one, None if mask is None else mask.digests) for one, mask in masks.items())

    def make() -> bytes:
        parts = []
        for one, mask in masks.items():
            ids = fragment_ids(source, one, keep)
            parts.append(ids if mask is None else ids[mask.visible.to_numpy(zero_copy_only=False)])
        ids = np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.uint64)
        return _treemap_of(ids[ids != DELETED])

    return keep.compute(("live ids", source.identity, shown), make, len)


def _treemap_of(ids: np.ndarray) -> bytes:
    uppers = ids >> OFFSET_BITS
    starts = np.flatnonzero(np.diff(uppers)) + 1
    parts = np.split(ids.astype(np.uint32), starts)
    firsts = uppers[[0, *starts.tolist()]].tolist() if len(ids) else []
    return roaring.treemap({upper: roaring.bitmap(part) for upper, part in zip(firsts, parts, strict=False)})
