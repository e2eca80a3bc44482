"""A term's documents, ordered by the term's weight in them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lance_gateway.execnodes.text.bm25 import ColumnStatistics
from lance_gateway.execnodes.text.documents.source_text import SourceText
from lance_gateway.execnodes.text.documents.text_index import IndexedDocuments
from lance_gateway.execnodes.text.query.clauses import Clause
from lance_gateway.execnodes.text.query.tokenizer import Tokenizer
from lance_gateway.execnodes.text.scoring.scores import compute_bound

GROWTH = 4
SLACK = 1e-6
"""Scores are rounded to float32, bounds are not."""
AVERAGES_PER_E = 20
"""Orders are kept for averages 5 % apart: a write that changes the average a little needs no new one."""


@dataclass(frozen=True, slots=True)
class _ImpactsName:
    """The cache key of a term's impacts; equal for the same postings, lengths and average length.

    Attributes:
        source: see `SearchSource.identity`.
        column: of the table.
        term: as the tokenizer makes it.
        tokenizer: of the column.
        quantizes: whether lengths are rounded.
        is_indexed: whether an index told the postings: their order is its own.
        step: of the average length.
    """

    source: Hashable
    column: str
    term: str
    tokenizer: Tokenizer
    quantizes: bool
    is_indexed: bool
    step: int


@dataclass(frozen=True, eq=False, slots=True)
class Impacts:
    """Documents of a term, ordered by their score, best first.

    Attributes:
        order: places in the term's postings (int32, or int64 where they are too many for that).
        weights: what the term is worth in each, descending, for the reference average length; idf left out
            (float32, rounded up).
        reference: that average length.
    """

    order: np.ndarray
    weights: np.ndarray
    reference: float

    @staticmethod
    def of(weights: np.ndarray, reference: float) -> Impacts:
        """Order documents by score.

        Args:
            weights: of each, as they stand in the postings.
            reference: average length for which these are their weights.
        """
        order = np.argsort(-weights, kind="stable")
        narrow = order.astype(np.int32) if len(order) <= np.iinfo(np.int32).max else order
        up = np.nextafter(weights[order].astype(np.float32), np.float32(np.inf))
        return Impacts(narrow, up, reference)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.order.nbytes + self.weights.nbytes)

    def bound(self, seen: int, average_length: float) -> float:
        """Return an upper bound of the term's weight in documents after the first `seen`.

        In a document of length l it is worth w(a) = f (k1 + 1) / (f + k1 (1 - b + b l / a)) at the average a.
        Where a grows, the second summand of the denominator shrinks, but never by more than a grows: so
        w(a) / w(r) <= a / r; where a is less than the reference r, w(a) is less than w(r).
        """
        if seen >= len(self.weights):
            return 0.0
        return float(self.weights[seen]) * max(1.0, average_length / self.reference)


def find_impacts(text: SourceText, column: str, term: str, statistics: ColumnStatistics) -> Impacts:
    """Return the documents of a term in a source, live or not, best first."""
    step = round(math.log(statistics.average_length) * AVERAGES_PER_E) if statistics.average_length else 0
    reference = math.exp(step / AVERAGES_PER_E)

    def order() -> Impacts:
        postings = text.postings(column, term)
        at_reference = ColumnStatistics(1_000_000, round(reference * 1_000_000), {}, statistics.quantizes)
        weights = at_reference.weight(postings.frequencies, text.lengths(column, postings.documents))
        return Impacts.of(weights, at_reference.average_length)

    key = _ImpactsName(
        text.source.identity,
        column,
        term,
        text.tokenizers[column],
        statistics.quantizes,
        isinstance(text.text.columns[column], IndexedDocuments),
        step,
    )
    return text.cache.compute(key, order)


@dataclass(frozen=True, eq=False)
class TermImpacts:
    """A term's documents in a source, best first, with upper bounds of their scores.

    Args:
        column: of the term.
        term: one of a query's.
        statistics: of the column.
        text: the source.
    """

    column: str
    term: str
    statistics: ColumnStatistics
    text: SourceText

    @cached_property
    def _impacts(self) -> Impacts:
        return find_impacts(self.text, self.column, self.term, self.statistics)

    @cached_property
    def _idf(self) -> float:
        return self.statistics.idf(self.term)

    def __len__(self) -> int:
        return len(self._impacts.order)

    def documents(self, start: int, stop: int) -> np.ndarray:
        """Return the row numbers of the documents from `start` to `stop`, best first."""
        found = self.text.postings(self.column, self.term).documents[self._impacts.order[start:stop]]
        return np.asarray(found)

    def highest(self, seen: int) -> float:
        """Return an upper bound of the term's score in documents after the first `seen`."""
        return self._idf * self._impacts.bound(seen, self.statistics.average_length)


def compute_bound_after(lists: Sequence[TermImpacts], depths: Sequence[int], clause: Clause) -> float:
    """Return an upper bound of the score of documents that no list has up to these depths.

    Minus infinity if no list goes deeper.
    """
    if all(depth >= len(one) for one, depth in zip(lists, depths, strict=True)):
        return -math.inf
    bounds: dict[str, dict[str, float]] = {}
    for one, depth in zip(lists, depths, strict=True):
        bounds.setdefault(one.column, {})[one.term] = one.highest(depth)
    return compute_bound(clause, bounds) or 0.0


def choose_depths(
    lists: Sequence[TermImpacts], depths: Sequence[int], clause: Clause, floor: float
) -> list[int]:
    """Return the depths to which lists must be read so that no later document exceeds a score.

    Step by step, the list that lowers the bound most per document goes on: long lists of frequent terms,
    which score little anyway, are often left where they are.

    Args:
        lists: of the query's terms.
        depths: that are read already.
        clause: the query.
        floor: the score; where it is minus infinity, every list goes on.
    """
    reached = list(depths)
    if floor == -math.inf:
        return [min(depth * GROWTH, len(one)) for one, depth in zip(lists, depths, strict=True)]
    bounds: dict[str, dict[str, float]] = {}
    for one, depth in zip(lists, depths, strict=True):
        bounds.setdefault(one.column, {})[one.term] = one.highest(depth)

    def find_step(place: int) -> tuple[float, int]:
        """Return what the next step in a list lowers the bound per document, and where it leads."""
        one, depth = lists[place], reached[place]
        further = min(depth + max(depth // 2, 1), len(one))
        return (bounds[one.column][one.term] - one.highest(further)) / (further - depth), further

    steps = {place: find_step(place) for place, one in enumerate(lists) if reached[place] < len(one)}
    while steps and (compute_bound(clause, bounds) or 0.0) >= floor * (1.0 - SLACK):
        place = max(steps, key=lambda place: (steps[place][0], -steps[place][1]))
        one, reached[place] = lists[place], steps[place][1]
        bounds[one.column][one.term] = one.highest(reached[place])
        if reached[place] < len(one):
            steps[place] = find_step(place)
        else:
            del steps[place]
    return reached
