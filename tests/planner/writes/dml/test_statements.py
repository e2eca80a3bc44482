"""Statements with a standard meaning do what DuckDB does."""

from collections.abc import Iterator

import duckdb
import pytest

from tests.planner.writes.dml.lake import TABLES, Lake, duckdb_twin, open_lake, ordered, rows_of
from tests.planner.writes.dml.titled import Case, read_titled


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, duckdb.DuckDBPyConnection]]:
    """The same tables here and there. Every statement does the same to both, so any state serves the next."""
    lake, twin = open_lake(tmp_path_factory.mktemp("lake")), duckdb_twin()
    yield lake, twin
    lake.engine.close()
    twin.close()


@pytest.mark.slow
@pytest.mark.parametrize("case", read_titled("statements.sql"), ids=str)
def test_does_what_duckdb_does(case: Case, both: tuple[Lake, duckdb.DuckDBPyConnection]) -> None:
    lake, twin = both
    done = lake.write(case.parts[0])
    answer = rows_of(twin, case.parts[-1])

    if done.rows is not None:
        assert ordered(done.rows.to_pylist()) == ordered(answer)
        assert done.affected == len(answer)
    else:
        assert [done.affected] == list(answer[0].values())
    for table in TABLES:
        assert lake.rows(table) == ordered(rows_of(twin, f"SELECT * FROM {table}")), table
