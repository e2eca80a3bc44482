"""The best of many documents."""

from __future__ import annotations

import numpy as np


class BestDocuments:
    """Collects the k documents with the highest scores; of equal ones, by source, then by row number.

    Args:
        k: how many are kept.
    """

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"k={k} is no number of documents to keep: give 1 or more")
        self.k = k
        self._scores = np.empty(0, dtype=np.float32)
        self._sources = np.empty(0, dtype=np.int32)
        self._rows = np.empty(0, dtype=np.int64)

    @property
    def count(self) -> int:
        """How many there are so far."""
        return len(self._scores)

    @property
    def least(self) -> float:
        """The score that a document must exceed to be added; minus infinity while there is room."""
        return float(self._scores[-1]) if self.count == self.k else -np.inf

    def add(self, sources: np.ndarray | int, rows: np.ndarray, scores: np.ndarray) -> None:
        """Consider more documents.

        Args:
            sources: number of each one's source, or of the only one.
            rows: their numbers in the source (int64).
            scores: float32.
        """
        sources = np.broadcast_to(np.asarray(sources, dtype=np.int32), len(scores))
        good = scores >= self.least
        if good.sum() > self.k:
            good &= scores >= np.partition(scores, len(scores) - self.k)[len(scores) - self.k]
        scores = np.concatenate((self._scores, scores[good]))
        rows = np.concatenate((self._rows, rows[good]))
        sources = np.concatenate((self._sources, sources[good]))
        order = np.lexsort((rows, sources, -scores))[: self.k]
        self._scores, self._sources, self._rows = scores[order], sources[order], rows[order]

    def result(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sources, row numbers and scores, best first."""
        return self._sources, self._rows, self._scores
