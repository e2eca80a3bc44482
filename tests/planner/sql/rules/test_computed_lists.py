"""Lists with CASE are computed for each row; the answers are DuckDB's."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine
from tests.support.judging.principals import create_principal

ROWS = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "n": pa.array([1, 2, 3, None, 5, 3, 2, None], pa.int64()),
        "s": ["a", None, "b", "c", "a", None, "b", "z"],
    }
)


@pytest.fixture
def engine(root: Path, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    lance.write_dataset(ROWS, root / "t.lance")
    return open_engine(root)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, n + 1 IN (CASE WHEN id > 2 THEN 4 END, 2) AS x FROM t",
        "SELECT id FROM t WHERE 0 IN (NULL, CASE t.s WHEN t.s THEN 0 ELSE 20 END)",
        "SELECT id FROM t WHERE n + 1 NOT IN (coalesce(n, id, 1), 5)",
        'SELECT id, n IN (CASE WHEN "id" > 2 THEN 3 END, 8, 9, 10, 11) AS x FROM t',
        "SELECT count(*) FROM t WHERE n + 0 IN (CASE WHEN id > 2 THEN 3 END, 8) GROUP BY s",
        "SELECT id FROM t a WHERE EXISTS (SELECT 1 FROM t WHERE t.n * 1 IN (CASE a.id WHEN 2 THEN 3 END, 9))",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id AND a.n + 0 IN (CASE WHEN a.id > 2 THEN 3 END, 7)",
        "SELECT id, n + 0 IN (CASE WHEN n + 1 IN (CASE WHEN id > 2 THEN 4 END, 9) THEN 3 END, 8) AS x FROM t",
        # The optimiser puts a constant in place of `k`.
        "SELECT id, 3 IN (CASE WHEN k > 0 THEN n END, 8) AS x FROM (SELECT 5 AS k, id, n FROM t) q",
        "SELECT id, s || 'a' IN (coalesce(s, s, 'z') || 'a', 'q') AS x FROM t",
        "SELECT id, n + 0 IN (CASE WHEN 1 = 2 THEN 3 END, 8) AS x FROM t",
        "SELECT id FROM t WHERE n IN (7, 0, (SELECT count(DISTINCT u.s) FROM t u WHERE u.id = t.id), 5)",
        "SELECT bool_or(x) FROM (SELECT n + 0 IN (coalesce(n, id), 8) AS x, id FROM t) q GROUP BY id",
        "SELECT id FROM t WHERE 5 IN (7, (SELECT max(u.n) FROM t u), 6)",
        "SELECT max(n) IN (CASE WHEN max(id) > 2 THEN 3 END, 8) AS x FROM t",
        "SELECT n + 0 IN (CASE WHEN n > 2 THEN 3 END, 8) AS x FROM t GROUP BY n",
        "SELECT s FROM t GROUP BY s HAVING max(n) IN (coalesce(min(n), max(id), 0), 8)",
        "SELECT id FROM t WHERE n + 1 IN (1, 2, 3) AND n + 1 IN (CASE WHEN id > 2 THEN 2 END, 3, id)",
    ],
)
def test_each_row_has_its_own_list(engine: QueryEngine, sql: str) -> None:
    with duckdb.connect() as judge:
        judge.register("t", ROWS)
        rows = engine.execute(sql).read_all()
        ours = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        assert sorted(map(repr, ours)) == sorted(map(repr, judge.execute(sql).fetchall()))


def test_policies_mean_what_they_say(engine: QueryEngine) -> None:
    access = TableAccess(
        row_filter="n + 1 IN (CASE WHEN id > 1 THEN 4 END, 9)",
        masks={"s": "CASE WHEN n * 1 IN (CASE WHEN id > 1 THEN 3 END, 9) THEN 'shown' END"},
    )
    query = engine.prepare("SELECT id, s FROM t", access=create_principal(t=access))
    assert query.execute().read_all().to_pylist() == [{"id": 2, "s": "shown"}, {"id": 5, "s": "shown"}]
