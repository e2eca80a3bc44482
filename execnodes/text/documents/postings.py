"""Documents whose terms are kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from execnodes.text.bm25 import Postings
from execnodes.text.query.fuzzy import near
from execnodes.text.query.query import PhraseQuery
from execnodes.text.query.tokenizer import TokenizedDocuments, Tokenizer

WORDS_REMEMBERED = 64
TERMS_FOUND = 512
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
            if len(self._found) >= TERMS_FOUND:
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


@dataclass(frozen=True, eq=False)
class GrowingPostings:
    """A `ColumnDocuments` of rows from 0 on, in parts: what comes later costs only itself.

    Args:
        parts: of neighbouring rows, in their order.
        row_count: rows of them all.
    """

    parts: tuple[TokenPostings, ...] = ()
    row_count: int = 0

    def grown(self, tokenizer: Tokenizer, texts: pa.ChunkedArray) -> GrowingPostings:
        """The same with all further rows.

        Parts of similar size are made one, so that their number grows with the logarithm of the rows.

        Args:
            tokenizer: as before.
            texts: of all rows.
        """
        parts, first = list(self.parts), self.row_count
        while parts and len(parts[-1].rows) <= len(texts) - first:
            first -= len(parts.pop().rows)
        rows = np.arange(first, len(texts))
        added = TokenPostings.of(tokenizer, texts.slice(first), rows, len(texts))
        return GrowingPostings((*parts, added), len(texts))

    @property
    def nbytes(self) -> int:
        """Bytes held, once everything that is worked out on demand is."""
        return sum(part.nbytes for part in self.parts) + 4 * self.row_count

    @cached_property
    def lengths(self) -> np.ndarray:
        """See `ColumnDocuments.lengths`."""
        parts = [part.tokens.lengths for part in self.parts]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)

    def postings(self, term: str, surface: str | None = None) -> Postings:
        """See `ColumnDocuments.postings`; with positions."""
        return joined([part.postings(term, surface) for part in self.parts])

    def phrase(self, query: PhraseQuery) -> np.ndarray | None:  # noqa: ARG002 (positions tell)
        """See `ColumnDocuments.phrase`."""
        return None

    def near(self, word: str, edits: int, prefix_length: int) -> Sequence[str]:
        """See `ColumnDocuments.near`."""
        found = {term for part in self.parts for term in part.near(word, edits, prefix_length)}
        return sorted(found, key=str.encode)


def joined(parts: list[Postings]) -> Postings:
    """Postings of neighbouring rows, all with positions."""
    if len(parts) == 1:
        return parts[0]
    documents, frequencies, positions = [], [], []
    for part in parts:
        assert part.positions is not None  # noqa: S101 (texts in memory know them)
        documents.append(part.documents)
        frequencies.append(part.frequencies)
        positions.append(part.positions)
    counts = np.concatenate([np.empty(0, dtype=np.int32), *frequencies])
    return Postings(
        np.concatenate([np.empty(0, dtype=np.int64), *documents]),
        counts,
        np.concatenate([np.empty(0, dtype=np.int32), *positions]),
        np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
    )
