"""What is known of matches before they are scored: which documents may match, and how high any can score."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.execnodes.text.bm25 import Scored, find_indices, intersection, union
from lance_gateway.execnodes.text.query.clauses import Clause, analyze
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
from lance_gateway.execnodes.text.query.tokenizer import Tokenizer
from lance_gateway.execnodes.text.scoring.scores import compute_bound, find_candidates

DOCUMENTS = {
    ("title", "cat"): [0, 2],
    ("title", "dog"): [2, 5],
    ("body", "cat"): [0, 1],
    ("body", "dog"): [1, 3, 9],
    ("body", "fox"): [9],
}
BOUNDS = {"title": {"cat": 1.0, "dog": 3.0}, "body": {"cat": 2.0, "dog": 1.0, "fox": 4.0}}


def body(text: str, operator: Operator = Operator.OR, boost: float = 1.0) -> MatchQuery:
    return MatchQuery(text, "body", operator, boost)


def clause(query: TextQuery) -> Clause:
    return analyze(query, dict.fromkeys(("title", "body"), Tokenizer()))


@pytest.mark.parametrize(
    ("query", "documents", "highest"),
    [
        (body("cats dogs"), [0, 1, 3, 9], 3.0),
        (body("cats dogs", Operator.AND), [1], 3.0),
        (body("cats birds", Operator.AND), [], 2.0),
        (body("birds"), [], 0.0),
        (body("the"), [], 0.0),
        (body("the", Operator.AND), [], 0.0),
        (body("dogs dogs", boost=2.5), [1, 3, 9], 5.0),
        (PhraseQuery("dogs and foxes", "body"), [9], 5.0),
        (MultiMatchQuery.of("cats dogs", ("title", "body"), (1.0, 2.0)), [0, 1, 2, 3, 5, 9], 6.0),
        (CombinedFieldsQuery("cats dogs", ("title", "body")), [0, 1, 2, 3, 5, 9], None),
        (CombinedFieldsQuery("cats dogs", ("title", "body"), operator=Operator.AND), [1, 2], None),
        (BooleanQuery(must=(body("cats"), body("dogs")), should=(body("fox"),)), [1], 7.0),
        (BooleanQuery(should=(body("cats"), body("dogs")), must_not=(body("fox"),)), [0, 1, 3, 9], 3.0),
        (BooleanQuery(must=(CombinedFieldsQuery("cats", ("title",)),)), [0, 2], None),
        (BoostQuery(body("cats"), body("dogs")), [0, 1], None),
        (BoostQuery(body("cats"), body("dogs"), negative_boost=0.0), [0, 1], 2.0),
    ],
    ids=repr,
)
def test_candidates_and_bounds(query: TextQuery, documents: list[int], highest: float | None) -> None:
    found = find_candidates(clause(query), lambda *term: np.array(DOCUMENTS.get(term, []), np.int64))
    assert found.tolist() == documents
    assert compute_bound(clause(query), BOUNDS) == highest


def test_fuzzy_words_are_expanded_before_anything_else() -> None:
    fuzzy = BooleanQuery(must=(MatchQuery("cst dgo", "body", fuzziness=1), body("fox")))
    with pytest.raises(TypeError, match="fuzzy clauses are expanded first"):
        compute_bound(clause(fuzzy), BOUNDS)
    expanded = clause(fuzzy).expand(lambda words: words.replace_words(["cat", "coats", "dog", "fox"]))
    assert set(expanded.terms["body"]) == {"cat", "fox"}
    assert compute_bound(expanded, BOUNDS) == 6.0


def test_expansions_are_shared_by_the_words_in_their_order() -> None:
    [fuzzy] = clause(MatchQuery("cat dog", "body", fuzziness=1, max_expansions=3)).fuzzy
    terms = ["dot", "cut", "bat", "dog", "cat", "cats"]
    expansions = fuzzy.replace_words(terms).groups
    assert [[term.text for term in group] for group in expansions] == [["bat", "cat", "cats"]]


def numbers() -> st.SearchStrategy[np.ndarray]:
    """Ascending numbers, near to each other or far apart."""
    dense, sparse = st.integers(0, 30), st.integers(0, 10**9)
    sets = st.sets(dense, max_size=20) | st.sets(sparse, max_size=5) | st.sets(dense | sparse, max_size=9)
    return sets.map(lambda chosen: np.array(sorted(chosen), np.int64))


@settings(derandomize=True, max_examples=40)
@given(numbers(), numbers())
def test_sets_of_documents_combine_as_sets_do(one: np.ndarray, other: np.ndarray) -> None:
    first, second = set(one.tolist()), set(other.tolist())
    assert union((one, other)).tolist() == sorted(first | second)
    assert intersection((one, other)).tolist() == sorted(first & second)
    assert find_indices(one, other).tolist() == [
        one.tolist().index(number) if number in first else -1 for number in other.tolist()
    ]


@settings(derandomize=True, max_examples=40)
@given(numbers(), numbers())
def test_scores_combine_document_by_document(one: np.ndarray, other: np.ndarray) -> None:
    mine, others = (dict.fromkeys(part.tolist(), score) for part, score in ((one, 1.0), (other, 2.0)))
    first, second = Scored(one, np.full(len(one), 1.0)), Scored(other, np.full(len(other), 2.0))

    def combined(found: Scored, keys: set[int], of: Callable[[list[float]], float]) -> None:
        expected = {key: of([part[key] for part in (mine, others) if key in part]) for key in keys}
        assert dict(zip(found.documents.tolist(), found.scores.tolist(), strict=True)) == expected
        assert found.documents.tolist() == sorted(keys)

    combined(first.both(second), mine.keys() & others.keys(), sum)
    combined(first.either(second), mine.keys() | others.keys(), sum)
    combined(first.best(second), mine.keys() | others.keys(), max)
    combined(first.add_scores(second), set(mine), sum)
    combined(first.without(other), mine.keys() - others.keys(), sum)
    assert first.times(1.0).scores.tolist() == [1.0] * len(one)
    assert first.times(2.0).scores.tolist() == [2.0] * len(one)


def test_no_sets_have_nothing_in_common() -> None:
    assert union(()).tolist() == intersection(()).tolist() == []
