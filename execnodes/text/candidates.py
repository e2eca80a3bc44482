"""What can be known of a clause's matches before any is scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch

import numpy as np

from execnodes.text.clauses import (
    BestClause,
    BooleanClause,
    BoostClause,
    Clause,
    CombinedClause,
    TermsClause,
)
from execnodes.text.query import Operator
from execnodes.text.scored import intersection, union

DocumentsOf = Callable[[str, str], np.ndarray]
"""Column, term -> documents that have it, ascending (int64)."""
Bounds = Mapping[str, Mapping[str, float]]
"""Column -> term -> the most that one occurrence of the term in the query may score."""


@singledispatch
def candidates(clause: Clause, documents: DocumentsOf) -> np.ndarray:
    """Documents that may match, ascending (int64): all that do, and perhaps more."""
    raise TypeError(f"{clause!r} has no candidates among {documents!r}: fuzzy clauses are expanded first")


@candidates.register
def _terms(clause: TermsClause, documents: DocumentsOf) -> np.ndarray:
    of = {term: documents(clause.column, term) for term in clause.terms.get(clause.column, ())}
    if clause.operator is Operator.OR and clause.phrase is None:
        return union(of.values())
    return intersection(union(of[token.text] for token in group) for group in clause.groups)


@candidates.register
def _best(clause: BestClause, documents: DocumentsOf) -> np.ndarray:
    return union(candidates(part, documents) for part in clause.clauses)


@candidates.register
def _combined(clause: CombinedClause, documents: DocumentsOf) -> np.ndarray:
    of = [union(documents(column, token.text) for column in clause.columns) for token in clause.tokens]
    return union(of) if clause.operator is Operator.OR else intersection(of)


@candidates.register
def _boolean(clause: BooleanClause, documents: DocumentsOf) -> np.ndarray:
    if clause.must:
        return intersection(candidates(part, documents) for part in clause.must)
    return union(candidates(part, documents) for part in clause.should)


@candidates.register
def _boost(clause: BoostClause, documents: DocumentsOf) -> np.ndarray:
    return candidates(clause.positive, documents)


@singledispatch
def bound(clause: Clause, bounds: Bounds) -> float | None:
    """The most that a document can score whose terms score at most so much each.

    It grows in proportion with the bounds, and so does the score with the terms' scores. None where a score
    isn't made in that way: where something is subtracted, or columns are combined.
    """
    raise TypeError(f"{clause!r} has no bound from {bounds!r}: fuzzy clauses are expanded first")


@bound.register
def _bound_of_terms(clause: TermsClause, bounds: Bounds) -> float | None:
    of = bounds.get(clause.column, {})
    return clause.boost * sum(of.get(token.text, 0.0) for _, token in clause.own_terms())


@bound.register
def _bound_of_best(clause: BestClause, bounds: Bounds) -> float | None:
    found = [bound(part, bounds) for part in clause.clauses]
    known = [value for value in found if value is not None]
    return max(known) if len(known) == len(found) else None


@bound.register
def _bound_of_combined(clause: CombinedClause, bounds: Bounds) -> float | None:  # noqa: ARG001 (none for any)
    return None


@bound.register
def _bound_of_boolean(clause: BooleanClause, bounds: Bounds) -> float | None:
    found = [bound(part, bounds) for part in clause.scoring]
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


@bound.register
def _bound_of_boost(clause: BoostClause, bounds: Bounds) -> float | None:
    return None if clause.negative_boost else bound(clause.positive, bounds)
