"""Every kind of text query matches and scores as it does in a freshly indexed Lance table."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_gateway.execnodes.text.query.clauses import MAX_TERMS
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
from lance_gateway.memwal.errors import InvalidInputError
from tests.planner.search.texts.scored_texts import ScoredTexts, documents, queries

TITLES = ["Streaming writes", None, "the of", "Writing streams to tables", "Tables", "stream stream", "", "x"]
BODIES = [
    "How to write a stream of rows into a table",
    "Streams are written in batches; a batch is a table",
    "the of and",
    None,
    "write write write the table",
    "A tabel is a misspelt table",
    "writes of the stream of the table",
    "stream x table",
]
INDEXES: list[dict[str, Any]] = [
    {},
    {"stem": False, "remove_stop_words": False},
    {"language": "French"},
    {"base_tokenizer": "whitespace"},
    {"base_tokenizer": "raw"},
    {"base_tokenizer": "ngram"},
    {"base_tokenizer": "icu"},
    {"analyzer": "code", "split_identifiers": True},
    {"block_size": 256},
]


def body(text: str, **options: Any) -> MatchQuery:
    return MatchQuery(text, "body", **options)


def title(text: str, **options: Any) -> MatchQuery:
    return MatchQuery(text, "title", **options)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ScoredTexts:
    return ScoredTexts(tmp_path_factory.mktemp("corpus") / "t.lance", {"title": TITLES, "body": BODIES}, {})


def assert_scored_alike(corpus: ScoredTexts, query: TextQuery) -> None:
    assert corpus.ours(query) == pytest.approx(corpus.lances(query), rel=1e-5, abs=1e-5)


def test_a_term_scores_by_its_rarity_its_frequency_and_the_length_of_the_text(corpus: ScoredTexts) -> None:
    # Of six bodies with words that count, 22 words in all, three have forms of "write".
    rarity = math.log(1 + (6 - 3 + 0.5) / (3 + 0.5))
    average = 22 / 6

    def expected(frequency: int, length: int) -> float:
        return rarity * frequency * (1.2 + 1) / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / average))

    assert corpus.ours(body("writing")) == pytest.approx(
        {0: expected(1, 4), 4: expected(3, 4), 6: expected(1, 3)}, rel=1e-6
    )
    assert_scored_alike(corpus, body("writing"))


@pytest.mark.parametrize(
    "query",
    [
        body("write stream"),
        body("write stream", operator=Operator.AND),
        body("write nowhere", operator=Operator.AND),
        body("stream streams"),
        body("write", boost=3.0),
        body("write", boost=0.0),
        body("the of and"),
        body(""),
        body("tabel tabla", fuzziness=1),
        body("tabel tabla", fuzziness=1, operator=Operator.AND),
        body("strem wirte", fuzziness=2, max_expansions=1),
        body("tabel", fuzziness=2, prefix_length=4),
        body("Writing", fuzziness=1),
        PhraseQuery("written in batches", "body"),
        PhraseQuery("stream of the table", "body"),
        PhraseQuery("stream table", "body"),
        PhraseQuery("stream table", "body", slop=2),
        PhraseQuery("table", "body"),
        PhraseQuery("the", "body"),
        MultiMatchQuery.of("stream tables", ("title", "body")),
        MultiMatchQuery.of("stream tables", ("title", "body"), (2.0, 0.5), Operator.AND),
        CombinedFieldsQuery("stream stream tables", ("title", "body")),
        CombinedFieldsQuery("stream tables", ("title", "body"), (2.0, 1.5), Operator.AND),
        BooleanQuery(must=(body("write"), title("stream"))),
        BooleanQuery(must=(body("stream"),), should=(title("stream"), title("x"))),
        BooleanQuery(should=(body("stream"), title("stream"))),
        BooleanQuery(should=(body("stream"), title("stream")), must_not=(body("batch"),)),
        BooleanQuery(must=(body("the"),), should=(body("stream"),)),
        BooleanQuery(must=(body("stream"),), must_not=(body("the"),)),
        BooleanQuery(must=(BooleanQuery(should=(body("row"), PhraseQuery("of the stream", "body"))),)),
        BoostQuery(body("table"), body("stream")),
        BoostQuery(body("table"), title("stream"), negative_boost=4.0),
        BoostQuery(BooleanQuery(must=(body("table"),)), BoostQuery(body("stream"), body("x")), 1.0),
    ],
    ids=repr,
)
def test_each_kind_of_query(corpus: ScoredTexts, query: TextQuery) -> None:
    assert_scored_alike(corpus, query)


def test_texts_without_words_are_no_documents(corpus: ScoredTexts) -> None:
    assert corpus.statistics("title").documents == 5
    assert corpus.statistics("title").average_length == 9 / 5


def test_what_is_subtracted_leaves_a_match_a_match(corpus: ScoredTexts) -> None:
    found = corpus.ours(BoostQuery(body("table"), body("stream"), negative_boost=10.0))
    assert found.keys() == corpus.ours(body("table")).keys()
    assert min(found.values()) < 0


def test_boosts_may_not_make_scores_endless(corpus: ScoredTexts) -> None:
    query: TextQuery = body("table", boost=1e12)
    for _ in range(4):
        query = BoostQuery(body("table"), query, negative_boost=1e12)
    with pytest.raises(InvalidInputError, match="the boosts of the text query make scores too large"):
        corpus.ours(query)


def test_nobody_looks_for_thousands_of_terms(corpus: ScoredTexts) -> None:
    words = " ".join(f"w{number}" for number in range(MAX_TERMS))
    assert corpus.ours(body(words)) == {}
    with pytest.raises(InvalidInputError, match="looks for 4097 terms, and 4096 are the most"):
        corpus.ours(body(f"table {words}"))


def test_automatic_fuzziness_allows_long_words_more(tmp_path: Path) -> None:
    texts = ["of", "on", "table", "tabel", "tablet", "streaming", "streeming", "streamimg", "dreamin"]
    corpus = ScoredTexts(tmp_path / "t.lance", {"body": texts}, {"stem": False, "remove_stop_words": False})
    assert corpus.ours(body("on", fuzziness=None)).keys() == {1}
    assert corpus.ours(body("table", fuzziness=None)).keys() == {2, 4}
    assert corpus.ours(body("streaming", fuzziness=None)).keys() == {5, 6, 7}


def test_fields_combine_only_if_they_are_tokenized_alike(corpus: ScoredTexts, tmp_path: Path) -> None:
    other = ScoredTexts(tmp_path / "t.lance", {"title": ["x"]}, {"stem": False})
    mixed = ScoredTexts(corpus.path, corpus.texts, {})
    mixed.__dict__["tokenizers"] = corpus.tokenizers | other.tokenizers
    with pytest.raises(InvalidInputError, match="columns title and body are tokenized differently"):
        mixed.ours(CombinedFieldsQuery("x", ("title", "body")))


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=3, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_query_of_any_texts(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    check_any_query(tmp_path_factory, data.draw(st.sampled_from(INDEXES)), data.draw, rounds=8)


@pytest.mark.slow
@pytest.mark.parametrize("options", INDEXES, ids=str)
@settings(derandomize=True, deadline=None, max_examples=1, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_query_of_any_texts_with_any_index(
    options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    check_any_query(tmp_path_factory, options, data.draw, rounds=10)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("options", INDEXES, ids=str)
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_query_of_ever_more_texts(
    options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    check_any_query(tmp_path_factory, options, data.draw, rounds=20)


def check_any_query(
    directories: pytest.TempPathFactory,
    options: dict[str, Any],
    draw: Callable[[st.SearchStrategy[Any]], Any],
    rounds: int,
) -> None:
    rows = st.lists(st.tuples(documents(), documents()), min_size=1, max_size=12)
    titles, bodies = zip(*draw(rows), strict=True)
    corpus = ScoredTexts(directories.mktemp("any") / "t.lance", {"title": titles, "body": bodies}, options)
    for _ in range(rounds):
        assert_scored_alike(corpus, draw(queries(("title", "body"))))


@pytest.mark.parametrize("words", ["b c", "b b", "b c d", "b c b", "b b c", "d b c e", "b c b c d"])
@pytest.mark.parametrize("slop", [0, 1, 3])
def test_phrases_are_found_where_lance_finds_them(crowded: ScoredTexts, words: str, slop: int) -> None:
    query = PhraseQuery(words, "body", slop)
    assert crowded.ours(query).keys() == crowded.lances(query).keys()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> ScoredTexts:
    """Texts of few different words, so that phrases begin over and over."""
    shuffled = random.Random(1)
    texts = [" ".join(shuffled.choices("bcdef", k=shuffled.randint(1, 14))) for _ in range(1_000)]
    return ScoredTexts(tmp_path_factory.mktemp("crowded") / "t.lance", {"body": texts}, {})
