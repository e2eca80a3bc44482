"""Membership in a subquery with and without NULLs, wherever it stands, as DuckDB judges it."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

T = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "n": pa.array([1, None, 7, 8, 2, None], pa.int64()),
        "s": ["a", None, "b", "c", "d", "a"],
    },
    pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64()), ("s", pa.string())]),
)
U = pa.table(
    {
        "k": pa.array([1, None, 2, 9], pa.int64()),
        "g": pa.array([1, 2, 7, None], pa.int64()),
        "s": ["a", None, "z", "d"],
    }
)
SUBQUERIES = (
    "SELECT k FROM u",
    "SELECT k FROM u WHERE k IS NOT NULL -- known\n",
    "SELECT k FROM u WHERE FALSE",
    "SELECT u.k FROM u WHERE u.g = x.n",
    "SELECT u.k FROM u WHERE u.g < x.n",
)
SUBJECTS = ("id", "n", "x.n", "n + 1", "5", "NULL", "CAST(1 AS BIGINT)")
CONDITIONS = (
    "{x} NOT IN ({q})",
    "{x} NOT IN ({q}) AND id >= 1",
    "n > -1 AND id >= 0 AND ({x} NOT IN ({q}))",
    "{x} NOT IN ({q}) OR n = 8",
    "NOT {x} IN ({q}) AND n > 0 AND id BETWEEN 0 AND 9",
    "NOT ({x} IN ({q})) AND n > 0 AND id > 0",
    "NOT ({x} IN ({q}) OR n = 8)",
    "NOT ({x} IN ({q}) AND n = 8)",
    "NOT ({x} NOT IN ({q}))",
    "{x} IN ({q}) OR n = 8",
    "({x} IN ({q})) IS NULL",
    "{x} NOT IN ({q}) IS NOT TRUE",
    "coalesce({x} IN ({q}), id > 2)",
    "coalesce(n = 8, {x} NOT IN ({q}))",
    "CASE WHEN {x} NOT IN ({q}) THEN TRUE ELSE id = 1 END",
    "CASE WHEN id = 1 THEN {x} NOT IN ({q}) WHEN {x} IN ({q}) THEN n > 0 END",
    "{x} <> ALL ({q}) AND id >= 1",
    "NOT ({x} = ANY ({q})) AND n >= 1",
    "{x} != ALL ({q}) OR {x} = SOME ({q})",
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root: Path = tmp_path_factory.mktemp("membership")
    lance.write_dataset(T, root / "t.lance")
    lance.write_dataset(U, root / "u.lance")
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def judge() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("t", T)
        connection.register("u", U)
        yield connection


def assert_judged(engine: QueryEngine, judge: duckdb.DuckDBPyConnection, sql: str) -> None:
    found = engine.execute(sql).read_all()
    ours = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert sorted(ours, key=repr) == sorted(judge.execute(sql).fetchall(), key=repr), sql


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_null_is_neither_true_nor_false(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, condition: str
) -> None:
    for number, subquery in enumerate(SUBQUERIES, CONDITIONS.index(condition)):
        where = condition.format(x=SUBJECTS[number % len(SUBJECTS)], q=subquery)
        assert_judged(engine, judge, f"SELECT id FROM t x WHERE {where}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n, count(*) AS c FROM t GROUP BY n HAVING n NOT IN (SELECT k FROM u) AND n > 0",
        "SELECT id FROM t WHERE s NOT IN (SELECT s FROM u) AND s > 'a' ORDER BY id",
        "SELECT id FROM t WHERE lower(s) NOT IN (SELECT s FROM u) AND s > 'a' LIMIT 10",
        "SELECT id FROM t WHERE s NOT IN (SELECT s FROM u WHERE s > '') AND s > 'a' UNION SELECT 7",
        "SELECT c FROM (SELECT id, 5 AS c FROM t) WHERE c NOT IN (SELECT k FROM u) AND c > 1",
        "SELECT id FROM t WHERE id = 5 AND id NOT IN (SELECT k FROM u)",
        "SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE n NOT IN (SELECT k FROM u) AND n > 1)",
        "SELECT id FROM t WHERE n NOT IN (SELECT n FROM t WHERE n NOT IN (SELECT 1 FROM u)) AND n > 1",
        "SELECT id FROM t WHERE n NOT IN (SELECT n FROM t) OR id = 1",
        "SELECT id FROM t WHERE n NOT IN (WITH w AS (SELECT k FROM u) SELECT k FROM w) AND n > 1",
        "SELECT id FROM t WHERE n NOT IN (SELECT k FROM u UNION ALL SELECT 5) AND n > 1",
        "SELECT id FROM t JOIN u ON id = k AND id NOT IN (SELECT g FROM u) WHERE id > 0",
        "WITH w AS (SELECT id FROM t WHERE id NOT IN (SELECT k FROM u) AND id > 0) SELECT count(*) FROM w",
    ],
)
def test_wherever_it_stands(engine: QueryEngine, judge: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert_judged(engine, judge, sql)


@pytest.mark.parametrize(
    "condition",
    [
        "n NOT IN (SELECT k FROM u) OR id = 1",
        "NOT (x.n = ANY (SELECT k FROM u WHERE k > 0 AND s <> 'y')) OR id = 1",
        "(n + 1 IN (SELECT DISTINCT u.k FROM u)) IS NULL",
        "CASE WHEN id > 3 THEN n NOT IN (SELECT k AS x FROM u JOIN t AS y ON u.k = y.id) ELSE TRUE END",
        "coalesce(x.n <> ALL (SELECT max(k) FROM main.u GROUP BY g), FALSE)",
    ],
)
def test_a_membership_beside_others_is_a_join(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, condition: str
) -> None:
    """And takes no time that grows with the product of both numbers of rows."""
    sql = f"SELECT id FROM t x WHERE {condition}"
    assert_judged(engine, judge, sql.replace("main.", ""))
    plan = "\n".join(engine.execute(f"EXPLAIN {sql}").read_all()["plan"].to_pylist())
    assert "HashJoinExec" in plan
    assert "NestedLoopJoinExec" not in plan


@pytest.mark.parametrize(
    "subquery",
    [
        "SELECT k FROM u WHERE g < n",
        "SELECT k FROM u ORDER BY k NULLS FIRST LIMIT 1",
        "SELECT k FROM (SELECT k FROM u) AS y WHERE n > 1",
        "WITH w AS (SELECT k FROM u) SELECT k FROM w",
    ],
)
def test_a_subquery_that_may_differ_from_row_to_row_is_asked_for_each(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, subquery: str
) -> None:
    assert_judged(engine, judge, f"SELECT id FROM t x WHERE n NOT IN ({subquery}) OR id = 1")
    assert_judged(engine, judge, f"SELECT id FROM t x WHERE (n IN ({subquery})) IS NULL")


def test_parameters_in_a_subquery_that_is_read_twice(engine: QueryEngine) -> None:
    query = engine.prepare("SELECT id FROM t WHERE n + $1 NOT IN (SELECT k FROM u WHERE k > $2) OR id = $3")
    values = [pa.scalar(one, pa.int64()) for one in (0, 1, 5)]
    assert sorted(query.execute(values).read_all()["id"].to_pylist()) == [0, 2, 3, 5]


def test_a_subquery_of_its_row(engine: QueryEngine, judge: duckdb.DuckDBPyConnection) -> None:
    assert_judged(engine, judge, "SELECT id FROM t WHERE id NOT IN (SELECT k FROM u WHERE g < n)")
    assert_judged(engine, judge, "SELECT id FROM t WHERE id NOT IN (SELECT k FROM u WHERE g < t.n)")


def test_parameters(engine: QueryEngine) -> None:
    query = engine.prepare("SELECT id FROM t WHERE $1 NOT IN (SELECT k FROM u WHERE k > $2) AND id < 2")
    values = [pa.scalar(one, pa.int64()) for one in (2, 5)]
    assert query.execute(values).read_all()["id"].to_pylist() == [0, 1]
    assert query.execute(values[::-1]).read_all()["id"].to_pylist() == [0, 1]
    assert query.execute([values[0], pa.scalar(0, pa.int64())]).read_all().num_rows == 0


@pytest.mark.parametrize(
    "correlation", ["(u.g IS NOT DISTINCT FROM x.n)", "(u.g IS DISTINCT FROM x.n)", "coalesce(u.g, x.n) > 1"]
)
def test_a_subquery_of_its_row_that_depends_on_a_parameter(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, correlation: str
) -> None:
    sql = f"SELECT id FROM t x WHERE n NOT IN (SELECT u.k FROM u WHERE {correlation} AND $1 IN (7, u.k, 1))"
    for value in (1, 2, 7):
        found = engine.prepare(sql).execute([pa.scalar(value, pa.int64())]).read_all()["id"].to_pylist()
        assert sorted(found) == sorted(one for (one,) in judge.execute(sql, [value]).fetchall())
