"""Find the best documents of one source, by the statistics of all live documents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, ExecNode, TaskContext
from lance_gateway.execnodes.rows.lance_filter import RowFilter
from lance_gateway.execnodes.rows.row_mask import RowMask
from lance_gateway.execnodes.search.candidates import run_concurrently
from lance_gateway.execnodes.search.source import TEXT_CANDIDATES, SearchSource
from lance_gateway.execnodes.storage.source import LanceSource, MemTableSource, convert_columns
from lance_gateway.execnodes.text.bm25 import ColumnStatistics, find_best, find_indices, union
from lance_gateway.execnodes.text.documents.source_text import LiveText, SourceText
from lance_gateway.execnodes.text.query.clauses import BooleanClause, Clause, FuzzyClause, TermsClause
from lance_gateway.execnodes.text.query.query import Operator, TextQuery
from lance_gateway.execnodes.text.scoring.impacts import (
    SLACK,
    TermImpacts,
    choose_depths,
    compute_bound_after,
)
from lance_gateway.execnodes.text.scoring.scores import compute_bound, find_candidates, score_rows

TASKS = 64
"""Between so many counts, a search can be stopped."""


@dataclass(frozen=True, eq=False, slots=True)
class Analysis:
    """A query with the statistics of a corpus.

    Attributes:
        clause: the query; what fuzzy words stand for are terms of live documents.
        statistics: of each column, over live documents of all sources.
        terms: column and term, of all terms.
        counted: frequencies of a term in a source that had to be counted for it.
        known: those that were known already.
    """

    clause: Clause
    statistics: Mapping[str, ColumnStatistics]
    terms: tuple[tuple[str, str], ...]
    counted: int
    known: int


@dataclass(frozen=True, eq=False)
class Corpus:
    """The documents that one query scores.

    Args:
        query: what is searched for.
        clause: the query in terms; fuzzy words are not expanded yet.
        texts: of every source of the table, those without candidates included; some may be joined.
        quantizes: columns whose index scores with rounded lengths.
    """

    query: TextQuery
    clause: Clause
    texts: Sequence[LiveText]
    quantizes: frozenset[str] = frozenset()
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _analyzed: list[Analysis] = field(default_factory=list)

    @property
    def cached_analysis(self) -> Analysis | None:
        """The analysis if it is cached."""
        return self._analyzed[0] if self._analyzed else None

    def analyze(self, check: Callable[[], None]) -> Analysis:
        """Return the query and its statistics, computed once.

        Args:
            check: raises once the search was stopped.
        """
        with self._lock:
            if not self._analyzed:
                self._analyzed.append(self._analyze(check))
            return self._analyzed[0]

    def _analyze(self, check: Callable[[], None]) -> Analysis:
        clause = self.clause.expand(partial(self._expand, check))
        terms = clause.terms
        known: dict[tuple[str, str], list[int | None]] = {
            (column, term): [text.cached_frequency(column, term) for text in self.texts]
            for column, of_column in terms.items()
            for term in of_column
        }
        counted = self._count(terms, known, check)
        statistics = {}
        for column in self.query.columns:
            frequencies = {
                term: sum(
                    text.frequency(column, term, surface) if frequency is None else frequency
                    for text, frequency in zip(self.texts, known[column, term], strict=True)
                )
                for term, surface in terms.get(column, {}).items()
            }
            sizes = [text.size(column) for text in self.texts]
            documents, tokens = (sum(parts) for parts in zip((0, 0), *sizes, strict=True))
            statistics[column] = ColumnStatistics(documents, tokens, frequencies, column in self.quantizes)
        there = len(known) * len(self.texts)
        return Analysis(clause, statistics, tuple(known), counted, there - counted)

    def _count(
        self,
        terms: Mapping[str, Mapping[str, str | None]],
        cached: Mapping[tuple[str, str], Sequence[int | None]],
        check: Callable[[], None],
    ) -> int:
        """Find the frequencies that are not cached; return how many they were."""
        missing = [
            (text, column, term)
            for (column, term), frequencies in cached.items()
            for text, frequency in zip(self.texts, frequencies, strict=True)
            if frequency is None
        ]
        # Others must be read: to ask for several at once takes less time.
        tasks = [
            partial(text.frequency, column, term, terms[column][term])
            for text, column, term in missing
            if not text.columns[column].has(term)
        ]
        for start in range(0, len(tasks), TASKS):
            check()
            run_concurrently(tasks[start : start + TASKS])
        return len(missing)

    def _expand(self, check: Callable[[], None], fuzzy: FuzzyClause) -> TermsClause:
        """Expand a fuzzy clause to the terms of live documents."""
        terms: set[str] = set()
        for word in fuzzy.words:
            edits = fuzzy.edits(word)
            for text in self.texts:
                check()
                documents = text.columns[fuzzy.column]
                near = documents.near(word.text, edits, fuzzy.prefix_length) if edits else (word.text,)
                # Of the first ones in all sources together none comes after the first ones in its own.
                live = (term for term in near if _is_live(text, fuzzy.column, term, check))
                terms.update(islice(live, fuzzy.max_expansions))
        return fuzzy.replace_words(terms)


def _is_live(text: LiveText, column: str, term: str, check: Callable[[], None]) -> bool:
    check()
    return text.frequency(column, term) > 0


@dataclass(frozen=True, slots=True)
class _Shown:
    """The cache key of the flags of visible rows; equal for the same rows of the same source.

    Attributes:
        source: see `SearchSource.identity`.
        rows: see `RowMask.digests`.
    """

    source: Hashable
    rows: Hashable


@dataclass(frozen=True, slots=True)
class _Filtered:
    """The cache key of a condition's rows; equal for the same condition and source.

    Attributes:
        source: see `SearchSource.identity`; it tells which columns have the names that the condition says.
        condition: in Lance's SQL.
    """

    source: Hashable
    condition: str


@dataclass(frozen=True, eq=False)
class AdmittedRows:
    """Live rows that pass a search's conditions.

    Args:
        mask: shows rows that may be found.
        row_filter: the rest of the conditions; None where there is none.
    """

    mask: RowMask
    row_filter: RowFilter | None = None

    @cached_property
    def description(self) -> tuple[str, ...]:
        """A short description for plans."""
        filters = () if self.row_filter is None else (f"filter={self.row_filter}",)
        return (*filters, f"blocked={self.mask.hidden_rows}")

    def flags(self, text: SourceText) -> np.ndarray:
        """Return one bool per row of a source."""
        flags = text.text.live
        if self.mask is not text.source.live:
            key = _Shown(text.source.identity, self.mask.digests(text.numbers.physical_rows))
            found = text.cache.compute(key, lambda: text.numbers.flags(self.mask))
            flags = flags & found
        if self.row_filter is not None:
            flags = flags & self._filter(text, self.row_filter)
        return flags

    def _filter(self, text: SourceText, row_filter: RowFilter) -> np.ndarray:
        rows = text.source.rows
        if isinstance(rows, MemTableSource):
            return _filter_in_memory(rows, row_filter)
        sql = (
            row_filter.sql(rows.stored_names) if rows.has_plain_columns(sorted(row_filter.columns)) else None
        )
        if sql is None:
            return _filter_by_columns(text, rows, row_filter)
        dataset: Any = rows.dataset

        def scan() -> np.ndarray:
            found = dataset.scanner(
                columns=[],
                filter=sql,
                fragments=_list_fragments(text, rows),
                use_scalar_index=rows.trusts_scalar_indexes,
                with_row_address=True,
            ).to_table()
            return _build_flags(text, found.column(ROW_ADDRESS).to_numpy())

        # Deleted rows are missing, which the identity tells as well.
        key = _Filtered(text.source.identity, sql)
        return text.cache.compute(key, scan)


def _list_fragments(text: SourceText, rows: LanceSource) -> list[Any]:
    dataset: Any = rows.dataset
    wanted = text.numbers.physical_rows
    return [fragment for fragment in dataset.get_fragments() if fragment.fragment_id in wanted]


def _build_flags(text: SourceText, addresses: np.ndarray) -> np.ndarray:
    flags = np.zeros(text.numbers.count, dtype=np.bool_)
    flags[text.numbers.numbers(addresses)] = True
    return flags


def _filter_in_memory(rows: MemTableSource, row_filter: RowFilter) -> np.ndarray:
    parts = [row_filter.matches(batch).to_numpy(zero_copy_only=False) for batch in rows.rows.to_batches()]
    return np.concatenate([np.empty(0, dtype=np.bool_), *parts])


def _filter_by_columns(text: SourceText, rows: LanceSource, row_filter: RowFilter) -> np.ndarray:
    """Filter rows here, by the values of columns, because Lance can't express the filter."""
    names = sorted(row_filter.columns)
    fields = [rows.schema.field(name) for name in names]
    stored = [rows.stored_names[name] for name in names if name in rows.stored_names]
    dataset: Any = rows.dataset
    flags = np.zeros(text.numbers.count, dtype=np.bool_)
    scanner = dataset.scanner(columns=stored, fragments=_list_fragments(text, rows), with_row_address=True)
    for batch in scanner.to_batches():
        values = pa.RecordBatch.from_arrays(
            convert_columns(batch, fields, rows.stored), schema=pa.schema(fields)
        )
        passing = row_filter.matches(values).to_numpy(zero_copy_only=False)
        flags[text.numbers.numbers(batch.column(ROW_ADDRESS).to_numpy())] = passing
    return flags


FEW_DOCUMENTS = 8_192
"""Up to so many documents that have one of the terms, all of them are candidates at once."""
FEW_LISTS = 12
MANY_DOCUMENTS = 16_384
"""More documents than that, though all of them match, are looked at in the order of what they are worth."""


@dataclass(frozen=True, eq=False)
class FtsExec(ExecNode):
    """Finds the best documents of one source, in rounds, with high possible scores first.

    Each batch is a round, with rows that may be among the k best so far. It ends when no later row can be.

    Args:
        text: the documents.
        corpus: of the query.
        k: rows wanted.
        admitted: rows that may be found; all live rows count in the statistics.
    """

    text: SourceText
    corpus: Corpus
    k: int
    admitted: AdmittedRows

    @property
    def schema(self) -> pa.Schema:
        """`TEXT_CANDIDATES`."""
        return TEXT_CANDIDATES

    @property
    def source(self) -> SearchSource:
        """The searched source."""
        return self.text.source

    def describe(self) -> str:
        """Return the source, the search method, and the hidden rows."""
        source = self.source
        how = "tokenized" if source.index is None else f"index={source.index.name}"
        columns = ", ".join(self.corpus.query.columns)
        parts = [source.label, f"columns=[{columns}]", how, *self.admitted.description]
        return f"FtsExec: {', '.join(parts)}"

    def count_postings(self, analysis: Analysis) -> int:
        """Return the number of postings of the query's terms in the source."""
        return self.text.count_postings(analysis.terms)

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce one batch per round, best first."""
        if partition:
            return
        analysis = self.corpus.analyze(context.check)
        for rows in self._read_rounds(analysis, context):
            context.check()
            context.count(self, "rounds")
            context.count(self, "candidates", len(rows))
            found = score_rows(analysis.clause, analysis.statistics, self.text, rows)
            good = find_best(found.scores, self.k, context.floor())
            addresses = self.text.numbers.addresses(found.documents[good])
            yield build_candidates(self.source.number, addresses, found.scores[good])

    def _read_rounds(self, analysis: Analysis, context: TaskContext) -> Iterator[np.ndarray]:
        """Yield the row numbers of documents that may be among the best, ascending."""
        clause = analysis.clause
        count = self.count_postings(analysis)
        context.count(self, "postings", count)
        is_monotone = compute_bound(clause, {}) is not None
        # Of many lists, each has some documents that may still be good: in the end all are read.
        has_many_lists = len(analysis.terms) > FEW_LISTS
        if count <= FEW_DOCUMENTS or not is_monotone or is_narrow(clause) or has_many_lists:
            rows = find_candidates(clause, lambda *term: self.text.postings(*term).documents)
            if len(rows) <= MANY_DOCUMENTS or not is_monotone or has_many_lists:
                yield rows[self.flags[rows]]
                return
        yield from self._read_by_impact(analysis, context)

    @cached_property
    def flags(self) -> np.ndarray:
        """One bool per row of the source: whether it is admitted."""
        return self.admitted.flags(self.text)

    def _read_by_impact(self, analysis: Analysis, context: TaskContext) -> Iterator[np.ndarray]:
        """Yield the best documents of each term, round by round; other documents score less."""
        lists = tuple(
            TermImpacts(column, term, analysis.statistics[column], self.text)
            for column, term in analysis.terms
        )
        drawn = [0] * len(lists)
        depths = [min(max(1_024, 8 * self.k), len(one)) for one in lists]
        given = np.empty(0, dtype=np.int64)
        while True:
            parts = (
                one.documents(start, stop) for one, start, stop in zip(lists, drawn, depths, strict=True)
            )
            rows = union([np.sort(part[self.flags[part]]) for part in parts])
            rows = rows[find_indices(given, rows) < 0]
            highest = compute_bound_after(lists, depths, analysis.clause)
            yield rows
            if highest < context.floor() * (1.0 - SLACK) or highest == -np.inf:
                return
            given = union([given, rows])
            drawn, depths = depths, choose_depths(lists, depths, analysis.clause, context.floor())


def build_candidates(sources: np.ndarray | int, addresses: np.ndarray, scores: np.ndarray) -> pa.RecordBatch:
    """Return documents of one query as `TEXT_CANDIDATES`.

    Args:
        sources: number of each one's source, or of the only one.
        addresses: in the source (uint64).
        scores: float32.
    """
    query, of = np.zeros((2, len(scores)), dtype=np.int32)
    of[:] = sources
    # What `pa.array` finds out of each, types and NULLs, is known.
    arrays = [
        pa.Array.from_buffers(field.type, len(scores), [None, pa.py_buffer(values)])
        for field, values in zip(TEXT_CANDIDATES, (query, of, addresses, scores), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=TEXT_CANDIDATES)


def is_narrow(clause: Clause) -> bool:
    """Return whether far fewer documents match than have one of the terms, so all should be scored."""
    if isinstance(clause, BooleanClause):
        return bool(clause.must) or any(map(is_narrow, clause.should))
    if isinstance(clause, TermsClause):
        return len(clause.groups) > 1 and (clause.operator is Operator.AND or clause.phrase is not None)
    return any(is_narrow(part) for part in clause.parts)
