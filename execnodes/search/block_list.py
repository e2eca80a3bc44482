"""What Lance must not find in a source: superseded rows and tombstones, and rows that others search."""

from __future__ import annotations

from typing import Any

import numpy as np

from execnodes import roaring
from execnodes.row_mask import OFFSET_BITS
from execnodes.search.row_ids import DELETED, fragment_ids, has_stable_ids, row_ids
from execnodes.search.source import SearchSource
from execnodes.search.vector_blocks import Keep


def block_list(source: SearchSource, keep: Keep) -> bytes | None:
    """The rows of a source's dataset that are not its live rows, as `row_addr_blocklist` takes them.

    Args:
        source: a Lance dataset.
        keep: holds row ids.

    Returns:
        None where all rows of the dataset are live.
    """
    dataset: Any = source.rows.dataset  # type: ignore[union-attr]
    searched = set(source.fragments)
    others = [one.fragment_id for one in dataset.get_fragments() if one.fragment_id not in searched]
    hidden = {
        one: mask for one, mask in source.live.fragments.items() if one in searched and mask.hidden_rows
    }
    if not others and not hidden:
        return None
    if not has_stable_ids(source):
        return roaring.treemap({one: mask.hidden_bitmap for one, mask in hidden.items()}, others)
    parts = [row_ids(source, mask.hidden_offsets | one << OFFSET_BITS, keep) for one, mask in hidden.items()]
    parts += [fragment_ids(source, one, keep) for one in others]
    return _treemap_of(np.unique(np.concatenate(parts)))


def _treemap_of(ids: np.ndarray) -> bytes | None:
    ids = ids[ids != DELETED]
    if not len(ids):
        return None
    uppers = ids >> OFFSET_BITS
    starts = [0, *(np.flatnonzero(np.diff(uppers)) + 1).tolist()]
    parts = np.split(ids.astype(np.uint32), starts[1:])
    return roaring.treemap(
        {int(uppers[start]): roaring.bitmap(part) for start, part in zip(starts, parts, strict=True)}
    )
