"""Score candidates of all sources as one table would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, ExecNode, MetricsSet, TaskContext
from execnodes.search.source import TEXT_CANDIDATES
from execnodes.text.best import BestDocuments
from execnodes.text.corpus import Analysis, Corpus
from execnodes.text.fts import FEW_DOCUMENTS, FtsExec
from execnodes.text.scoring import score
from execnodes.text.source_text import JoinedText, SelectedText
from execnodes.text.told import told
from execnodes.union import UnionExec


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

    @property
    def searches(self) -> tuple[FtsExec, ...]:
        """Where candidates come from."""
        return tuple(node for node in self.input.inputs if isinstance(node, FtsExec))

    def describe(self) -> str:
        """Query, sources, and once it has run, the statistics."""
        parts = [f"query={told(self.corpus.query)}", f"sources={len(self.corpus.texts)}"]
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
        analysis = self.corpus.analysis(context.check)
        context.count(self, "frequencies_counted", analysis.counted)
        context.count(self, "frequencies_known", analysis.known)
        best = BestDocuments(self.k)
        few, many = self._by_size(analysis)
        if few:
            self._score_together(few, analysis, best, context)
        for node in many:
            self._score_in_rounds(node, analysis, best, context)
        if context.metrics is not None:
            self._measure_union(context.metrics)
        if best.count:
            yield self._batch(best)

    def _batch(self, best: BestDocuments) -> pa.RecordBatch:
        sources, rows, scores = best.result()
        addresses = np.empty(len(rows), dtype=np.uint64)
        numbers = {node.source.number: node.text.numbers for node in self.searches}
        for source in np.unique(sources).tolist():
            of_source = sources == source
            addresses[of_source] = numbers[source].addresses(rows[of_source])
        query = np.zeros(len(rows), dtype=np.int32)
        arrays = [pa.array(one) for one in (query, sources, addresses, scores)]
        return pa.RecordBatch.from_arrays(arrays, schema=TEXT_CANDIDATES)

    def _measure_union(self, metrics: MetricsSet) -> None:
        """Its inputs were read in an order of ours, but they are its inputs."""
        for node in self.searches:
            of = metrics.of(node)
            if of is not None:
                metrics.add(self.input, rows=of.output_rows, batches=of.output_batches, elapsed=of.elapsed)

    def _by_size(self, analysis: Analysis) -> tuple[list[FtsExec], list[FtsExec]]:
        """Sources with few documents that have one of the terms, and the others."""
        few: list[FtsExec] = []
        many: list[FtsExec] = []
        phrases = bool(analysis.clause.phrases)
        for node in self.searches:
            is_small = not phrases and node.postings(analysis) <= FEW_DOCUMENTS
            (few if is_small else many).append(node)
        return few, many

    def _score_together(
        self, nodes: list[FtsExec], analysis: Analysis, best: BestDocuments, context: TaskContext
    ) -> None:
        """All documents of small sources: what counts there is how often something is called."""
        index = JoinedText([node.text for node in nodes], [node.flags for node in nodes])
        found = score(analysis.clause, analysis.statistics, index)
        context.count(self, "rounds")
        context.count(self, "candidates", len(found.documents))
        places = np.searchsorted(index.starts, found.documents, side="right") - 1
        sources = np.array([node.source.number for node in nodes])
        best.add(sources[places], found.documents - index.starts[places], found.scores)
        if context.metrics is not None:
            for node, count in zip(nodes, np.bincount(places, minlength=len(nodes)).tolist(), strict=True):
                context.metrics.add(node, rows=count, batches=1)
                context.count(node, "postings", node.postings(analysis))

    def _score_in_rounds(
        self, node: FtsExec, analysis: Analysis, best: BestDocuments, context: TaskContext
    ) -> None:
        """Documents of a source, which ends when no later one can be among the best."""
        text = node.text
        for batch in node.execute(0, replace(context, floor=lambda: best.least)):
            context.check()
            context.count(self, "rounds")
            context.count(self, "candidates", batch.num_rows)
            rows = text.numbers.numbers(batch.column(ROW_ADDRESS).to_numpy())
            found = score(analysis.clause, analysis.statistics, SelectedText(text, rows))
            best.add(node.source.number, found.documents, found.scores)
