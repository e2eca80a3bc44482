"""The live documents of a text search, and the statistics of its terms."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from execnodes.search.candidates import run_concurrently
from execnodes.text.bm25 import ColumnStatistics
from execnodes.text.documents.source_text import LiveText, SourceText
from execnodes.text.query.clauses import Clause, FuzzyClause, TermsClause
from execnodes.text.query.query import TextQuery


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
        texts: every source of the table, those without candidates included.
        quantizes: columns whose index scores with rounded lengths.
    """

    query: TextQuery
    clause: Clause
    texts: Sequence[SourceText]
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
            (column, term): [text.text.cached_frequency(column, term) for text in self.texts]
            for column, of_column in terms.items()
            for term in of_column
        }
        counted = self._count(terms, known, check)
        statistics = {}
        for column in self.query.columns:
            frequencies = {
                term: sum(
                    text.text.frequency(column, term) if frequency is None else frequency
                    for text, frequency in zip(self.texts, known[column, term], strict=True)
                )
                for term in terms.get(column, ())
            }
            sizes = [text.text.size(column) for text in self.texts]
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
        """Find the frequencies that are not cached, in parallel; return how many they were."""
        tasks = [
            partial(_count_frequency, text.text, column, term, terms[column][term], check)
            for (column, term), frequencies in cached.items()
            for text, frequency in zip(self.texts, frequencies, strict=True)
            if frequency is None
        ]
        if tasks:
            run_concurrently(tasks)
        return len(tasks)

    def _expand(self, check: Callable[[], None], fuzzy: FuzzyClause) -> TermsClause:
        """Expand a fuzzy clause to the terms of live documents."""
        terms: set[str] = set()
        for word in fuzzy.words:
            edits = fuzzy.edits(word)
            for text in self.texts:
                check()
                documents = text.text.columns[fuzzy.column]
                near = documents.near(word.text, edits, fuzzy.prefix_length) if edits else (word.text,)
                # Of the first ones in all sources together none comes after the first ones in its own.
                live = (term for term in near if _is_live(text.text, fuzzy.column, term, check))
                terms.update(islice(live, fuzzy.max_expansions))
        return fuzzy.replace_words(terms)


def _is_live(text: LiveText, column: str, term: str, check: Callable[[], None]) -> bool:
    check()
    return text.frequency(column, term) > 0


def _count_frequency(
    text: LiveText, column: str, term: str, surface: str | None, check: Callable[[], None]
) -> int:
    check()
    return text.frequency(column, term, surface)
