"""Texts in memory and in a freshly indexed Lance table, to be scored by both; and queries of every kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lance_gateway.execnodes.text.bm25 import ColumnStatistics, Postings
from lance_gateway.execnodes.text.documents.source_text import TokenPostings
from lance_gateway.execnodes.text.query.clauses import analyze
from lance_gateway.execnodes.text.query.query import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    Operator,
    PhraseQuery,
    TextQuery,
    convert_to_lance_query,
)
from lance_gateway.execnodes.text.query.tokenizer import Tokenizer
from lance_gateway.execnodes.text.scoring.scores import score

WORDS = (
    *("run", "running", "Runs", "ran", "the", "of", "cat", "cats", "dog", "x", "abc", "abd", "abcd"),
    *("café", "naïve", "ΣΑΣ", "3", "getUserName", "foo_bar", "日本語"),
)
Scores = dict[int, float]


@dataclass(frozen=True)
class ScoredTexts:
    """Texts by column, all of the same number of rows: a `TextIndex`.

    Args:
        path: where the Lance table lies.
        texts: column -> documents.
        index_options: of each column's index.
    """

    path: Path
    texts: Mapping[str, Sequence[str | None]]
    index_options: Mapping[str, Any]

    @cached_property
    def dataset(self) -> lance.LanceDataset:
        """The freshly indexed table; a row's id is its number."""
        columns = {name: pa.array(texts, pa.string()) for name, texts in self.texts.items()}
        rows = len(next(iter(columns.values())))
        dataset = lance.write_dataset(pa.table({"id": range(rows), **columns}), self.path, mode="overwrite")
        for name in columns:
            dataset.create_scalar_index(name, "INVERTED", with_position=True, **self.index_options)
        return dataset

    @cached_property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Column -> its index's tokenizer."""
        indices = self.dataset.describe_indices()
        return {index.field_names[0]: Tokenizer.of(index.details) for index in indices}

    @cached_property
    def columns(self) -> dict[str, TokenPostings]:
        """Column -> its documents' terms."""
        return {
            name: TokenPostings.of(
                self.tokenizers[name], pa.array(texts, pa.string()), np.arange(len(texts)), len(texts)
            )
            for name, texts in self.texts.items()
        }

    def lengths(self, column: str, documents: np.ndarray) -> np.ndarray:
        return self.columns[column].lengths[documents]

    def postings(self, column: str, term: str) -> Postings:
        return self.columns[column].postings(term)

    def phrase(self, column: str, query: PhraseQuery) -> np.ndarray | None:
        return None

    def statistics(self, column: str) -> ColumnStatistics:
        """What all documents say of a column."""
        documents = self.columns[column]
        return ColumnStatistics(
            int(np.count_nonzero(documents.lengths)),
            int(documents.lengths.sum()),
            {term: len(documents.postings(term).documents) for term in documents.terms},
            quantizes=self.index_options.get("block_size") == 256,
        )

    def ours(self, query: TextQuery) -> Scores:
        """Row -> score, by what this project makes of the query."""
        clause = analyze(query, self.tokenizers)
        clause = clause.expand(lambda fuzzy: fuzzy.replace_words(self.columns[fuzzy.column].terms))
        found = score(clause, {name: self.statistics(name) for name in self.texts}, self)
        return dict(zip(found.documents.tolist(), found.scores.tolist(), strict=True))

    def lances(self, query: TextQuery) -> Scores:
        """Row -> score, by Lance."""
        scanner = self.dataset.scanner(
            full_text_query=convert_to_lance_query(query), columns=["id", "_score"]
        )
        table = scanner.to_table()
        return dict(zip(table["id"].to_pylist(), table["_score"].to_pylist(), strict=True))


def texts() -> st.SearchStrategy[str]:
    """Some words, in that order; perhaps none."""
    return st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)


def documents() -> st.SearchStrategy[str | None]:
    """Texts that rows may have."""
    words = st.lists(st.sampled_from(WORDS), max_size=9)
    return st.none() | st.tuples(st.sampled_from([" ", ", ", " — "]), words).map(lambda it: it[0].join(it[1]))


def matches(columns: Sequence[str]) -> st.SearchStrategy[TextQuery]:
    """Plain and fuzzy matches."""
    plain = st.builds(
        MatchQuery,
        texts(),
        st.sampled_from(columns),
        st.sampled_from(Operator),
        st.sampled_from([0.0, 1.0, 2.5]),
    )
    fuzzy = st.builds(
        MatchQuery,
        texts(),
        st.sampled_from(columns),
        st.sampled_from(Operator),
        fuzziness=st.sampled_from([1, 2]),
        prefix_length=st.integers(0, 4),
        max_expansions=st.sampled_from([1, 2, 3, 50]),
    )
    return plain | fuzzy


def queries(columns: Sequence[str]) -> st.SearchStrategy[TextQuery]:
    """Queries of every kind, nested."""
    leaves = matches(columns) | st.builds(
        PhraseQuery, texts(), st.sampled_from(columns), st.sampled_from([0, 0, 1, 2])
    )
    if len(columns) > 1:
        weights = st.sampled_from([(), (2.0, 1.5)])
        several = st.just(tuple(columns))
        leaves |= st.builds(MultiMatchQuery.of, texts(), several, weights, st.sampled_from(Operator))
        leaves |= st.builds(CombinedFieldsQuery, texts(), several, weights, st.sampled_from(Operator))
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(
                BooleanQuery,
                st.lists(inner, min_size=1, max_size=2).map(tuple),
                st.lists(inner, max_size=2).map(tuple),
                st.lists(inner, max_size=1).map(tuple),
            )
            | st.builds(BooleanQuery, should=st.lists(inner, min_size=1, max_size=3).map(tuple))
            | st.builds(BoostQuery, inner, inner, st.sampled_from([0.0, 0.5, 2.0]))
        ),
        max_leaves=5,
    )
