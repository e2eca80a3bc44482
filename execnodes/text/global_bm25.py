"""Find the best documents of all sources, by common statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, MetricsSet, TaskContext, UnaryExec, UnionExec
from lance_gateway.execnodes.search.source import SCORE, SOURCE, TEXT_CANDIDATES
from lance_gateway.execnodes.text.fts import Corpus, FtsExec, build_candidates
from lance_gateway.execnodes.text.joined_fts import JoinedFtsExec
from lance_gateway.execnodes.text.query.query import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    Operator,
    PhraseQuery,
    TextQuery,
)


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
    """Collects the k documents with the highest scores, then by source and row address.

    Args:
        k: how many are kept.
    """

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"k={k} is not a number of documents to keep: give 1 or more")
        self.k = k
        self._scores = np.empty(0, dtype=np.float32)
        self._sources = np.empty(0, dtype=np.int32)
        self._addresses = np.empty(0, dtype=np.uint64)

    @property
    def least(self) -> float:
        """The score that further documents must exceed; minus infinity while fewer than k are collected."""
        return float(self._scores[-1]) if len(self._scores) == self.k else -np.inf

    def add(self, candidates: pa.RecordBatch) -> None:
        """Add documents, as `TEXT_CANDIDATES`."""
        sources, addresses, scores = (
            np.concatenate((known, candidates.column(name).to_numpy()))
            for known, name in (
                (self._sources, SOURCE),
                (self._addresses, ROW_ADDRESS),
                (self._scores, SCORE),
            )
        )
        order = np.lexsort((addresses, sources, -scores))[: self.k]
        self._sources, self._addresses, self._scores = sources[order], addresses[order], scores[order]

    def result(self) -> pa.RecordBatch:
        """Return them as `TEXT_CANDIDATES`, best first."""
        return build_candidates(self._sources, self._addresses, self._scores)


@dataclass(frozen=True, eq=False)
class GlobalBM25Exec(UnaryExec):
    """Finds the k best documents by BM25, with statistics over the live rows of all sources.

    Documents are taken from one search after another, in rounds, until none that is left there can be among
    the k best. So the result is that of scoring every document.

    Args:
        input: `UnionExec` of a search for each source, or for several.
        corpus: of the query; sources without candidates count as well.
        k: how many.
        sources: how many the corpus has.
    """

    input: UnionExec
    corpus: Corpus
    k: int
    sources: int = 0

    @property
    def schema(self) -> pa.Schema:
        """`TEXT_CANDIDATES`."""
        return TEXT_CANDIDATES

    @cached_property
    def searches(self) -> tuple[FtsExec | JoinedFtsExec, ...]:
        """The inputs that find candidates."""
        return tuple(node for node in self.input.inputs if isinstance(node, FtsExec | JoinedFtsExec))

    def describe(self) -> str:
        """Return the query, the sources, and after execution the statistics."""
        parts = [f"k={self.k}", f"query={format_query(self.corpus.query)}", f"sources={self.sources}"]
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
        below = replace(context, floor=lambda: best.least)
        # The fewer documents there are, the sooner it is known what others must exceed.
        for node in sorted(self.searches, key=lambda node: node.count_postings(analysis)):
            for batch in node.execute(0, below):
                context.check()
                best.add(batch)
        if context.metrics is not None:
            self._measure_union(context.metrics)
        found = best.result()
        if found.num_rows:
            yield found

    def _measure_union(self, metrics: MetricsSet) -> None:
        """Add up the metrics of the inputs, which this node executes itself, for the union."""
        for node in self.searches:
            of = metrics.of(node)
            if of is not None:
                metrics.add(self.input, rows=of.output_rows, batches=of.output_batches, elapsed=of.elapsed)
