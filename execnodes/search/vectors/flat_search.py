"""The exact nearest rows of a source, by the distances of all of its rows.

Which rows may be among the nearest, by a formula that is quicker than the distance and not as exact.

The square of a difference is the sum of both squares less twice the product. Where squares are known, that
is a third of the work; but what is left of large squares that cancel out is rough. The error has a bound, so
no row that is among the nearest is lost: those that remain are ranked by their true distances.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from execnodes.node import TaskContext
from execnodes.rows.row_mask import OFFSET_MASK, FragmentMask
from execnodes.search.rows.live_rows import hidden_rows, live_addresses, physical_rows
from execnodes.search.rows.taken_rows import taken_rows
from execnodes.search.rows.vector_blocks import Keep, VectorBlock, blocks_of, vector_blocks
from execnodes.search.source import SearchSource
from execnodes.search.vectors.distances import distances
from execnodes.search.vectors.nearest import Found, NearestRows
from execnodes.storage.source import LanceSource

_FEWEST = 2048
"""Of fewer rows, all distances are computed before they are screened."""
_WORTHWHILE = 32
"""So many times as many rows must there be as are wanted."""
_ROUNDINGS = 3
"""Of a square, of a product, and of the distance that decides in the end."""


def may_be_nearest(
    block: VectorBlock, query: np.ndarray, k: int, unwanted: np.ndarray | None
) -> np.ndarray | None:
    """The rows of a block that may be among the k with the smallest l2 distance to a query.

    Args:
        block: vectors.
        query: of the same dimension.
        k: rows wanted.
        unwanted: rows that don't count; None where all do.

    Returns:
        Indexes of rows of the block, ascending; None where all rows should be looked at.
    """
    vectors = block.vectors
    if vectors.dtype != np.float32 or len(vectors) < max(_FEWEST, _WORTHWHILE * k):
        return None
    wanted = query.astype(np.float32)
    with np.errstate(all="ignore"):
        rough = block.squares - 2 * np.vecdot(vectors, wanted)
        largest = block.squares.max() + np.vecdot(wanted, wanted)
    limits = np.finfo(np.float32)
    error = (float(largest) * float(limits.eps) + float(limits.smallest_subnormal)) * _ROUNDINGS
    error *= len(wanted) + 4
    if not np.isfinite(error):
        return None
    if unwanted is not None:
        rough[unwanted] = np.inf
    bound = np.partition(rough, k - 1)[k - 1] + 2 * error
    return np.flatnonzero(rough <= bound) if np.isfinite(bound) else None


FEW_ROWS = 2048
"""So few vectors are read one by one rather than with all their neighbours."""
FEW = 4
"""Where fewer than one row in so many is wanted, the others are left out before distances are computed."""


def flat_search(
    source: SearchSource,
    column: str,
    queries: np.ndarray,
    k: int,
    metric: str,
    keep: Keep,
    context: TaskContext,
) -> list[Found]:
    """The k nearest live rows for every query.

    Args:
        source: what is searched.
        column: of vectors.
        queries: one a row.
        k: rows wanted for each.
        metric: one of `distances.METRICS`.
        keep: holds vectors.
        context: stops the search.
    """
    collected = [NearestRows(k) for _ in queries]
    for block, wanted in _wanted_blocks(source, column, keep):
        context.check()
        addresses, vectors, unwanted = block.addresses, block.vectors, None
        if wanted is not None:
            if np.count_nonzero(wanted) * FEW < len(wanted):
                addresses, vectors = addresses[wanted], vectors[wanted]
            else:
                unwanted = ~wanted
        is_screened = metric == "l2" and vectors is block.vectors
        for query, nearest in zip(queries, collected, strict=True):
            near = may_be_nearest(block, query, k, unwanted) if is_screened else None
            if near is not None:
                nearest.add(distances(metric, vectors[near], query), addresses[near])
                continue
            found = distances(metric, vectors, query)
            if unwanted is not None:
                found[unwanted] = np.nan
            nearest.add(found, addresses)
    return [nearest.result() for nearest in collected]


def _wanted_blocks(
    source: SearchSource, column: str, keep: Keep
) -> Iterator[tuple[VectorBlock, np.ndarray | None]]:
    """Vectors, and which of them are of rows that count; None where all are."""
    rows = source.rows
    if isinstance(rows, LanceSource) and _has_few_rows(source):
        addresses = live_addresses(source)
        if len(addresses) and column in rows.stored:
            (vectors,) = taken_rows(source, addresses, (rows.schema.field(column),), keep)
            yield from ((block, None) for block in blocks_of(vectors, addresses))
        return
    for block in vector_blocks(source, column, keep):
        yield block, _shown(block, source.live.fragments.get(block.fragment_id))


def _has_few_rows(source: SearchSource) -> bool:
    """Whether a source has so few live rows that it is best to read no other."""
    masks = source.live.fragments
    if any(one not in masks for one in source.fragments):
        return False
    live = physical_rows(source) - hidden_rows(source)
    return live <= FEW_ROWS and live * FEW < physical_rows(source)


def _shown(block: VectorBlock, mask: FragmentMask | None) -> np.ndarray | None:
    """Which rows of a block a mask shows."""
    if mask is None or not mask.hidden_rows:
        return None
    flags = mask.visible.to_numpy(zero_copy_only=False)
    first, last = int(block.addresses[0]) & OFFSET_MASK, int(block.addresses[-1]) & OFFSET_MASK
    is_run = last - first + 1 == len(block.addresses)
    found: np.ndarray = flags[first : last + 1] if is_run else flags[block.addresses & OFFSET_MASK]
    return found
