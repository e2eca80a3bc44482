"""Subqueries that stand for a value are NULL where they have no row; DuckDB judges."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.sampling import sample

T = pa.table(
    {"id": [1, 2], "s": ["a", "b"]},
    schema=pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string())]),
)
SUBQUERIES = (
    "(SELECT '5' FROM u WHERE id = 7)",
    "(SELECT id FROM u WHERE id = 7)",
    "(SELECT coalesce(s, 'x') FROM u WHERE id = 7)",
    "(SELECT 5 FROM u LIMIT 0)",
    "(SELECT 5 WHERE 1 = 0)",
    "(SELECT count(*) FROM u HAVING count(*) > 5)",
    "(SELECT 7 FROM u GROUP BY id HAVING id > 7)",
    "(SELECT DISTINCT 7 FROM u WHERE id > 7)",
    "(SELECT max('5') FROM u WHERE id = 7)",
    "(WITH w AS (SELECT id FROM u) SELECT id FROM w WHERE id = 7)",
    "((SELECT id FROM u WHERE id = 7))",
    "(SELECT id FROM u WHERE id = 2)",
)
CONDITIONS = (
    "{} IS NULL",
    "NOT ({} IS NULL)",
    "{} IS DISTINCT FROM NULL",
    "'2' IS DISTINCT FROM CAST({} AS VARCHAR)",
    "CAST({} AS VARCHAR) LIKE '%'",
    "coalesce(CAST({} AS VARCHAR), 'z') = 'z'",
    "({} = {}) IS NULL",
    "CASE WHEN {} IS NULL THEN TRUE ELSE FALSE END",
    "{} BETWEEN {} AND {}",
    "(CAST({} AS VARCHAR) || 'x') IS NULL",
    "id > 1 AND {} IS NOT NULL",
)
CONSTANT = (
    "0 <= (SELECT sum(CAST(NULL AS DECIMAL(10, 2))) FROM u)",
    "0 > (SELECT max(id) FROM u)",
    "0 <= (SELECT 5 FROM u WHERE id = 9)",
    "(SELECT 5 FROM u WHERE id = 2) > 3",
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root: Path = tmp_path_factory.mktemp("no_row")
    for name in ("t", "u"):
        lance.write_dataset(T, root / f"{name}.lance")
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def judge() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name in ("t", "u"):
            connection.register(name, T)
        yield connection


def rows(engine: QueryEngine, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in engine.execute(sql).read_all().to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("subquery", sample(SUBQUERIES, 4))
def test_a_value_without_a_row_is_null(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, subquery: str
) -> None:
    for condition in CONDITIONS:
        value = condition.replace("{}", subquery)
        for sql in (
            f"SELECT count(*) FROM t WHERE {value}",
            f"SELECT id, {value} AS x, 1 FROM t ORDER BY id",
            f"SELECT x FROM (SELECT {value} AS x FROM t) WHERE x IS NOT NULL",
        ):
            assert rows(engine, sql) == judge.execute(sql).fetchall(), sql


@pytest.mark.parametrize("condition", CONSTANT)
@pytest.mark.parametrize("below", ["WHERE id > 1", "", "JOIN u USING (id)"])
def test_a_condition_stays_above_a_count(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, condition: str, below: str
) -> None:
    for sql in (
        f"SELECT n FROM (SELECT count(*) AS n FROM t {below}) WHERE {condition}",
        f"SELECT sum(id) AS n FROM t {below} HAVING {condition}",
    ):
        assert rows(engine, sql) == judge.execute(sql).fetchall(), sql


def test_columns_keep_the_names_of_the_text(engine: QueryEngine) -> None:
    sql = "SELECT (SELECT 5 FROM u WHERE id = 7), n FROM (SELECT count(*) AS n FROM t) WHERE {}"
    plain = engine.execute(sql.format("n > 0")).schema.names
    assert engine.execute(sql.format("(SELECT max(id) FROM u) > 0")).schema.names == plain
    assert "nullif" not in str(plain)
    assert "random" not in str(plain)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM (SELECT 5 AS a FROM t), (SELECT 6 AS b FROM u) ORDER BY 1",
        "SELECT a FROM t JOIN (SELECT id AS a FROM u) ON t.id = a, (SELECT 6 AS b) ORDER BY 1",
        "(SELECT id FROM t) UNION ALL (SELECT id FROM u) ORDER BY 1",
        "SELECT id IS NOT DISTINCT FROM (SELECT 1), (SELECT 2), abs((SELECT -3)) FROM t ORDER BY id",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id + 1)",
        "SELECT id FROM t ORDER BY (SELECT 1), id",
        "SELECT (SELECT (SELECT max(id) FROM u) + 1) FROM t",
        "SELECT (SELECT u.s FROM u WHERE u.id = 1) || 'x' FROM t GROUP BY 1",
    ],
)
def test_subqueries_that_stand_for_rows_stay(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, sql: str
) -> None:
    assert rows(engine, sql) == judge.execute(sql).fetchall()


def test_more_rows_than_one_are_refused(engine: QueryEngine) -> None:
    with pytest.raises(InvalidInputError, match="more than one row"):
        rows(engine, "SELECT id FROM t WHERE (SELECT id FROM u) IS NULL")


def test_what_is_wrong_with_the_joined_rows_is_told(engine: QueryEngine) -> None:
    with pytest.raises(InvalidInputError, match="Cannot cast string 'x'"):
        engine.prepare("SELECT id FROM t WHERE (SELECT CAST('x' AS BIGINT) FROM u WHERE u.id = t.id) > 1")
