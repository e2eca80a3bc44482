"""Score candidates of all sources as one table would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from execnodes.node import ROW_ADDRESS, ExecNode, TaskContext
from execnodes.search.source import TEXT_CANDIDATES
from execnodes.text.best import BestDocuments
from execnodes.text.corpus import Analysis, Corpus
from execnodes.text.fts import BOUND, FtsExec
from execnodes.text.scoring import score
from execnodes.text.source_text import SelectedText
from execnodes.union import UnionExec

SLACK = 1e-6
"""Scores are rounded to float32, bounds are not."""


@dataclass(frozen=True, eq=False)
class GlobalBM25Exec(ExecNode):
    """The k best documents by BM25, whose statistics are over the live rows of all sources.

    Candidates are drawn from one source after another, in rounds, until none that is left there can be among
    the k best. So the result is that of scoring every document.

    Args:
        input: `UnionExec` of an `FtsExec` for each source.
        corpus: of the query; sources without candidates count as well.
        k: how many.
    """

    input: UnionExec
    corpus: Corpus
    k: int

    @property
    def schema(self) -> pa.Schema:
        """`TEXT_CANDIDATES`."""
        return TEXT_CANDIDATES

    def children(self) -> tuple[ExecNode, ...]:
        """The union."""
        return (self.input,)

    def describe(self) -> str:
        """Query, sources, and once it has run, the statistics."""
        parts = [f"query={self.corpus.query}", f"sources={len(self.corpus.texts)}"]
        analysis = self.corpus.known
        if analysis is not None:
            for column, of in analysis.statistics.items():
                frequencies = ", ".join(f"{term}: {count}" for term, count in of.frequencies.items())
                sizes = f"docs={of.documents}, average length={of.average_length:.2f}"
                parts.append(f"{column}: {sizes}, df={{{frequencies}}}")
        return f"GlobalBM25Exec: {', '.join(parts)}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """One batch: the best first; equal ones by source, then by row address."""
        if partition:
            return
        analysis = self.corpus.analysis()
        context.count(self, "frequencies_counted", analysis.counted)
        context.count(self, "frequencies_known", analysis.known)
        best = BestDocuments(self.k)
        for node in self.input.inputs:
            assert isinstance(node, FtsExec)  # noqa: S101
            self._search(node, analysis, best, context)
        if best.count:
            yield best.batch()

    def _search(self, node: FtsExec, analysis: Analysis, best: BestDocuments, context: TaskContext) -> None:
        text = node.text
        for batch in node.execute(0, context):
            context.check()
            context.count(self, "rounds")
            context.count(self, "candidates", batch.num_rows)
            if not batch.num_rows:
                continue
            addresses = batch.column(ROW_ADDRESS).to_numpy()
            rows = text.numbers.numbers(addresses)
            found = score(analysis.clause, analysis.statistics, SelectedText(text, rows))
            best.add(node.source.number, text.numbers.addresses(found.documents), found.scores)
            if best.least > batch.column(BOUND)[0].as_py() * (1.0 + SLACK):
                return
