"""Documents that are added to: the texts of a log tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from execnodes.text.bm25 import Postings
from execnodes.text.postings import TokenPostings
from execnodes.text.query import PhraseQuery
from execnodes.text.tokenizer import Tokenizer


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
