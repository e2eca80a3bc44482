"""Lists that DataFusion would take together wrongly stay apart; the answers are DuckDB's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.access.table_policy import plan_policy
from lance_gateway.planner.engine import QueryEngine

ROWS = pa.table(
    {
        "id": pa.array([None if i % 13 == 0 else i for i in range(40)], pa.int64()),
        "a": pa.array([None if i % 11 == 0 else i % 7 for i in range(40)], pa.int64()),
        "c": pa.array([["x", "y", None, "yy"][i % 4] for i in range(40)]),
    }
)


@pytest.fixture
def engine(root: Path, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    lance.write_dataset(ROWS, root / "t.lance")
    return open_engine(root)


@pytest.fixture(scope="module")
def judge() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    connection.register("t", ROWS)
    return connection


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM t WHERE a IN (1, 2, 3) AND a NOT IN (NULL, 2)",
        "SELECT id, a IN (1, 2, 3) AND a NOT IN (NULL, 2) AS b FROM t",
        "SELECT id FROM t WHERE NOT (a IN (1, 2, 3) AND a NOT IN (NULL, 2))",
        "SELECT id FROM t WHERE (t.a = 1 OR 2 = a) AND t.a NOT IN (2, null)",
        "SELECT id FROM (SELECT * FROM t WHERE a IN (0, id)) x WHERE a IN (1)",
        "SELECT id FROM t WHERE a IN (0, 1) AND a IN (id, 1)",
        "SELECT id FROM t WHERE a IN (id, 1) AND a IN (id % 3, 1)",
        "SELECT id FROM t WHERE a + 1 IN (1, nullif(2, 2)) AND a + 1 IN (1, 2, 3)",
        'SELECT id FROM t WHERE "a" IN (1, 2) AND (a) NOT IN (NULL, 2)',
        "SELECT id FROM t WHERE abs(a) IN (1, 2) AND abs(a) NOT IN (NULL, 2)",
        "SELECT id FROM t WHERE c IN ('x', 'y', 'z') AND c NOT IN ('x', NULL)",
        "SELECT id FROM t WHERE c || 'y' IN ('xy', c) OR c || 'y' NOT IN ('xy', 'yyy', NULL)",
        "SELECT a IN (1, NULL) AS b, count(*) FROM t WHERE a IN (1, 2) GROUP BY a IN (1, NULL)",
        "SELECT id FROM t WHERE (id, a) IN ((1, 1), (2, a)) AND (id, a) IN ((1, 1), (2, 2))",
        "SELECT id FROM main.t WHERE main.t.id IN (1, 2, 3) AND main.t.id NOT IN (a, 2)",
        "SELECT id FROM main.t WHERE main.t.id NOT IN (SELECT a FROM t WHERE a > 1)",
    ],
)
def test_lists_are_answered(engine: QueryEngine, judge: duckdb.DuckDBPyConnection, sql: str) -> None:
    judged = judge.execute(sql.replace("main.t", "t")).fetchall()
    assert _rows(engine.execute(sql).read_all()) == sorted(judged, key=repr)


@pytest.mark.parametrize("values", [(2, 2), (2, None), (None, None), (None, 1)])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM t WHERE a IN (1, 2, 3) AND a NOT IN ($1, $2)",
        "SELECT id FROM t WHERE a IN (1, 2, 3) AND a NOT IN ($1, 3) AND a NOT IN ($2, id % 4)",
        "SELECT id, a IN (1, NULL) AND a IN ($1, 1) AND a IN ($2, 1, 2) FROM t",
    ],
)
def test_parameters_that_are_null(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, sql: str, values: tuple[int | None, ...]
) -> None:
    bound = [pa.scalar(one, pa.int64()) for one in values]
    judged = judge.execute(sql, list(values)).fetchall()
    assert _rows(engine.prepare(sql).execute(bound).read_all()) == sorted(judged, key=repr)


def test_names_of_results_do_not_depend_on_parameters(engine: QueryEngine) -> None:
    query = engine.prepare("SELECT a IN ($1), a IN (1) FROM t")
    names = query.schema.names
    assert query.execute([pa.scalar(None, pa.int64())]).read_all().column_names == names


def test_there_are_not_too_many(engine: QueryEngine) -> None:
    with pytest.raises(UnsupportedError, match="More than 100 lists"):
        engine.execute("SELECT " + ", ".join(f"a IN (id, {i})" for i in range(200)) + " FROM t")


def test_policies_mean_what_they_say() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    policy = plan_policy(schema, TableAccess(row_filter="a IN (1, 2) AND a IN (b, 1)"))
    assert policy.condition is None or "nullif" in policy.condition
