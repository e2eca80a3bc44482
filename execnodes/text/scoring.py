"""Scores of what matches a clause: BM25 with the statistics of all that is searched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce, singledispatch

import numpy as np

from execnodes.text.bm25 import ColumnStatistics, Postings, TextIndex, idf, weight
from execnodes.text.candidates import candidates
from execnodes.text.clauses import (
    BestClause,
    BooleanClause,
    BoostClause,
    Clause,
    CombinedClause,
    TermsClause,
)
from execnodes.text.phrases import with_phrase
from execnodes.text.scored import Scored, intersection, places_in
from memwal.errors import InvalidInputError

Statistics = Mapping[str, ColumnStatistics]


def score(clause: Clause, statistics: Statistics, index: TextIndex) -> Scored:
    """Documents that match, with their scores as Lance gives them (float32).

    Args:
        clause: with fuzzy words expanded.
        statistics: of each column of the clause, with the frequency of each of its terms.
        index: the documents.

    Raises:
        InvalidInputError: boosts make scores too large.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = scored(clause, statistics, index)
        scores = found.scores.astype(np.float32)
    if not np.isfinite(scores).all():
        raise InvalidInputError("the boosts of the text query make scores too large: give smaller ones")
    return Scored(found.documents, scores)


@singledispatch
def scored(clause: Clause, statistics: Statistics, index: TextIndex) -> Scored:
    """Documents that match, with their scores (float64)."""
    raise TypeError(f"{clause!r} has no scores in {statistics!r} of {index!r}: expand fuzzy clauses first")


@scored.register
def _terms(clause: TermsClause, statistics: Statistics, index: TextIndex) -> Scored:
    of = statistics[clause.column]
    times = Counter(token.text for _, token in clause.own_terms())
    postings = {term: index.postings(clause.column, term) for term in times}
    documents = candidates(clause, lambda _, term: postings[term].documents)
    if clause.phrase is not None and len(documents):
        known = index.phrase(clause.column, clause.phrase)
        documents = (
            with_phrase(documents, clause.groups, postings, clause.phrase.slop)
            if known is None
            else intersection((documents, known))
        )
    lengths = index.lengths(clause.column, documents)
    scores = np.zeros(len(documents))
    for term, count in times.items():
        at, frequencies = frequencies_in(documents, postings[term])
        scores[at] += count * of.idf(term) * of.weight(frequencies, lengths[at])
    return Scored(documents, scores).times(clause.boost)


@scored.register
def _best(clause: BestClause, statistics: Statistics, index: TextIndex) -> Scored:
    return reduce(Scored.best, (scored(part, statistics, index) for part in clause.clauses))


@scored.register
def _combined(clause: CombinedClause, statistics: Statistics, index: TextIndex) -> Scored:
    of = [
        (column, share, statistics[column])
        for column, share in zip(clause.columns, clause.weights, strict=True)
    ]
    count = max(one.documents for _, _, one in of)
    average = sum(share * one.tokens for _, share, one in of) / max(count, 1)
    documents = candidates(clause, lambda column, term: index.postings(column, term).documents)
    lengths = np.zeros(len(documents))
    for column, share, _ in of:
        lengths += share * index.lengths(column, documents)
    scores = np.zeros(len(documents))
    for term in (token.text for token in clause.tokens):
        frequencies = np.zeros(len(documents))
        for column, share, _ in of:
            at, of_term = frequencies_in(documents, index.postings(column, term))
            frequencies[at] += share * of_term
        rarity = idf(count, max(one.frequencies.get(term, 0) for _, _, one in of))
        scores += rarity * weight(frequencies, lengths, average)
    return Scored(documents, scores)


@scored.register
def _boolean(clause: BooleanClause, statistics: Statistics, index: TextIndex) -> Scored:
    should = [scored(part, statistics, index) for part in clause.should]
    if clause.must:
        must = reduce(Scored.both, (scored(part, statistics, index) for part in clause.must))
        found = reduce(Scored.adding, should, must)
    else:
        found = reduce(Scored.either, should)
    for part in clause.must_not:
        found = found.without(scored(part, statistics, index).documents)
    return found


@scored.register
def _boost(clause: BoostClause, statistics: Statistics, index: TextIndex) -> Scored:
    negative = scored(clause.negative, statistics, index)
    return scored(clause.positive, statistics, index).adding(negative.times(-clause.negative_boost))


def frequencies_in(documents: np.ndarray, postings: Postings) -> tuple[np.ndarray, np.ndarray]:
    """Which of the documents have a term, as indices into them, and how often."""
    if len(documents) < len(postings.documents):
        places = places_in(postings.documents, documents)
        at = np.flatnonzero(places >= 0)
        return at, postings.frequencies[places[at]]
    at = places_in(documents, postings.documents)
    found = at >= 0
    return at[found], postings.frequencies[found]
