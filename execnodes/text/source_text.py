"""One source of a text search: its documents, and which of them are live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from execnodes.row_mask import RowMask
from execnodes.search.source import SearchSource
from execnodes.source import ColumnCache, LanceSource
from execnodes.text.bm25 import Postings
from execnodes.text.documents import Cache, ColumnDocuments
from execnodes.text.query import PhraseQuery
from execnodes.text.rows import RowNumbers

ENTRY_BYTES = 256


@dataclass(frozen=True, eq=False)
class SourceText:
    """Documents of one source by row number: a `TextIndex` of all of them, and statistics of the live ones.

    Args:
        source: its mask shows the rows that count.
        columns: documents of each searched column.
        numbers: of the source's rows.
        cache: keeps statistics.
        deletions: knows which rows Lance has deleted.
    """

    source: SearchSource
    columns: Mapping[str, ColumnDocuments]
    numbers: RowNumbers
    cache: Cache
    deletions: ColumnCache

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """See `TextIndex.lengths`."""
        found: np.ndarray = self.columns[column].lengths[documents]
        return found

    def postings(self, column: str, term: str) -> Postings:
        """See `TextIndex.postings`."""
        return self.columns[column].postings(term)

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """See `TextIndex.phrase`."""
        return self.columns[column].phrase(query)

    @cached_property
    def mask(self) -> RowMask:
        """Rows that are live: those that the source shows and Lance has not deleted."""
        rows, shown = self.source.rows, self.source.live
        if not isinstance(rows, LanceSource):
            return shown
        found = {
            one: self.deletions.visible(rows, one, shown.fragments.get(one)) for one in self.source.fragments
        }
        return RowMask({one: mask for one, mask in found.items() if mask is not None})

    @cached_property
    def _state(self) -> tuple[object, ...]:
        return (self.source.identity, self.numbers.digest(self.mask))

    @cached_property
    def live(self) -> np.ndarray:
        """One bool per row."""
        return self.cache.compute(
            ("text live", *self._state), lambda: self.numbers.flags(self.mask), lambda flags: flags.nbytes
        )

    def size(self, column: str) -> tuple[int, int]:
        """Live documents of a column, and their tokens."""

        def count() -> tuple[int, int]:
            lengths = self.columns[column].lengths
            counted = np.where(self.live, lengths, 0)
            return int(np.count_nonzero(counted)), int(counted.sum(dtype=np.int64))

        return self.cache.compute(("text size", *self._state, column), count, lambda _: ENTRY_BYTES)

    def frequency(self, column: str, term: str) -> int:
        """Live documents whose column has a term."""

        def count() -> int:
            return int(np.count_nonzero(self.live[self.postings(column, term).documents]))

        return self.cache.compute(
            ("text frequency", *self._state, column, term), count, lambda _: ENTRY_BYTES
        )

    def knows_frequency(self, column: str, term: str) -> bool:
        """Whether the frequency of a term is at hand."""
        return self.cache.get(("text frequency", *self._state, column, term)) is not None


@dataclass(frozen=True, eq=False)
class SelectedText:
    """A `TextIndex` of some rows of another.

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


def selected(postings: Postings, rows: np.ndarray) -> Postings:
    """Those of the postings that are of these rows (ascending)."""
    documents = postings.documents
    if not len(documents) or not len(rows):
        places = np.empty(0, dtype=np.int64)
    elif len(rows) < len(documents):
        places = np.searchsorted(documents, rows)
        places[places == len(documents)] = 0
        places = places[documents[places] == rows]
    else:
        found = np.searchsorted(rows, documents)
        found[found == len(rows)] = 0
        places = np.flatnonzero(rows[found] == documents)
    if postings.positions is None or postings.offsets is None:
        return Postings(documents[places], postings.frequencies[places])
    starts, counts = postings.offsets[places], np.diff(postings.offsets)[places]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    tokens = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
    return Postings(documents[places], postings.frequencies[places], postings.positions[tokens], offsets)
