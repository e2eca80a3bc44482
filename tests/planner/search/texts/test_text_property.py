"""Random tables of few words: every query ranks as in one freshly indexed table."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_gateway.execnodes.text.query.query import (
    BooleanQuery,
    BoostQuery,
    MatchQuery,
    Operator,
    PhraseQuery,
    TextQuery,
)
from tests.planner.search.texts.text_history import Layer, TextHistory, assert_same_ranking, lance_ranking

WORDS = ("ash", "ashes", "bay", "boy", "cat", "the", "cast", "dog")
words = st.sampled_from(WORDS)
texts = st.lists(words, max_size=6).map(" ".join)
documents = st.one_of(st.none(), texts, texts, texts)
rows = st.one_of(st.none(), st.tuples(documents), st.tuples(documents), st.tuples(documents))
keys = st.integers(0, 12)


def layers(kinds: tuple[str, ...], *, tombstones: bool) -> st.SearchStrategy[Layer]:
    values = rows if tombstones else st.tuples(documents)
    written = st.lists(st.tuples(keys, values), min_size=1, max_size=10)
    if not tombstones:
        written = st.lists(st.tuples(keys, values), min_size=1, max_size=12, unique_by=lambda row: row[0])
    return st.builds(
        Layer,
        written,
        st.sampled_from(kinds),
        rows_per_file=st.sampled_from((2, 5, 100)),
        deleted=st.frozensets(keys, max_size=3) if not tombstones else st.just(frozenset[int]()),
        segments=st.integers(1, 2) if not tombstones else st.just(1),
    )


matches = st.builds(
    MatchQuery,
    st.lists(words, min_size=1, max_size=3).map(" ".join),
    st.just("body"),
    st.sampled_from(Operator),
    st.sampled_from((1.0, 2.5)),
    st.sampled_from((0, 0, 1, 2)),
    st.integers(0, 2),
    st.sampled_from((1, 2, 50)),
)
phrases = st.builds(PhraseQuery, st.lists(words, min_size=1, max_size=3).map(" ".join), st.just("body"))
leaves = st.one_of(matches, phrases)
some = st.lists(leaves, min_size=1, max_size=2).map(tuple)
few = st.lists(leaves, max_size=1).map(tuple)
queries: st.SearchStrategy[TextQuery] = st.one_of(
    matches,
    phrases,
    st.builds(BooleanQuery, must=some, should=few, must_not=few),
    st.builds(BooleanQuery, must=few, should=some, must_not=few),
    st.builds(BoostQuery, leaves, leaves, st.sampled_from((0.0, 0.5))),
)
histories = st.tuples(
    layers(("indexed",), tombstones=False),
    st.lists(layers(("indexed", "flat", "tail"), tombstones=True), max_size=3),
)


def check(history: tuple[Layer, list[Layer]], asked: list[TextQuery], k: int) -> None:
    base, others = history
    with tempfile.TemporaryDirectory() as directory:
        written = TextHistory(Path(directory))
        for layer in (base, *others):
            written.add(layer)
        merged = written.merged()
        for query in asked:
            assert_same_ranking(written.search(query, k), lance_ranking(merged, query), k)


@pytest.mark.slow
@settings(derandomize=True, max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories, st.lists(queries, min_size=1, max_size=5), st.sampled_from((1, 3, 50)))
def test_random_tables(history: tuple[Layer, list[Layer]], asked: list[TextQuery], k: int):
    check(history, asked, k)


@pytest.mark.soak
@pytest.mark.timeout(0)
@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories, st.lists(queries, min_size=1, max_size=8), st.sampled_from((1, 3, 50)))
def test_ever_more_random_tables(history: tuple[Layer, list[Layer]], asked: list[TextQuery], k: int):
    check(history, asked, k)
