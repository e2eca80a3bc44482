"""Which documents have words one after another."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from execnodes.text.bm25 import Postings
from execnodes.text.tokenizer import Token
from memwal.errors import PreconditionError

_DOCUMENT_BITS = 32


def with_phrase(
    documents: np.ndarray,
    groups: Sequence[Sequence[Token]],
    postings: Mapping[str, Postings],
    slop: int,
) -> np.ndarray:
    """Those of the documents in which the groups follow each other as in the query.

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
    reached = places(documents, groups[0], postings)
    for before, group in itertools.pairwise(groups):
        step = group[0].position - before[0].position
        there = places(documents, group, postings)
        # A place is reached from the places `step` to `step + slop` words before it: the nearest of them
        # is the last that isn't too near.
        last = np.searchsorted(reached, there - step, side="right") - 1
        ok = last >= 0
        ok[ok] = there[ok] - step - reached[last[ok]] <= slop
        reached = there[ok]
    return documents[np.unique(reached >> _DOCUMENT_BITS)]


def places(documents: np.ndarray, group: Sequence[Token], postings: Mapping[str, Postings]) -> np.ndarray:
    """Where terms of a group stand, ascending: upper bits the document, by its index; lower bits the position."""
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
