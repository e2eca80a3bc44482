"""Defaults of columns: which statements apply them, and how often they are evaluated."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.writes.dml.lake import Lake

TABLE = """
CREATE TABLE t (
  id UUID DEFAULT uuid() PRIMARY KEY, n INT DEFAULT 7 NOT NULL, at TIMESTAMP DEFAULT now(), s VARCHAR(3)
)"""


@pytest.fixture
def lake(root: Path) -> Iterator[Lake]:
    engine = QueryEngine(Catalog.open(str(root)))
    made = Lake(engine)
    made.write(TABLE)
    yield made
    engine.close()


def test_default_values_are_one_row_of_defaults(lake: Lake) -> None:
    assert lake.write("INSERT INTO t DEFAULT VALUES").affected == 1
    assert lake.write("INSERT INTO t DEFAULT VALUES").affected == 1
    rows = lake.rows("t")
    assert len({row["id"] for row in rows}) == 2
    assert [(row["n"], row["s"], row["at"] is None) for row in rows] == [(7, None, False)] * 2


def test_a_table_without_key_and_defaults_takes_a_row_of_nulls(lake: Lake) -> None:
    lake.write("CREATE TABLE log (line TEXT)")
    assert lake.write("INSERT INTO log DEFAULT VALUES").affected == 1
    assert lake.rows("log") == [{"line": None}]


@pytest.mark.parametrize(
    "insert",
    [
        "INSERT INTO t (s) SELECT 'a' FROM generate_series(1, 100000)",
        "INSERT INTO t (s) VALUES ('a'), ('b'), (upper('c'))",
        "INSERT INTO t (n, s, at) VALUES (1, 'a', DEFAULT), (DEFAULT, 'b', DEFAULT)",
        "INSERT INTO t BY NAME SELECT 'a' AS s UNION ALL SELECT 'b'",
    ],
)
def test_a_statement_has_one_time_and_each_row_a_uuid(lake: Lake, insert: str) -> None:
    count = lake.write(insert).affected
    (row,) = lake.read("SELECT count(*) AS n, count(DISTINCT id) AS ids, count(DISTINCT at) AS times FROM t")
    assert row == {"n": count, "ids": count, "times": 1}


def test_sets_of_parameters_have_their_defaults(lake: Lake) -> None:
    prepared = lake.engine.prepare_statement(
        "INSERT INTO t (id, n, s) VALUES (DEFAULT, $1, DEFAULT), (DEFAULT, 5, $2)"
    )
    many = pa.table({"1": pa.array([1, 2, 3], pa.int32()), "2": ["a", "b", "c"]})
    assert prepared.execute_many(many).affected == 6
    rows = lake.read("SELECT n, s FROM t ORDER BY n, s")
    assert [tuple(row.values()) for row in rows] == [
        (1, None),
        (2, None),
        (3, None),
        (5, "a"),
        (5, "b"),
        (5, "c"),
    ]
    assert lake.read("SELECT count(DISTINCT id) AS ids FROM t") == [{"ids": 6}]


def test_null_is_no_default(lake: Lake) -> None:
    lake.write("INSERT INTO t (s, at) VALUES ('a', NULL)")
    assert [(row["at"], row["n"]) for row in lake.rows("t")] == [(None, 7)]
    with pytest.raises(InvalidInputError, match="column 'n' of row 1 is NULL"):
        lake.write("INSERT INTO t (n) VALUES (NULL)")


def test_what_is_there_gets_its_default_again(lake: Lake) -> None:
    lake.write("CREATE TABLE u (id INT PRIMARY KEY, n INT DEFAULT 7, m INT)")
    lake.write("INSERT INTO u VALUES (1, 1, 1), (2, 2, 2)")
    lake.write("UPDATE u SET n = DEFAULT, m = DEFAULT WHERE id = 1")
    lake.write("INSERT INTO u VALUES (2, 5, 5), (3, 5, 5) ON CONFLICT (id) DO UPDATE SET n = DEFAULT")
    lake.write(
        "MERGE INTO u USING (VALUES (3), (4)) AS s(id) ON u.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (id, m, n) VALUES (s.id, 9, DEFAULT)"
    )
    assert [tuple(row.values()) for row in lake.rows("u")] == [(1, 7, None), (2, 7, 2), (3, 7, 5), (4, 7, 9)]


def test_returning_has_them(lake: Lake) -> None:
    result = lake.write("INSERT INTO t (s) VALUES ('a') RETURNING id, n, at").rows
    assert result is not None
    assert result.to_pylist() == lake.read("SELECT id, n, at FROM t")


def test_a_dialect_has_them_too(lake: Lake) -> None:
    lake.speaking("mysql").write("INSERT INTO t (n, s) VALUES (DEFAULT, 'a')")
    lake.speaking("mysql").write("REPLACE INTO t (s) VALUES ('b')")
    assert [row["n"] for row in lake.rows("t")] == [7, 7]


def test_a_default_that_fails_is_refused_where_it_is_declared(lake: Lake) -> None:
    with pytest.raises(InvalidInputError, match=r"column 'n' can't be used: .* Divide by zero"):
        lake.write("CREATE TABLE u (id INT PRIMARY KEY, n INT DEFAULT CAST(random() * 0 AS INT) / 0)")
    assert "u" not in lake.engine.catalog.names()
