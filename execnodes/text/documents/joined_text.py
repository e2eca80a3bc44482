"""Documents of several small sources as those of one."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lance_gateway.execnodes.text.bm25 import Postings
from lance_gateway.execnodes.text.documents.column_documents import (
    ColumnDocuments,
    CountedDocuments,
    RowNumbers,
)
from lance_gateway.execnodes.text.documents.source_text import TERMS_FOUND, LiveText, join_postings
from lance_gateway.execnodes.text.query.query import PhraseQuery

_TOKEN_BYTES = 24
_TERM_BYTES = 8


@dataclass(frozen=True, eq=False)
class JoinedDocuments(CountedDocuments):
    """Documents of one column of several sources without an index; implements `ColumnDocuments`.

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
        tokens = int(self.lengths.sum(dtype=np.int64))
        return _TOKEN_BYTES * tokens + _TERM_BYTES * TERMS_FOUND + int(self.lengths.nbytes)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row."""
        return np.concatenate([part.lengths for part in self.parts])

    def postings(self, term: str, surface: str | None = None) -> Postings:
        """Return the postings of a term, with positions."""
        found = self._found.get(term)
        if found is None:
            if len(self._found) >= TERMS_FOUND:
                self._found.clear()
            parts = [part.postings(term, surface) for part in self.parts]
            found = self._found[term] = join_postings(parts, self.starts)
        return found

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


@dataclass(frozen=True, eq=False)
class JoinedSources:
    """Sources whose documents are joined.

    Attributes:
        numbers: of the sources, in the order of their rows.
        parts: documents of each.
        text: of all; the rows of each are numbered as a fragment.
    """

    numbers: tuple[int, ...]
    parts: tuple[LiveText, ...]
    text: LiveText

    @staticmethod
    def of(texts: Mapping[int, LiveText], known: Iterable[JoinedSources] = ()) -> JoinedSources:
        """Join the texts of sources.

        Args:
            texts: by the numbers of the sources; all have the same columns.
            known: joined before; documents of the same sources are taken over, whichever of them are live.
        """
        numbers, parts = tuple(texts), tuple(texts.values())
        same = next((one for one in known if one._has_documents(parts)), None)  # noqa: SLF001
        if same is not None and same.numbers == numbers and all(map(operator.is_, same.parts, parts)):
            return same
        if same is not None:
            columns, rows = same.text.columns, same.text.numbers
        else:
            sizes = [part.numbers.count for part in parts]
            starts = np.cumsum([0, *sizes[:-1]]).tolist()
            columns = {
                column: JoinedDocuments([part.columns[column] for part in parts], starts)
                for column in parts[0].columns
            }
            rows = RowNumbers(dict(enumerate(sizes)))
        live = np.concatenate([part.live for part in parts])
        return JoinedSources(numbers, parts, LiveText(columns, rows, live))

    def _has_documents(self, parts: Sequence[LiveText]) -> bool:
        """Return whether these are the documents of others."""
        return len(parts) == len(self.parts) and all(
            mine.columns.keys() == other.columns.keys()
            and all(mine.columns[column] is documents for column, documents in other.columns.items())
            for mine, other in zip(self.parts, parts, strict=True)
        )

    @cached_property
    def starts(self) -> np.ndarray:
        """Number of the first row of each source, in their order."""
        sizes = list(self.text.numbers.physical_rows.values())
        return np.cumsum([0, *sizes[:-1]])

    @cached_property
    def _runs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number of the first row of each fragment, its address, and the number of its source."""
        runs = [part.numbers.runs for part in self.parts]
        return (
            np.concatenate([first + start for (first, _), start in zip(runs, self.starts, strict=True)]),
            np.concatenate([addresses for _, addresses in runs]),
            np.repeat(np.array(self.numbers, dtype=np.int32), [len(first) for first, _ in runs]),
        )

    def locate(self, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the source (int32) and the row address there (uint64) of each document."""
        first, addresses, sources = self._runs
        places = np.searchsorted(first, documents, side="right") - 1
        return sources[places], addresses[places] + (documents - first[places]).astype(np.uint64)
