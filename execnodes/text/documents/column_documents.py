"""What a search knows of the documents of one column, and where it is kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from execnodes.text.bm25 import Postings
from execnodes.text.query.query import PhraseQuery

Value = TypeVar("Value")


class Cache(Protocol):
    """Keeps what is costly to find, within a budget in bytes; keys name immutable things."""

    def compute(self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """The value that is kept, or what `make` returns."""


class ColumnDocuments(Protocol):
    """The documents of one column of a source, by row number.

    They are those of all physical rows that Lance has not deleted, some perhaps of deleted ones: whoever
    asks knows which rows are live.
    """

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row (int32); a row without any is no document."""

    def postings(self, term: str, surface: str | None = None) -> Postings:
        """Rows that have a term, ascending, and how often.

        Args:
            term: as the tokenizer makes it.
            surface: a text of which this term alone is made, if there is one.
        """

    def phrase(self, query: PhraseQuery) -> np.ndarray | None:
        """Rows that have a phrase, ascending, where that is known without positions."""

    def near(self, word: str, edits: int, prefix_length: int) -> Sequence[str]:
        """Terms that are near to a word, in the order of their bytes; some perhaps of deleted rows alone.

        Args:
            word: of a fuzzy match.
            edits: that may lie between.
            prefix_length: first characters that take no edits.
        """
