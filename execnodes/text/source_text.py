"""One source of a text search: its documents, and which of them are live."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from execnodes.search.source import SearchSource
from execnodes.text.bm25 import Postings
from execnodes.text.documents import Cache, ColumnDocuments
from execnodes.text.query import PhraseQuery
from execnodes.text.rows import RowNumbers
from execnodes.text.scored import places_in
from execnodes.text.tokenizer import Tokenizer

ENTRY_BYTES = 256


@dataclass(frozen=True, eq=False)
class LiveRows:
    """Rows of a source by number, and which of them are live.

    Args:
        numbers: of the rows.
        flags: one bool per row.
        identity: names rows and flags in caches.
    """

    numbers: RowNumbers
    flags: np.ndarray
    identity: Hashable

    @cached_property
    def digest(self) -> bytes:
        """Names them briefly."""
        return hashlib.blake2b(repr(self.identity).encode(), digest_size=16).digest()


@dataclass(frozen=True, eq=False)
class SourceText:
    """Documents of one source by row number: a `TextIndex` of all of them, and statistics of the live ones.

    Args:
        source: where they are.
        columns: documents of each searched column.
        tokenizers: that made their terms.
        rows: those that count.
        cache: keeps statistics.
    """

    source: SearchSource
    columns: Mapping[str, ColumnDocuments]
    tokenizers: Mapping[str, Tokenizer]
    rows: LiveRows
    cache: Cache
    _found: dict[tuple[str, str], Postings] = field(default_factory=dict)

    @property
    def numbers(self) -> RowNumbers:
        """Of the source's rows."""
        return self.rows.numbers

    @property
    def live(self) -> np.ndarray:
        """One bool per row."""
        return self.rows.flags

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """See `TextIndex.lengths`."""
        found: np.ndarray = self.columns[column].lengths[documents]
        return found

    def postings(self, column: str, term: str) -> Postings:
        """See `TextIndex.postings`."""
        found = self._found.get((column, term))
        if found is None:
            found = self._found[column, term] = self.columns[column].postings(term)
        return found

    def find(self, column: str, term: str, surface: str | None) -> None:
        """Make the frequency of a term known.

        Args:
            column: of the term.
            term: as its tokenizer makes it.
            surface: a text of which this term alone is made, if there is one.
        """
        self.columns[column].postings(term, surface)
        self.frequency(column, term)

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """See `TextIndex.phrase`."""
        return self.columns[column].phrase(query)

    def size(self, column: str) -> tuple[int, int]:
        """Live documents of a column, and their tokens."""

        def count() -> tuple[int, int]:
            counted = np.where(self.live, self.columns[column].lengths, 0)
            return int(np.count_nonzero(counted)), int(counted.sum(dtype=np.int64))

        key = ("text size", self.rows.digest, column, self.tokenizers[column])
        return self.cache.compute(key, count, lambda _: ENTRY_BYTES)

    def frequency(self, column: str, term: str) -> int:
        """Live documents whose column has a term."""

        def count() -> int:
            return int(np.count_nonzero(self.live[self.postings(column, term).documents]))

        return self.cache.compute(self._frequency_key(column, term), count, lambda _: ENTRY_BYTES)

    def known_frequency(self, column: str, term: str) -> int | None:
        """The same where it is at hand."""
        known: int | None = self.cache.get(self._frequency_key(column, term))
        return known

    def _frequency_key(self, column: str, term: str) -> Hashable:
        return ("text frequency", self.rows.digest, column, self.tokenizers[column], term)


@dataclass(frozen=True, eq=False)
class SelectedText:
    """A `TextIndex` of some rows of a source.

    Args:
        text: all of them.
        rows: their numbers, ascending.
    """

    text: SourceText
    rows: np.ndarray

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """See `TextIndex.lengths`."""
        return self.text.lengths(column, documents)

    def postings(self, column: str, term: str) -> Postings:
        """See `TextIndex.postings`."""
        return selected(self.text.postings(column, term), self.rows)

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """See `TextIndex.phrase`."""
        return self.text.phrase(column, query)


@dataclass(frozen=True, eq=False)
class JoinedText:
    """A `TextIndex` of rows of several sources, for clauses without phrases: small ones cost what one costs.

    Args:
        texts: of the sources; the rows of each are numbered on from those of the one before.
        flags: one bool per row of each source: whether it is there.
    """

    texts: Sequence[SourceText]
    flags: Sequence[np.ndarray]

    @cached_property
    def starts(self) -> np.ndarray:
        """Number of each source's first row, and of the row after the last."""
        return np.cumsum([0, *(text.numbers.count for text in self.texts)])

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """See `TextIndex.lengths`."""
        cuts = np.searchsorted(documents, self.starts)
        parts = [
            text.lengths(column, documents[cuts[place] : cuts[place + 1]] - self.starts[place])
            for place, text in enumerate(self.texts)
        ]
        return np.concatenate(parts)

    def postings(self, column: str, term: str) -> Postings:
        """See `TextIndex.postings`."""
        documents, frequencies = [], []
        for text, flags, start in zip(self.texts, self.flags, self.starts, strict=False):
            postings = text.postings(column, term)
            if len(postings.documents):
                there = flags[postings.documents]
                documents.append(postings.documents[there] + start)
                frequencies.append(postings.frequencies[there])
        if not documents:
            return Postings(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))
        return Postings(np.concatenate(documents), np.concatenate(frequencies))

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """See `TextIndex.phrase`."""
        raise NotImplementedError(f"phrases such as {query} of {column} are looked for source by source")


def selected(postings: Postings, rows: np.ndarray) -> Postings:
    """Those of the postings that are of these rows (ascending)."""
    documents = postings.documents
    places = places_in(documents, rows)
    places = places[places >= 0]
    if postings.positions is None or postings.offsets is None:
        return Postings(documents[places], postings.frequencies[places])
    starts, counts = postings.offsets[places], np.diff(postings.offsets)[places]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    tokens = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
    return Postings(documents[places], postings.frequencies[places], postings.positions[tokens], offsets)
