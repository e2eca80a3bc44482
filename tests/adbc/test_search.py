"""Search functions through ADBC: vectors and texts as bound parameters, results as Arrow."""

from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import lance
import numpy as np
import pyarrow as pa
import pytest

from tests.gateway.conftest import serving
from tests.support.processes.servers import open_connection

NEAREST = "SELECT id, _distance FROM lance_vector_search('docs', 'at', ?, k => 3) ORDER BY _distance"


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A connection to a gateway with the table `docs`: points on a line, and what they are called."""
    root = tmp_path_factory.mktemp("searching")
    points = np.zeros((100, 4), "f4")
    points[:, 0] = np.arange(100)
    docs = {
        "id": pa.array(range(100)),
        "at": pa.FixedSizeListArray.from_arrays(pa.array(points.ravel()), 4),
        "body": [f"point number {number}" + " corner" * (number == 99) for number in range(100)],
    }
    lance.write_dataset(pa.table(docs), root / "docs.lance").create_scalar_index("body", "INVERTED")
    with serving(root) as server, open_connection(f"grpc://127.0.0.1:{server.port}") as connection:
        yield connection


@pytest.fixture
def cursor(searching: Any) -> Iterator[Any]:
    with searching.cursor() as cursor:
        yield cursor


VECTORS = {
    "list of doubles": pa.array([[7.2, 0, 0, 0]], pa.list_(pa.float64())),
    "list of floats": pa.array([[7.2, 0, 0, 0]], pa.list_(pa.float32())),
    "fixed-size list": pa.array([[7.2, 0, 0, 0]], pa.list_(pa.float32(), 4)),
    "large list": pa.array([[7.2, 0, 0, 0]], pa.large_list(pa.float64())),
    "list of integers": pa.array([[7, 0, 0, 0]], pa.list_(pa.int64())),
    "text": pa.array(["[7.2, 0, 0, 0]"]),
}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_a_vector_is_bound_in_any_form(cursor: Any, vector: pa.Array) -> None:
    cursor.execute(NEAREST, parameters=pa.record_batch([vector], names=["$1"]))
    assert [row[0] for row in cursor.fetchall()] in ([7, 8, 6], [7, 6, 8])


def test_a_vector_is_bound_as_a_python_list(cursor: Any) -> None:
    cursor.execute(NEAREST, parameters=([7.2, 0.0, 0.0, 0.0],))
    rows = cursor.fetch_arrow_table()
    assert rows.schema.types == [pa.int64(), pa.float32()]
    assert rows["id"].to_pylist() == [7, 8, 6]
    assert rows["_distance"].to_pylist() == pytest.approx([0.04, 0.64, 1.44], rel=1e-5)


def test_all_arguments_are_bound(cursor: Any) -> None:
    search = "lance_vector_search('docs', 'at', ?, k => ?, prefilter => ?, metric => ?)"
    parameters = ([7.0, 0.0, 0.0, 0.0], 2, True, "l2", 20)
    cursor.execute(f"SELECT id FROM {search} WHERE id > ?", parameters=parameters)
    assert [row[0] for row in cursor.fetchall()] == [21, 22]


def test_texts_are_bound(cursor: Any) -> None:
    cursor.execute(
        "SELECT id, _score FROM lance_fts('docs', 'body', ?, k => ?) ORDER BY _score DESC",
        parameters=("corner point", 2),
    )
    rows = cursor.fetchall()
    assert rows[0][0] == 99
    assert rows[0][1] > rows[1][1] > 0


def test_both_are_bound(cursor: Any) -> None:
    sql = "SELECT id, _hybrid_score, _distance, _score FROM lance_hybrid_search('docs', 'at', ?, 'body', ?)"
    cursor.execute(sql, parameters=([98.9, 0.0, 0.0, 0.0], "corner"))
    first = cursor.fetchone()
    assert first[0] == 99
    assert first[1] == pytest.approx(0.5 + 0.5 / 2)  # the nearest, and the only one with the word


def test_distances_are_sorted_by(cursor: Any) -> None:
    cursor.execute("SELECT id FROM docs ORDER BY at <-> ? LIMIT 3", parameters=([7.2, 0.0, 0.0, 0.0],))
    assert [row[0] for row in cursor.fetchall()] == [7, 8, 6]


def run(cursor: Any, parameters: Any) -> list[Any]:
    """The driver tells of errors when it executes, or when it reads."""
    cursor.execute(NEAREST, parameters=parameters)
    rows: list[Any] = cursor.fetchall()
    return rows


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (([1.0, 2.0],), "the query has 2 numbers, but column 'at' holds vectors of 4"),
        (([1.0, 2.0, 3.0, float("nan")],), "finite"),
        ((None,), "must be a list of 4 numbers"),
        (("east",), "a list of numbers, and the text 'east' is none"),
    ],
)
def test_a_vector_that_fits_no_column_is_refused(cursor: Any, parameters: Any, message: str) -> None:
    with pytest.raises(flightsql.ProgrammingError, match=message):
        run(cursor, parameters)
