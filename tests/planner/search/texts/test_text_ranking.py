"""A text search over many sources ranks as one freshly indexed table does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
from tests.planner.search.texts.text_history import Layer, TextHistory, assert_same_ranking, lance_ranking

ALL = 1_000


def match(text: str, **options: Any) -> MatchQuery:
    return MatchQuery(text, "body", **options)


def phrase(text: str, slop: int = 0) -> PhraseQuery:
    return PhraseQuery(text, "body", slop)


def texts(start: int, *documents: str | None) -> list[tuple[int, tuple[str | None, ...]]]:
    return [(start + place, (document,)) for place, document in enumerate(documents)]


def check(history: TextHistory, *queries: TextQuery, ks: tuple[int, ...] = (1, 3, ALL)) -> None:
    """Every query's best k are those of the merged table."""
    merged = history.merged()
    for query in queries:
        expected = lance_ranking(merged, query)
        for k in ks:
            assert_same_ranking(history.search(query, k), expected, k)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> TextHistory:
    """Every kind of layer: upserts, deletes, re-inserts, empty documents, segments, deleted rows, a tail."""
    history = TextHistory(tmp_path_factory.mktemp("mixed"))
    base = texts(0, "alpha beta", "alpha alpha gamma", "delta", None, "", "the", "beta gamma delta", "alpha")
    history.add(Layer(base, rows_per_file=3, deleted=frozenset({6}), segments=2))
    history.add(Layer([*texts(0, "zeta alpha"), *texts(9, "alpha zeta zeta"), (2, None)], kind="flat"))
    history.add(Layer([*texts(1, "running alpha runs"), *texts(10, "alpha beta run"), *texts(2, "gamma")]))
    tail = [*texts(3, "gamma gamma alpha beta"), (9, None), *texts(11, "beta"), *texts(11, "beta beta")]
    history.add(Layer(tail, kind="tail"))
    return history


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        match("alpha"),
        match("alpha alpha beta"),
        match("beta gamma zeta", boost=2.5),
        match("alpha beta", operator=Operator.AND),
        match("alpha nowhere", operator=Operator.AND),
        match("nowhere"),
        match("the"),
        match("Running"),
        match("gamme alpho", fuzziness=1),
        match("bta", fuzziness=2, prefix_length=1, max_expansions=1),
        phrase("alpha beta"),
        phrase("gamma beta", slop=1),
        phrase("beta alpha"),
        BooleanQuery(must=(match("alpha"),), should=(match("zeta"),), must_not=(match("beta"),)),
        BooleanQuery(should=(match("gamma"), phrase("alpha beta"))),
        BoostQuery(match("alpha beta gamma"), match("zeta beta"), 0.7),
    ],
    ids=str,
)
def test_every_kind_of_query(mixed: TextHistory, query: TextQuery):
    check(mixed, query)


def test_several_columns_have_their_own_statistics(tmp_path: Path):
    history = TextHistory(tmp_path, columns=("body", "title"))
    history.add(Layer([(0, ("alpha beta", "beta")), (1, ("alpha", None)), (2, ("gamma", "alpha alpha"))]))
    history.add(Layer([(1, ("beta", "gamma beta")), (3, (None, "alpha")), (4, ("alpha gamma", ""))], "flat"))
    history.add(Layer([(0, ("gamma gamma", "gamma")), (5, ("beta", "beta")), (2, None)], "tail"))
    columns = ("body", "title")
    check(
        history,
        MultiMatchQuery.of("alpha beta", columns),
        MultiMatchQuery.of("beta gamma", columns, (1.0, 3.0), Operator.AND),
        CombinedFieldsQuery("alpha gamma", columns, (1.0, 2.0)),
        BooleanQuery(must=(match("gamma"),), should=(MatchQuery("beta", "title"),)),
    )


def test_terms_that_one_layer_alone_has(tmp_path: Path):
    history = TextHistory(tmp_path)
    history.add(Layer(texts(0, "base only", "common base", "common")))
    history.add(Layer(texts(10, "fresh common", "fresh")))
    history.add(Layer(texts(20, "newest", "newest common fresh"), "tail"))
    check(history, match("base"), match("fresh"), match("newest"), match("base fresh newest common"))


@pytest.mark.slow
def test_a_term_that_is_frequent_here_and_rare_there(tmp_path: Path):
    """By its own statistics each source would put its rarer term first."""
    history = TextHistory(tmp_path)
    history.add(Layer(texts(0, *["apple pie"] * 30, "banana pie", "banana apple")))
    history.add(Layer(texts(100, *["banana split"] * 30, "apple split", "apple banana")))
    check(history, match("apple banana"), match("apple"), match("banana pie"))


def test_documents_that_change_the_average_length_a_lot(tmp_path: Path):
    history = TextHistory(tmp_path)
    history.add(Layer(texts(0, *(" ".join(["word"] * n + ["other"] * (20 - n)) for n in range(1, 20)))))
    history.add(Layer(texts(100, " ".join(["word", *["filler"] * 5_000]), " ".join(["word"] * 900)), "tail"))
    check(history, match("word"), match("word other"), match("filler word"))


def test_frequencies_that_a_score_does_not_tell(tmp_path: Path):
    """Of thousands of occurrences one more changes a score by less than it is rounded."""
    history = TextHistory(tmp_path)
    history.add(Layer(texts(0, *(" ".join(["word"] * n) for n in (499, 500, 501, 5_000, 5_001)), "word")))
    history.add(Layer(texts(10, "word other")))
    check(history, match("word"), match("word other"))


@pytest.mark.slow
def test_rows_that_stale_versions_alone_have(tmp_path: Path):
    history = TextHistory(tmp_path)
    history.add(Layer(texts(0, "stale one", "stale two", "kept")))
    history.add(Layer([*texts(0, "kept"), (1, None)]))
    check(history, match("stale"), match("kept stale"), phrase("stale one"), match("stalf", fuzziness=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"base_tokenizer": "whitespace", "stem": False, "lower_case": False, "remove_stop_words": False},
        {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 3, "stem": False},
        {"base_tokenizer": "raw", "stem": False, "remove_stop_words": False},
        {"language": "German", "ascii_folding": True},
        {"block_size": 256},
    ],
    ids=str,
)
def test_the_tokenizer_of_the_index_is_used_everywhere(tmp_path: Path, options: dict[str, Any]):
    history = TextHistory(tmp_path, options=options)
    history.add(Layer(texts(0, "The Häuser big-cat", "the house", "Big cat", "universities universal")))
    history.add(Layer(texts(10, "the big cat's Haus", "Big cat", "university")))
    history.add(Layer(texts(20, "das Haus", "big-cat the", "universe"), "flat"))
    queries = ("big cat", "Big", "the", "Häuser Haus", "big-cat", "universities", "Big cat")
    check(history, *map(match, queries))


@pytest.mark.slow
def test_more_documents_than_are_looked_at_together(tmp_path: Path):
    history = TextHistory(tmp_path)
    words = ["red", "green", "blue", "rare"]
    made = [
        " ".join(words[n % 3 : n % 3 + 1] * (n % 7 + 1) + ["pad"] * (n % 11) + words[3:] * (n % 397 == 0))
        for n in range(12_000)
    ]
    history.add(Layer(texts(0, *made), rows_per_file=2_500))
    history.add(Layer(texts(100, *reversed(made[:1_500]))))
    history.add(Layer(texts(5_000, *made[:300]), "tail"))
    check(history, match("red"), match("red green pad"), match("rare pad"), ks=(1, 10, 700))
    check(history, match("red pad", operator=Operator.AND), phrase("blue pad"), ks=(10,))


def test_few_candidates_are_drawn_from_many_documents(tmp_path: Path):
    history = TextHistory(tmp_path)
    made = (" ".join(["word"] * (n % 9 + 1) + ["pad"] * (n % 50)) for n in range(9_000))
    history.add(Layer(texts(0, *made)))
    history.search(match("word"), 3)
    (search,) = history.node.searches
    counted = history.metrics.of(search)
    assert counted.counters["candidates"] < 2_000
    assert counted.counters["rounds"] == 1
