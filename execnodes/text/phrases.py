"""Which documents have words one after another."""

from __future__ import annotations

import itertools
from bisect import bisect_left
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
        offsets = [group[0].position for group in groups]
        found = found[[lance_finds(starts(of_groups, offsets, document), slop) for document in found]]
    return documents[found]


def lance_finds(starts: Sequence[Sequence[int]], slop: int) -> bool:
    """Whether a Lance index finds a phrase with slop in a document.

    Looking for places that go together, it moves on in all groups at once as far as any two neighbours ask
    for. With three groups or more it so passes over some phrases that are there. Documents that are not in
    an index must be found exactly when they would be in one.

    Args:
        starts: per group, where the phrase would start if each place of the group's were in it, ascending.
        slop: words by which each step may be longer than in the query.
    """
    at = [0] * len(starts)
    while all(place < len(group) for place, group in zip(at, starts, strict=True)):
        now = [group[place] for place, group in zip(at, starts, strict=True)]
        target = now[0]
        for before, after in itertools.pairwise(now):
            target = max(target, before if before > after else max(before + 1, after - slop))
            if not before <= after <= before + slop:
                break
        else:
            return True
        at = [bisect_left(group, target, place) for place, group in zip(at, starts, strict=True)]
    return False


def starts(places_of: Sequence[np.ndarray], offsets: Sequence[int], document: int) -> list[list[int]]:
    """Per group, where the phrase would start in one document, by each place of the group's.

    Args:
        places_of: of each group, see `places`.
        offsets: of each group in the query.
        document: its index.
    """
    first, behind = document << _DOCUMENT_BITS, (document + 1) << _DOCUMENT_BITS
    bounds = (np.searchsorted(there, (first, behind)) for there in places_of)
    return [
        (there[start:stop] - first - offset).tolist()
        for there, (start, stop), offset in zip(places_of, bounds, offsets, strict=True)
    ]


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
