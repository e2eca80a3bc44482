"""Terms of an index are read as Lance has stored them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_gateway.execnodes.text.documents.column_documents import TermDictionary
from lance_gateway.execnodes.text.query.clauses import find_near_terms
from lance_gateway.execnodes.text.query.query import MatchQuery
from tests.planner.search.texts.text_history import Layer, TextHistory, assert_same_ranking, lance_ranking

AS_WRITTEN = {"lower_case": False, "stem": False, "remove_stop_words": False, "ascii_folding": False}


def dictionary(path: Path, words: list[str]) -> TermDictionary:
    """As Lance writes it."""
    dataset: Any = lance.write_dataset(pa.table({"body": [" ".join(words)]}), path, mode="overwrite")
    dataset.create_scalar_index("body", "INVERTED", base_tokenizer="whitespace", **AS_WRITTEN)
    (index,) = lance.dataset(path).describe_indices()
    session = dataset.new_file_session()
    (name,) = (one for one in session.list(f"_indices/{index.segments[0].uuid}") if "tokens" in one)
    stored = session.open_reader(name).read_all().to_table()
    return TermDictionary(stored.column("_token_fst_bytes")[0].as_py())


letters = st.sampled_from([*"abcdefghijklmnopqrstuvwxyzABCDEF0123456789-+*/%&", "ß", "é", "日", "本", "😀"])
words = st.text(letters, min_size=1, max_size=7)


@settings(derandomize=True, max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(words, min_size=1, max_size=120, unique=True), words, st.integers(1, 2), st.integers(0, 3))
def test_near_terms_are_those_of_all_terms(
    tmp_path: Path, terms: list[str], word: str, edits: int, prefix_length: int
):
    found = dictionary(tmp_path / "words", terms)
    everything = sorted(terms, key=str.encode)
    assert list(found.near("", 40, 0)) == everything
    assert list(found.near(word, edits, prefix_length)) == find_near_terms(
        word, everything, edits, prefix_length
    )


def test_another_version_is_refused():
    with pytest.raises(ValueError, match="version 9 of a term dictionary is unknown"):
        TermDictionary((9).to_bytes(8, "little") + bytes(24))


def test_terms_that_are_stored_otherwise_are_read_from_the_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def unreadable(_: TermDictionary) -> None:
        raise ValueError("a version to come")

    history = TextHistory(tmp_path)
    history.add(Layer([(1, ("alpha beta",)), (2, ("alpho",))]))
    history.add(Layer([(2, ("alphi gamma",))], "tail"))
    query = MatchQuery("alpha", "body", fuzziness=1)
    monkeypatch.setattr(TermDictionary, "__post_init__", unreadable)
    assert_same_ranking(history.search(query), lance_ranking(history.merged(), query), 10)
