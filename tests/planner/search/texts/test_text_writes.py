"""After every kind of write statistics are those of the moment, and what did not change is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.execnodes.text.documents.source_text import TokenPostings
from lance_gateway.execnodes.text.query.query import MatchQuery, PhraseQuery
from lance_gateway.execnodes.text.query.tokenizer import Tokenizer
from tests.planner.search.texts.text_history import Layer, TextHistory, assert_same_ranking, lance_ranking

WORDS = MatchQuery("red green blue", "body")
PHRASE = PhraseQuery("red green", "body")


@pytest.fixture
def history(tmp_path: Path) -> TextHistory:
    made = TextHistory(tmp_path)
    made.add(Layer([(n, ("red green " * (n % 3 + 1) + "blue " * (n % 2),)) for n in range(20)]))
    made.add(Layer([(3, ("blue",)), (30, ("green red",))]))
    made.add(Layer([(4, ("red",))], "tail"))
    return made


def check(history: TextHistory) -> dict[str, int]:
    """Ranks as the merged table; gives what the statistics took."""
    merged = history.merged()
    assert_same_ranking(history.search(WORDS), lance_ranking(merged, WORDS), 10)
    counted = history.metrics.of(history.node)
    assert counted is not None
    assert_same_ranking(history.search(PHRASE), lance_ranking(merged, PHRASE), 10)
    return counted.counters


@pytest.mark.slow
def test_every_write_counts_at_once(history: TextHistory):
    check(history)
    history.put((5, ("green " * 50,)), (31, ("red green",)))
    check(history)
    history.put((31, None), (0, None))
    check(history)
    history.put((31, ("blue blue green",)))
    check(history)
    history.add(Layer([(31, ("red",)), (6, None)]))
    check(history)


def test_what_no_write_touched_is_known(history: TextHistory):
    check(history)
    counters = check(history)
    assert counters["frequencies_counted"] == 0
    assert counters["frequencies_known"] == 9
    history.put((40, ("red",)))
    counters = check(history)
    assert counters["frequencies_counted"] == 3, "a new key supersedes nothing: only the tail is new"
    history.put((30, ("red",)))
    counters = check(history)
    assert counters["frequencies_counted"] == 6, "the tail, and the layer of which it supersedes a row"


@pytest.mark.slow
def test_a_growing_tail_tokenizes_new_rows_alone(history: TextHistory, monkeypatch: pytest.MonkeyPatch):
    tokenized = []
    make = TokenPostings.of

    def recorded(
        tokenizer: Tokenizer, texts: pa.ChunkedArray, rows: np.ndarray, row_count: int
    ) -> TokenPostings:
        tokenized.append(len(rows))
        return make(tokenizer, texts, rows, row_count)

    history.put(*((100 + n, (f"red word{n}",)) for n in range(15)))
    check(history)
    monkeypatch.setattr(TokenPostings, "of", staticmethod(recorded))
    history.put((200, ("green",)))
    check(history)
    history.put((201, ("green",)))
    check(history)
    history.put((202, ("green blue",)))
    check(history)
    assert tokenized == [1, 2, 1]


def test_an_index_that_is_built_anew_with_another_tokenizer(tmp_path: Path):
    """What is remembered of layers that did not change was said of other words."""
    history = TextHistory(tmp_path, options={"remove_stop_words": False, "stem": False})
    history.add(Layer([(0, ("the red house",)), (1, ("houses of the world",))]))
    history.add(Layer([(2, ("the house",)), (3, ("the",))]))
    history.add(Layer([(4, ("the",)), (5, ("red the houses",))], "tail"))
    queries = MatchQuery("the houses", "body"), MatchQuery("red", "body")
    for _ in range(2):
        merged = history.merged()
        for query in queries:
            assert_same_ranking(history.search(query), lance_ranking(merged, query), 10)
        history.rebuild(remove_stop_words=True, stem=True)
