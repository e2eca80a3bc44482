"""One source of a text search: its documents, and which of them are live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from execnodes.search.source import SearchSource
from execnodes.text.bm25 import Postings
from execnodes.text.documents.column_documents import Cache, ColumnDocuments
from execnodes.text.documents.row_numbers import RowNumbers
from execnodes.text.query.query import PhraseQuery
from execnodes.text.query.tokenizer import Tokenizer
from execnodes.text.scored import places_in

ENTRY_BYTES = 1 << 12
FREQUENCIES_KNOWN = 4_096


@dataclass(frozen=True, eq=False)
class LiveText:
    """Documents of one source by row number, which of them are live, and statistics of these.

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
        """Bytes held, documents left out."""
        return int(self.live.nbytes) + ENTRY_BYTES

    def size(self, column: str) -> tuple[int, int]:
        """Live documents of a column, and their tokens."""
        found = self._sizes.get(column)
        if found is None:
            counted = np.where(self.live, self.columns[column].lengths, 0)
            found = int(np.count_nonzero(counted)), int(counted.sum(dtype=np.int64))
            self._sizes[column] = found
        return found

    def known_frequency(self, column: str, term: str) -> int | None:
        """Live documents whose column has a term, where they were counted already."""
        return self._frequencies.get((column, term))

    def frequency(self, column: str, term: str, surface: str | None = None) -> int:
        """Live documents whose column has a term.

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
    """Documents of one source, as one query sees them: a `TextIndex`.

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
        """Of the source's rows."""
        return self.text.numbers

    @property
    def live(self) -> np.ndarray:
        """One bool per row."""
        return self.text.live

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """See `TextIndex.lengths`."""
        found: np.ndarray = self.text.columns[column].lengths[documents]
        return found

    def postings(self, column: str, term: str) -> Postings:
        """See `TextIndex.postings`."""
        found = self._found.get((column, term))
        if found is None:
            found = self._found[column, term] = self.text.columns[column].postings(term)
        return found

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """See `TextIndex.phrase`."""
        return self.text.columns[column].phrase(query)


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
    if len(documents) < len(rows):
        places = np.flatnonzero(places_in(rows, documents) >= 0)
    else:
        places = places_in(documents, rows)
        places = places[places >= 0]
    if postings.positions is None or postings.offsets is None:
        return Postings(documents[places], postings.frequencies[places])
    starts, counts = postings.offsets[places], np.diff(postings.offsets)[places]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    tokens = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
    return Postings(documents[places], postings.frequencies[places], postings.positions[tokens], offsets)
