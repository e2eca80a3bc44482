"""Outputs may share a name: clients see it as often as it was asked for. DuckDB judges the rows."""

import datetime as dt
from collections.abc import Iterator
from contextlib import nullcontext

import pyarrow as pa
import pytest
from datafusion import SessionContext

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.scans.settings import SessionSettings
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

MOMENTS = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), None]
V = pa.table({"n": [1, 1, 2], "ms": pa.array(MOMENTS, pa.timestamp("ms"))})
T = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, None], pa.int64()),
        "k": pa.array([1, 1, 2, 2, None, 3], pa.int64()),
        "s": ["a", "b", "a", None, "c", "a"],
    }
)
U = pa.table({"id": pa.array([1, 2, 2, 9], pa.int64()), "s": ["x", "y", "z", "a"]})
# A statement, and the names that a client sees.
NAMES = {
    "SELECT id, id FROM t": ["id", "id"],
    "SELECT t.id, id, k FROM t ORDER BY id": ["id", "id", "k"],
    "SELECT id AS x, k AS x, s AS x FROM t": ["x", "x", "x"],
    "SELECT id, k AS id FROM t ORDER BY 2 NULLS LAST, 1": ["id", "id"],
    "SELECT id, id + 1 AS id FROM t": ["id", "id"],
    "SELECT CAST(id AS VARCHAR), CAST(id AS DOUBLE), id::text FROM t": ["id", "id", "id"],
    "SELECT id, id::bigint FROM t": ["id", "id"],
    "SELECT count(*), count(*), max(id) FROM t": ["count(*)", "count(*)", "max(t.id)"],
    "SELECT k, sum(id), sum(id) FROM t GROUP BY k ORDER BY k NULLS LAST": ["k", "sum(t.id)", "sum(t.id)"],
    "SELECT id + 1, t.id + 1 FROM t": ["t.id + Int64(1)", "t.id + Int64(1)"],
    "SELECT 1, 1": ["Int64(1)", "Int64(1)"],
    "SELECT *, id FROM t": ["id", "k", "s", "id"],
    "SELECT id, * FROM t": ["id", "id", "k", "s"],
    "SELECT *, id * 2 AS id FROM t": ["id", "k", "s", "id"],
    "SELECT * EXCLUDE (k), id FROM t": ["id", "s", "id"],
    "SELECT id, t.* EXCLUDE (k) FROM t": ["id", "id", "s"],
    "SELECT * REPLACE (1 AS k), id FROM t": ["id", "k", "s", "id"],
    "SELECT t.*, t.* FROM t": ["id", "k", "s", "id", "k", "s"],
    "SELECT a.*, b.* FROM t a JOIN u b ON a.id = b.id": ["id", "k", "s", "id", "s"],
    "SELECT *, a.k FROM t a JOIN u b ON a.id = b.id": ["id", "k", "s", "id", "s", "k"],
    "SELECT a.id, b.id FROM t a JOIN u b ON a.id = b.id UNION ALL SELECT 1, 2": ["id", "id"],
    "SELECT id, k FROM t UNION ALL SELECT id, id FROM u": ["id", "k"],
    "SELECT DISTINCT k, k FROM t": ["k", "k"],
    "SELECT * FROM (SELECT id, k AS id FROM t) q": ["id", "id"],
    "SELECT id FROM (SELECT id, k AS id FROM t) q": ["id"],
    "SELECT *, id FROM (SELECT id, k AS id FROM t) q": ["id", "id", "id"],
    "SELECT x + y AS z FROM (SELECT id, id FROM t) q (x, y)": ["z"],
    "WITH c AS (SELECT *, id FROM t), d AS (SELECT c.*, c.k FROM c) SELECT * FROM d": [
        *("id", "k", "s"),
        *("id", "k"),
    ],
    "SELECT id FROM t WHERE id IN (SELECT max(id) FROM (SELECT id, id FROM u) q)": ["id"],
    "SELECT (SELECT max(id) FROM u), (SELECT max(id) FROM u)": ["max(u.id)", "max(u.id)"],
    "SELECT row_number() OVER (ORDER BY id), row_number() OVER (ORDER BY id) FROM t ORDER BY 1": None,
    "SELECT rank() OVER w, rank() OVER w FROM t WINDOW w AS (ORDER BY s)": None,
    "SELECT count(*) FILTER (WHERE ms > TIMESTAMP '2024-01-01') AS g, n AS g FROM v GROUP BY n": ["g", "g"],
    "SELECT id, id FROM t WHERE id NOT IN (SELECT id FROM u) OR k = 2": ["id", "id"],
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("repeated"), {"t": T, "u": U, "v": V}) as opened:
        yield opened


@pytest.mark.parametrize("sql", NAMES)
def test_every_output_has_its_name_and_its_values(judged: Judged, sql: str) -> None:
    judged.check(sql, is_sorted="ORDER BY" in sql and "OVER" not in sql)
    names = judged.engine.prepare(sql).schema.names
    assert names == NAMES[sql] or (NAMES[sql] is None and names[0] == names[1])


def test_prepared_statements_have_the_same_names(judged: Judged) -> None:
    prepared = judged.engine.prepare("SELECT id, id, ? AS id FROM t WHERE id < ?")
    table = prepared.execute([pa.scalar("x"), pa.scalar(3, pa.int64())]).read_all()
    assert table.schema.names == prepared.schema.names == ["id", "id", "id"]
    assert rows_of(table) == [(1, 1, "x"), (2, 2, "x")]


def test_a_plan_is_explained_with_the_names_that_it_has(judged: Judged) -> None:
    plan = judged.engine.execute("EXPLAIN SELECT id, id FROM t").read_all().column("plan").to_pylist()[0]
    assert "t.id AS id#2" in plan


def test_views_are_listed_with_numbers_behind_repeated_names(judged: Judged) -> None:
    judged.engine.catalog.write_view("twice", "SELECT id, id, k FROM t", replaces=True)
    listed = "SELECT column_name FROM information_schema.columns WHERE table_name = 'twice' ORDER BY 1"
    assert rows_of(judged.engine.execute(listed).read_all()) == [("id",), ("id:1",), ("k",)]
    assert judged.engine.prepare("SELECT * FROM twice").schema.names == ["id", "id", "k"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id AS x, k AS x FROM t ORDER BY x",
        "SELECT id, k AS id FROM t ORDER BY id DESC NULLS LAST",
        "SELECT *, k AS id FROM t ORDER BY s, id",
    ],
)
def test_to_sort_by_one_of_two_outputs_is_refused(judged: Judged, sql: str) -> None:
    with pytest.raises(
        InvalidInputError, match="is ambiguous, since several outputs have that name: give them"
    ):
        judged.engine.execute(sql)


def test_other_errors_speak_of_the_statement_as_it_was_written(judged: Judged) -> None:
    with pytest.raises(InvalidInputError, match="No field named nosuch"):
        judged.engine.execute("SELECT id, id, nosuch FROM t")


def test_a_table_has_one_column_of_a_name(judged: Judged) -> None:
    for sql in ("CREATE TABLE x AS SELECT id, id FROM t", "CREATE TABLE x AS SELECT a.*, b.* FROM t a, u b"):
        with pytest.raises(InvalidInputError, match="several columns of the SELECT are called 'id'"):
            judged.engine.prepare_statement(sql, SessionSettings())


@pytest.mark.parametrize("columns", ["id, id", "id, id, missing"])
def test_nested_parts_are_planned_once(judged: Judged, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    plans: list[str] = []
    plan = SessionContext.sql

    def count(context: SessionContext, sql: str, **options: object) -> object:
        plans.append(sql)
        return plan(context, sql, **options)

    monkeypatch.setattr(SessionContext, "sql", count)
    parts = [f"c0 AS (SELECT {columns} FROM t)"]
    parts += [f"c{i} AS (SELECT *, id AS x{i}, id AS x{i} FROM c{i - 1})" for i in range(1, 9)]
    with nullcontext() if "missing" not in columns else pytest.raises(InvalidInputError, match="missing"):
        judged.engine.prepare(f"WITH {', '.join(parts)} SELECT * FROM c8")
    assert len(plans) == len(set(plans)) < 50
