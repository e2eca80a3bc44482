"""Which documents have words one after another."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from execnodes.text.bm25 import Postings
from execnodes.text.query.tokenizer import Token
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
    of_groups = [places(documents, group, postings) for group in groups]
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
        found = found[lance_finds(found, of_groups, [group[0].position for group in groups], slop)]
    return documents[found]


def lance_finds(
    documents: np.ndarray, of_groups: Sequence[np.ndarray], offsets: Sequence[int], slop: int
) -> np.ndarray:
    """Whether a Lance index finds a phrase in documents that have it, one bool each.

    Looking for places that go together, Lance moves on in all groups at once, as far as any two neighbours
    ask for. With slop and three groups or more it so passes over some phrases that are there. Rows outside
    of an index must be found exactly when they would be in one, so they are looked through the same way.

    Args:
        documents: indices of the documents, ascending.
        of_groups: places of each group, see `places`.
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


def places(documents: np.ndarray, group: Sequence[Token], postings: Mapping[str, Postings]) -> np.ndarray:
    """Where terms of a group stand, ascending: document (its index) in the upper bits, position below."""
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
