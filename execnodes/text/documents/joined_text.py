"""Documents of several small sources as those of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from execnodes.text.bm25 import Postings
from execnodes.text.documents.column_documents import ColumnDocuments, RowNumbers
from execnodes.text.documents.source_text import TERMS_FOUND, LiveText
from execnodes.text.query.query import PhraseQuery

_POSTING_BYTES = 12


@dataclass(frozen=True, eq=False)
class JoinedDocuments:
    """Documents of one column of several sources; implements `ColumnDocuments`, without positions.

    Postings are joined once for each term: together they have at most one for each token of the sources.

    Args:
        parts: documents of each source.
        starts: number of the first row of each.
    """

    parts: Sequence[ColumnDocuments]
    starts: Sequence[int]
    _found: dict[str, Postings] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, once all postings are joined."""
        return _POSTING_BYTES * int(self.lengths.sum(dtype=np.int64)) + int(self.lengths.nbytes)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row."""
        return np.concatenate([part.lengths for part in self.parts])

    def postings(self, term: str, surface: str | None = None) -> Postings:
        """Return the postings of a term, without positions."""
        found = self._found.get(term)
        if found is None:
            if len(self._found) >= TERMS_FOUND:
                self._found.clear()
            found = self._found[term] = self._join([part.postings(term, surface) for part in self.parts])
        return found

    def _join(self, parts: Sequence[Postings]) -> Postings:
        there = [(part, start) for part, start in zip(parts, self.starts, strict=True) if len(part.documents)]
        return Postings(
            np.concatenate([np.empty(0, np.int64), *(part.documents + start for part, start in there)]),
            np.concatenate([np.empty(0, np.int32), *(part.frequencies for part, _ in there)]),
        )

    def phrase(self, query: PhraseQuery) -> np.ndarray | None:
        """Raise an error: phrases are not supported."""
        raise NotImplementedError(f"phrases such as {query} are looked for source by source")

    def near(self, word: str, edits: int, prefix_length: int) -> Sequence[str]:
        """Return the terms within an edit distance of a word."""
        found = {term for part in self.parts for term in part.near(word, edits, prefix_length)}
        return sorted(found, key=str.encode)


@dataclass(frozen=True, eq=False)
class JoinedSources:
    """Sources whose documents are joined.

    Attributes:
        numbers: of the sources, in the order of their rows.
        text: their documents; the rows of each are numbered as a fragment.
    """

    numbers: tuple[int, ...]
    text: LiveText

    @staticmethod
    def of(texts: Mapping[int, LiveText]) -> JoinedSources:
        """Join the texts of sources, by their numbers; all have the same columns."""
        parts = list(texts.values())
        sizes = [part.numbers.count for part in parts]
        starts = np.cumsum([0, *sizes[:-1]]).tolist()
        columns = {
            column: JoinedDocuments([part.columns[column] for part in parts], starts)
            for column in parts[0].columns
        }
        live = np.concatenate([part.live for part in parts])
        return JoinedSources(tuple(texts), LiveText(columns, RowNumbers(dict(enumerate(sizes))), live))

    @cached_property
    def starts(self) -> np.ndarray:
        """Number of the first row of each source, in their order."""
        sizes = list(self.text.numbers.physical_rows.values())
        return np.cumsum([0, *sizes[:-1]])


@dataclass(frozen=True, eq=False)
class JoinedText:
    """Rows of joined sources, for clauses without phrases; implements `TextIndex`.

    Args:
        text: documents of the sources.
        flags: one bool per row: whether it is there.
    """

    text: LiveText
    flags: np.ndarray
    _found: dict[tuple[str, str], Postings] = field(default_factory=dict)

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        """Return the number of tokens of the column in these documents."""
        found: np.ndarray = self.text.columns[column].lengths[documents]
        return found

    def postings(self, column: str, term: str) -> Postings:
        """Return the postings of a term in the rows that are there."""
        found = self._found.get((column, term))
        if found is None:
            postings = self.text.columns[column].postings(term)
            there = self.flags[postings.documents]
            found = Postings(postings.documents[there], postings.frequencies[there])
            self._found[column, term] = found
        return found

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        """Raise an error: phrases are not supported."""
        raise NotImplementedError(f"phrases such as {query} of {column} are looked for source by source")
