"""BM25 as Lance computes it, its inputs, and sets of documents with scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from lance_gateway.execnodes.text.query.query import PhraseQuery

_SPARSE = 8
"""Sets with less than one of so many numbers are sorted or searched; others are marked in arrays of all."""


@dataclass(frozen=True, eq=False, slots=True)
class Scored:
    """Documents with their scores.

    Attributes:
        documents: their numbers, ascending (int64).
        scores: one each; float64 while scores are added up.
    """

    documents: np.ndarray
    scores: np.ndarray

    def both(self, other: Scored) -> Scored:
        """Return the documents of both, with added scores."""
        mine = find_indices(self.documents, other.documents)
        common = mine >= 0
        mine = mine[common]
        return Scored(self.documents[mine], self.scores[mine] + other.scores[common])

    def either(self, other: Scored) -> Scored:
        """Return the documents of either, with added scores where both have the document."""
        documents = union((self.documents, other.documents))
        scores = np.zeros(len(documents))
        scores[find_indices(documents, self.documents)] = self.scores
        scores[find_indices(documents, other.documents)] += other.scores
        return Scored(documents, scores)

    def best(self, other: Scored) -> Scored:
        """Return the documents of either, with the higher score where both have the document."""
        documents = union((self.documents, other.documents))
        scores = np.full(len(documents), -np.inf)
        scores[find_indices(documents, self.documents)] = self.scores
        places = find_indices(documents, other.documents)
        scores[places] = np.maximum(scores[places], other.scores)
        return Scored(documents, scores)

    def add_scores(self, other: Scored) -> Scored:
        """Return these documents, with the other's scores added where it has the document."""
        mine = find_indices(self.documents, other.documents)
        common = mine >= 0
        scores = self.scores.copy()
        scores[mine[common]] += other.scores[common]
        return Scored(self.documents, scores)

    def without(self, documents: np.ndarray) -> Scored:
        """Return the documents that are not among these."""
        kept = find_indices(documents, self.documents) < 0
        return Scored(self.documents[kept], self.scores[kept])

    def times(self, factor: float) -> Scored:
        """Return the same documents with multiplied scores."""
        return self if factor == 1.0 else Scored(self.documents, self.scores * factor)


def is_dense(sets: Iterable[np.ndarray]) -> bool:
    """Return whether ascending sets have so many numbers that arrays of all are worth their room."""
    parts = [part for part in sets if len(part)]
    return bool(parts) and 1 + max(int(part[-1]) for part in parts) <= _SPARSE * sum(map(len, parts))


def union(sets: Iterable[np.ndarray]) -> np.ndarray:
    """Return the numbers of any of the ascending sets, ascending (int64)."""
    parts = [part for part in sets if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else np.empty(0, np.int64)
    if not is_dense(parts):
        merged = np.concatenate(parts)
        merged.sort(kind="stable")  # merges runs in order; np.unique would hash
        return merged[np.concatenate(([True], merged[1:] != merged[:-1]))]
    marked = np.zeros(1 + max(int(part[-1]) for part in parts), np.bool_)
    for part in parts:
        marked[part] = True
    return np.flatnonzero(marked)


def intersection(sets: Iterable[np.ndarray]) -> np.ndarray:
    """Return the numbers of all of the ascending sets, ascending (int64); None without sets."""
    smallest, *others = sorted(sets, key=len) or [np.empty(0, np.int64)]
    for other in others:
        smallest = smallest[find_indices(other, smallest) >= 0]
    return smallest


def find_indices(numbers: np.ndarray, searched: np.ndarray) -> np.ndarray:
    """Return the index of each wanted number among others, -1 if absent (int64); both ascending."""
    if not len(numbers) or not len(searched):
        return np.full(len(searched), -1, np.int64)
    end = 1 + int(max(numbers[-1], searched[-1]))
    if end > _SPARSE * len(searched):
        places = np.minimum(np.searchsorted(numbers, searched), len(numbers) - 1)
        return np.where(numbers[places] == searched, places, -1)
    place_of = np.full(end, -1, np.int64)
    place_of[numbers] = np.arange(len(numbers))
    found: np.ndarray = place_of[searched]
    return found


def find_best(scores: np.ndarray, k: int, least: float) -> np.ndarray:
    """Return which scores are at least `least` and, ties included, among the k highest (bool)."""
    good: np.ndarray = scores >= least
    if np.count_nonzero(good) > k:
        good &= scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
    return good


K1 = 1.2
B = 0.75
_EXACT_BITS = 4
"""Significant bits that quantized lengths keep."""


def compute_idf(documents: int, frequency: int) -> float:
    """Return the inverse document frequency of a term that `frequency` of `documents` documents have."""
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def compute_weight(frequencies: np.ndarray, lengths: np.ndarray, average_length: float) -> np.ndarray:
    """Return the BM25 weight of a term in documents, without its idf; at most `K1 + 1`.

    Args:
        frequencies: how often each document has the term.
        lengths: tokens of each document, same shape.
        average_length: over all documents.

    Returns:
        Float64, same shape.
    """
    relative = lengths / average_length if average_length else np.zeros(len(lengths))
    worth: np.ndarray = frequencies * (K1 + 1.0) / (frequencies + K1 * (1.0 - B + B * relative))
    return worth


def quantize_lengths(lengths: np.ndarray) -> np.ndarray:
    """Return lengths (int64) as indexes with blocks of 256 documents score them: the top four bits remain."""
    values = lengths.astype(np.int64)
    shift = np.maximum(np.frexp(values)[1].astype(np.int64) - _EXACT_BITS, 0)
    return np.left_shift(np.right_shift(values, shift), shift)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column over all searched rows.

    Attributes:
        documents: rows that have at least one token.
        tokens: of them all.
        frequencies: term -> documents that have it; terms that no document has may be left out.
        quantizes: whether scores take rounded lengths, as an index with `block_size` 256 does.
    """

    documents: int
    tokens: int
    frequencies: Mapping[str, int] = field(default_factory=dict)
    quantizes: bool = False

    @property
    def average_length(self) -> float:
        """Average number of tokens of a document; zero without documents."""
        return self.tokens / self.documents if self.documents else 0.0

    def idf(self, term: str) -> float:
        """Return the inverse document frequency of a term."""
        return compute_idf(self.documents, self.frequencies.get(term, 0))

    def weight(self, frequencies: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the weight of a term in documents of these lengths, without its idf (float64)."""
        return compute_weight(
            frequencies, quantize_lengths(lengths) if self.quantizes else lengths, self.average_length
        )


@dataclass(frozen=True, eq=False, slots=True)
class Postings:
    """Documents that have a term.

    Attributes:
        documents: their numbers, ascending (int64).
        frequencies: how often each has it (int32).
        positions: where, ascending within each document (int32); None where that isn't known.
        offsets: one more than documents (int64): where the positions of each begin; None as `positions`.
    """

    documents: np.ndarray
    frequencies: np.ndarray
    positions: np.ndarray | None = None
    offsets: np.ndarray | None = None


class TextIndex(Protocol):
    """Documents by number; the columns of a row have the same number."""

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """Return the number of tokens of the column in these documents."""

    def postings(self, column: str, term: str) -> Postings:
        """Return the postings of a term, empty for an unknown one; with positions for phrases."""

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """Return the documents with a phrase, ascending (int64); None if it takes positions to find them."""
