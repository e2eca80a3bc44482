"""Text queries of every kind, said in SQL, find what pylance finds."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import query as lance_queries

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, PreconditionError
from lance_gateway.planner.engine import QueryEngine

AND = lance_queries.FullTextOperator.AND
MUST, SHOULD, MUST_NOT = lance_queries.Occur.MUST, lance_queries.Occur.SHOULD, lance_queries.Occur.MUST_NOT
ROWS = [
    ("Streaming writes", "How rows are written in streams", "write"),
    ("Compaction", "Write amplification, and what compaction costs", None),
    ("Old: compaction", "Compaction as it was; write on", "x"),
    ("Rows", "Row by row, rows by rows", "row"),
    (None, "writing of the rows", "rows"),
]

Scores = dict[int, float]
Find = Callable[..., Scores]


def match(text: str, column: str = "body", **options: Any) -> lance_queries.MatchQuery:
    return lance_queries.MatchQuery(text, column, **options)


def phrase(text: str, slop: int = 0) -> lance_queries.PhraseQuery:
    return lance_queries.PhraseQuery(text, "body", slop=slop)


def scores(found: pa.Table) -> Scores:
    return dict(zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True))


def by_pylance(docs: lance.LanceDataset, query: lance_queries.FullTextQuery) -> Any:
    scanner = docs.scanner(columns=["id", "_score"], full_text_query=query)
    return pytest.approx(scores(scanner.to_table()), rel=1e-5, abs=1e-6)


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    titles, bodies, tags = zip(*ROWS, strict=True)
    rows = pa.table({"id": range(len(ROWS)), "title": titles, "body": bodies, "tag": tags})
    dataset = lance.write_dataset(rows, tmp_path_factory.mktemp("lake") / "docs.lance")
    dataset.create_scalar_index("title", "INVERTED")
    dataset.create_scalar_index("body", "INVERTED", with_position=True)
    return dataset


@pytest.fixture
def find(docs: lance.LanceDataset, open_engine: Callable[[Path], QueryEngine]) -> Find:
    engine = open_engine(Path(docs.uri).parent)

    def found(arguments: str, *values: Any) -> Scores:
        prepared = engine.prepare(f"SELECT id, _score FROM lance_fts('docs', {arguments})")
        return scores(prepared.execute([pa.scalar(value) for value in values]).read_all())

    return found


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ("'body', 'writing rows'", match("writing rows")),
        ("'body', 'writing rows', operator => 'and'", match("writing rows", operator=AND)),
        ("'body', 'writing rows', boost => 2.5", match("writing rows", boost=2.5)),
        ("'body', 'compactoin', fuzziness => 2", match("compactoin", fuzziness=2)),
        (
            "'body', 'compactoin', fuzziness => '2', prefix_length := 7",
            match("compactoin", fuzziness=2, prefix_length=7),
        ),
        (
            "'body', 'cist ros', fuzziness = 1, max_expansions = 1",
            match("cist ros", fuzziness=1, max_expansions=1),
        ),
        ("""'body', '"write amplification"'""", phrase("write amplification")),
        ("'body', 'row row', phrase => true", phrase("row row")),
        ("""'body', '"row rows"', slop => 2""", phrase("row rows", 2)),
        ("""'body', '"write amplification"', phrase => false""", match("write amplification")),
        ("['title', 'body'], 'rows'", lance_queries.MultiMatchQuery("rows", ["title", "body"])),
        ("'title', 'compaction'", match("compaction", "title")),
        ("'body', 'the of'", match("the of")),
    ],
)
def test_words_and_phrases(docs: lance.LanceDataset, find: Find, arguments: str, query: Any) -> None:
    assert find(arguments) == by_pylance(docs, query)


def test_a_score_is_the_sum_of_what_each_word_adds_whatever_the_condition(
    docs: lance.LanceDataset, open_engine: Callable[[Path], QueryEngine]
) -> None:
    engine = open_engine(Path(docs.uri).parent)
    words = "rows writing compaction streams"
    whole = scores(engine.execute(f"SELECT id, _score FROM lance_fts('docs', 'body', '{words}')").read_all())
    assert len(whole) == 5
    for id_, score in whole.items():
        added = 0.0
        for word in words.split():
            search = f"SELECT id, _score FROM lance_fts('docs', 'body', '{word}') WHERE id = {id_}"
            added += scores(engine.execute(search).read_all()).get(id_, 0.0)
        assert added == pytest.approx(score, rel=1e-5)


def test_plans_as_objects_tell_what_a_score_is_made_of(
    docs: lance.LanceDataset, open_engine: Callable[[Path], QueryEngine]
) -> None:
    engine = open_engine(Path(docs.uri).parent)
    search = "SELECT id FROM lance_fts('docs', 'body', 'compaction rows') WHERE id = 1"
    told = engine.execute(f"EXPLAIN ANALYZE FORMAT JSON {search}").read_all()["plan"][0].as_py()
    node = json.loads(told)["plan"]
    while "statistics" not in node["facts"]:
        (node,) = node["inputs"]
    found = node["facts"]["statistics"]["body"]
    with_rows = sum("row" in body.lower() for _, body, _ in ROWS)
    assert found["documents"] == len(ROWS)
    assert {term: of["documents"] for term, of in found["terms"].items()} == {"compact": 2, "row": with_rows}
    assert found["terms"]["compact"]["idf"] == pytest.approx(math.log(1 + 3.5 / 2.5))


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ({"match": {"terms": "rows", "column": "title"}}, match("rows", "title")),
        ({"phrase": {"terms": "row rows", "slop": 1}}, phrase("row rows", 1)),
        (
            {
                "boolean": {
                    "must": [{"match": {"terms": "compaction", "boost": 2.0}}],
                    "should": [{"phrase": {"terms": "write amplification"}}],
                    "must_not": [{"match": {"terms": "old", "column": "title"}}],
                }
            },
            lance_queries.BooleanQuery(
                [
                    (MUST, match("compaction", boost=2.0)),
                    (SHOULD, phrase("write amplification")),
                    (MUST_NOT, match("old", "title")),
                ]
            ),
        ),
        (
            {
                "boost": {
                    "positive": {"match": {"terms": "rows"}},
                    "negative": {"match": {"terms": "writing"}},
                }
            },
            lance_queries.BoostQuery(match("rows"), match("writing")),
        ),
        (
            {"multi_match": {"query": "rows write", "columns": ["title", "body"], "boost": [3, 1]}},
            lance_queries.MultiMatchQuery("rows write", ["title", "body"], boosts=[3.0, 1.0]),
        ),
        (
            {"combined_fields": {"query": "rows write", "columns": ["title", "body"], "operator": "And"}},
            lance_queries.CombinedFieldsQuery("rows write", ["title", "body"], operator=AND),
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_json_may_be_bound(docs: lance.LanceDataset, find: Find, said: dict[str, Any], query: Any) -> None:
    assert find("'body', $1", json.dumps(said)) == by_pylance(docs, query)
    assert find(f"'body', '{json.dumps(said)}'") == by_pylance(docs, query)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ("'body', ''", InvalidInputError, "there are no words to look for"),
        ("'body', 'x', fuzzines => 1", InvalidInputError, "fuzziness"),
        ("'body', 'x', operator => 'nor'", InvalidInputError, "operator must be 'and' or 'or', not 'nor'"),
        ("'body', '{x}'", InvalidInputError, "begins with { and so must be JSON"),
        ('\'body\', \'{"match": {"terms": "x", "column": "nowhere"}}\'', NotFoundError, "nowhere"),
        ('\'body\', \'{"match": {"terms": "x", "column": "id"}}\'', InvalidInputError, "is not text"),
        ("'tag', 'x'", LanceGatewayError, "text index"),
        ("'title', '\"old compaction\"'", PreconditionError, "rebuild it with with_position=True"),
    ],
)
def test_what_can_not_be_searched_is_refused(
    find: Find, arguments: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as refused:
        find(arguments)
    assert message in str(refused.value)
