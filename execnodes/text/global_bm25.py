"""Score the candidates of all sources with common statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, MetricsSet, TaskContext, UnaryExec, UnionExec
from execnodes.search.source import TEXT_CANDIDATES
from execnodes.text.documents.joined_text import JoinedSources, JoinedText
from execnodes.text.documents.source_text import SelectedText
from execnodes.text.fts import Analysis, Corpus, FtsExec
from execnodes.text.query.query import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    Operator,
    PhraseQuery,
    TextQuery,
)
from execnodes.text.scoring.scores import score


@singledispatch
def format_query(query: TextQuery) -> str:
    """Format a query briefly: ``streaming writes``, ``"write-ahead log"``, ``must(a b) should("c d")``."""
    raise TypeError(f"no text query: {query!r}")


@format_query.register
def _format_match(query: MatchQuery) -> str:
    text = repr(query.text)
    if query.operator is Operator.AND:
        text += " AND"
    if query.fuzziness:
        text += f" ~{query.fuzziness}"
    return text if query.boost == 1.0 else f"{text}^{query.boost:g}"


@format_query.register
def _format_phrase(query: PhraseQuery) -> str:
    text = f'"{query.text}"'
    return f"{text} ~{query.slop}" if query.slop else text


@format_query.register
def _format_multi_match(query: MultiMatchQuery) -> str:
    return f"best({_format_list(query.matches)})"


@format_query.register
def _format_combined(query: CombinedFieldsQuery) -> str:
    return f"combined({query.text!r})"


@format_query.register
def _format_boolean(query: BooleanQuery) -> str:
    parts = (("must", query.must), ("should", query.should), ("must_not", query.must_not))
    return " ".join(f"{name}({_format_list(queries)})" for name, queries in parts if queries)


@format_query.register
def _format_boost(query: BoostQuery) -> str:
    return f"{format_query(query.positive)} less {query.negative_boost:g} of {format_query(query.negative)}"


def _format_list(queries: Sequence[TextQuery]) -> str:
    return ", ".join(map(format_query, queries))


class BestDocuments:
    """Collects the k documents with the highest scores, then by source and row number.

    Args:
        k: how many are kept.
    """

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"k={k} is no number of documents to keep: give 1 or more")
        self.k = k
        self._scores = np.empty(0, dtype=np.float32)
        self._sources = np.empty(0, dtype=np.int32)
        self._rows = np.empty(0, dtype=np.int64)

    @property
    def count(self) -> int:
        """Number of documents so far."""
        return len(self._scores)

    @property
    def least(self) -> float:
        """The score that further documents must exceed; minus infinity while fewer than k are collected."""
        return float(self._scores[-1]) if self.count == self.k else -np.inf

    def add(self, sources: np.ndarray | int, rows: np.ndarray, scores: np.ndarray) -> None:
        """Add documents.

        Args:
            sources: number of each one's source, or of the only one.
            rows: their numbers in the source (int64).
            scores: float32.
        """
        sources = np.broadcast_to(np.asarray(sources, dtype=np.int32), len(scores))
        good = scores >= self.least
        if good.sum() > self.k:
            good &= scores >= np.partition(scores, len(scores) - self.k)[len(scores) - self.k]
        scores = np.concatenate((self._scores, scores[good]))
        rows = np.concatenate((self._rows, rows[good]))
        sources = np.concatenate((self._sources, sources[good]))
        order = np.lexsort((rows, sources, -scores))[: self.k]
        self._scores, self._sources, self._rows = scores[order], sources[order], rows[order]

    def result(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sources, row numbers and scores, best first."""
        return self._sources, self._rows, self._scores


@dataclass(frozen=True, eq=False)
class GlobalBM25Exec(UnaryExec):
    """Finds the k best documents by BM25, with statistics over the live rows of all sources.

    Candidates are drawn from one source after another, in rounds, until none that is left there can be among
    the k best. So the result is that of scoring every document.

    Args:
        input: `UnionExec` of an `FtsExec` for each source.
        corpus: of the query; sources without candidates count as well.
        k: how many.
        joined: small sources whose documents are scored at once; None where there are none.
        sources: how many the corpus has.
    """

    input: UnionExec
    corpus: Corpus
    k: int
    joined: JoinedSources | None = None
    sources: int = 0

    @property
    def schema(self) -> pa.Schema:
        """`TEXT_CANDIDATES`."""
        return TEXT_CANDIDATES

    @cached_property
    def searches(self) -> tuple[FtsExec, ...]:
        """The inputs that find candidates."""
        return tuple(node for node in self.input.inputs if isinstance(node, FtsExec))

    def describe(self) -> str:
        """Return the query, the sources, and after execution the statistics."""
        parts = [f"query={format_query(self.corpus.query)}", f"sources={self.sources}"]
        analysis = self.corpus.cached_analysis
        if analysis is not None:
            for column, of in analysis.statistics.items():
                frequencies = ", ".join(f"{term}: {count}" for term, count in of.frequencies.items())
                sizes = f"docs={of.documents}, average length={of.average_length:.2f}"
                parts.append(f"{column}: {sizes}, df={{{frequencies}}}")
        return f"GlobalBM25Exec: {', '.join(parts)}"

    def list_facts(self) -> Mapping[str, object]:
        """Return the statistics of each column: its documents, and how many have each term."""
        analysis = self.corpus.cached_analysis
        columns = {} if analysis is None else analysis.statistics
        return {
            "statistics": {
                column: {
                    "documents": of.documents,
                    "average_length": of.average_length,
                    "terms": {
                        term: {"documents": count, "idf": of.idf(term)}
                        for term, count in of.frequencies.items()
                    },
                }
                for column, of in columns.items()
            }
        }

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce one batch, best first, then by source and row address."""
        if partition:
            return
        analysis = self.corpus.analyze(context.check)
        context.count(self, "frequencies_counted", analysis.counted)
        context.count(self, "frequencies_known", analysis.known)
        best = BestDocuments(self.k)
        apart = self._score_joined(self.joined, analysis, best, context)
        for node in sorted(apart, key=lambda node: node.text.count_postings(analysis.terms)):
            self._score_in_rounds(node, analysis, best, context)
        if context.metrics is not None:
            self._measure_union(context.metrics)
        if best.count:
            yield self._build_batch(best)

    def _build_batch(self, best: BestDocuments) -> pa.RecordBatch:
        sources, rows, scores = best.result()
        addresses = np.empty(len(rows), dtype=np.uint64)
        texts = {node.text.source.number: node.text for node in self.searches}
        for source in np.unique(sources).tolist():
            of_source = sources == source
            addresses[of_source] = texts[source].numbers.addresses(rows[of_source])
        query = np.zeros(len(rows), dtype=np.int32)
        arrays = [pa.array(one) for one in (query, sources, addresses, scores)]
        return pa.RecordBatch.from_arrays(arrays, schema=TEXT_CANDIDATES)

    def _measure_union(self, metrics: MetricsSet) -> None:
        """Add up the metrics of the inputs, which this node executes itself, for the union."""
        for node in self.searches:
            of = metrics.of(node)
            if of is not None:
                metrics.add(self.input, rows=of.output_rows, batches=of.output_batches, elapsed=of.elapsed)

    def _score_joined(
        self, joined: JoinedSources | None, analysis: Analysis, best: BestDocuments, context: TaskContext
    ) -> Sequence[FtsExec]:
        """Score all documents of small sources at once; return the searches of the others.

        In small sources the number of calls determines the cost.
        """
        if joined is None or analysis.clause.phrases:
            return self.searches
        found = score(analysis.clause, analysis.statistics, JoinedText(joined.text, self._flags))
        context.count(self, "rounds")
        context.count(self, "candidates", len(found.documents))
        places = np.searchsorted(joined.starts, found.documents, side="right") - 1
        best.add(np.array(joined.numbers)[places], found.documents - joined.starts[places], found.scores)
        together = frozenset(joined.numbers)
        if context.metrics is not None:
            counts = dict(zip(joined.numbers, np.bincount(places, minlength=len(together)), strict=True))
            for node in self.searches:
                if node.source.number in together:
                    context.metrics.add(node, rows=int(counts[node.source.number]), batches=1)
                    context.count(node, "postings", node.text.count_postings(analysis.terms))
        return [node for node in self.searches if node.source.number not in together]

    @property
    def _flags(self) -> np.ndarray:
        """One bool per row of the joined sources: whether it is admitted."""
        assert self.joined is not None  # noqa: S101 - asked for these
        searches = {node.source.number: node for node in self.searches}
        of_joined = [searches.get(number) for number in self.joined.numbers]
        if all(node is not None and node.admitted.are_all(node.text) for node in of_joined):
            return self.joined.text.live
        flags = np.zeros(len(self.joined.text.live), dtype=np.bool_)
        for node, start in zip(of_joined, self.joined.starts.tolist(), strict=True):
            if node is not None:
                flags[start : start + len(node.flags)] = node.flags
        return flags

    def _score_in_rounds(
        self, node: FtsExec, analysis: Analysis, best: BestDocuments, context: TaskContext
    ) -> None:
        """Score the documents of a source until no later one can be among the best."""
        text = node.text
        for batch in node.execute(0, replace(context, floor=lambda: best.least)):
            context.check()
            context.count(self, "rounds")
            context.count(self, "candidates", batch.num_rows)
            rows = text.numbers.numbers(batch.column(ROW_ADDRESS).to_numpy())
            found = score(analysis.clause, analysis.statistics, SelectedText(text, rows))
            best.add(node.source.number, found.documents, found.scores)
