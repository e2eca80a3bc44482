"""Find the best documents of several small sources, by the statistics of all live documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ExecNode, TaskContext
from lance_gateway.execnodes.search.source import TEXT_CANDIDATES
from lance_gateway.execnodes.text.bm25 import find_best
from lance_gateway.execnodes.text.documents.joined_text import JoinedSources
from lance_gateway.execnodes.text.fts import Analysis, Corpus, FtsExec, build_candidates
from lance_gateway.execnodes.text.scoring.scores import score


@dataclass(frozen=True, eq=False)
class JoinedFtsExec(ExecNode):
    """Scores all documents of small sources at once: there, the number of calls determines the cost.

    Args:
        joined: the documents.
        corpus: of the query.
        k: rows wanted.
        admits_all: whether all live rows may be found.
        build_searches: returns a search for each source in which rows may be found, by its number.
    """

    joined: JoinedSources
    corpus: Corpus
    k: int
    admits_all: bool
    build_searches: Callable[[], Mapping[int, FtsExec]]

    @property
    def schema(self) -> pa.Schema:
        """`TEXT_CANDIDATES`."""
        return TEXT_CANDIDATES

    @cached_property
    def searches(self) -> Mapping[int, FtsExec]:
        """A search for each source, which is not executed."""
        return self.build_searches()

    def children(self) -> tuple[ExecNode, ...]:
        """Return a search for each source."""
        return tuple(self.searches.values())

    def describe(self) -> str:
        """Return the number of sources."""
        return f"JoinedFtsExec: sources={len(self.searches)}"

    def count_postings(self, analysis: Analysis) -> int:
        """Return the number of postings of the query's terms in all sources."""
        text = self.joined.text
        return sum(len(text.postings(column, term).documents) for column, term in analysis.terms)

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce one batch: the k best documents, and those that are as good as the last of them."""
        if partition:
            return
        context.check()
        analysis = self.corpus.analyze(context.check)
        found = score(analysis.clause, analysis.statistics, self.joined.text, live=self._flags)
        context.count(self, "rounds")
        context.count(self, "candidates", len(found.documents))
        if context.metrics is not None:
            self._count(found.documents, analysis, context)
        good = find_best(found.scores, self.k, context.floor())
        sources, addresses = self.joined.locate(found.documents[good])
        yield build_candidates(sources, addresses, found.scores[good])

    @property
    def _flags(self) -> np.ndarray:
        """One bool per row: whether it may be found."""
        if self.admits_all:
            return self.joined.text.live
        flags = np.zeros(len(self.joined.text.live), dtype=np.bool_)
        for number, start in zip(self.joined.numbers, self.joined.starts.tolist(), strict=True):
            search = self.searches.get(number)
            if search is not None:
                flags[start : start + len(search.flags)] = search.flags
        return flags

    def _count(self, documents: np.ndarray, analysis: Analysis, context: TaskContext) -> None:
        """Count what was scored in each source."""
        assert context.metrics is not None  # noqa: S101 - asked for these
        bounds = np.searchsorted(documents, [*self.joined.starts.tolist(), len(self.joined.text.live)])
        counts = dict(zip(self.joined.numbers, np.diff(bounds).tolist(), strict=True))
        for number, search in self.searches.items():
            context.metrics.add(search, rows=counts[number], batches=1)
            context.count(search, "postings", search.count_postings(analysis))
