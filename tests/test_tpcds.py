"""The 99 queries of TPC-DS, over tables with fresh rows, have the answers of DuckDB over the newest rows."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from benchmarks.scans.suites import round_values
from benchmarks.tables.fresh_tables import FreshTables, ensure_fresh_tables
from benchmarks.tables.tpcds_data import TpcdsData
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.sampling import sample

pytestmark = [pytest.mark.slow, pytest.mark.soak]

SCALE = 0.1
GENERATIONS = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TpcdsData:
    return TpcdsData(tmp_path_factory.mktemp("tpcds") / "source", SCALE)


@pytest.fixture(scope="module")
def tables(data: TpcdsData) -> FreshTables:
    return ensure_fresh_tables(data.home.parent / "tables", data.generate, GENERATIONS)


@pytest.fixture(scope="module")
def engine(tables: FreshTables) -> Iterator[QueryEngine]:
    engine = QueryEngine(Catalog.open(str(tables.root)), partitions=2)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def judge(tables: FreshTables) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as database:
        for name, path in tables.files.items():
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{Path(path)}'")
        yield database


@pytest.mark.parametrize("number", sample(range(1, 100), 20))
def test_the_answer_is_that_of_duckdb(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, data: TpcdsData, number: int
) -> None:
    sql = data.read_queries()[str(number)]
    # Rows with equal keys of ORDER BY come in any order.
    assert round_values(engine.execute(sql).read_all()) == round_values(judge.sql(sql).to_arrow_table())
