"""Rows of values are compared field by field, with the standard's NULL. DuckDB judges what that means."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

T = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 6, None], pa.int64()),
        "k": pa.array([1, 1, 2, 2, None, 3, 3], pa.int64()),
        "s": ["a", "b", "a", None, "c", "c", "a"],
    }
)
U = pa.table(
    {
        "id": pa.array([1, 1, 2, 3, 4, 7, None], pa.int64()),
        "k": pa.array([1, 1, 1, 9, 2, None, 3], pa.int64()),
    }
)
# What is asked, and what it means.
CONDITIONS = {
    "(id, k) = (1, 1)": "id = 1 AND k = 1",
    "ROW(id, k) = ROW(1, 1)": "id = 1 AND k = 1",
    "NOT (id, k) = (1, 1)": "NOT (id = 1 AND k = 1)",
    "(id, k) <> (1, 1)": "id <> 1 OR k <> 1",
    "(id, k) != (t.k, t.id) AND id > 1": "(id <> k OR k <> id) AND id > 1",
    "(k, id) < (2, 4)": "k < 2 OR (k = 2 AND id < 4)",
    "(k, id) <= (2, 4)": "k < 2 OR (k = 2 AND id <= 4)",
    "(k, id, s) > (2, 3, 'a')": "k > 2 OR (k = 2 AND (id > 3 OR (id = 3 AND s > 'a')))",
    "NOT (k, id) >= (2, 4)": "NOT (k > 2 OR (k = 2 AND id >= 4))",
    "(k, id) BETWEEN (1, 2) AND (2, 3)": "(k > 1 OR (k = 1 AND id >= 2)) AND (k < 2 OR (k = 2 AND id <= 3))",
    "(k, id) NOT BETWEEN (1, 2) AND (2, 3)": (
        "NOT ((k > 1 OR (k = 1 AND id >= 2)) AND (k < 2 OR (k = 2 AND id <= 3)))"
    ),
    "(id, k) IN ((1, 1), (3, 2), (9, 9))": "(id = 1 AND k = 1) OR (id = 3 AND k = 2) OR (id = 9 AND k = 9)",
    "(id, k) NOT IN ((1, 1), (NULL, 2))": "NOT ((id = 1 AND k = 1) OR (id = NULL AND k = 2))",
    "(id, (k + 1) * 2) IN ((1, 4))": "id = 1 AND (k + 1) * 2 = 4",
    "(id + k, s) = (2, 'a') OR (id, k) = (6, 3)": "(id + k = 2 AND s = 'a') OR (id = 6 AND k = 3)",
    "id IN (VALUES (1), (3), (k + 1))": "id = 1 OR id = 3 OR id = k + 1",
    "id NOT IN (VALUES (1), (NULL))": "NOT (id = 1 OR id = NULL)",
    "(id, k) IN (VALUES (1, 1), (NULL, 2))": "(id = 1 AND k = 1) OR (id = NULL AND k = 2)",
    "((id, k) = (1, 1)) IS NULL": "(id = 1 AND k = 1) IS NULL",
}
# DuckDB compares rows with those of subqueries as the standard does.
MEMBERSHIPS = [
    "(id, k) IN (SELECT id, k FROM u)",
    "(id, k) NOT IN (SELECT id, k FROM u)",
    "(id, k) NOT IN (SELECT id, k FROM u WHERE id > 1)",
    "(id, k) NOT IN (SELECT id, k FROM u WHERE id IS NOT NULL AND k IS NOT NULL)",
    "(id, k) NOT IN (SELECT id, k FROM u WHERE false)",
    "NOT (id, k) IN (SELECT id, k FROM u)",
    "NOT (id, k) NOT IN (SELECT id, k FROM u)",
    "s = 'c' OR (id, k) IN (SELECT id, k FROM u)",
    "s = 'c' AND NOT ((id, k) IN (SELECT id, k FROM u WHERE id < 9) OR id = 6)",
    "(id + 0, k) IN (SELECT max(id), k FROM u GROUP BY k)",
    "(id, k) IN (VALUES (1, 1), (6, 3))",
    "(id, k) IN (WITH w AS (SELECT id, k FROM u) SELECT * FROM w)",
]
# DuckDB has no subqueries of several columns that read columns around them.
CORRELATED = {
    "(t.id, t.k) IN (SELECT u.id, u.k FROM u WHERE u.k <= t.id)": (
        "EXISTS (SELECT 1 FROM u WHERE u.k <= t.id AND u.id = t.id AND u.k = t.k)"
    ),
    "(t.id, t.k) NOT IN (SELECT u.id, u.k FROM u WHERE u.k <= t.id)": (
        "NOT EXISTS (SELECT 1 FROM u WHERE u.k <= t.id AND (u.id = t.id AND u.k = t.k) IS NOT FALSE)"
    ),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("rows"), {"t": T, "u": U}) as opened:
        yield opened


@pytest.mark.parametrize("condition", CONDITIONS)
def test_fields_are_compared_one_by_one(judged: Judged, condition: str) -> None:
    for asked in ("SELECT id, k FROM t WHERE {}", "SELECT id, k, {} AS found FROM t"):
        found = rows_of(judged.engine.execute(asked.format(condition)).read_all())
        expected = judged.judge.execute(asked.format(f"({CONDITIONS[condition]})")).fetchall()
        assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("condition", MEMBERSHIPS)
def test_rows_are_looked_for_among_those_of_a_subquery(judged: Judged, condition: str) -> None:
    judged.check(f"SELECT * FROM t WHERE {condition}")


@pytest.mark.parametrize("condition", CORRELATED)
def test_subqueries_of_rows_may_read_columns_around_them(judged: Judged, condition: str) -> None:
    found = rows_of(judged.engine.execute(f"SELECT * FROM t WHERE {condition}").read_all())
    expected = judged.judge.execute(f"SELECT * FROM t WHERE {CORRELATED[condition]}").fetchall()
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_parameters_are_copied_with_their_numbers(judged: Judged) -> None:
    values = [pa.scalar(value, pa.int64()) for value in (2, 4, 1)]
    sql = "SELECT id FROM t WHERE (k, id) < (?, ?) AND id > ?"
    assert judged.engine.execute(sql, parameters=values).read_all().column("id").to_pylist() == [2, 3]


def test_joins_and_views_compare_rows_too(judged: Judged) -> None:
    known = "t.id IS NOT NULL AND t.k IS NOT NULL"  # DuckDB's structs are equal where both have NULL
    judged.check(f"SELECT t.id, u.k FROM t JOIN u ON (t.id, t.k) = (u.id, u.k) WHERE {known}")
    engine = judged.engine
    catalog = engine.catalog
    assert catalog.write_view("small", "SELECT id FROM t WHERE (k, id) < (2, 4)", replaces=False)
    assert engine.execute("SELECT id FROM small ORDER BY id").read_all().column("id").to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT id FROM t WHERE (id, k) = (1, 2, 3)", InvalidInputError, "Rows of 2 and 3 values"),
        ("SELECT (id, k) IN (SELECT id, k FROM u) FROM t", UnsupportedError, "write EXISTS in a condition"),
        ("SELECT id FROM t WHERE (id, random()) < (1, 2)", UnsupportedError, "compute it in a subquery"),
    ],
)
def test_what_can_not_be_compared_is_refused(
    judged: Judged, sql: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        judged.engine.execute(sql)
