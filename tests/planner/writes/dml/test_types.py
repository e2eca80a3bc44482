"""Columns of every kind are written by every statement, wherever the rows lie."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError, copy_error
from lance_gateway.memwal.writing import PartlyWrittenError, WriteReceipt
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.writes.dml.lake import Lake
from tests.support.lake.tables import key_field

THINGS = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("land", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("bin", pa.binary()),
        pa.field("Odd Name", pa.bool_()),
        pa.field("dic", pa.dictionary(pa.int32(), pa.string())),
    ]
)


def thing(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "land": "abc"[number % 3],
        "n": number,
        "vec": [number, 0.5],
        "ts": None,
        "st": {"a": number, "b": "x"},
        "tags": ["t"],
        "bin": b"z",
        "Odd Name": True,
        "dic": "d",
    }


@pytest.fixture(
    params=[
        pytest.param(lambda one: one.initialize_mem_wal(), id="one region", marks=pytest.mark.slow),
        pytest.param(lambda one: one.initialize_mem_wal(identity_column="land"), id="regions beside the key"),
    ]
)
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lake]:
    initialize: Callable[[lance.LanceDataset], None] = request.param
    rows = pa.Table.from_pylist([thing(number) for number in range(9)], THINGS)
    initialize(lance.write_dataset(rows, str(tmp_path / "things.lance")))
    made = Lake(QueryEngine(Catalog.open(str(tmp_path))))
    yield made
    made.engine.close()


def test_literals_of_every_kind(lake: Lake) -> None:
    done = lake.write(
        "INSERT INTO things VALUES (100, 'a', -1, [1, 2.5], '2024-01-01T02:00:00+02:00', "
        "{'a': 5, 'b': 'q'}, ['u', 'w'], X'0102', TRUE, 'dd') RETURNING *"
    )
    assert done.rows is not None
    assert done.rows.to_pylist() == [
        {
            "id": 100,
            "land": "a",
            "n": -1,
            "vec": [1.0, 2.5],
            "ts": datetime(2024, 1, 1, tzinfo=UTC),
            "st": {"a": 5, "b": "q"},
            "tags": ["u", "w"],
            "bin": b"\x01\x02",
            "Odd Name": True,
            "dic": "dd",
        }
    ]
    assert lake.read("SELECT * FROM things WHERE id = 100") == done.rows.to_pylist()


def test_expressions_of_every_kind(lake: Lake) -> None:
    sql = (
        "UPDATE things SET n = n + 1, \"Odd Name\" = false, st = {'a': n, 'b': 'new'}, "
        "tags = make_array('x', land), vec = [n, n], bin = 'abc', dic = upper(dic) WHERE id = 4"
    )
    assert lake.write(sql).affected == 1
    assert lake.read("SELECT * FROM things WHERE id = 4") == [
        thing(4)
        | {
            "n": 5,
            "Odd Name": False,
            "st": {"a": 4, "b": "new"},
            "tags": ["x", "b"],
            "vec": [4.0, 4.0],
            "bin": b"abc",
            "dic": "D",
        }
    ]


def test_what_is_not_set_stays(lake: Lake) -> None:
    assert lake.write("UPDATE things SET n = 0 WHERE land = 'b'").affected == 3
    assert lake.read("SELECT * FROM things WHERE id = 7") == [thing(7) | {"n": 0}]
    merge = (
        "MERGE INTO things USING (VALUES (8, 'c', 80), (200, 'q', 1)) AS s(id, land, n) ON things.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = s.n "
        "WHEN NOT MATCHED THEN INSERT (id, land, n) VALUES (s.id, s.land, s.n)"
    )
    assert lake.write(merge).affected == 2
    assert lake.read("SELECT * FROM things WHERE id = 8") == [thing(8) | {"n": 80}]
    assert lake.read("SELECT land, n, vec, dic FROM things WHERE id = 200") == [
        {"land": "q", "n": 1, "vec": None, "dic": None}
    ]


def test_rows_are_deleted_wherever_they_are(lake: Lake) -> None:
    assert lake.write("DELETE FROM things WHERE id = 6").affected == 1
    assert lake.write("DELETE FROM things WHERE land = 'a'").affected == 2
    assert [row["id"] for row in lake.read("SELECT id FROM things ORDER BY id")] == [1, 2, 4, 5, 7, 8]


def test_rows_are_found_by_structs_and_lists(lake: Lake) -> None:
    struct = pa.scalar({"a": 6, "b": "x"}, THINGS.field("st").type)
    assert lake.write("DELETE FROM things WHERE CASE st WHEN $1 THEN true END", struct).affected == 1
    tags = pa.scalar(["t"], pa.list_(pa.string()))
    done = lake.write(
        "UPDATE things SET n = 7 WHERE (CASE WHEN tags IS NULL THEN $1 ELSE tags END) = $1", tags
    )
    assert done.affected == 8


def test_vectors_are_compared_and_searched(lake: Lake) -> None:
    near = "id IN (SELECT id FROM lance_vector_search('things', 'vec', [2.0, 0.5], k => 1))"
    done = lake.write(f"UPDATE things SET n = 55 WHERE {near} RETURNING id, vec <-> [2.0, 1.5] AS distance")
    assert done.rows is not None
    assert done.rows.to_pylist() == [{"id": 2, "distance": 1.0}]


def test_vectors_of_other_dimensions_are_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInputError, match="it has 3 dimensions, and 2 are needed"):
        lake.write("INSERT INTO things (id, land, vec) VALUES (1, 'b', [1, 2, 3])")


def test_a_column_that_decides_about_the_region_can_not_be_set(lake: Lake) -> None:
    if lake.engine.catalog.table("things").base().details.region_specs:  # type: ignore[union-attr]
        with pytest.raises(UnsupportedError, match="column 'land' decides in which region"):
            lake.write("UPDATE things SET land = 'z' WHERE id = 4")
    else:
        assert lake.write("UPDATE things SET land = 'z' WHERE id = 4").affected == 1


def test_an_error_that_is_told_anew_keeps_what_it_carries() -> None:
    error = PartlyWrittenError("some", WriteReceipt({"r": 3}))
    again = copy_error(error, "some more")
    assert isinstance(again, PartlyWrittenError)
    assert (str(again), again.receipt.num_rows, again.status) == ("some more", 3, "UNAVAILABLE")


def test_returning_names_a_column_twice(lake: Lake) -> None:
    done = lake.write("UPDATE things SET n = 56 WHERE id = 1 RETURNING id, id, n + 1 AS id").rows
    assert done is not None
    assert done.column_names == ["id", "id", "id"]
    assert [column.to_pylist() for column in done.columns] == [[1], [1], [57]]
