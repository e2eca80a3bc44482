"""Values of a length that nobody can want are refused before they are made."""

from pathlib import Path

import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog


@pytest.fixture
def engine(tmp_path: Path) -> QueryEngine:
    return QueryEngine(Catalog.open(str(tmp_path)))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(repeat('x', 2000000000))",
        "SELECT array_resize(make_array(1), 100000000000, 0)",
        "SELECT cardinality(range(0, 1e12))",
        "SELECT 1, generate_series(1, 20000000 + 20000000)",
        "SELECT lpad('x', (20000000))",
        "SELECT cardinality(array_repeat(repeat('x', 3), 99999999))",
        """SELECT length("repeat"('x', 2000000000))""",
        """SELECT "range"(0, 99999999)""",
    ],
)
def test_an_enormous_value_is_refused(engine: QueryEngine, sql: str) -> None:
    with pytest.raises(InvalidInputError, match="at most 10000000 elements"):
        engine.prepare(sql)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT length(repeat('x', 1000)) AS n", 1000),
        ("SELECT 20000000 + length(lpad('x', 3)) AS n", 20_000_003),
        ("SELECT value AS n FROM generate_series(20000000, 900000000000) LIMIT 1", 20_000_000),
        ("SELECT a.value AS n FROM range(1, 2) b CROSS JOIN range(50000000, 50000001) a", 50_000_000),
        ("SELECT 20000000 AS range", 20_000_000),
    ],
)
def test_everything_else_is_answered(engine: QueryEngine, sql: str, expected: int) -> None:
    assert engine.execute(sql).read_all().column(0).to_pylist() == [expected]
