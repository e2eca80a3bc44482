"""Documents with scores, and how two sets of them combine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_SPARSE = 8
"""Sets with less than one of so many numbers are sorted or searched; others are marked in arrays of all."""


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
        mine = places_in(self.documents, other.documents)
        common = mine >= 0
        mine = mine[common]
        return Scored(self.documents[mine], self.scores[mine] + other.scores[common])

    def either(self, other: Scored) -> Scored:
        """Documents of one or the other, scores added where it is both."""
        documents = union((self.documents, other.documents))
        scores = np.zeros(len(documents))
        scores[places_in(documents, self.documents)] = self.scores
        scores[places_in(documents, other.documents)] += other.scores
        return Scored(documents, scores)

    def best(self, other: Scored) -> Scored:
        """Documents of one or the other, the higher score where it is both."""
        documents = union((self.documents, other.documents))
        scores = np.full(len(documents), -np.inf)
        scores[places_in(documents, self.documents)] = self.scores
        places = places_in(documents, other.documents)
        scores[places] = np.maximum(scores[places], other.scores)
        return Scored(documents, scores)

    def adding(self, other: Scored) -> Scored:
        """These documents, with the other's scores added where it has them."""
        mine = places_in(self.documents, other.documents)
        common = mine >= 0
        scores = self.scores.copy()
        scores[mine[common]] += other.scores[common]
        return Scored(self.documents, scores)

    def without(self, documents: np.ndarray) -> Scored:
        """Those that aren't among these documents."""
        kept = places_in(documents, self.documents) < 0
        return Scored(self.documents[kept], self.scores[kept])

    def times(self, factor: float) -> Scored:
        """The same documents, scores multiplied."""
        return self if factor == 1.0 else Scored(self.documents, self.scores * factor)


def union(sets: Iterable[np.ndarray]) -> np.ndarray:
    """Numbers of any of the sets, ascending (int64); each set ascending."""
    parts = [part for part in sets if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else np.empty(0, np.int64)
    end = 1 + max(int(part[-1]) for part in parts)
    if end > _SPARSE * sum(map(len, parts)):
        merged = np.concatenate(parts)
        merged.sort(kind="stable")  # merges runs in order; np.unique would hash
        return merged[np.concatenate(([True], merged[1:] != merged[:-1]))]
    marked = np.zeros(end, np.bool_)
    for part in parts:
        marked[part] = True
    return np.flatnonzero(marked)


def intersection(sets: Iterable[np.ndarray]) -> np.ndarray:
    """Numbers of all of the sets, ascending (int64); each set ascending. None without sets."""
    smallest, *others = sorted(sets, key=len) or [np.empty(0, np.int64)]
    for other in others:
        smallest = smallest[places_in(other, smallest) >= 0]
    return smallest


def places_in(numbers: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where the wanted numbers are among others, -1 where they aren't (int64); both ascending."""
    if not len(numbers) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    end = 1 + int(max(numbers[-1], wanted[-1]))
    if end > _SPARSE * len(wanted):
        places = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        return np.where(numbers[places] == wanted, places, -1)
    place_of = np.full(end, -1, np.int64)
    place_of[numbers] = np.arange(len(numbers))
    found: np.ndarray = place_of[wanted]
    return found
