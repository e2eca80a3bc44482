"""BM25 as Lance computes it, and what it is computed from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from execnodes.text.query.query import PhraseQuery

K1 = 1.2
B = 0.75
_EXACT_BITS = 4
"""Significant bits that quantized lengths keep."""


def idf(documents: int, frequency: int) -> float:
    """How much a term tells that `frequency` of `documents` documents have."""
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def weight(frequencies: np.ndarray, lengths: np.ndarray, average_length: float) -> np.ndarray:
    """What a term is worth in documents, but for its idf; at most `K1 + 1`.

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


def quantized(lengths: np.ndarray) -> np.ndarray:
    """Lengths (int64) as indexes with blocks of 256 documents score them: the top four bits remain."""
    values = lengths.astype(np.int64)
    shift = np.maximum(np.frexp(values)[1].astype(np.int64) - _EXACT_BITS, 0)
    return np.left_shift(np.right_shift(values, shift), shift)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What all searched rows together say of one column.

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
        """Tokens of a document; zero without documents."""
        return self.tokens / self.documents if self.documents else 0.0

    def idf(self, term: str) -> float:
        """How much the term tells."""
        return idf(self.documents, self.frequencies.get(term, 0))

    def weight(self, frequencies: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """What a term is worth in documents of these lengths, but for its idf (float64)."""
        return weight(frequencies, quantized(lengths) if self.quantizes else lengths, self.average_length)


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
    """Documents to score, by number: the columns of a row have the same one."""

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """Tokens that the column has in these documents."""

    def postings(self, column: str, term: str) -> Postings:
        """Documents whose column has the term; none for an unknown one. With positions for phrases."""

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """Documents that have a phrase, ascending (int64); None where positions must tell."""
