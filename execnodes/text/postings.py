"""Documents whose terms are kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from execnodes.text.bm25 import Postings
from execnodes.text.fuzzy import near
from execnodes.text.query import PhraseQuery
from execnodes.text.tokenizer import TokenizedDocuments, Tokenizer

WORDS_REMEMBERED = 64
TERMS_REMEMBERED = 512
NO_POSTINGS = Postings(
    np.empty(0, dtype=np.int64),
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.int32),
    np.zeros(1, dtype=np.int64),
)


@dataclass(frozen=True, eq=False)
class TokenPostings:
    """All terms of some documents, with their positions: a `ColumnDocuments`.

    Args:
        rows: number of each document's row, ascending (int64).
        tokens: of the documents, in the same order.
        row_count: rows of the source.
    """

    rows: np.ndarray
    tokens: TokenizedDocuments
    row_count: int
    _near: dict[tuple[str, int, int], list[str]] = field(default_factory=dict)
    _found: dict[str, Postings] = field(default_factory=dict)

    @staticmethod
    def of(
        tokenizer: Tokenizer, texts: pa.Array | pa.ChunkedArray, rows: np.ndarray, row_count: int
    ) -> TokenPostings:
        """Tokenize texts.

        Args:
            tokenizer: of the index that they would be in.
            texts: one per row.
            rows: their numbers, ascending.
            row_count: rows of the source.
        """
        return TokenPostings(rows, tokenizer.tokenize(texts), row_count)

    @property
    def nbytes(self) -> int:
        """Bytes held, once everything that is worked out on demand is."""
        return 40 * len(self.tokens.terms) + 12 * len(self.rows) + 4 * self.row_count + 100 * len(self.terms)

    @cached_property
    def lengths(self) -> np.ndarray:
        """See `ColumnDocuments.lengths`."""
        lengths = np.zeros(self.row_count, dtype=np.int32)
        lengths[self.rows] = self.tokens.lengths
        return lengths

    @cached_property
    def terms(self) -> dict[str, int]:
        """Term -> its code."""
        return {term: code for code, term in enumerate(self.tokens.vocabulary.to_pylist())}

    @cached_property
    def _order(self) -> np.ndarray:
        """Tokens by term, then as they stand in the documents."""
        return np.argsort(self.tokens.terms, kind="stable")

    @cached_property
    def _starts(self) -> np.ndarray:
        """Where the tokens of each term begin in that order."""
        counts = np.bincount(self.tokens.terms, minlength=len(self.tokens.vocabulary))
        return np.concatenate(([0], np.cumsum(counts)))

    @cached_property
    def _documents(self) -> np.ndarray:
        """Row number of each token, by term."""
        documents: np.ndarray = np.repeat(self.rows, self.tokens.lengths)[self._order]
        return documents

    @cached_property
    def _positions(self) -> np.ndarray:
        """Position of each token, by term."""
        positions: np.ndarray = self.tokens.positions[self._order]
        return positions

    def postings(self, term: str, surface: str | None = None) -> Postings:  # noqa: ARG002 (terms are known)
        """See `ColumnDocuments.postings`; with positions."""
        found = self._found.get(term)
        if found is None:
            if len(self._found) >= TERMS_REMEMBERED:
                self._found.clear()
            found = self._found[term] = self._postings(term)
        return found

    def _postings(self, term: str) -> Postings:
        code = self.terms.get(term)
        if code is None:
            return NO_POSTINGS
        start, stop = self._starts[code], self._starts[code + 1]
        if start == stop:
            return NO_POSTINGS  # the vocabulary knows words of texts that are none
        documents = self._documents[start:stop]
        firsts = np.flatnonzero(np.concatenate(([True], documents[1:] != documents[:-1])))
        offsets = np.append(firsts, len(documents))
        return Postings(
            documents[firsts], np.diff(offsets).astype(np.int32), self._positions[start:stop], offsets
        )

    def phrase(self, query: PhraseQuery) -> np.ndarray | None:  # noqa: ARG002 (positions tell)
        """See `ColumnDocuments.phrase`."""
        return None

    @cached_property
    def _sorted_terms(self) -> list[str]:
        return sorted(self.terms, key=str.encode)

    def near(self, word: str, edits: int, prefix_length: int) -> Sequence[str]:
        """See `ColumnDocuments.near`."""
        key = word, edits, prefix_length
        found = self._near.get(key)
        if found is None:
            if len(self._near) >= WORDS_REMEMBERED:
                self._near.clear()
            found = self._near[key] = near(word, self._sorted_terms, edits, prefix_length)
        return found
