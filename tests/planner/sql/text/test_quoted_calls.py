"""Functions whose names stand in quotes are those without quotes, wherever the planner looks for them."""

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.sql.text.tokens import tokenize
from lance_gateway.planner.tables.state.catalog import Catalog


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> QueryEngine:
    root = tmp_path_factory.mktemp("quoted")
    rows = {
        "id": [1, 2, 3, 4],
        "k": [1, 1, 2, 2],
        "f": [float("nan"), 1.0, float("inf"), float("inf")],
        "n": pa.array([1, None, None, None], pa.int64()),
    }
    lance.write_dataset(pa.table(rows), root / "t.lance")
    return QueryEngine(Catalog.open(str(root)))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k, {min}(f) AS m FROM t GROUP BY k ORDER BY k",
        "SELECT k, {max}(f) AS m FROM t GROUP BY k ORDER BY k",
        "SELECT k, {min}(n) AS m FROM t GROUP BY k ORDER BY {min}(n) LIMIT 9",
        "SELECT {min}(n) OVER (ORDER BY id ROWS 1 PRECEDING) AS m FROM t ORDER BY id",
        "SELECT {count}(*) * 42 AS m FROM t",
        "SELECT id, (SELECT {count}(*) FROM t AS u WHERE u.k = t.k) AS m FROM t ORDER BY id",
        "SELECT {left}('abc', 2) AS m, {coalesce}(n, 7) AS n FROM t ORDER BY id",
    ],
)
def test_they_give_the_same_answers(engine: QueryEngine, statement: str) -> None:
    names = ("min", "max", "count", "left", "coalesce")
    bare = engine.execute(statement.format(**dict(zip(names, names, strict=True)))).read_all()
    quoted = engine.execute(statement.format(**{name: f'"{name}"' for name in names})).read_all()
    assert str(quoted.to_pylist()) == str(bare.to_pylist())
    assert quoted.schema == bare.schema


def test_an_infinite_group_has_an_infinite_minimum(engine: QueryEngine) -> None:
    rows = engine.execute('SELECT k, "min"(f) AS m FROM t GROUP BY k ORDER BY k').read_all()
    assert rows.column("m").to_pylist() == [1.0, float("inf")]


def test_only_calls_lose_their_quotes() -> None:
    sql = """SELECT "max" , {}, '"max"(a)', "Max"(a), "no_function"(a) -- "max"(a)"""
    assert tokenize(sql.format('"max"(a)')).sql == sql.format(" max (a)")


def test_positions_in_errors_stay(engine: QueryEngine) -> None:
    with pytest.raises(InvalidInputError, match="line 1, column 26"):
        engine.prepare("""SELECT "array_repeat"(3, 2147483647)""")
