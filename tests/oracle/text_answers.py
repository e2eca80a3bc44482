"""Text searches drawn at random, judged by one Lance table of the same rows that was indexed a moment ago."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from hypothesis import strategies as st
from lance.query import (
    FullTextOperator,
    FullTextQuery,
    MatchQuery,
    PhraseQuery,
)

from tests.oracle.predicates import Draw
from tests.oracle.ranked import SCORES, Key, Ranking
from tests.oracle.searched import Question, Searched
from tests.oracle.vector_answers import Recall

TERMS = (
    "apple",
    "apples",
    "banana",
    "cherry",
    "eclair",
    "ÉCLAIR",
    "zoo",
    "running",
    "appel",
    "x1",
    "nowhere",
    "the",
)
PHRASES = ("apple banana", "banana apple", "cherry zoo", "apple of the banana", "zoo zoo", "the", "apple")
TOKENIZERS: tuple[Mapping[str, Any], ...] = (
    {"with_position": True},
    {"with_position": True, "stem": False, "remove_stop_words": False},
    {"with_position": True, "base_tokenizer": "whitespace", "ascii_folding": False, "lower_case": False},
)


class MergedTable:
    """Scores by Lance itself: rows in one fresh table with one fresh index on each text column."""

    def __init__(self, rows: pa.Table, columns: Sequence[str], tokenizer: Mapping[str, Any]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="merged-")
        numbers = pa.array(range(rows.num_rows), pa.int64())
        texts = rows.select(list(columns)).append_column("number", numbers)
        path = Path(self._directory.name) / "merged.lance"
        lance.write_dataset(texts, path)
        for column in columns:
            lance.dataset(path).create_scalar_index(column, "INVERTED", name=f"{column}_merged", **tokenizer)
        self._dataset = lance.dataset(path)

    def scores(self, query: FullTextQuery, keys: Sequence[Key]) -> dict[Key, float]:
        """What every match scores."""
        found = self._dataset.to_table(columns=["number", "_score"], full_text_query=query)
        pairs = zip(found["number"].to_pylist(), found["_score"].to_pylist(), strict=True)
        return {keys[number]: score for number, score in pairs}

    def close(self) -> None:
        self._directory.cleanup()


def scores(table: Searched, query: FullTextQuery) -> dict[Key, float]:
    """What the table's rows would score if they were all that was ever written."""
    if not table.rows.num_rows:
        return {}
    merged = MergedTable(table.rows, table.text, table.tokenizer)
    try:
        return merged.scores(query, table.keys_of(table.rows))
    finally:
        merged.close()


def found_text(draw: Draw, table: Searched, _: Recall) -> Question:
    """``lance_fts`` with whatever query."""
    arguments, query = draw(st.sampled_from(_KINDS))(draw, table)
    k = draw(st.sampled_from((1, 2, 3, 7, 1000)))
    prefilter = draw(st.integers(0, 3)) > 0
    condition = table.condition(draw)
    options = [f"k => {k}", *([] if prefilter else ["prefilter => false"])]
    where = "" if condition is None else f" WHERE {condition}"
    called = ", ".join([f"'{table.name}'", *arguments, *options])
    sql = f"SELECT {table.selected_key}, _score FROM lance_fts({called}){where} ORDER BY _score DESC"

    def judge(answer: pa.Table, context: str) -> None:
        satisfying = table.satisfying(condition)
        known = scores(table, query)
        if prefilter:
            known = {key: score for key, score in known.items() if key in satisfying}
        found = list(zip(table.keys_of(answer), answer["_score"].to_pylist(), strict=True))
        ranking = Ranking(known, SCORES, descending=True)
        ranking.check(found, k, context, kept=satisfying.__contains__)

    return Question(sql, judge)


Drawn = tuple[list[str], FullTextQuery]
"""The arguments that tell the column and the query, and the query as Lance has it."""


def _words(draw: Draw) -> str:
    return " ".join(draw(st.lists(st.sampled_from(TERMS), min_size=1, max_size=3)))


def _match(draw: Draw, table: Searched) -> Drawn:
    column, words = draw(st.sampled_from(table.text)), _words(draw)
    return [f"'{column}'", f"'{words}'"], MatchQuery(words, column)


def _every_word(draw: Draw, table: Searched) -> Drawn:
    column, words = draw(st.sampled_from(table.text)), _words(draw)
    query = MatchQuery(words, column, operator=FullTextOperator.AND)
    return [f"'{column}'", f"'{words}'", "operator => 'and'"], query


def _fuzzy(draw: Draw, table: Searched) -> Drawn:
    column, words = draw(st.sampled_from(table.text)), _words(draw)
    fuzziness, prefix = draw(st.integers(1, 2)), draw(st.integers(0, 2))
    query = MatchQuery(words, column, fuzziness=fuzziness, prefix_length=prefix)
    options = [f"fuzziness => {fuzziness}", f"prefix_length => {prefix}"]
    return [f"'{column}'", f"'{words}'", *options], query


def _phrase(draw: Draw, table: Searched) -> Drawn:
    column, words = draw(st.sampled_from(table.text)), draw(st.sampled_from(PHRASES))
    slop = draw(st.integers(0, 2))
    options = ["phrase => true", *([f"slop => {slop}"] if slop else [])]
    return [f"'{column}'", f"'{words}'", *options], PhraseQuery(words, column, slop=slop)


_KINDS: tuple[Callable[[Draw, Searched], Drawn], ...] = (_match, _match, _every_word, _fuzzy, _phrase)
