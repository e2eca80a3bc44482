"""A statement that is but a search is planned once: later runs must mean the same, on newer rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.search.search_scan import DirectSearch
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

POINTS = pa.schema(
    [key_field("id", pa.int64()), pa.field("at", pa.list_(pa.float32(), 2)), pa.field("name", pa.string())]
)


def point(number: int, at: float) -> dict[str, Any]:
    return {"id": number, "at": [at, 0.0], "name": f"point {number}"}


@pytest.fixture
def points(tmp_path: Path, shared_writers: WriterProcess) -> LsmTable:
    rows = pa.Table.from_pylist([point(number, number) for number in range(40)], schema=POINTS)
    table = LsmTable.create(tmp_path, "points", rows, unpartitioned(("id",), 1), shared_writers)
    table.dataset().create_scalar_index("name", "INVERTED")
    table.put([point(3, 30.5), point(50, 0.5)])
    return table


@pytest.fixture
def engine(points: LsmTable) -> Iterator[QueryEngine]:
    engine = QueryEngine(Catalog.open(str(points.path.parent)), partitions=2)
    yield engine
    engine.close()


SEARCH = "lance_vector_search('points', 'at', [0, 0], k => 5)"
TEXT = "lance_fts('points', 'name', 'point', k => 5)"
NOTHING_BUT_SEARCHES = [
    f"SELECT * FROM {SEARCH}",
    f"SELECT id FROM {SEARCH}",
    f"SELECT _distance, id FROM {SEARCH} ORDER BY _distance",
    f"SELECT id FROM {SEARCH} ORDER BY _distance ASC LIMIT 2",
    f"SELECT id AS a, _distance AS b FROM {SEARCH} AS s ORDER BY b LIMIT 3",
    f"SELECT s.id FROM {SEARCH} AS s WHERE s.id > 2 ORDER BY s._distance",
    f"SELECT a FROM (SELECT id AS a, _distance AS d FROM {SEARCH}) ORDER BY d LIMIT 4",
    f"SELECT id, _score FROM {TEXT} ORDER BY _score DESC",
    "SELECT id, query_index FROM lance_vector_search('points', 'at', [[0, 0], [9, 0]], k => 2)",
]
MORE_THAN_SEARCHES = [
    f"SELECT id FROM {SEARCH} ORDER BY _distance DESC",
    f"SELECT id FROM {SEARCH} ORDER BY _distance, id DESC",
    f"SELECT id FROM {SEARCH} ORDER BY id",
    f"SELECT id + 1 AS next FROM {SEARCH}",
    f"SELECT id FROM {SEARCH} ORDER BY _distance LIMIT 2 OFFSET 1",
    f"SELECT count(*) AS n FROM {SEARCH}",
    f"SELECT DISTINCT name FROM {SEARCH}",
    f"SELECT id, _score FROM {TEXT} ORDER BY _score",
    f"SELECT s.id FROM {SEARCH} AS s JOIN points AS p ON p.id = s.id",
    "SELECT id FROM lance_vector_search('points', 'at', [[0, 0], [9, 0]], k => 2) ORDER BY _distance",
]


def found(engine: QueryEngine, sql: str) -> DirectSearch | None:
    """What a run of the statement tells of it."""
    prepared = engine.prepare(sql)
    prepared.execute().read_all()
    return prepared._search


@pytest.mark.parametrize("sql", NOTHING_BUT_SEARCHES)
def test_what_is_but_a_search_answers_alike_every_time(engine: QueryEngine, sql: str) -> None:
    first = engine.execute(sql).read_all()
    assert first.num_rows
    assert found(engine, sql) is not None
    assert engine.execute(sql).read_all().equals(first)


@pytest.mark.slow
@pytest.mark.parametrize("sql", MORE_THAN_SEARCHES)
def test_what_is_more_is_left_to_datafusion(engine: QueryEngine, sql: str) -> None:
    first = engine.execute(sql).read_all()
    assert first.num_rows
    assert found(engine, sql) is None
    assert sorted(map(str, engine.execute(sql).read_all().to_pylist())) == sorted(map(str, first.to_pylist()))


def test_later_runs_see_newer_rows(engine: QueryEngine, points: LsmTable) -> None:
    prepared = engine.prepare(f"SELECT id FROM {SEARCH}")
    assert prepared.execute().read_all()["id"].to_pylist() == [0, 50, 1, 2, 4]
    points.put([point(60, 0.25)])
    points.delete([{"id": 1}])
    assert prepared.execute().read_all()["id"].to_pylist() == [0, 60, 50, 2, 4]
    points.close_writers()
    assert prepared.execute().read_all()["id"].to_pylist() == [0, 60, 50, 2, 4]


def test_parameters_of_a_search_differ_from_run_to_run(engine: QueryEngine) -> None:
    prepared = engine.prepare("SELECT id FROM lance_vector_search('points', 'at', $1, k => $2)")
    assert [field.type for field in prepared.parameter_schema] == [pa.list_(pa.float64()), pa.int64()]

    def nearest(at: float, k: int) -> list[int]:
        values = [pa.scalar([at, 0.0], pa.list_(pa.float64())), pa.scalar(k)]
        ids: list[int] = prepared.execute(values).read_all()["id"].to_pylist()
        return ids

    assert nearest(0, 2) == [0, 50]
    assert nearest(20, 1) == [20]
    assert nearest(30.6, 3) == [3, 31, 30]


def test_parameters_of_conditions_differ_from_run_to_run(engine: QueryEngine) -> None:
    prepared = engine.prepare(f"SELECT id FROM {SEARCH} WHERE id > $1")
    assert prepared.execute([pa.scalar(10)]).read_all()["id"].to_pylist() == [50, 11, 12, 13, 14]
    assert prepared.execute([pa.scalar(20)]).read_all()["id"].to_pylist() == [50, 21, 22, 23, 24]


def test_a_table_without_its_columns_asks_to_prepare_again(engine: QueryEngine, points: LsmTable) -> None:
    prepared = engine.prepare(f"SELECT id, name FROM {SEARCH}")
    prepared.execute().read_all()
    points.dataset().drop_columns(["name"])
    with pytest.raises(PreconditionError, match="prepare it again"):
        prepared.execute().read_all()
