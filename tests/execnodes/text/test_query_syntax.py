"""Text queries as users write them: words with options, phrases in quotes, JSON."""

import json
from typing import Any

import pytest

from lance_gateway.execnodes.text.query.query import (
    MAX_DEPTH,
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    Operator,
    PhraseQuery,
    TextQuery,
    convert_to_lance_query,
)
from lance_gateway.execnodes.text.query.syntax import MAX_CHARACTERS, MAX_QUERIES, parse_text_query
from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError

PUPPY: dict[str, Any] = {"match": {"terms": "puppy"}}
NESTED: dict[str, Any] = PUPPY
for _ in range(MAX_DEPTH):
    NESTED = {"boolean": {"must": [NESTED]}}


def read(query: str | dict[str, Any], *columns: str, **options: object) -> TextQuery:
    text = query if isinstance(query, str) else json.dumps(query)
    return parse_text_query(columns or ("body",), text, options)


@pytest.mark.parametrize(
    ("query", "options", "meaning"),
    [
        ("happy puppy", {}, MatchQuery("happy puppy", "body")),
        ("happy puppy", {"operator": "and"}, MatchQuery("happy puppy", "body", Operator.AND)),
        ("puppy", {"fuzziness": 1}, MatchQuery("puppy", "body", fuzziness=1)),
        (
            "puppy",
            {"fuzziness": "2", "prefix_length": 3},
            MatchQuery("puppy", "body", fuzziness=2, prefix_length=3),
        ),
        ("puppy", {"fuzziness": "AUTO"}, MatchQuery("puppy", "body", fuzziness=None)),
        (
            "puppy",
            {"boost": 2, "max_expansions": 7},
            MatchQuery("puppy", "body", boost=2.0, max_expansions=7),
        ),
        ("puppy", {"operator": None, "slop": None}, MatchQuery("puppy", "body")),
        ('"happy puppy"', {}, PhraseQuery("happy puppy", "body")),
        (' "happy puppy" ', {"slop": 2}, PhraseQuery("happy puppy", "body", 2)),
        ("happy puppy", {"phrase": True, "slop": 1}, PhraseQuery("happy puppy", "body", 1)),
        ('"happy" puppy', {}, MatchQuery('"happy" puppy', "body")),
        ('"happy puppy"', {"phrase": False}, MatchQuery('"happy puppy"', "body")),
    ],
)
def test_words_and_phrases(query: str, options: dict[str, Any], meaning: TextQuery) -> None:
    assert read(query, **options) == meaning


def test_words_are_matched_in_several_columns() -> None:
    matches = (MatchQuery("puppy", "title", Operator.AND), MatchQuery("puppy", "body", Operator.AND))
    assert read("puppy", "title", "body", operator="and") == MultiMatchQuery(matches)


@pytest.mark.parametrize(
    ("query", "meaning"),
    [
        (PUPPY, MatchQuery("puppy", "body")),
        (
            {"match": {"terms": "puppy", "column": "title", "boost": 2.0, "fuzziness": 1, "operator": "And"}},
            MatchQuery("puppy", "title", Operator.AND, 2.0, 1),
        ),
        ({"match": {"terms": "puppy", "fuzziness": None}}, MatchQuery("puppy", "body")),
        ({"match": {"terms": "puppy", "document_granularity": "row"}}, MatchQuery("puppy", "body")),
        ({"phrase": {"terms": "happy puppy", "slop": 1}}, PhraseQuery("happy puppy", "body", 1)),
        (
            {"boost": {"positive": PUPPY, "negative": {"phrase": {"terms": "for sale"}}}},
            BoostQuery(MatchQuery("puppy", "body"), PhraseQuery("for sale", "body"), 0.5),
        ),
        (
            {"boolean": {"must": [PUPPY], "should": [PUPPY], "must_not": [{"boolean": {"should": [PUPPY]}}]}},
            BooleanQuery(
                (MatchQuery("puppy", "body"),),
                (MatchQuery("puppy", "body"),),
                (BooleanQuery(should=(MatchQuery("puppy", "body"),)),),
            ),
        ),
        (
            {
                "multi_match": {
                    "match_queries": [{"terms": "a", "column": "title"}, {"terms": "b", "boost": 3}]
                }
            },
            MultiMatchQuery((MatchQuery("a", "title"), MatchQuery("b", "body", boost=3.0))),
        ),
        (
            {"multi_match": {"query": "a", "columns": ["title", "body"], "boost": [1, 2]}},
            MultiMatchQuery.of("a", ("title", "body"), (1.0, 2.0)),
        ),
        (
            {"combined_fields": {"query": "a", "columns": ["title", "body"], "operator": "And"}},
            CombinedFieldsQuery("a", ("title", "body"), operator=Operator.AND),
        ),
    ],
    ids=str,
)
def test_json(query: dict[str, Any], meaning: TextQuery) -> None:
    assert read(query) == meaning


def test_json_without_columns_means_those_of_the_call() -> None:
    assert read({"boolean": {"must": [PUPPY]}}, "title", "body") == BooleanQuery(
        must=(MultiMatchQuery.of("puppy", ("title", "body")),)
    )
    assert read({"combined_fields": {"query": "a"}}, "title", "body").columns == ("title", "body")


def test_a_query_knows_all_columns_that_it_reads() -> None:
    query = read({"boolean": {"must": [PUPPY], "must_not": [{"match": {"terms": "x", "column": "title"}}]}})
    assert query.columns == ("body", "title")


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("", {}, "the text query: there are no words to look for"),
        (" \n", {}, "there are no words"),
        ('""', {}, "there are no words"),
        ("x" * (MAX_CHARACTERS + 1), {}, "has 100001 characters, and 100000 are the most"),
        ("x", {"bost": 2}, "'bost' is unknown here; did you mean boost?"),
        ("x", {"operator": "xor"}, "operator must be 'and' or 'or', not 'xor'"),
        ("x", {"fuzziness": 3}, "fuzziness must be 0, 1, 2 or 'auto', not 3"),
        ("x", {"fuzziness": True}, "fuzziness must be 0, 1, 2 or 'auto', not True"),
        ("x", {"max_expansions": 0}, "max_expansions 0: a whole number from 1 to 1000 is needed"),
        ("x", {"prefix_length": -1}, "prefix_length -1"),
        ("x", {"prefix_length": "a"}, "prefix_length must be a whole number, not 'a'"),
        ("x", {"boost": -1.0}, "boost -1.0: a number from 0"),
        ("x", {"boost": float("nan")}, "boost nan: a number from 0"),
        ("x", {"boost": True}, "boost must be a number, not True"),
        ("x", {"phrase": "yes"}, "phrase must be true or false, not 'yes'"),
        ("x", {"slop": 1}, "slop goes with phrases only: phrase => true makes the query one"),
        ('"x y"', {"operator": "and"}, "operator doesn't go with phrases"),
        ('"x y"', {"slop": -1}, "slop -1: a whole number from 0"),
        (json.dumps(PUPPY), {"boost": 2.0}, "boost must be given within the JSON if the query is JSON"),
        ("{puppy}", {}, "begins with { and so must be JSON, but it isn't"),
        ('{"match": {"terms": "x", "boost": NaN}}', {}, "JSON has NaN, which is not a number"),
        ('{"match": {"terms": "x", "boost": 1e999}}', {}, "boost inf"),
        ('{"boolean": ' * 5_000, {}, "begins with { and so must be JSON, but it isn't"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_can_not_be_meant_is_refused(query: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read(query, **options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"mach": {}}, "the text query: a query of kind 'mach' is unknown; did you mean match?"),
        ({"term": {}}, "it must be one of match, phrase, multi_match, combined_fields, boolean, boost"),
        ({"match": {}, "phrase": {}}, "a query is a JSON object with one name, its kind"),
        ({"match": "puppy"}, "the text query, match: a JSON object is needed here, not 'puppy'"),
        ({"match": {}}, "the text query, match: terms must be a text"),
        ({"match": {"terms": " "}}, "the text query, match: there are no words to look for"),
        ({"match": {"terms": "x", "collumn": "y"}}, "'collumn' is unknown here; did you mean column?"),
        ({"match": {"terms": "x", "column": 1}}, "column must be a text, not 1"),
        ({"match": {"terms": "x", "column": ""}}, "a text query needs the name of a column"),
        ({"match": {"terms": "x", "document_granularity": "list_element"}}, "'list_element' isn't supported"),
        ({"phrase": {"terms": "x", "boost": 2}}, "the text query, phrase: 'boost' is unknown here"),
        ({"boolean": {}}, "needs a query under must or should"),
        ({"boolean": {"must_not": [PUPPY]}}, "needs a query under must or should"),
        ({"boolean": {"must": PUPPY}}, "the text query, boolean: must must be a list"),
        ({"boolean": {"must": [PUPPY, {"phrase": {}}]}}, "the text query, boolean.must[1], phrase: terms"),
        ({"boost": {"positive": PUPPY}}, "the text query, boost.negative: a query is a JSON object"),
        ({"boost": {"positive": PUPPY, "negative": PUPPY, "negative_boost": -1}}, "negative_boost -1.0"),
        ({"multi_match": {"match_queries": []}}, "a multi-match needs the match of at least one column"),
        ({"multi_match": {"match_queries": [1]}}, "multi_match.match_queries[0]: a JSON object is needed"),
        ({"multi_match": {"query": "x", "columns": ["a", 1]}}, "columns must be a list of texts"),
        ({"multi_match": {"query": "x", "columns": ["a", "a"]}}, "names each column once"),
        ({"multi_match": {"query": "x", "columns": ["a"], "boost": [1, 2]}}, "2 boosts for 1 columns"),
        ({"combined_fields": {"query": "x", "boost": [0.5]}}, "boost 0.5 of combined fields"),
        (NESTED, f"nested {MAX_DEPTH} deep, are the most"),
        (
            {"boolean": {"must": [PUPPY] * MAX_QUERIES}},
            f"too many queries within a text query: {MAX_QUERIES}",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_json_that_can_not_be_meant_is_refused(query: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read(query)
    assert message in str(refused.value)


def test_a_phrase_is_looked_for_in_one_column() -> None:
    with pytest.raises(InvalidInputError, match="one column, and there are 2: title, body"):
        read('"happy puppy"', "title", "body")


def test_pylance_can_not_say_every_multi_match() -> None:
    different = MultiMatchQuery((MatchQuery("a", "title"), MatchQuery("b", "body")))
    with pytest.raises(UnsupportedError, match="the same plain words in each column"):
        convert_to_lance_query(different)
