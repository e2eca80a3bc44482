"""Many documents at once have the terms that Lance's tokenizer makes of each of them."""

import random
from itertools import pairwise
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.execnodes.text.query.clauses import compute_edit_distances, find_near_terms
from lance_gateway.execnodes.text.query.tokenizer import TokenizedDocuments, Tokenizer
from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError

WORDS = (
    *(
        "the",
        "of",
        "and",
        "Running",
        "runs",
        "café",
        "naïve",
        "über",
        "Straße",
        "ΣΑΣ",
        "ﬁ",
        "日本語",
        "İ",
        "x²",
    ),
    *("don't", "e-mail", "3.14", "foo_bar", "getUserName", "parse_JSON2xml", "a+=b", "—", "…", "x\u200dy"),
    *("", "\t", "\n", "\x0b", "a\x1fb", "non\u00a0breaking", "qzxvjk", "x" * 41, "é" * 21),
)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"stem": False, "remove_stop_words": False},
    {"lower_case": False, "ascii_folding": False},
    {"language": "German"},
    {"max_token_length": 4},
    {"max_token_length": 1},
    {"custom_stop_words": ("runs", "qzxvjk")},
    {"base_tokenizer": "whitespace"},
    {"base_tokenizer": "raw"},
    {"base_tokenizer": "ngram"},
    {"base_tokenizer": "ngram", "prefix_only": True, "min_ngram_length": 2, "max_ngram_length": 5},
    {"base_tokenizer": "icu"},
    {"base_tokenizer": "icu/split"},
    {"base_tokenizer": "code", "split_identifiers": True, "preserve_original": True, "index_operators": True},
]
Words = list[tuple[str, int]]


def by_lance(text: str, options: dict[str, Any]) -> Words:
    """Terms, and positions counted from the first."""
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    return [(token.text, token.position) for token in lance.tokenize(text, **listed)]


def of_each(documents: TokenizedDocuments) -> list[Words]:
    """The same of every document."""
    terms = documents.vocabulary.take(pa.array(documents.terms)).to_pylist()
    words = list(zip(terms, documents.positions.tolist(), strict=True))
    bounds = documents.offsets.tolist()
    each = [words[start:stop] for start, stop in pairwise(bounds)]
    return [[(term, position - one[0][1]) for term, position in one] for one in each]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_documents_have_the_terms_and_positions_that_each_has_alone(options: dict[str, Any]) -> None:
    drawn = random.Random(4)
    joints = (" ", " ", " ", ", ", "—")
    # Lance takes a millisecond to make an ICU tokenizer, and each text alone needs one.
    rows = 25 if "icu" in options.get("base_tokenizer", "") else 120
    texts = [drawn.choice(joints).join(drawn.choices(WORDS, k=drawn.randint(0, 9))) for _ in range(rows)]
    made = Tokenizer(tuple(options.items())).tokenize(pa.array(texts))
    assert of_each(made) == [by_lance(text, options) for text in texts]
    assert made.lengths.tolist() == [*map(len, of_each(made))]


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(st.text(max_size=12), max_size=6), st.sampled_from(OPTIONS[:9]))
def test_any_text_has_the_terms_it_has_alone(texts: list[str], options: dict[str, Any]) -> None:
    made = Tokenizer(tuple(options.items())).tokenize(pa.array(texts, pa.string()))
    assert of_each(made) == [by_lance(text, options) for text in texts]


def test_texts_that_have_every_mark_are_tokenized_all_the_same() -> None:
    text = "qzxvjk jqxzwv x7q9z3 zq4wx6vk2 qjz x0 cats"
    made = Tokenizer().tokenize(pa.array([text, "dogs"]))
    assert of_each(made) == [by_lance(text, {}), [("dog", 0)]]


def test_removed_words_leave_gaps() -> None:
    assert of_each(Tokenizer().tokenize(pa.array(["state of the art"]))) == [[("state", 0), ("art", 3)]]


@pytest.mark.parametrize(
    "documents",
    [
        pa.array(["cats", None, "", "dogs run"]),
        pa.array(["cats", None, "", "dogs run"], pa.large_string()),
        pa.array(["cats", None, "", "dogs run"], pa.string_view()),
        pa.array(["cats", None, "", "dogs run"]).dictionary_encode(),
        pa.array(["mice", "cats", None, "", "dogs run", "mice"]).slice(1, 4),
        pa.chunked_array([["cats", None], [], ["", "dogs run"]]),
        pa.array([["cats"], None, [], ["dogs", None, "run"]]),
        pa.array([["cats"], None, [], ["dogs", None, "run"]], pa.large_list(pa.large_string())),
    ],
    ids=lambda documents: str(documents.type),
)
def test_texts_may_be_strings_of_any_layout_or_lists(documents: pa.Array | pa.ChunkedArray) -> None:
    made = Tokenizer().tokenize(documents)
    assert of_each(made) == [[("cat", 0)], [], [], [("dog", 0), ("run", 1)]]


def test_no_documents_have_no_terms() -> None:
    made = Tokenizer().tokenize(pa.array([], pa.string()))
    assert made.offsets.tolist() == [0]
    assert len(made.vocabulary) == len(made.terms) == 0


def test_numbers_are_no_texts() -> None:
    with pytest.raises(InvalidInputError, match="a column of type int64 has no text to search"):
        Tokenizer().tokenize(pa.array([1]))


def test_null_is_no_text_even_where_the_empty_text_is_a_term() -> None:
    raw = Tokenizer((("base_tokenizer", "raw"),))
    made = raw.tokenize(pa.array(["", None]))
    assert made.lengths.tolist() == [1, 0]
    assert raw.tokenize(pa.array(["x", None])).vocabulary.to_pylist() == ["x"]
    assert raw.tokenize(pa.array([["x", "y"], [], None])).lengths.tolist() == [1, 1, 1]


def test_a_query_knows_words_of_which_its_terms_are_made() -> None:
    terms = Tokenizer().terms("The café was Running, e-mail")
    assert [(term.text, term.surface) for term in terms] == [
        ("cafe", "café"),
        ("run", "Running"),
        ("e", "e"),
        ("mail", "mail"),
    ]
    for term in terms:
        assert [made.text for made in Tokenizer().terms(term.surface or "")] == [term.text]


def test_an_index_says_how_it_is_tokenized() -> None:
    details = {"base_tokenizer": "simple", "stem": False, "with_position": True, "custom_stop_words": ["cat"]}
    tokenizer = Tokenizer.of(details)
    assert tokenizer == Tokenizer.of(details | {"with_position": False})
    assert tokenizer != Tokenizer.of(details | {"stem": True})
    assert [term.text for term in tokenizer.terms("cat running")] == ["running"]
    assert Tokenizer.of(None) == Tokenizer()


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"lance_tokenizer": "json"}, "lance_tokenizer 'json' of a text index: only 'text' can be searched"),
        ({"document_granularity": "list_element"}, "document_granularity 'list_element'"),
        ({"base_tokenizer": "klingon"}, "the text index's tokenizer can't be made here: .*klingon"),
    ],
)
def test_tokenizers_that_can_not_be_repeated_are_refused(details: dict[str, str], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Tokenizer.of(details)


@pytest.mark.parametrize(
    ("word", "term", "edits"),
    [
        *(("abc", "abc", 0), ("abc", "abd", 1), ("abc", "ac", 1), ("abc", "abcd", 1), ("abc", "bca", 2)),
        *(
            ("abc", "", 3),
            ("", "abc", 3),
            ("", "", 0),
            ("日本語", "日語", 1),
            ("élan", "elan", 1),
            ("ab", "ba", 2),
        ),
    ],
)
def test_edits_insert_delete_or_replace_a_character(word: str, term: str, edits: int) -> None:
    assert compute_edit_distances(word, [term]).tolist() == [edits]
    assert compute_edit_distances(word, [term, "something long"])[0] == edits


def test_near_terms_keep_their_order_and_begin_alike() -> None:
    terms = ["abc", "abcd", "bbc", "xyz"]
    assert find_near_terms("abc", terms, 1, 0) == ["abc", "abcd", "bbc"]
    assert find_near_terms("abc", terms, 1, 1) == ["abc", "abcd"]
    assert find_near_terms("abc", terms, 1, 4) == ["abc", "abcd"]
    assert find_near_terms("abc", [], 1, 0) == []
