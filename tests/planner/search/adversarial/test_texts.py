"""Full-text search where the statistics of one source mislead about all."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lance.query import FullTextOperator, MatchQuery, PhraseQuery

from lance_gateway.planner.engine import QueryEngine
from tests.planner.search.sources.replayed import ReplayedTable, asking
from tests.support.lake.tables import Row
from tests.support.processes.writer_process import WriterProcess

Open = Callable[[Path], QueryEngine]


def texts(start: int, *values: str | None) -> list[Row]:
    return [{"id": number, "txt": value} for number, value in enumerate(values, start)]


def many(start: int, count: int, text: str) -> list[Row]:
    """Rows of growing length that begin alike."""
    return texts(start, *(" ".join([text, *["filler"] * (number % 5)]) for number in range(count)))


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> ReplayedTable:
    """Forty rows, thirty with ``common``; ten with ``base``."""
    made = ReplayedTable(root, writers, [*many(0, 30, "common word"), *many(30, 10, "base word word")])
    made.index_texts()
    return made


@pytest.mark.slow
def test_terms_that_one_generation_alone_has(table: ReplayedTable, root: Path, open_engine: Open):
    ask = asking(open_engine(root))
    table.put(*texts(100, "fresh common", "fresh fresh", "word"))
    assert len(table.check_texts(ask, "fresh")) == 2
    table.flush()
    table.put(*texts(110, "newest", "newest common fresh"))
    for words in ("fresh", "newest", "fresh newest common", "base fresh", "nowhere", "nowhere base"):
        table.check_texts(ask, words)
        table.check_texts(ask, words, 1000)
    table.flush()
    table.check_texts(ask, "fresh newest common")


@pytest.mark.slow
def test_a_term_frequent_in_the_base_and_rare_in_a_generation_and_the_other_way_round(
    table: ReplayedTable, root: Path, open_engine: Open
):
    """By its own statistics each source would put its rarer term first."""
    ask = asking(open_engine(root))
    table.put(*many(100, 25, "base"), *texts(200, "common", "common base"))
    for _ in range(2):
        for words in ("common", "base", "common base", "base word", "filler common"):
            for k in (1, 5, 40, 1000):
                table.check_texts(ask, words, k)
        table.flush()


@pytest.mark.slow
def test_a_term_that_only_stale_versions_have(table: ReplayedTable, root: Path, open_engine: Open):
    ask = asking(open_engine(root))
    table.put(*many(30, 10, "moved"))
    for _ in range(2):
        assert table.check_texts(ask, "base") == []
        table.check_texts(ask, "base moved word")
        table.flush()
    table.put(*many(30, 10, "base again"))
    assert len(table.check_texts(ask, "base", 100)) == 10
    assert table.check_texts(ask, "moved") == []
    table.delete(*({"id": number} for number in range(30, 40)))
    assert table.check_texts(ask, "base") == []
    table.flush()
    assert table.check_texts(ask, "base") == []
    table.check_texts(ask, "common word")


@pytest.mark.slow
def test_stale_versions_would_fill_the_page(table: ReplayedTable, root: Path, open_engine: Open):
    """All best matches of the base are superseded; the live ones score worst."""
    ask = asking(open_engine(root))
    table.put(*texts(0, *["nothing of that"] * 28))
    for _ in range(2):
        assert {key for (key,) in table.check_texts(ask, "common", 10)} == {28, 29}
        table.check_texts(ask, "common filler", 3)
        table.flush()


@pytest.mark.slow
def test_every_row_is_superseded_then_deleted(table: ReplayedTable, root: Path, open_engine: Open):
    ask = asking(open_engine(root))
    table.put(*many(0, 40, "other word"))
    table.check_texts(ask, "word", 100)
    table.flush()
    assert table.check_texts(ask, "common") == []
    table.check_texts(ask, "other filler", 7)
    table.delete(*({"id": number} for number in range(40)))
    for _ in range(2):
        assert table.check_texts(ask, "other word common base") == []
        table.flush()
    table.merge()
    assert table.check_texts(ask, "other") == []


@pytest.mark.slow
def test_texts_that_have_no_tokens_are_no_documents(table: ReplayedTable, root: Path, open_engine: Open):
    """NULL, the empty text and stop words alone move no average."""
    ask = asking(open_engine(root))
    for values in ((None, "", "the of a"), ("the common of", "  ", "!?"), ("the", None, "")):
        table.put(*texts(0, *values), *texts(100, *values))
        table.check_texts(ask, "common word", 100)
        table.flush()
        table.check_texts(ask, "common word the", 100)


@pytest.mark.slow
def test_the_index_lags_behind_merges(table: ReplayedTable, root: Path, open_engine: Open):
    ask = asking(open_engine(root))

    def check() -> None:
        for words in ("common", "base late", "late later word"):
            table.check_texts(ask, words, 7)
            table.check_texts(ask, words, 100)

    table.put(*many(20, 15, "late"), *texts(100, "late common", None))
    table.flush()
    check()
    table.merge()
    check()
    table.put(*many(10, 5, "later late"))
    table.delete({"id": 0}, {"id": 21})
    table.flush()
    check()
    table.merge()
    check()
    table.clean_up()
    check()
    table.catch_up()
    check()
    table.table.dataset().optimize.compact_files()
    check()
    table.put(*texts(5, "late late late"))
    check()


@pytest.mark.slow
def test_phrases_and_whole_sets_of_words_across_sources(table: ReplayedTable, root: Path, open_engine: Open):
    ask = asking(open_engine(root))
    table.put(*texts(100, "word common", "common word common word", "base the word"))
    for _ in range(2):
        for words in ("common word", "word common", "base word", "word word"):
            phrase = PhraseQuery(words, "txt")
            table.check_texts(ask, words, 100, options="phrase => true", query=phrase)
            table.check_texts(
                ask,
                words,
                100,
                options="operator => 'and'",
                query=MatchQuery(words, "txt", operator=FullTextOperator.AND),
            )
        fuzzy = MatchQuery("commun bose", "txt", fuzziness=1)
        table.check_texts(ask, "commun bose", 100, options="fuzziness => 1", query=fuzzy)
        table.flush()


@pytest.mark.slow
def test_conditions_change_which_rows_are_found_and_no_score(
    table: ReplayedTable, root: Path, open_engine: Open
):
    ask = asking(open_engine(root))
    table.put(*(row | {"n": row["id"] % 3} for row in many(10, 25, "common base")))
    for _ in range(2):
        table.check_texts(ask, "common base", 5, where="n = 1", keeps=lambda row: row["n"] == 1)
        table.check_texts(ask, "common", 50, where="n IS NULL", keeps=lambda row: row["n"] is None)
        table.flush()


@pytest.mark.slow
def test_documents_of_very_different_length(root: Path, writers: WriterProcess, open_engine: Open):
    """The average length of a source is far from that of all."""
    table = ReplayedTable(root, writers, many(0, 20, "short"))
    table.index_texts()
    ask = asking(open_engine(root))
    table.put(*texts(100, *(" ".join(["short"] * number + ["long"] * 300) for number in range(1, 12))))
    for _ in range(2):
        table.check_texts(ask, "short", 15)
        table.check_texts(ask, "long short", 4)
        table.flush()
    table.put(*texts(0, *["short " * 20] * 10))
    table.check_texts(ask, "short filler", 30)
