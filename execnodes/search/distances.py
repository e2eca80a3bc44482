"""Distances between a query and many vectors, in Lance's conventions, and the nearest of many rows.

=========  ============================================  ======================
l2         sum of squared differences                    0 and more
cosine     1 - cosine of the angle                       0 to 2
dot        1 - inner product                             any
hamming    bits that differ, of vectors of bytes         0 and more
=========  ============================================  ======================

Lance never returns a row whose distance is not a number: one of a vector with NaN in it, or the cosine of a
zero vector. Infinite distances are distances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Found = tuple[np.ndarray, np.ndarray]
"""Distances (float32) and row addresses (uint64) of rows, nearest first."""

NOTHING: Found = (np.empty(0, dtype=np.float32), np.empty(0, dtype=np.uint64))
"""No rows."""


def select_nearest(distances: np.ndarray, addresses: np.ndarray, k: int) -> Found:
    """Return the k smallest distances and their rows, nearest first, then by address.

    Args:
        distances: one per row; a row of NaN is none.
        addresses: one per row.
        k: how many, at most.
    """
    count = len(distances)
    if k < count:
        # The k-th smallest number, NaN being the greatest: all rows up to it are looked at, ties included.
        bound = np.partition(distances, k - 1)[k - 1]
        kept = np.flatnonzero(~np.isnan(distances) if np.isnan(bound) else distances <= bound)
    else:
        kept = np.flatnonzero(~np.isnan(distances))
    distances, addresses = distances[kept], addresses[kept]
    order = np.lexsort((addresses, distances))[:k]
    return distances[order], addresses[order]


@dataclass(slots=True)
class NearestRows:
    """Collects the k nearest rows of several batches.

    Attributes:
        k: how many are kept.
    """

    k: int
    _distances: list[np.ndarray] = field(default_factory=list)
    _addresses: list[np.ndarray] = field(default_factory=list)
    _collected: int = 0

    def add(self, distances: np.ndarray, addresses: np.ndarray) -> None:
        """Add rows."""
        found, places = select_nearest(distances, addresses, self.k)
        self._distances.append(found)
        self._addresses.append(places)
        self._collected += len(found)
        if self._collected > 16 * self.k:
            self._distances, self._addresses = ([part] for part in self.result())
            self._collected = len(self._distances[0])

    def result(self) -> Found:
        """Return the k nearest rows."""
        if len(self._distances) == 1:
            return self._distances[0], self._addresses[0]
        if not self._distances:
            return NOTHING
        return select_nearest(np.concatenate(self._distances), np.concatenate(self._addresses), self.k)


BLOCK_BYTES = 1 << 18
"""Vectors are worked on in pieces that stay in the processor's cache."""


def l2(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return the sum of squared differences."""
    difference = vectors - query
    return _multiply(difference, difference)


def cosine(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return one minus the cosine of the angle; NaN if one of the vectors is zero."""
    # Squares of lengths may be multiplied in no other way: their product need not be a number of their type.
    lengths = np.sqrt(_multiply(vectors, vectors)) * np.sqrt(_multiply(query, query))
    found: np.ndarray = 1 - _multiply(vectors, query) / lengths
    return found


def dot(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return one minus the inner product."""
    return 1 - _multiply(vectors, query)


def hamming(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return the number of different bits."""
    # Of a signed number, numpy counts the bits of its magnitude.
    differing = (vectors ^ query).view(np.uint8)
    bits: np.ndarray = np.bitwise_count(differing).sum(axis=1, dtype=np.float32)
    return bits


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "l2": l2,
    "cosine": cosine,
    "dot": dot,
    "hamming": hamming,
}
"""All metrics by name."""


def compute_distances(metric: str, vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Return the distance of every vector from a query; NaN if there is none.

    Args:
        metric: one of `METRICS`.
        vectors: one a row; float16, float32, float64, uint8 or int8.
        query: of the same dimension and any number type; rounded to the vectors' own type, as Lance does.

    Returns:
        float32, one per row.
    """
    found = np.empty(len(vectors), dtype=np.float32)
    rows = max(BLOCK_BYTES // max(vectors.shape[1] * 4, 1), 1)
    kind = _choose_dtype(metric, vectors.dtype)
    function = METRICS[metric]
    wanted = _round_query(query, vectors.dtype).astype(kind)
    with np.errstate(all="ignore"):
        for start in range(0, len(vectors), rows):
            part = vectors[start : start + rows].astype(kind, copy=False)
            found[start : start + rows] = function(part, wanted)
    return found


def _multiply(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    # Not by matrix multiplication: its threads would fight with those of other queries.
    products: np.ndarray = np.vecdot(left, right)
    return products


def _choose_dtype(metric: str, stored: np.dtype) -> np.dtype:
    if metric == "hamming" or stored == np.float64:
        return stored
    return np.dtype(np.float32)


def _round_query(query: np.ndarray, stored: np.dtype) -> np.ndarray:
    """Round the query to the precision of the vectors; integers are not rounded."""
    return query.astype(stored) if np.issubdtype(stored, np.floating) else query
