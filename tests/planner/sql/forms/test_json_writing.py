"""Functions that write and change JSON; DuckDB is the judge where it has them."""

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

DAY = dt.date(2026, 1, 31)
T = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "a": pa.array([1.5, None, 2.0, 1e22]),
        "s": ["x", 'y"q\n', None, "x"],
        "st": pa.array([{"q": 1, "r": ["u", None]}, None, {"q": 2, "r": []}, {"q": None, "r": None}]),
        "l": pa.array([[1, 2], None, [], [None]], pa.list_(pa.int64())),
        "d": pa.array([DAY, None, DAY, DAY]),
        "n": pa.array([Decimal("1.50"), None, Decimal("-2.00"), None], pa.decimal128(10, 2)),
        "j": ['{"a":1,"b":[1,2]}', "[1,2]", None, "nope"],
    }
)
JUDGED = (
    "SELECT to_json(id), to_json(a), to_json(s), to_json(st), to_json(l), to_json(d) FROM t",
    "SELECT json_object('id', id, 'a', a, s || '', s, 'st', st, 'l', l) FROM t WHERE s IS NOT NULL",
    "SELECT json_object('k', json_array(1, json_object('b', true)), 'j', to_json(json_array('x'))) AS x",
    "SELECT json_group_object('k' || id, s) AS x FROM t WHERE id > 0",
    "SELECT to_json(s) AS k, count(*) AS c FROM t GROUP BY to_json(s)",
    "SELECT to_json(x) AS x FROM (SELECT id AS x FROM t UNION ALL SELECT 2.5)",
    "SELECT to_json(id), to_json(id), to_json(a) FROM t",
    "SELECT to_json((st).q) AS x, to_json((t.st).r) AS y FROM t",
    "SELECT id FROM t WHERE to_json(l) = '[1,2]' OR length(to_json(st)) > 19",
    "SELECT x.id FROM t x JOIN t y ON to_json(x.id) = to_json(y.id)",
    "SELECT x.id FROM t x SEMI JOIN (SELECT id AS k, s FROM t) y ON to_json(x.id) = to_json(y.k)",
    "SELECT x.id FROM t x ANTI JOIN t y ON x.id = y.id AND to_json(y.s) = '\"x\"'",
    "SELECT id FROM t WHERE id > 0 ORDER BY to_json(id) DESC",
    "SELECT id, sum(id) OVER (PARTITION BY to_json(s) ORDER BY to_json(id)) AS x FROM t WHERE id > 0",
    (
        "SELECT to_json(x) AS x, (SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY to_json(x)) AS n "
        "FROM (SELECT s AS x FROM t))) AS n FROM (SELECT id AS x FROM t)"
    ),
    "SELECT to_json(x) AS x FROM (SELECT id AS x FROM t) UNION ALL SELECT to_json(s) FROM t",
    'SELECT json_merge_patch(\'{"a":1,"b":{"c":2}}\', \'{"a":null,"b":{"d":[3]}}\') AS x',
    "SELECT id, json_merge_patch(j, '{\"a\":2}', '{\"c\":null}') AS x FROM t WHERE json_valid(j)",
    "WITH q AS (SELECT to_json(st) AS w FROM t) SELECT json_type(w) AS x, w ->> 'q' AS y FROM q",
    "WITH q AS (SELECT to_json(id) AS w FROM t), r AS (SELECT w, to_json(w) AS v FROM q) SELECT id FROM t",
    (
        "WITH q AS (SELECT id AS v FROM t), r AS (SELECT v AS w FROM q), "
        "s AS (SELECT to_json(w) AS x FROM r) SELECT x FROM s"
    ),
    "WITH r AS (SELECT to_json(s) AS w, count(*) FROM t GROUP BY to_json(s)) SELECT id FROM t",
    "WITH s AS (SELECT to_json(id) AS w FROM t) SELECT s AS x FROM t",
    "SELECT max(s) FILTER (WHERE to_json(id) = '1') AS x, array_agg(id ORDER BY to_json(s), id) AS y FROM t",
    "WITH r AS (SELECT max(id) FILTER (WHERE to_json(s) = '1') AS m FROM t) SELECT id FROM t",
)
AS_LISTS = (
    "SELECT s, {}id ORDER BY id{} AS x FROM t GROUP BY s",
    "SELECT id, {}id{} OVER (PARTITION BY s ORDER BY id) AS x FROM t WHERE id > 0",
    "SELECT {}id ORDER BY id{} FILTER (WHERE id > 1) AS x FROM t",
    "SELECT id, (SELECT {}u.id ORDER BY u.id{} FROM t u WHERE u.id < t.id) AS x FROM t",
)
"""Aggregates, whose DuckDB spelling is of lists."""
WRITTEN: tuple[tuple[str, Any], ...] = (
    ("json_object('a': 1, 'b' VALUE 'x', KEY 'c' VALUE NULL)", {"a": 1, "b": "x", "c": None}),
    ("json_object('a': 1, 'b': NULL ABSENT ON NULL RETURNING JSON)", {"a": 1}),
    ("json_object('a': '[1]', 'b': '[1]' FORMAT JSON)", {"a": "[1]", "b": [1]}),
    ("json_object('c': CAST('[1]' AS JSON))", {"c": [1]}),
    ("json_object('a': '[1]'::jsonb, 'b': JSON '[1]' WITHOUT UNIQUE KEYS)", {"a": [1], "b": [1]}),
    ("json_object()", {}),
    ("json_array()", []),
    ("json_array(1, NULL, 'x')", [1, "x"]),
    ("json_array(1, NULL, 'x' NULL ON NULL)", [1, None, "x"]),
    ("json_array('{\"a\":1}'::json -> 'a', (json_array(2)))", [1, [2]]),
    ("json_build_array(1, NULL, ARRAY[1.5, 2])", [1, None, [1.5, 2.0]]),
    ("json_build_object('a', {'b': [1], 'c': X'01ff'})", {"a": {"b": [1], "c": "\\x01ff"}}),
    ("json_build_object(2, NULL)", {"2": None}),
    ("jsonb_build_object('at', TIMESTAMP '2026-01-31 12:00:00.50')", {"at": "2026-01-31T12:00:00.5"}),
    ("json_array(TIME '10:30', DATE '2026-01-31', true)", ["10:30:00", "2026-01-31", True]),
    ("json_array(CAST(1.50 AS DECIMAL(5, 2)))", [1.5]),
    ("json_array(CAST('NaN' AS DOUBLE), -CAST('Infinity' AS DOUBLE))", ["NaN", "-Infinity"]),
    ("json_set('{\"a\":[1]}', '$.a[0]', 5, '$.c', NULL)", {"a": [5], "c": None}),
    ("json_set('{}', '$.b', 'x', '$.d', json_array(1))", {"b": "x", "d": [1]}),
    ("json_set('{\"a\":[1]}', '$.a[7]', 2, '$.x.y', 3)", {"a": [1, 2]}),
    ("json_set('[1]', '$', 'x')", "x"),
    ("json_insert('{\"a\":1}', '$.a', 2, '$.b', 3)", {"a": 1, "b": 3}),
    ("json_replace('{\"a\":1}', '$.a', 2, '$.b', 3)", {"a": 2}),
    ("json_remove('{\"a\":1,\"b\":[1,2]}', '$.a', '$.b[#-1]', '$.c')", {"b": [1]}),
    ("jsonb_set('{\"a\":[1,2]}', '{a,-1}', '\"x\"')", {"a": [1, "x"]}),
    ("jsonb_set('{\"a\":1}', '{b}', '2', false)", {"a": 1}),
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    root: Path = tmp_path_factory.mktemp("root")
    with open_judged(root, {"t": T}) as both:
        yield both


def test_answers_are_those_of_duckdb(judged: Judged) -> None:
    pairs = [(one, one) for one in JUDGED]
    pairs += [(one.format("json_agg(", ")"), one.format("list(", ")")) for one in AS_LISTS]
    for statement, spelled in pairs:
        found = rows_of(judged.engine.execute(statement).read_all())
        expected = judged.judge.execute(spelled).fetchall()
        assert sorted(map(_normalize, found), key=repr) == sorted(map(_normalize, expected), key=repr), (
            statement
        )


def _normalize(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Texts of JSON are compared by their values, since engines write numbers unalike."""
    return tuple(
        json.loads(one) if isinstance(one, str) and one[:1] in '{["0123456789' else one for one in row
    )


@pytest.mark.parametrize(("expression", "value"), WRITTEN)
def test_values_are_written(judged: Judged, expression: str, value: Any) -> None:
    ((found,),) = rows_of(judged.engine.execute(f"SELECT {expression}").read_all())
    assert json.loads(found) == value


def test_aggregates_leave_null_out_as_the_standard_does(judged: Judged) -> None:
    query = (
        "SELECT json_arrayagg(s ORDER BY id), json_arrayagg(s ORDER BY id NULL ON NULL), "
        "json_agg(s ORDER BY id), json_objectagg(coalesce(id, 0): s ORDER BY id), "
        "json_objectagg(coalesce(id, 0) VALUE s ORDER BY id ABSENT ON NULL), json_agg(DISTINCT d) "
        "FILTER (WHERE d IS NOT NULL) FROM t"
    )
    ((*found,),) = rows_of(judged.engine.execute(query).read_all())
    q = 'y"q\n'
    assert [json.loads(one) for one in found] == [
        ["x", q, "x"],
        ["x", q, None, "x"],
        ["x", q, None, "x"],
        {"1": "x", "2": q, "3": None, "0": "x"},
        {"1": "x", "2": q, "0": "x"},
        ["2026-01-31"],
    ]
    nothing = "SELECT json_arrayagg(id), json_agg(id), json_object_agg(s, id) FROM t WHERE id > 9"
    assert rows_of(judged.engine.execute(nothing).read_all()) == [(None, None, None)]
    only_null = "SELECT json_arrayagg(id) FROM t WHERE id IS NULL"
    assert rows_of(judged.engine.execute(only_null).read_all()) == [("[]",)]
    inner = (
        "SELECT id, (SELECT json_arrayagg(u.s) FROM t u WHERE u.id > t.id) FROM t WHERE id > 0 ORDER BY id"
    )
    assert rows_of(judged.engine.execute(inner).read_all()) == [(1, '["y\\"q\\n"]'), (2, "[]"), (3, None)]


def test_casts_and_tests(judged: Judged) -> None:
    query = (
        "SELECT TRY_CAST(j AS JSON), j IS JSON, j IS NOT JSON OBJECT, j IS JSON ARRAY WITHOUT UNIQUE KEYS, "
        "j IS JSON SCALAR, CAST(l AS JSON), id::json FROM t ORDER BY id NULLS LAST"
    )
    answer = judged.engine.execute(query).read_all()
    assert answer.column_names == [
        *("j", "j IS JSON", "j IS NOT JSON OBJECT", "j IS JSON ARRAY WITHOUT UNIQUE KEYS"),
        *("j IS JSON SCALAR", "l", "id"),
    ]
    assert rows_of(answer) == [
        ('{"a":1,"b":[1,2]}', True, False, False, False, "[1,2]", "1"),
        ("[1,2]", True, True, True, False, None, "2"),
        (None, None, None, None, None, "[]", "3"),
        (None, False, True, False, False, "[null]", None),
    ]
    joined = "SELECT id FROM t WHERE '[' || id || ']' IS JSON ARRAY AND '[' || s IS NOT JSON"
    assert rows_of(judged.engine.execute(joined).read_all()) == [(1,), (2,)]
    kept = "SELECT id FROM t WHERE j IS JSON AND NOT j IS JSON ARRAY"
    assert rows_of(judged.engine.execute(kept).read_all()) == [(1,)]


def test_columns_of_subqueries_are_text_unless_they_are_cast(judged: Judged) -> None:
    outputs = "json_array(j), json_array(j FORMAT JSON), json_array(j::json), to_json(j)"
    query = f"SELECT {outputs} FROM (SELECT json_array(1) AS j)"
    assert rows_of(judged.engine.execute(query).read_all()) == [('["[1]"]', "[[1]]", "[[1]]", '"[1]"')]


def test_parameters_have_the_types_of_their_values(judged: Judged) -> None:
    def ask(sql: str, *values: Any) -> list[Any]:
        return rows_of(judged.engine.execute(sql, parameters=[pa.scalar(one) for one in values]).read_all())

    assert ask("SELECT to_json($1)", 5) == [("5",)]
    assert ask("SELECT to_json($1)", "5") == [('"5"',)]
    assert ask("SELECT json_object('a': ?, 'b': id) FROM t WHERE id = ?", [1, None], 2) == [
        ('{"a":[1,null],"b":2}',)
    ]
    assert ask("SELECT json_set(j, ?, ?) FROM t WHERE id = 1", "$.b", 7.5) == [('{"a":1,"b":7.5}',)]


def test_columns_are_called_after_the_function(judged: Judged) -> None:
    query = judged.engine.prepare(
        "SELECT json_object('a': id), json_agg(id) OVER (), to_json(id), l::json FROM t"
    )
    assert query.schema.names == ["json_object", "json_agg", "to_json", "l"]
    value = judged.engine.prepare(
        "SELECT json_object(key VALUE value, 'x', value) FROM (SELECT 1 AS value, 'k' AS key)"
    )
    assert rows_of(value.execute().read_all()) == [('{"k":1,"x":1}',)]


REFUSED = (
    ("SELECT CAST(j AS JSON) FROM t", "CAST to JSON: 'nope' is not valid JSON"),
    ("SELECT json_object(s: 1) FROM t", "a key of an object of JSON is NULL"),
    ("SELECT json_object('a': 1, 'b')", "takes a value for each key"),
    ("SELECT json_object('a': 1 WITH UNIQUE KEYS)", "leave WITH UNIQUE KEYS out"),
    ("SELECT json_array(1 RETURNING BYTEA)", "leave RETURNING out"),
    ("SELECT to_json(1, 2)", "takes one value"),
    ("SELECT to_json(INTERVAL '1 day')", "cast it to text"),
    ("SELECT json_set('{}', '$.a')", "a value behind each path"),
    ("SELECT json_remove('{}', '$')", "can't be left out of itself"),
    ("SELECT jsonb_set('{}', 'a', '1')", "write '{a,0}'"),
    ("SELECT jsonb_set('[]', '{a}', '1')", "'a' is not a number of an element"),
    ("SELECT jsonb_set('{}', ARRAY['a'], '1')", "is a text, as in '{a,0}'"),
    ("SELECT json_extract('[1e400]', '$[0]')", "1e400 is not a number of 64 bits"),
    ("SELECT row_to_json(t) FROM t", "write json_object"),
)


@pytest.mark.parametrize(("statement", "said"), REFUSED)
def test_refusals_tell_the_way_out(judged: Judged, statement: str, said: str) -> None:
    with pytest.raises((InvalidInputError, UnsupportedError, LanceGatewayError), match=said):
        judged.engine.execute(statement).read_all()
