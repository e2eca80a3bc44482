"""Documents with scores, and how two sets of them combine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np


@dataclass(frozen=True, eq=False, slots=True)
class Scored:
    """Documents that match something.

    Attributes:
        documents: their numbers, ascending (int64).
        scores: one each; float64 while scores are added up.
    """

    documents: np.ndarray
    scores: np.ndarray

    def both(self, other: Scored) -> Scored:
        """Documents of both, scores added."""
        documents, mine, others = np.intersect1d(
            self.documents, other.documents, assume_unique=True, return_indices=True
        )
        return Scored(documents, self.scores[mine] + other.scores[others])

    def either(self, other: Scored) -> Scored:
        """Documents of one or the other, scores added where it is both."""
        documents = union((self.documents, other.documents))
        scores = np.zeros(len(documents))
        scores[np.searchsorted(documents, self.documents)] = self.scores
        scores[np.searchsorted(documents, other.documents)] += other.scores
        return Scored(documents, scores)

    def best(self, other: Scored) -> Scored:
        """Documents of one or the other, the higher score where it is both."""
        documents = union((self.documents, other.documents))
        scores = np.full(len(documents), -np.inf)
        scores[np.searchsorted(documents, self.documents)] = self.scores
        places = np.searchsorted(documents, other.documents)
        scores[places] = np.maximum(scores[places], other.scores)
        return Scored(documents, scores)

    def adding(self, other: Scored) -> Scored:
        """These documents, with the other's scores added where it has them."""
        _, mine, others = np.intersect1d(
            self.documents, other.documents, assume_unique=True, return_indices=True
        )
        scores = self.scores.copy()
        scores[mine] += other.scores[others]
        return Scored(self.documents, scores)

    def without(self, documents: np.ndarray) -> Scored:
        """Those that aren't among these documents."""
        kept = np.isin(self.documents, documents, assume_unique=True, invert=True)
        return Scored(self.documents[kept], self.scores[kept])

    def times(self, factor: float) -> Scored:
        """The same documents, scores multiplied."""
        return self if factor == 1.0 else Scored(self.documents, self.scores * factor)


def union(sets: Iterable[np.ndarray]) -> np.ndarray:
    """Documents of any of the sets, ascending (int64); each set ascending."""
    return reduce(np.union1d, sets, np.empty(0, np.int64))


def intersection(sets: Iterable[np.ndarray]) -> np.ndarray:
    """Documents of all of the sets, ascending (int64); each set ascending. None without sets."""
    ordered = sorted(sets, key=len)
    if not ordered:
        return np.empty(0, np.int64)
    return reduce(lambda one, other: np.intersect1d(one, other, assume_unique=True), ordered)
