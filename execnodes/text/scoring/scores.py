"""Scores of the documents that match a clause or a phrase, by BM25 with common statistics."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce, singledispatch

import numpy as np

from lance_gateway.execnodes.text.bm25 import (
    ColumnStatistics,
    Postings,
    Scored,
    TextIndex,
    compute_idf,
    compute_weight,
    find_indices,
    intersection,
    is_dense,
    union,
)
from lance_gateway.execnodes.text.documents.source_text import SelectedText
from lance_gateway.execnodes.text.query.clauses import (
    BestClause,
    BooleanClause,
    BoostClause,
    Clause,
    CombinedClause,
    TermsClause,
)
from lance_gateway.execnodes.text.query.query import Operator
from lance_gateway.execnodes.text.query.tokenizer import Token
from lance_gateway.memwal.errors import InvalidInputError, PreconditionError

_DOCUMENT_BITS = 32


def filter_by_phrase(
    documents: np.ndarray,
    groups: Sequence[Sequence[Token]],
    postings: Mapping[str, Postings],
    slop: int,
) -> np.ndarray:
    """Return the documents in which the groups follow each other as in the query.

    Args:
        documents: that have a term of every group, ascending.
        groups: terms of which one will do, with their place in the query.
        postings: of every term, with positions.
        slop: words by which each step may be longer than in the query.

    Returns:
        Their numbers, ascending.

    Raises:
        PreconditionError: nobody knows the positions of a term.
    """
    of_groups = [find_places(documents, group, postings) for group in groups]
    reached = of_groups[0]
    for (before, group), there in zip(itertools.pairwise(groups), of_groups[1:], strict=True):
        step = group[0].position - before[0].position
        # A place is reached from the places `step` to `step + slop` words before it: the nearest of them
        # is the last that isn't too near.
        last = np.searchsorted(reached, there - step, side="right") - 1
        ok = last >= 0
        ok[ok] = there[ok] - step - reached[last[ok]] <= slop
        reached = there[ok]
    found = np.unique(reached >> _DOCUMENT_BITS)
    if slop and len(groups) > 2:
        found = found[match_phrase_as_lance(found, of_groups, [group[0].position for group in groups], slop)]
    return documents[found]


def match_phrase_as_lance(
    documents: np.ndarray, of_groups: Sequence[np.ndarray], offsets: Sequence[int], slop: int
) -> np.ndarray:
    """Return for each document with a phrase whether a Lance index finds it.

    Looking for places that go together, Lance moves on in all groups at once, as far as any two neighbours
    ask for. With slop and three groups or more it so passes over some phrases that are there. Rows outside
    of an index must be found exactly when they would be in one, so they are looked through the same way.

    Args:
        documents: indices of the documents, ascending.
        of_groups: places of each group, see `find_places`.
        offsets: of each group in the query.
        slop: words by which each step may be longer than in the query.
    """
    found = np.zeros(len(documents), np.bool_)
    open_, origin = np.arange(len(documents)), documents << _DOCUMENT_BITS
    from_ = np.full(len(documents), -max(offsets), np.int64)
    while len(open_):
        begins = []
        inside = np.ones(len(open_), np.bool_)
        for there, offset in zip(of_groups, offsets, strict=True):
            at = np.searchsorted(there, origin[open_] + np.maximum(from_ + offset, 0))
            inside &= at < len(there)
            place = there[np.minimum(at, len(there) - 1)] - origin[open_]
            inside &= place >> _DOCUMENT_BITS == 0
            begins.append(place - offset)
        open_, begins = open_[inside], [begin[inside] for begin in begins]
        from_, fits = begins[0], np.ones(len(open_), np.bool_)
        for before, after in itertools.pairwise(begins):
            asked = np.where(before > after, before, np.maximum(before + 1, after - slop))
            from_ = np.where(fits, np.maximum(from_, asked), from_)
            fits &= (before <= after) & (after <= before + slop)
        found[open_[fits]] = True
        open_, from_ = open_[~fits], from_[~fits]
    return found


def find_places(
    documents: np.ndarray, group: Sequence[Token], postings: Mapping[str, Postings]
) -> np.ndarray:
    """Return the places of a group's terms, ascending: document index in the upper bits, position below."""
    found = []
    for term in {token.text: None for token in group}:
        of_term = postings[term]
        if of_term.positions is None or of_term.offsets is None:
            raise PreconditionError(f"the positions of {term!r} aren't known, and a phrase needs them")
        counts = np.diff(of_term.offsets)
        owners = np.searchsorted(documents, of_term.documents)
        owners[owners == len(documents)] = 0
        wanted = np.repeat(documents[owners] == of_term.documents, counts)
        found.append((np.repeat(owners, counts) << _DOCUMENT_BITS)[wanted] + of_term.positions[wanted])
    return np.sort(np.concatenate(found))


DocumentsOf = Callable[[str, str], np.ndarray]
"""Column, term -> documents that have it, ascending (int64)."""
Bounds = Mapping[str, Mapping[str, float]]
"""Column -> term -> the most that one occurrence of the term in the query may score."""


@singledispatch
def find_candidates(clause: Clause, documents: DocumentsOf) -> np.ndarray:
    """Return the documents that may match, ascending (int64): a superset of those that do."""
    raise TypeError(f"{clause!r} has no candidates among {documents!r}: fuzzy clauses are expanded first")


@find_candidates.register
def _match_terms(clause: TermsClause, documents: DocumentsOf) -> np.ndarray:
    of = {term: documents(clause.column, term) for term in clause.terms.get(clause.column, ())}
    if clause.takes_any:
        return union(of.values())
    return intersection(union(of[token.text] for token in group) for group in clause.groups)


@find_candidates.register
def _match_best(clause: BestClause, documents: DocumentsOf) -> np.ndarray:
    return union(find_candidates(part, documents) for part in clause.clauses)


@find_candidates.register
def _match_combined(clause: CombinedClause, documents: DocumentsOf) -> np.ndarray:
    of = [union(documents(column, token.text) for column in clause.columns) for token in clause.tokens]
    return union(of) if clause.operator is Operator.OR else intersection(of)


@find_candidates.register
def _match_boolean(clause: BooleanClause, documents: DocumentsOf) -> np.ndarray:
    if clause.must:
        return intersection(find_candidates(part, documents) for part in clause.must)
    return union(find_candidates(part, documents) for part in clause.should)


@find_candidates.register
def _match_boost(clause: BoostClause, documents: DocumentsOf) -> np.ndarray:
    return find_candidates(clause.positive, documents)


@singledispatch
def compute_bound(clause: Clause, bounds: Bounds) -> float | None:
    """Return an upper bound of a document's score from those of its terms.

    Bound and score are proportional to those of the terms. None for clauses that subtract or combine columns.
    """
    raise TypeError(f"{clause!r} has no bound from {bounds!r}: fuzzy clauses are expanded first")


@compute_bound.register
def _bound_terms(clause: TermsClause, bounds: Bounds) -> float | None:
    of = bounds.get(clause.column, {})
    return clause.boost * sum(of.get(token.text, 0.0) for _, token in clause.own_terms())


@compute_bound.register
def _bound_best(clause: BestClause, bounds: Bounds) -> float | None:
    found = [compute_bound(part, bounds) for part in clause.clauses]
    known = [value for value in found if value is not None]
    return max(known) if len(known) == len(found) else None


@compute_bound.register
def _bound_combined(clause: CombinedClause, bounds: Bounds) -> float | None:  # noqa: ARG001 - none for any
    return None


@compute_bound.register
def _bound_boolean(clause: BooleanClause, bounds: Bounds) -> float | None:
    found = [compute_bound(part, bounds) for part in clause.scoring]
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


@compute_bound.register
def _bound_boost(clause: BoostClause, bounds: Bounds) -> float | None:
    return None if clause.negative_boost else compute_bound(clause.positive, bounds)


Statistics = Mapping[str, ColumnStatistics]


def score(
    clause: Clause, statistics: Statistics, index: TextIndex, *, live: np.ndarray | None = None
) -> Scored:
    """Score the documents that match as Lance does (float32).

    Args:
        clause: with fuzzy words expanded.
        statistics: of each column of the clause, with the frequency of each of its terms.
        index: the documents.
        live: one bool per document: whether it counts; None where all do.

    Raises:
        InvalidInputError: boosts make scores too large.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = score_exactly(clause, statistics, index)
    if live is not None:
        counts = live[found.documents]
        found = Scored(found.documents[counts], found.scores[counts])
    return _round_scores(found)


def score_rows(clause: Clause, statistics: Statistics, index: TextIndex, rows: np.ndarray) -> Scored:
    """Score those of some documents that match, as `score` does.

    Args:
        clause: see `score`.
        statistics: see `score`.
        index: all documents.
        rows: numbers of those that count, ascending.

    Raises:
        InvalidInputError: boosts make scores too large.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(clause, TermsClause) and clause.takes_any:
            found = _score_any(clause, statistics, index, rows)
        else:
            found = score_exactly(clause, statistics, SelectedText(index, rows))
    return _round_scores(found)


def _round_scores(found: Scored) -> Scored:
    with np.errstate(over="ignore"):
        scores = found.scores.astype(np.float32)
    if not np.isfinite(scores).all():
        raise InvalidInputError("the boosts of the text query make scores too large: give smaller ones")
    return Scored(found.documents, scores)


def _score_any(clause: TermsClause, statistics: Statistics, index: TextIndex, rows: np.ndarray) -> Scored:
    """Score those of some documents that have any term, with one look at the postings of each."""
    of = statistics[clause.column]
    lengths = index.lengths(clause.column, rows)
    scores, matches = np.zeros(len(rows)), np.zeros(len(rows), np.bool_)
    for term, count in Counter([token.text for _, token in clause.own_terms()]).items():
        at, frequencies = find_frequencies(rows, index.postings(clause.column, term))
        scores[at] += count * of.idf(term) * of.weight(frequencies, lengths[at])
        matches[at] = True
    return Scored(rows[matches], scores[matches]).times(clause.boost)


@singledispatch
def score_exactly(clause: Clause, statistics: Statistics, index: TextIndex) -> Scored:
    """Score the documents that match (float64)."""
    raise TypeError(f"{clause!r} has no scores in {statistics!r} of {index!r}: expand fuzzy clauses first")


@score_exactly.register
def _score_terms(clause: TermsClause, statistics: Statistics, index: TextIndex) -> Scored:
    of = statistics[clause.column]
    times = Counter([token.text for _, token in clause.own_terms()])
    postings = {term: index.postings(clause.column, term) for term in times}
    if clause.takes_any and is_dense([one.documents for one in postings.values()]):
        return _score_densely(clause, of, times, postings, index)
    documents = find_candidates(clause, lambda _, term: postings[term].documents)
    if clause.phrase is not None and len(documents):
        known = index.phrase(clause.column, clause.phrase)
        documents = (
            filter_by_phrase(documents, clause.groups, postings, clause.phrase.slop)
            if known is None
            else intersection((documents, known))
        )
    lengths = index.lengths(clause.column, documents)
    scores = np.zeros(len(documents))
    for term, count in times.items():
        at, frequencies = find_frequencies(documents, postings[term])
        scores[at] += count * of.idf(term) * of.weight(frequencies, lengths[at])
    return Scored(documents, scores).times(clause.boost)


def _score_densely(
    clause: TermsClause,
    statistics: ColumnStatistics,
    times: Mapping[str, int],
    postings: Mapping[str, Postings],
    index: TextIndex,
) -> Scored:
    """Score the documents that have any term, in an array of all: each term adds more than nothing."""
    scores = np.zeros(1 + max(int(one.documents[-1]) for one in postings.values() if len(one.documents)))
    for term, count in times.items():
        documents = postings[term].documents
        lengths = index.lengths(clause.column, documents)
        weights = statistics.weight(postings[term].frequencies, lengths)
        scores[documents] += count * statistics.idf(term) * weights
    found = np.flatnonzero(scores)
    return Scored(found, scores[found]).times(clause.boost)


@score_exactly.register
def _score_best(clause: BestClause, statistics: Statistics, index: TextIndex) -> Scored:
    return reduce(Scored.best, (score_exactly(part, statistics, index) for part in clause.clauses))


@score_exactly.register
def _score_combined(clause: CombinedClause, statistics: Statistics, index: TextIndex) -> Scored:
    of = [
        (column, share, statistics[column])
        for column, share in zip(clause.columns, clause.weights, strict=True)
    ]
    count = max(one.documents for _, _, one in of)
    average = sum(share * one.tokens for _, share, one in of) / max(count, 1)
    documents = find_candidates(clause, lambda column, term: index.postings(column, term).documents)
    lengths = np.zeros(len(documents))
    for column, share, _ in of:
        lengths += share * index.lengths(column, documents)
    scores = np.zeros(len(documents))
    for term in (token.text for token in clause.tokens):
        frequencies = np.zeros(len(documents))
        for column, share, _ in of:
            at, of_term = find_frequencies(documents, index.postings(column, term))
            frequencies[at] += share * of_term
        rarity = compute_idf(count, max(one.frequencies.get(term, 0) for _, _, one in of))
        scores += rarity * compute_weight(frequencies, lengths, average)
    return Scored(documents, scores)


@score_exactly.register
def _score_boolean(clause: BooleanClause, statistics: Statistics, index: TextIndex) -> Scored:
    should = [score_exactly(part, statistics, index) for part in clause.should]
    if clause.must:
        must = reduce(Scored.both, (score_exactly(part, statistics, index) for part in clause.must))
        found = reduce(Scored.add_scores, should, must)
    else:
        found = reduce(Scored.either, should)
    for part in clause.must_not:
        found = found.without(score_exactly(part, statistics, index).documents)
    return found


@score_exactly.register
def _score_boost(clause: BoostClause, statistics: Statistics, index: TextIndex) -> Scored:
    negative = score_exactly(clause.negative, statistics, index)
    return score_exactly(clause.positive, statistics, index).add_scores(
        negative.times(-clause.negative_boost)
    )


def find_frequencies(documents: np.ndarray, postings: Postings) -> tuple[np.ndarray, np.ndarray]:
    """Return the documents with a term, as indices into them, and their term frequencies."""
    if len(documents) < len(postings.documents):
        places = find_indices(postings.documents, documents)
        at = np.flatnonzero(places >= 0)
        return at, postings.frequencies[places[at]]
    at = find_indices(documents, postings.documents)
    found = at >= 0
    return at[found], postings.frequencies[found]
