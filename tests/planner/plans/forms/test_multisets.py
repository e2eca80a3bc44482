"""INTERSECT ALL and EXCEPT ALL count how often a row occurs. DuckDB judges."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

T = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 5, None, None], pa.int64()),
        "k": pa.array([1, 1, 2, 2, None, 3, 3, 3], pa.int64()),
        "s": ["a", "b", "a", None, "c", "c", "a", "a"],
    }
)
U = pa.table(
    {
        "id": pa.array([1, 1, 2, 3, 3, 5, 5, 5, None], pa.int64()),
        "k": pa.array([1, 1, 1, 9, 2, None, 3, 3, 3], pa.int32()),
        "s": ["a", "a", "b", "x", "a", "c", "c", "c", "a"],
    }
)
OPERATIONS = ("INTERSECT ALL", "EXCEPT ALL")
QUERIES = (
    "SELECT id FROM {0} {operation} SELECT id FROM {1}",
    "SELECT id, k, s FROM {0} {operation} SELECT id, k, s FROM {1}",
    "SELECT * FROM {0} {operation} SELECT id, k, s FROM {1}",
    "SELECT id AS x, k FROM {0} {operation} SELECT id, k FROM {1} ORDER BY x NULLS FIRST, k LIMIT 3",
    "SELECT id FROM {0} {operation} SELECT id FROM {1} {operation} SELECT 5",
    "SELECT id FROM {0} EXCEPT ALL SELECT id FROM {1} INTERSECT ALL SELECT id FROM {0}",
    "SELECT id FROM {0} UNION ALL SELECT id FROM {1} {operation} SELECT id FROM {1}",
    "SELECT id FROM {0} {operation} (SELECT id FROM {1} UNION SELECT 7)",
    "(SELECT id FROM {0} {operation} SELECT id FROM {1}) UNION ALL (SELECT id FROM {1} {operation} SELECT 1)",
    "SELECT s, count(*) AS n FROM {0} GROUP BY s {operation} SELECT s, count(*) FROM {1} GROUP BY s",
    "VALUES (1), (1), (5) {operation} SELECT id FROM {1}",
    "WITH c AS (SELECT id FROM {0} {operation} SELECT id FROM {1}) SELECT * FROM c {operation} SELECT 5",
    "SELECT count(*) AS n FROM (SELECT s FROM {0} {operation} SELECT s FROM {1}) AS q",
    "SELECT id FROM t WHERE id IN (SELECT id FROM {0} {operation} SELECT id FROM {1})",
    "SELECT id, id FROM {0} {operation} SELECT id, k FROM {1}",
    "SELECT id FROM {0} {operation} SELECT k FROM {1} -- to the end",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("multisets"), {"t": T, "u": U}) as opened:
        yield opened


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("sql", QUERIES)
def test_rows_are_counted(judged: Judged, sql: str, operation: str) -> None:
    for tables in (("t", "u"), ("u", "t")):
        text = sql.format(*tables, operation=operation)
        judged.check(text, is_sorted="ORDER BY" in sql)


def test_the_names_are_those_of_the_left_side(judged: Judged) -> None:
    sql = "SELECT id AS x, k + 1, s FROM t EXCEPT ALL SELECT id, k, s FROM u"
    assert judged.engine.prepare(sql).schema.names == ["x", "t.k + Int64(1)", "s"]


def test_parameters_stand_on_both_sides(judged: Judged) -> None:
    values = [pa.scalar(value, pa.int64()) for value in (1, 3)]
    sql = "SELECT id FROM u WHERE id = ? EXCEPT ALL SELECT id FROM t WHERE id < ?"
    assert rows_of(judged.engine.execute(sql, parameters=values).read_all()) == [(1,)]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT id FROM t EXCEPT ALL SELECT id, k FROM u", InvalidInputError, "they have 1 and 2"),
        ("SELECT id FROM t EXCEPT ALL SELECT s FROM u", UnsupportedError, "cast one of them"),
        ("SELECT id FROM t EXCEPT ALL SELECT x FROM u", InvalidInputError, "No field named x"),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT k FROM u WHERE u.id = t.id EXCEPT ALL SELECT t.k)",
            UnsupportedError,
            "read columns of the rows around them",
        ),
    ],
)
def test_sides_that_can_not_be_counted_are_refused(
    judged: Judged, sql: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        judged.engine.execute(sql)
