"""UNNEST of columns beside their relations; DuckDB is the judge."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, tags TEXT[], n INT[])",
    "INSERT INTO t VALUES (1, ['a', 'b'], [1]), (2, [], [2, 3]), (3, NULL, NULL)",
    "INSERT INTO t VALUES (4, ['c', NULL], [4, 5, 6])",
    "CREATE TABLE b (k INT PRIMARY KEY, v TEXT)",
    "INSERT INTO b VALUES (1, 'x'), (4, 'y'), (9, 'z')",
    "CREATE TABLE p (id INT PRIMARY KEY, s STRUCT(a INT, b TEXT), l STRUCT(a INT, b TEXT)[], m INT[][])",
    "INSERT INTO p VALUES (1, {'a': 1, 'b': 'x'}, [{'a': 2, 'b': 'y'}, {'a': 3, 'b': NULL}], [[1, 2], [3]])",
    "INSERT INTO p VALUES (2, NULL, [], NULL)",
)
STATEMENTS = (
    "SELECT * FROM t CROSS JOIN UNNEST(t.tags) AS u(tag)",
    "SELECT * FROM t, UNNEST(t.tags) AS u(tag)",
    "SELECT * FROM t, LATERAL UNNEST(t.tags) AS u(tag)",
    "SELECT u.tag, t.* FROM t, UNNEST(t.tags) u(tag)",
    "SELECT id, u FROM t, UNNEST(tags) AS u",
    "SELECT id, unnest FROM t, UNNEST(tags)",
    "SELECT u.*, id FROM t, UNNEST(tags) WITH ORDINALITY AS u(tag, o)",
    "SELECT id, ordinality FROM t, UNNEST(tags) WITH ORDINALITY AS u(tag)",
    "SELECT id, tag FROM t LEFT JOIN UNNEST(tags) AS u(tag) ON TRUE",
    "SELECT * FROM t LEFT JOIN LATERAL UNNEST(tags) WITH ORDINALITY AS u(tag, o) ON TRUE",
    "SELECT id, a.x, b.y FROM t CROSS JOIN UNNEST(tags) AS a(x) CROSS JOIN UNNEST(n) AS b(y)",
    "SELECT tag, count(*) AS c FROM t, UNNEST(tags) AS u(tag) GROUP BY tag HAVING count(*) > 0 ORDER BY tag",
    "SELECT upper(tag) FROM t, UNNEST(tags) AS u(tag)",
    "SELECT * FROM t JOIN b ON b.k = t.id CROSS JOIN UNNEST(t.n) AS u(v2) WHERE b.v = 'x' OR v2 > 4",
    "SELECT * FROM t LEFT JOIN b ON b.k = t.id CROSS JOIN UNNEST(t.n) AS u(v2)",
    "SELECT t.id, b.v, x FROM b LEFT JOIN t ON b.k = t.id CROSS JOIN UNNEST(t.n) AS u(x)",
    "SELECT t.id, b.v, x FROM b LEFT JOIN t ON b.k = t.id LEFT JOIN UNNEST(t.n) AS u(x) ON TRUE",
    "SELECT t.id, b.v, x FROM t CROSS JOIN UNNEST(t.n) AS u(x) RIGHT JOIN b ON b.k = t.id",
    "SELECT id, x FROM t JOIN UNNEST(n) AS u(x) ON x > id",
    "SELECT id, x FROM t LEFT JOIN UNNEST(n) AS u(x) ON x > id",
    "SELECT id, (SELECT count(*) FROM UNNEST(t.tags) AS u(x) WHERE x > 'a') AS c FROM t",
    "SELECT id, (SELECT max(o) FROM UNNEST(t.tags) WITH ORDINALITY AS u(x, o)) AS m FROM t",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM UNNEST(t.tags) AS u(x) WHERE x = 'a')",
    "SELECT id, x FROM t CROSS JOIN LATERAL (SELECT x FROM UNNEST(t.n) AS u(x) WHERE x > 1) l",
    "SELECT x, o FROM UNNEST([7, 8]) WITH ORDINALITY AS u(x, o)",
    "SELECT id, x FROM t, UNNEST([1, 2]) AS u(x) WHERE id < 3",
    "SELECT id, x FROM t, UNNEST(string_split('a,b', ',')) AS u(x)",
    "SELECT id, x, o FROM t, UNNEST([id, 2]) WITH ORDINALITY AS u(x, o) WHERE id < 3",
    "SELECT id, x FROM t, UNNEST(n[2:3]) AS u(x)",
    "SELECT id, x, y FROM t, UNNEST(t.n) AS u(x), UNNEST([x, 0]) AS v(y)",
    "SELECT q.id, tag FROM (SELECT id, tags FROM t WHERE id < 4) q, UNNEST(q.tags) AS u(tag) WHERE tag = 'b'",
    "WITH q AS (SELECT * FROM t) SELECT q.id, tag FROM q, UNNEST(q.tags) AS u(tag)",
    "SELECT DISTINCT tag FROM t, UNNEST(t.tags) AS u(tag) WHERE id IN (SELECT k FROM b)",
    "SELECT id, row_number() OVER (PARTITION BY id ORDER BY tag) AS r FROM t, UNNEST(tags) AS u(tag)",
    "SELECT a.id, c.id AS id2, u.x FROM t a JOIN t c ON a.id = c.id, UNNEST(a.n) AS u(x)",
    "SELECT t.id, t.tags, tags.tags AS tag FROM t, UNNEST(t.tags) AS tags(tags)",
    "SELECT id, e.a, e.b FROM p, UNNEST(p.l) AS u(e)",
    "SELECT id, u.e.a, p.s.b, e FROM p, UNNEST(l) AS u(e) WHERE e.a > 2",
    "SELECT id, x FROM p, UNNEST(m) AS u(y), UNNEST(y) AS w(x)",
    "SELECT id, tag FROM t, UNNEST(tags) AS u(tag) WHERE id = 4 ORDER BY tag NULLS FIRST LIMIT 1",
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root: Path = tmp_path_factory.mktemp("root")
    engine = QueryEngine(Catalog.open(str(root), writing=WriteOptions(hold_ms=0)))
    for statement in TABLES:
        prepared: Any = engine.prepare_statement(
            statement.replace("STRUCT(a INT, b TEXT)", "STRUCT<a INT, b TEXT>")
        )
        prepared.execute()
    yield engine
    engine.close()


def test_answers_are_those_of_duckdb(engine: QueryEngine) -> None:
    with duckdb.connect() as other:
        for statement in TABLES:
            other.execute(statement)
        for statement in STATEMENTS:
            expected = other.execute(statement)
            names = [column[0] for column in expected.description]
            query = engine.prepare(statement)
            rows = rows_of(query.execute().read_all())
            assert sorted(map(repr, rows)) == sorted(map(repr, expected.fetchall())), statement
            assert [name.lower() for name in query.schema.names] == [name.lower() for name in names], (
                statement
            )


def test_several_lists_are_read_together(engine: QueryEngine) -> None:
    query = "SELECT id, a, b, o FROM t {} UNNEST(t.tags, t.n) WITH ORDINALITY AS u(a, b, o) {} ORDER BY id, o"
    rows = [(1, "a", 1, 1), (1, "b", None, 2), (2, None, 2, 1), (2, None, 3, 2)]
    last = [(4, "c", 4, 1), (4, None, 5, 2), (4, None, 6, 3)]
    found = engine.prepare(query.format("CROSS JOIN", "")).execute().read_all()
    assert rows_of(found) == [*rows, *last]
    found = engine.prepare(query.format("LEFT JOIN", "ON TRUE")).execute().read_all()
    assert rows_of(found) == [*rows, (3, None, None, None), *last]


def test_conditions_on_the_relation_are_applied_where_it_is_read(engine: QueryEngine) -> None:
    plan = engine.execute("EXPLAIN SELECT tag FROM t, UNNEST(t.tags) AS u(tag) WHERE t.id = 1").read_all()
    assert "by key" in plan.column("plan")[1].as_py()


def test_views_and_parameters_may_have_it(engine: QueryEngine) -> None:
    view: Any = engine.prepare_statement("CREATE VIEW v AS SELECT id, tag FROM t, UNNEST(t.tags) AS u(tag)")
    view.execute()
    query = engine.prepare("SELECT v.tag, x FROM v, UNNEST([v.id, $1]) AS w(x) WHERE v.tag = $2 ORDER BY x")
    assert rows_of(query.execute([pa.scalar(0), pa.scalar("b")]).read_all()) == [("b", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT * FROM t, UNNEST(t.tags, t.n) AS u", "UNNEST of 2 lists needs a name for each column"),
        ("SELECT * FROM t FULL JOIN UNNEST(t.tags) AS u(a) ON TRUE", "LEFT JOIN or CROSS JOIN"),
        ("SELECT x FROM t, UNNEST([t.id, random()]) AS u(x)", "another value each time"),
        (
            "SELECT o FROM t, UNNEST([t.id + random()]) WITH ORDINALITY AS u(x, o)",
            "another value each time",
        ),
        ("SELECT * FROM t, UNNEST(missing) AS u(x)", "missing"),
        ("SELECT x FROM t, UNNEST(t.tags) AS x, UNNEST(t.n) AS v(x)", "several relations have a column x"),
    ],
)
def test_what_is_not_planned_is_refused_with_its_reason(
    engine: QueryEngine, statement: str, said: str
) -> None:
    with pytest.raises(LanceGatewayError, match=said):
        engine.prepare(statement).execute().read_all()
