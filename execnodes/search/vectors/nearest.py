"""The nearest of many rows, whichever order they come in."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Found = tuple[np.ndarray, np.ndarray]
"""Distances (float32) and row addresses (uint64) of rows, nearest first."""

NOTHING: Found = (np.empty(0, dtype=np.float32), np.empty(0, dtype=np.uint64))
"""No rows."""


def nearest(distances: np.ndarray, addresses: np.ndarray, k: int) -> Found:
    """The k smallest distances and their rows, nearest first; of equal distances, the lowest address.

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
    """Collects the k nearest of rows that come in pieces.

    Attributes:
        k: how many are kept.
    """

    k: int
    _distances: list[np.ndarray] = field(default_factory=list)
    _addresses: list[np.ndarray] = field(default_factory=list)
    _collected: int = 0

    def add(self, distances: np.ndarray, addresses: np.ndarray) -> None:
        """Consider more rows."""
        found, places = nearest(distances, addresses, self.k)
        self._distances.append(found)
        self._addresses.append(places)
        self._collected += len(found)
        if self._collected > 16 * self.k:
            self._distances, self._addresses = ([part] for part in self.result())
            self._collected = len(self._distances[0])

    def result(self) -> Found:
        """The nearest."""
        if len(self._distances) == 1:
            return self._distances[0], self._addresses[0]
        if not self._distances:
            return NOTHING
        return nearest(np.concatenate(self._distances), np.concatenate(self._addresses), self.k)
