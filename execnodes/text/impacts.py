"""A term's documents in the order of what the term is worth in them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from execnodes.text.bm25 import ColumnStatistics
from execnodes.text.source_text import SourceText

AVERAGES_PER_E = 20
"""Orders are kept for averages 5 % apart: a write that changes the average a little needs no new one."""


@dataclass(frozen=True, eq=False, slots=True)
class Impacts:
    """Documents of a term, best first.

    Attributes:
        documents: row numbers.
        weights: what the term is worth in each, descending, for the reference average length; idf left out.
        reference: that average length.
    """

    documents: np.ndarray
    weights: np.ndarray
    reference: float

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.documents.nbytes + self.weights.nbytes)

    def bound(self, seen: int, average_length: float) -> float:
        """The most that the term can be worth in documents after the first `seen`.

        In a document of length l it is worth w(a) = f (k1 + 1) / (f + k1 (1 - b + b l / a)) at the average a.
        Where a grows, the second summand of the denominator shrinks, but never by more than a grows: so
        w(a) / w(r) <= a / r; where a is less than the reference r, w(a) is less than w(r).
        """
        if seen >= len(self.weights):
            return 0.0
        return float(self.weights[seen]) * max(1.0, average_length / self.reference)


def impacts(text: SourceText, column: str, term: str, statistics: ColumnStatistics) -> Impacts:
    """The documents of a term in a source, live or not, best first."""
    step = round(math.log(statistics.average_length) * AVERAGES_PER_E) if statistics.average_length else 0
    reference = math.exp(step / AVERAGES_PER_E)

    def order() -> Impacts:
        postings = text.postings(column, term)
        at_reference = ColumnStatistics(1_000_000, round(reference * 1_000_000), {}, statistics.quantizes)
        weights = at_reference.weight(postings.frequencies, text.lengths(column, postings.documents))
        best_first = np.argsort(-weights, kind="stable")
        return Impacts(postings.documents[best_first], weights[best_first], at_reference.average_length)

    key = ("text impacts", text.source.identity, column, term, step)
    return text.cache.compute(key, order, lambda found: found.nbytes)
