"""Postings of the documents of one source, and which of them are live."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.execnodes.text.bm25 import Postings, TextIndex, find_indices
from lance_gateway.execnodes.text.documents.column_documents import (
    Cache,
    ColumnDocuments,
    CountedDocuments,
    RowNumbers,
)
from lance_gateway.execnodes.text.query.clauses import find_near_terms
from lance_gateway.execnodes.text.query.query import PhraseQuery
from lance_gateway.execnodes.text.query.tokenizer import TokenizedDocuments, Tokenizer

WORDS_REMEMBERED = 64
TERMS_FOUND = 512
NO_POSTINGS = Postings(
    np.empty(0, dtype=np.int64),
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.int32),
    np.zeros(1, dtype=np.int64),
)


@dataclass(frozen=True, eq=False)
class TokenPostings(CountedDocuments):
    """All terms of some documents, with positions; implements `ColumnDocuments`.

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
        """Bytes in memory, once all cached properties are computed."""
        return 40 * len(self.tokens.terms) + 12 * len(self.rows) + 4 * self.row_count + 100 * len(self.terms)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row."""
        lengths = np.zeros(self.row_count, dtype=np.int32)
        lengths[self.rows] = self.tokens.lengths
        return lengths

    @cached_property
    def terms(self) -> dict[str, int]:
        """Code by term."""
        return {term: code for code, term in enumerate(self.tokens.vocabulary.to_pylist())}

    @cached_property
    def _order(self) -> np.ndarray:
        """Order of the tokens by term, then by their place in the documents."""
        return np.argsort(self.tokens.terms, kind="stable")

    @cached_property
    def _starts(self) -> np.ndarray:
        """Index of the first token of each term in that order."""
        counts = np.bincount(self.tokens.terms, minlength=len(self.tokens.vocabulary))
        return np.concatenate(([0], np.cumsum(counts)))

    @cached_property
    def _documents(self) -> np.ndarray:
        documents: np.ndarray = np.repeat(self.rows, self.tokens.lengths)[self._order]
        return documents

    @cached_property
    def _positions(self) -> np.ndarray:
        positions: np.ndarray = self.tokens.positions[self._order]
        return positions

    def postings(self, term: str, surface: str | None = None) -> Postings:  # noqa: ARG002 - terms are known
        """Return the postings of a term, with positions."""
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

    def has(self, term: str) -> bool:  # noqa: ARG002 - all are in memory
        """Return True: nothing must be read."""
        return True

    def phrase(self, query: PhraseQuery) -> np.ndarray | None:  # noqa: ARG002 - positions tell
        """Return None: it takes positions to find a phrase."""
        return None

    @cached_property
    def _sorted_terms(self) -> list[str]:
        return sorted(self.terms, key=str.encode)

    def near(self, word: str, edits: int, prefix_length: int) -> Sequence[str]:
        """Return the terms within an edit distance of a word."""
        key = word, edits, prefix_length
        found = self._near.get(key)
        if found is None:
            if len(self._near) >= WORDS_REMEMBERED:
                self._near.clear()
            found = self._near[key] = find_near_terms(word, self._sorted_terms, edits, prefix_length)
        return found


@dataclass(frozen=True, eq=False)
class GrowingPostings(CountedDocuments):
    """Postings of rows from 0 on, in parts, so that new rows cost only themselves: a `ColumnDocuments`.

    Args:
        parts: of neighbouring rows, in their order.
        row_count: rows of them all.
    """

    parts: tuple[TokenPostings, ...] = ()
    row_count: int = 0

    def extend(self, tokenizer: Tokenizer, texts: pa.ChunkedArray) -> GrowingPostings:
        """Return the postings with all further rows.

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
        """Bytes in memory, once all cached properties are computed."""
        return sum(part.nbytes for part in self.parts) + 4 * self.row_count

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row."""
        parts = [part.tokens.lengths for part in self.parts]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)

    def postings(self, term: str, surface: str | None = None) -> Postings:
        """Return the postings of a term, with positions."""
        return join_postings([part.postings(term, surface) for part in self.parts])

    def has(self, term: str) -> bool:  # noqa: ARG002 - all are in memory
        """Return True: nothing must be read."""
        return True

    def phrase(self, query: PhraseQuery) -> np.ndarray | None:  # noqa: ARG002 - positions tell
        """Return None: it takes positions to find a phrase."""
        return None

    def near(self, word: str, edits: int, prefix_length: int) -> Sequence[str]:
        """Return the terms within an edit distance of a word."""
        found = {term for part in self.parts for term in part.near(word, edits, prefix_length)}
        return sorted(found, key=str.encode)


def join_postings(parts: Sequence[Postings], starts: Sequence[int] | None = None) -> Postings:
    """Concatenate the postings of consecutive rows, all with positions.

    Args:
        parts: in the order of their rows.
        starts: what is added to the row numbers of each; None for nothing.
    """
    if len(parts) == 1 and starts is None:
        return parts[0]
    documents, frequencies, positions = [], [], []
    for part, start in zip(parts, starts or itertools.repeat(0), strict=False):
        if len(part.documents):
            assert part.positions is not None  # noqa: S101 - texts in memory know them
            documents.append(part.documents + start if start else part.documents)
            frequencies.append(part.frequencies)
            positions.append(part.positions)
    counts = np.concatenate([np.empty(0, dtype=np.int32), *frequencies])
    return Postings(
        np.concatenate([np.empty(0, dtype=np.int64), *documents]),
        counts,
        np.concatenate([np.empty(0, dtype=np.int32), *positions]),
        np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
    )


ENTRY_BYTES = 1 << 12
FREQUENCIES_KNOWN = 4_096


@dataclass(frozen=True, eq=False)
class LiveText:
    """The documents of one source, their liveness, and the statistics of live ones; implements `TextIndex`.

    It is the same for all queries as long as the same rows are live.

    Args:
        columns: documents of each searched column.
        numbers: of the source's rows.
        live: one bool per row.
    """

    columns: Mapping[str, ColumnDocuments]
    numbers: RowNumbers
    live: np.ndarray
    _sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    _frequencies: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without the documents."""
        return int(self.live.nbytes) + ENTRY_BYTES

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """Return the number of tokens of the column in these documents."""
        found: np.ndarray = self.columns[column].lengths[documents]
        return found

    def postings(self, column: str, term: str) -> Postings:
        """Return the postings of a term, in documents that are not live as well."""
        return self.columns[column].postings(term)

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """Return the documents with a phrase; None if it takes positions to find them."""
        return self.columns[column].phrase(query)

    def size(self, column: str) -> tuple[int, int]:
        """Return the number of live documents of a column, and of their tokens."""
        found = self._sizes.get(column)
        if found is None:
            of_column = self.columns[column]
            documents, tokens = of_column.totals
            dead = of_column.lengths[np.flatnonzero(~self.live)]
            found = documents - int(np.count_nonzero(dead)), tokens - int(dead.sum(dtype=np.int64))
            self._sizes[column] = found
        return found

    def cached_frequency(self, column: str, term: str) -> int | None:
        """Return the number of live documents with a term if it is cached."""
        return self._frequencies.get((column, term))

    def frequency(self, column: str, term: str, surface: str | None = None) -> int:
        """Return the number of live documents with a term.

        Args:
            column: of the term.
            term: as its tokenizer makes it.
            surface: a text of which this term alone is made, if there is one.
        """
        found = self._frequencies.get((column, term))
        if found is None:
            if len(self._frequencies) >= FREQUENCIES_KNOWN:
                self._frequencies.clear()
            documents = self.columns[column].postings(term, surface).documents
            found = self._frequencies[column, term] = int(np.count_nonzero(self.live[documents]))
        return found


@dataclass(frozen=True, eq=False)
class SourceText:
    """The documents of one source for one query; implements `TextIndex`.

    Args:
        source: where they are.
        text: its documents.
        tokenizers: that made their terms.
        cache: keeps what is worked out.
    """

    source: SearchSource
    text: LiveText
    tokenizers: Mapping[str, Tokenizer]
    cache: Cache
    _found: dict[tuple[str, str], Postings] = field(default_factory=dict)

    @property
    def numbers(self) -> RowNumbers:
        """Row numbers of the source."""
        return self.text.numbers

    @property
    def live(self) -> np.ndarray:
        """One bool per row: whether it is live."""
        return self.text.live

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """Return the number of tokens of the column in these documents."""
        return self.text.lengths(column, documents)

    def postings(self, column: str, term: str) -> Postings:
        """Return the postings of a term."""
        found = self._found.get((column, term))
        if found is None:
            found = self._found[column, term] = self.text.postings(column, term)
        return found

    def count_postings(self, terms: Iterable[tuple[str, str]]) -> int:
        """Return the number of postings of terms, each with its column."""
        return sum(len(self.postings(column, term).documents) for column, term in terms)

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """Return the documents with a phrase; None if it takes positions to find them."""
        return self.text.phrase(column, query)


@dataclass(frozen=True, eq=False)
class SelectedText:
    """Some documents of many; implements `TextIndex`.

    Args:
        text: all of them.
        rows: their numbers, ascending.
    """

    text: TextIndex
    rows: np.ndarray

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """Return the number of tokens of the column in these documents."""
        return self.text.lengths(column, documents)

    def postings(self, column: str, term: str) -> Postings:
        """Return the postings of a term in the selected rows."""
        return select_postings(self.text.postings(column, term), self.rows)

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """Return the selected documents with a phrase; None if it takes positions to find them."""
        return self.text.phrase(column, query)


def select_postings(postings: Postings, rows: np.ndarray) -> Postings:
    """Return the postings of these rows (ascending)."""
    documents = postings.documents
    if len(documents) < len(rows):
        places = np.flatnonzero(find_indices(rows, documents) >= 0)
    else:
        places = find_indices(documents, rows)
        places = places[places >= 0]
    if postings.positions is None or postings.offsets is None:
        return Postings(documents[places], postings.frequencies[places])
    starts, counts = postings.offsets[places], np.diff(postings.offsets)[places]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    tokens = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
    return Postings(documents[places], postings.frequencies[places], postings.positions[tokens], offsets)
