"""Text searches drawn at random, judged by one Lance table of the same rows that was indexed a moment ago."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from hypothesis import strategies as st
from lance.query import (
    BooleanQuery,
    BoostQuery,
    FullTextOperator,
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)

from tests.oracle.answers.predicates import Draw
from tests.oracle.answers.ranked import SCORES, Key, Ranking
from tests.oracle.answers.searched import Question, Searched
from tests.oracle.answers.vector_answers import Recall

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
    if draw(st.booleans()):
        options.append("catch_up => 'always'")
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


def words(draw: Draw) -> str:
    """A few terms, some of them stop words or nowhere to be found."""
    return " ".join(draw(st.lists(st.sampled_from(TERMS), min_size=1, max_size=3)))


def _match(draw: Draw, table: Searched) -> Drawn:
    column, text = draw(st.sampled_from(table.text)), words(draw)
    return [f"'{column}'", f"'{text}'"], MatchQuery(text, column)


def _every_word(draw: Draw, table: Searched) -> Drawn:
    column, text = draw(st.sampled_from(table.text)), words(draw)
    query = MatchQuery(text, column, operator=FullTextOperator.AND)
    return [f"'{column}'", f"'{text}'", "operator => 'and'"], query


def _fuzzy(draw: Draw, table: Searched) -> Drawn:
    column, text = draw(st.sampled_from(table.text)), words(draw)
    fuzziness, prefix = draw(st.integers(1, 2)), draw(st.integers(0, 2))
    query = MatchQuery(text, column, fuzziness=fuzziness, prefix_length=prefix)
    options = [f"fuzziness => {fuzziness}", f"prefix_length => {prefix}"]
    return [f"'{column}'", f"'{text}'", *options], query


def _phrase(draw: Draw, table: Searched) -> Drawn:
    column, text = draw(st.sampled_from(table.text)), draw(st.sampled_from(PHRASES))
    slop = draw(st.integers(0, 2))
    options = ["phrase => true", *([f"slop => {slop}"] if slop else [])]
    return [f"'{column}'", f"'{text}'", *options], PhraseQuery(text, column, slop=slop)


def _json(query: Mapping[str, Any]) -> str:
    return "'" + json.dumps(query) + "'"


def _boolean(draw: Draw, table: Searched) -> Drawn:
    column, other = (draw(st.sampled_from(table.text)) for _ in range(2))
    parts = [
        (draw(st.sampled_from((Occur.MUST, Occur.SHOULD, Occur.SHOULD, Occur.MUST_NOT))), words(draw), where)
        for where in draw(st.lists(st.sampled_from((column, other)), max_size=2))
    ]
    parts.append((draw(st.sampled_from((Occur.MUST, Occur.SHOULD))), words(draw), column))
    written = {
        occur.value.lower(): [
            {"match": {"terms": text, "column": where}} for one, text, where in parts if one is occur
        ]
        for occur in Occur
    }
    query = BooleanQuery([(occur, MatchQuery(text, where)) for occur, text, where in parts])
    return [f"'{column}'", _json({"boolean": {name: some for name, some in written.items() if some}})], query


def _boost(draw: Draw, table: Searched) -> Drawn:
    column, good, bad = draw(st.sampled_from(table.text)), words(draw), words(draw)
    share = draw(st.sampled_from((0.0, 0.5, 2.0)))
    query = BoostQuery(MatchQuery(good, column), MatchQuery(bad, column), negative_boost=share)
    written = {
        "positive": {"match": {"terms": good}},
        "negative": {"match": {"terms": bad}},
        "negative_boost": share,
    }
    return [f"'{column}'", _json({"boost": written})], query


def _several_columns(draw: Draw, table: Searched) -> Drawn:
    text, operator = words(draw), draw(st.sampled_from(FullTextOperator))
    boosts = draw(st.sampled_from(([1.0, 1.0], [2.0, 0.5])))
    query = MultiMatchQuery(text, list(table.text), boosts=boosts, operator=operator)
    written = {"query": text, "columns": list(table.text), "boost": boosts, "operator": operator.value}
    return [f"'{table.text[0]}'", _json({"multi_match": written})], query


_KINDS: tuple[Callable[[Draw, Searched], Drawn], ...] = (
    _match,
    _match,
    _every_word,
    _fuzzy,
    _phrase,
    _boolean,
    _boost,
    _several_columns,
)
