"""Documents whose terms are kept in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from execnodes.text.bm25 import Postings
from execnodes.text.query import PhraseQuery
from execnodes.text.tokenizer import TokenizedDocuments, Tokenizer

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
        code = self.terms.get(term)
        if code is None:
            return NO_POSTINGS
        start, stop = self._starts[code], self._starts[code + 1]
        documents = self._documents[start:stop]
        firsts = np.flatnonzero(np.concatenate(([True], documents[1:] != documents[:-1])))
        offsets = np.append(firsts, len(documents))
        return Postings(
            documents[firsts], np.diff(offsets).astype(np.int32), self._positions[start:stop], offsets
        )

    def phrase(self, query: PhraseQuery) -> np.ndarray | None:  # noqa: ARG002 (positions tell)
        """See `ColumnDocuments.phrase`."""
        return None

    def near(
        self,
        word: str,  # noqa: ARG002 (a superset will do)
        fuzziness: int,  # noqa: ARG002
        prefix_length: int,  # noqa: ARG002
        live: np.ndarray,
    ) -> frozenset[str]:
        """See `ColumnDocuments.near`: all terms that live rows have."""
        codes = np.unique(self.tokens.terms[np.repeat(live[self.rows], self.tokens.lengths)])
        return frozenset(self.tokens.vocabulary.take(pa.array(codes)).to_pylist())
