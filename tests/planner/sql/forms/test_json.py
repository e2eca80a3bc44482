"""Functions and operators that read JSON; DuckDB is the judge."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

DOCUMENTS = [
    {"a": {"b": [1, 2.5, None, "x", {"c": True}]}, "k": "v", "n": None, "a b": 5},
    [1, 2, 3],
    "text",
    5,
    -1.5,
    None,
    True,
    {"é": "ü\n", "tags": ["x", "y"], "u": {"name": "Ann", "age": 7}},
]
T = pa.table({"id": pa.array(range(9), pa.int64()), "j": [*map(json.dumps, DOCUMENTS), None]})
STATEMENTS = (
    "SELECT id, j -> 'a' AS x, j->'a'->'b'->3 AS y, j -> 'a' -> 'b' ->> 3 AS z, j ->> 'k' AS k FROM t",
    "SELECT id, j->>'n' AS n, j->'n' AS m, t.j->-1 AS x, j->0 AS y FROM t",
    "SELECT id, json_extract(j, '$.a.b[0]') AS x, json_extract(j, '$.a.b[#-1].c') AS y FROM t",
    "SELECT id, json_extract(j, '/a/b/1') AS z, json_extract(j, '$.\"a b\"') AS v, j -> 'a b' AS w FROM t",
    "SELECT id, json_extract_string(j, '$.k') AS x, json_value(j, '$.u.age') AS y FROM t",
    "SELECT id, json_array_length(j) AS y, json_array_length(j, '$.tags') AS z, json_keys(j) AS k FROM t",
    "SELECT id, json_type(j) AS t, json_type(j, '$.u.age') AS u, json_extract(j, '$') AS w FROM t",
    "SELECT id FROM t WHERE j->>'k' = 'v' AND json_valid(j)",
    "SELECT json_valid('x') AS a, json_valid('{}') AS b, json_valid(NULL) AS d",
    "SELECT j->'u'->>'name' AS n, count(*) AS c FROM t GROUP BY j->'u'->>'name'",
    "SELECT (j -> 'u') ->> 'name' AS x, upper(j->'u'->>'name') AS y, (j->'u'->>'age') > '5' AS z FROM t",
    "SELECT id, j::JSON ->> 'k' AS x, j -> lower('U') ->> concat('na', 'me') AS y FROM t",
    "SELECT coalesce(j->>'k', 'none') AS x, CASE WHEN (j->>'k') = 'v' THEN 1 ELSE 0 END AS y FROM t",
    "SELECT id, (SELECT max(x.id) FROM t x WHERE (x.j->>'k') = (t.j->>'k')) AS m FROM t",
    "SELECT id, tag FROM t, UNNEST(json_keys(t.j)) AS u(tag)",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    root: Path = tmp_path_factory.mktemp("root")
    with open_judged(root, {"t": T}) as both:
        yield both


def test_answers_are_those_of_duckdb(judged: Judged) -> None:
    for statement in STATEMENTS:
        # DuckDB says JSON(..) of some types, which compare as texts.
        found = rows_of(judged.engine.execute(statement).read_all())
        expected = judged.judge.execute(statement.replace("json_value(j", "json_extract_string(j")).fetchall()
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), statement


def test_forms_of_postgres(judged: Judged) -> None:
    keys = "SELECT id, json_object_keys(j) AS k, json_typeof(j) AS t FROM t WHERE id IN (0, 7)"
    assert sorted(rows_of(judged.engine.execute(keys).read_all())) == [
        *((0, key, "object") for key in sorted(["a", "k", "n", "a b"])),
        *((7, key, "object") for key in ("tags", "u", "é")),
    ]
    query = judged.engine.prepare("SELECT json_typeof(j -> $1) FROM t WHERE id = 7")
    assert rows_of(query.execute([pa.scalar("tags")]).read_all()) == [("array",)]
    assert judged.engine.prepare("SELECT j->'k', id FROM t").schema.names == ["j->'k'", "id"]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT json_extract('{x', '$.a')", "json_extract: '{x' is not valid JSON"),
        (
            "SELECT id FROM t WHERE json_array_length('nope' || id) > 1",
            "'nope[0-9]' is not valid JSON .*json_valid",
        ),
        (
            "SELECT json_extract(j, '$.a[*]') FROM t",
            r"'\$.a\[\*\]' is not a path of JSON from its character 4 on",
        ),
        ("SELECT json_array_length(j, '$.a', 1) FROM t", "has 3 arguments here"),
    ],
)
def test_what_is_no_json_is_shown(judged: Judged, statement: str, said: str) -> None:
    with pytest.raises((InvalidInputError, LanceGatewayError), match=said):
        judged.engine.execute(statement).read_all()
