"""FETCH FIRST n ROWS ONLY, the standard's LIMIT, as jOOQ, Hibernate and Calcite write it."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

CLAUSES = {
    "FETCH FIRST 3 ROWS ONLY": [0, 1, 2],
    "fetch next 1 row only": [0],
    "FETCH FIRST ROW ONLY": [0],
    "FETCH NEXT ROWS ONLY": [0],
    "OFFSET 4 ROWS FETCH NEXT 2 ROWS ONLY": [4, 5],
    "OFFSET 1 ROW FETCH FIRST ROW ONLY": [1],
    "FETCH FIRST (1 + 1) ROWS ONLY": [0, 1],
    "FETCH FIRST 0 ROWS ONLY": [],
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> QueryEngine:
    root: Path = tmp_path_factory.mktemp("fetched")
    lance.write_dataset(pa.table({"id": range(10), "fetch": range(10, 20)}), root / "numbers.lance")
    (root / "few.view.sql").write_text("SELECT id FROM numbers ORDER BY id DESC FETCH FIRST 2 ROWS ONLY")
    return QueryEngine(Catalog.open(str(root)))


def numbers(engine: QueryEngine, sql: str, *values: int) -> list[int]:
    parameters = [pa.scalar(value, pa.int64()) for value in values]
    return list(engine.execute(sql, parameters=parameters).read_all().column(0).to_pylist())


@pytest.mark.parametrize("clause", CLAUSES)
def test_no_more_rows_are_fetched_than_asked_for(engine: QueryEngine, clause: str) -> None:
    assert numbers(engine, f"SELECT id FROM numbers ORDER BY id {clause}") == CLAUSES[clause]


@pytest.mark.parametrize(
    ("clause", "values"),
    [
        ("FETCH NEXT ? ROWS ONLY", (2,)),
        ("OFFSET ? ROWS FETCH NEXT ? ROWS ONLY", (3, 2)),
        ("OFFSET $2 ROWS FETCH NEXT $1 ROWS ONLY", (2, 3)),
    ],
)
def test_the_number_may_be_a_parameter(engine: QueryEngine, clause: str, values: tuple[int, ...]) -> None:
    found = numbers(engine, f"SELECT id FROM numbers ORDER BY id {clause}", *values)
    assert found == ([0, 1] if len(values) == 1 else [3, 4])


def test_each_query_of_a_statement_may_have_its_own(engine: QueryEngine) -> None:
    sql = (
        "SELECT id FROM (SELECT id FROM numbers ORDER BY id FETCH FIRST 5 ROWS ONLY) "
        "ORDER BY id DESC FETCH FIRST 2 ROWS ONLY"
    )
    assert numbers(engine, sql) == [4, 3]
    assert numbers(engine, "SELECT id FROM few ORDER BY id FETCH FIRST ROW ONLY") == [8]


def test_a_column_may_be_called_fetch(engine: QueryEngine) -> None:
    assert numbers(engine, "SELECT fetch first FROM numbers ORDER BY fetch FETCH FIRST ROW ONLY") == [10]


def test_shares_are_refused_by_name(engine: QueryEngine) -> None:
    with pytest.raises(UnsupportedError, match="FETCH with PERCENT is not supported"):
        numbers(engine, "SELECT id FROM numbers ORDER BY id FETCH FIRST 10 PERCENT ROWS ONLY")


@pytest.mark.parametrize(
    "clause", ["FETCH", "FETCH FIRST", "FETCH FIRST 2", "FETCH FIRST $", "FETCH FIRST (2"]
)
def test_a_clause_that_does_not_end_is_an_error(engine: QueryEngine, clause: str) -> None:
    with pytest.raises((InvalidInputError, UnsupportedError)):
        numbers(engine, f"SELECT id FROM numbers n {clause}")
