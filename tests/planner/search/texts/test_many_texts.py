"""Tables so large that searches stop before they have seen every match, and rank as one table does."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lance.query import FullTextOperator, FullTextQuery, MatchQuery, PhraseQuery

from lance_gateway.planner.engine import QueryEngine
from tests.oracle.answers.ranked import SCORES, Ranking
from tests.oracle.answers.text_answers import MergedTable
from tests.planner.search.sources.replayed import TOKENIZER, ReplayedTable, asking
from tests.support.lake.tables import Row
from tests.support.processes.writer_process import WriterProcess

WORDS = [f"w{number}" for number in range(400)]
SHARES = (1 / np.arange(1, 401)) / (1 / np.arange(1, 401)).sum()
"""Few words are in most texts, most words in few."""
QUERIES: dict[str, tuple[str, Callable[[str], FullTextQuery]]] = {
    "any": ("", lambda text: MatchQuery(text, "txt")),
    "all": ("operator => 'and'", lambda text: MatchQuery(text, "txt", operator=FullTextOperator.AND)),
    "fuzzy": ("fuzziness => 1", lambda text: MatchQuery(text, "txt", fuzziness=1)),
    "phrase": ("phrase => true", lambda text: PhraseQuery(text, "txt")),
}


def drawn(source: np.random.Generator, ids: np.ndarray, shift: int = 0) -> list[Row]:
    """Texts of the words, which have other shares after a shift."""
    rows = []
    for number in ids.tolist():
        numbers = (source.choice(400, source.integers(0, 25), p=SHARES) + shift) % 400
        rows.append({"id": number, "txt": " ".join(WORDS[one] for one in numbers), "n": number % 10})
    return rows


@pytest.mark.slow
@pytest.mark.soak
def test_the_best_of_many_matches_are_those_of_one_table(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
):
    source = np.random.default_rng(1)
    table = ReplayedTable(root, writers, drawn(source, np.arange(20_000)), max_memtable_rows=3000)
    table.index_texts()
    for number in range(3):
        table.put(*drawn(source, source.choice(25_000, 1500, replace=False), shift=3 * number))
        table.delete(*({"id": one} for one in source.choice(20_000, 200, replace=False).tolist()))
        table.flush()
    table.merge(up_to=1)
    table.put(*drawn(source, source.choice(25_000, 700, replace=False)))
    ask, searched = asking(open_engine(root)), table.searched()
    merged, keys = MergedTable(searched.rows, ("txt",), TOKENIZER), searched.keys_of(searched.rows)
    for number in range(40):
        options, query = list(QUERIES.values())[number % len(QUERIES)]
        words = source.choice(400, source.integers(1, 5), p=SHARES if number % 3 else None)
        text, k = " ".join(WORDS[one] for one in words), int(source.choice([1, 10, 10, 100, 1000]))
        known = merged.scores(query(text), keys)
        where = "n = 3" if number % 5 == 0 else None
        if where is not None:
            known = {key: score for key, score in known.items() if table.rows[key]["n"] == 3}
        answer = ask(table.matching(text, k, options=options, where=where))
        found = zip(zip(answer["id"].to_pylist(), strict=True), answer["_score"].to_pylist(), strict=True)
        Ranking(known, SCORES, descending=True).check(list(found), k, f"{text} {options} {where} k={k}")
    merged.close()
