"""Rows come in the order that was asked for, whatever subqueries a statement has."""

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

COUNT = 12
BY_B = sorted(range(COUNT), key=lambda number: number * 7 % COUNT)


@pytest.fixture(scope="module", params=[1, 3])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> QueryEngine:
    root = tmp_path_factory.mktemp("orders")
    rows = {
        "id": list(range(COUNT)),
        "k": [number % 3 for number in range(COUNT)],
        "b": [number * 7 % COUNT for number in range(COUNT)],
    }
    lance.write_dataset(pa.table(rows), root / "t.lance", max_rows_per_file=3)
    return QueryEngine(Catalog.open(str(root)), partitions=request.param)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM t WHERE id >= (SELECT min(id) FROM t) ORDER BY b", BY_B),
        ("SELECT id FROM t WHERE id >= (SELECT min(id) FROM t) ORDER BY b DESC -- so", BY_B[::-1]),
        ("SELECT id, (SELECT max(id) FROM t) AS m FROM t ORDER BY b", BY_B),
        ("SELECT id FROM t ORDER BY b + (SELECT max(id) FROM t)", BY_B),
        ("SELECT id AS x FROM (SELECT * FROM t) u WHERE id > (SELECT -1) ORDER BY b", BY_B),
        (
            "WITH c AS (SELECT max(id) m FROM t) SELECT id FROM t WHERE id <= (SELECT m FROM c) ORDER BY b",
            BY_B,
        ),
        (
            "SELECT sum(id) FROM t WHERE id >= (SELECT min(id) FROM t) GROUP BY k ORDER BY k DESC",
            [26, 22, 18],
        ),
        ("SELECT DISTINCT ON (k) id FROM t WHERE id > (SELECT -1) ORDER BY k, b DESC", [3, 10, 5]),
        (
            "SELECT id FROM (SELECT * FROM t UNION SELECT * FROM t) u WHERE id > (SELECT -1) ORDER BY b",
            BY_B,
        ),
        ("SELECT id FROM t WHERE id >= (SELECT min(id) FROM t) ORDER BY b LIMIT 3", BY_B[:3]),
        ("SELECT id FROM t WHERE id >= (SELECT min(id) FROM t) ORDER BY b OFFSET 2", BY_B[2:]),
        ("SELECT id FROM t WHERE id >= (SELECT min(id) FROM t) ORDER BY b LIMIT ALL", BY_B),
        ("SELECT id FROM t WHERE id >= (SELECT min(id) FROM t) ORDER BY b LIMIT NULL OFFSET 1", BY_B[1:]),
        ("(SELECT id FROM t WHERE id >= (SELECT min(id) FROM t) ORDER BY b)", BY_B),
        ("SELECT id FROM t WHERE id >= $1 AND b >= (SELECT min(b) FROM t) ORDER BY b", BY_B),
    ],
)
def test_an_order_by_what_is_no_output_is_kept(engine: QueryEngine, query: str, expected: list[int]) -> None:
    parameters = [pa.scalar(0)] if "$1" in query else []
    assert engine.execute(query, parameters=parameters).read_all().column(0).to_pylist() == expected


def test_the_plan_that_is_shown_has_the_sort(engine: QueryEngine) -> None:
    query = "SELECT id FROM t WHERE id >= (SELECT min(id) FROM t) ORDER BY b"
    plans = engine.execute(f"EXPLAIN {query}").read_all().to_pylist()
    assert any("SortExec" in plan["plan"] for plan in plans)
