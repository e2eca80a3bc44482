"""Terms that are near to a misspelt word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def near(word: str, terms: Sequence[str], fuzziness: int, prefix_length: int) -> list[str]:
    """Those of the terms that few edits make of a word, in their order.

    Args:
        word: as it is written.
        terms: to look among.
        fuzziness: characters that may be inserted, deleted or replaced.
        prefix_length: so many first characters of the word take no edits.
    """
    prefix = word[:prefix_length]
    possible = [term for term in terms if abs(len(term) - len(word)) <= fuzziness and term.startswith(prefix)]
    if not possible:
        return []
    close = distances(word, possible) <= fuzziness
    return [term for term, is_close in zip(possible, close.tolist(), strict=True) if is_close]


def distances(word: str, terms: Sequence[str]) -> np.ndarray:
    """Edit distances (int32) of a word to each of the terms, of which there must be one.

    All terms go through the table of prefixes' distances side by side, one character of theirs at a time.
    """
    lengths = np.fromiter(map(len, terms), np.int64, len(terms))
    width = int(lengths.max())
    letters = np.array(terms, dtype=f"<U{max(width, 1)}").view(np.uint32).reshape(len(terms), -1)
    row = np.tile(np.arange(len(word) + 1, dtype=np.int32), (len(terms), 1))
    found = np.where(lengths == 0, len(word), 0).astype(np.int32)
    for column in range(width):
        before = row
        row = np.empty_like(before)
        row[:, 0] = column + 1
        for place, letter in enumerate(word):
            replaced = before[:, place] + (letters[:, column] != ord(letter))
            row[:, place + 1] = np.minimum(replaced, np.minimum(before[:, place + 1], row[:, place]) + 1)
        ends = lengths == column + 1
        found[ends] = row[ends, -1]
    return found
