"""Which rows may be among the nearest, by a formula that is quicker than the distance and not as exact.

The square of a difference is the sum of both squares less twice the product. Where squares are known, that
is a third of the work; but what is left of large squares that cancel out is rough. The error has a bound, so
no row that is among the nearest is lost: those that remain are ranked by their true distances.
"""

from __future__ import annotations

import numpy as np

from execnodes.search.vector_blocks import VectorBlock

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
