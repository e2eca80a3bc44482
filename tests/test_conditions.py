"""Conditions that DataFusion folds, rewrites or hands over in forms of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32()), pa.field("s", pa.string())])
Answer = Callable[..., list[int]]


@pytest.fixture
def ids(root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]) -> Answer:
    """The ids of table ``t`` that a condition selects: 0 to 3 from the base, 4 flushed, 5 from the log."""
    base = pa.Table.from_pylist([row(number) for number in range(4)], schema=SCHEMA)
    table = LsmTable.create(root, "t", base, bucketed("id", 2, recorded=True), writers)
    table.put([row(4)])
    table.close_writers()
    table.put([row(5)])
    engine = open_engine(root)

    def select(condition: str, *parameters: Any, sql: str = "SELECT id FROM t WHERE {}") -> list[int]:
        values = [pa.scalar(value) for value in parameters]
        answer = engine.execute(sql.format(condition), SessionSettings(), values).read_all()
        return sorted(number for (number,) in rows_of(answer))

    return select


def row(number: int) -> dict[str, Any]:
    return {"id": number, "n": number, "s": "ab"[number % 2]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id = 2 AND coalesce(id, 1) = 5", []),
        ("id = 2 AND coalesce(id, 1) = 2", [2]),
        ("s = 'a' AND id = 2 AND coalesce(id, 1) = 5", []),
        ("id = 1 AND id = 2", []),
        ("n = 1 AND n = 2 AND s = 'b'", []),
        ("1 = n AND 'a' < s AND n BETWEEN 2 AND 2", []),
        ("n = 1 OR TRUE", [0, 1, 2, 3, 4, 5]),
        ("n = 1 AND NULL", []),
        ("n IN (1, NULL)", [1]),
        ("NOT (n IN (1, NULL))", []),
        ("CASE WHEN id > 3 THEN n = 4 ELSE n = 1 END", [1, 4]),
        ("(id, n) IN ((4, 4), (5, 1))", [4]),
        ("id = 5.0", [5]),
        ("id = 4.5", []),
        ("id = '4'", [4]),
        ("CAST(id AS VARCHAR) = '4'", [4]),
        ("id = 9223372036854775808", []),
        ("id = ANY(ARRAY[0, 5])", [0, 5]),
        ("id IN (SELECT n FROM t WHERE n > 3)", [4, 5]),
        ("id IS NULL", []),
        ("id IS NOT NULL AND s IS DISTINCT FROM 'a'", [1, 3, 5]),
    ],
)
def test_a_condition_means_what_it_says(ids: Answer, condition: str, expected: list[int]):
    assert ids(condition) == expected


def test_conditions_of_a_join_that_fold_to_false(ids: Answer):
    join = "SELECT x.id FROM t x LEFT JOIN t y ON x.s = y.s AND y.s || 'b' = 'ab' WHERE {}"
    assert ids("x.n = 1 AND x.s > 'a' AND x.n BETWEEN 2 AND 2", sql=join) == []


@pytest.mark.parametrize(
    ("condition", "parameters", "expected"),
    [
        ("id IN ($1, $2)", (1, 5), [1, 5]),
        ("id IN ($1,$2)", (1, 5), [1, 5]),
        ("id=$1OR id=$2", (1, 5), [1, 5]),
        ("id+$1=$2", (1, 5), [4]),
        ("id IN (?,?)", (1, 5), [1, 5]),
        ("id = $1 AND s = $2", (4, "a"), [4]),
        ("s = '$1,$' AND id = $1", (4,), []),
        ("id = $1", (None,), []),
        ("id IN ($1,$2)", (None, 5), [5]),
    ],
)
def test_parameters_need_no_space_around_them(
    ids: Answer, condition: str, parameters: tuple[Any, ...], expected: list[int]
):
    assert ids(condition, *parameters) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("tags = ['b']", [2]),
        ("tags <> ['b']", [1]),
        ("tags = ['b'] AND id < 2", []),
        ("tags IS NULL", [3]),
        ("place = struct(1 AS x)", [1]),
        ("place['x'] = 2", [2]),
        ("vec = arrow_cast([3.0, 4.0], 'FixedSizeList(2, Float32)')", [2]),
    ],
)
def test_lists_and_structs_are_compared_as_a_whole(
    tmp_path: Path, condition: str, expected: list[int]
) -> None:
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "tags": [["a"], ["b"], None],
            "place": [{"x": 1}, {"x": 2}, None],
            "vec": pa.array([[1.0, 2.0], [3.0, 4.0], None], pa.list_(pa.float32(), 2)),
        }
    )
    lance.write_dataset(rows, tmp_path / "t.lance")
    engine = QueryEngine(Catalog.open(str(tmp_path)))
    found = engine.execute(f"SELECT id FROM t WHERE {condition} ORDER BY id").read_all()
    assert found.column("id").to_pylist() == expected
