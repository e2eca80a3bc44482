"""CREATE TABLE .. AS SELECT: the rows are there when the table is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.creating import list_key_columns
from lance_gateway.memwal.errors import AlreadyExistsError, InvalidInputError, LanceGatewayError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.writes.ddl.tables.making import create_table

Sql = Any
SERIES = "SELECT value AS id, concat('n', value) AS name FROM generate_series(1, {}) AS s(value)"


def test_rows_are_in_the_first_version_of_the_base_table(sql: Sql) -> None:
    assert sql(f"CREATE TABLE t AS {SERIES.format(3)}") == 3
    assert sql("SELECT * FROM t ORDER BY id") == [(1, "n1"), (2, "n2"), (3, "n3")]
    assert (sql.dataset("t").version, sql.dataset("t").count_rows()) == (1, 3)


def test_with_a_key_rows_can_be_replaced(sql: Sql) -> None:
    sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (region_by = 'bucket(id, 2)') AS {SERIES.format(3)}")
    assert list_key_columns(sql.dataset("t").schema) == ("id",)
    sql("INSERT INTO t VALUES (2, 'new'), (4, 'n4')")
    assert sql("SELECT * FROM t ORDER BY id") == [(1, "n1"), (2, "new"), (3, "n3"), (4, "n4")]


def test_of_no_rows_comes_an_empty_table(sql: Sql) -> None:
    assert sql("CREATE TABLE t AS SELECT 1 AS id WHERE false") == 0
    assert sql("SELECT * FROM t") == []


def test_fresh_rows_of_other_tables_are_read(sql: Sql) -> None:
    sql("CREATE TABLE source (id INT PRIMARY KEY, n INT)")
    sql("INSERT INTO source VALUES (1, 1), (2, 2)")
    sql("INSERT INTO source VALUES (2, 3)")
    sql("CREATE TABLE t AS SELECT * FROM source")
    assert sql("SELECT * FROM t ORDER BY id") == [(1, 1), (2, 3)]


def test_a_table_is_replaced_by_what_was_read_of_it(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, n INT) WITH (region_by = 'bucket(id, 2)')")
    sql("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    assert (
        sql("CREATE OR REPLACE TABLE t (PRIMARY KEY (id)) AS SELECT id, n + 1 AS n FROM t WHERE id > 1") == 2
    )
    assert sql("SELECT * FROM t ORDER BY id") == [(2, 21), (3, 31)]
    sql("INSERT INTO t VALUES (4, 40)")
    assert sql("SELECT * FROM t ORDER BY id") == [(2, 21), (3, 31), (4, 40)]


def test_a_query_that_fails_leaves_nothing(sql: Sql, root: Path) -> None:
    with pytest.raises(LanceGatewayError, match=r"(?i)zero|cast"):
        sql("CREATE TABLE t AS SELECT 1 / (value - 9000) AS n FROM generate_series(1, 20000) AS s(value)")
    assert [path for path in root.rglob("*") if path.is_file()] == []
    assert sql("SELECT table_name FROM system.tables") == []


def test_a_replacement_that_fails_leaves_the_table_as_it_was(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    sql("INSERT INTO t VALUES (1)")
    with pytest.raises(InvalidInputError, match="key of another one"):
        sql("CREATE OR REPLACE TABLE t (PRIMARY KEY (id)) AS SELECT 1 AS id UNION ALL SELECT 1")
    assert sql("SELECT * FROM t") == [(1,)]


def test_a_table_that_exists_is_not_read_for(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT)")
    failing = "SELECT 1 / (value - 1) AS n FROM generate_series(1, 2) AS s(value)"
    assert sql(f"CREATE TABLE IF NOT EXISTS t AS {failing}") == 0
    with pytest.raises(AlreadyExistsError):
        sql(f"CREATE TABLE t AS {failing}")


def test_the_query_may_be_in_another_dialect(sql: Sql) -> None:
    sql("CREATE TABLE t AS SELECT IFNULL(NULL, 'x') AS `a`", dialect="mysql")
    assert sql("SELECT a FROM t") == [("x",)]


def test_of_two_that_write_rows_at_once_one_table_comes(root: Path, open_gateway: Callable[..., Sql]) -> None:
    first, second = open_gateway(root), open_gateway(root)
    schema = pa.schema([("id", pa.int64())])

    def rows() -> Any:
        # While these rows are written, the other gateway makes its table.
        assert create_table(second.engine.catalog, TableName("t"), schema, rows=lambda: batches(2))
        yield from batches(1)

    def batches(value: int) -> Any:
        yield pa.record_batch({"id": [value]}, schema=schema)

    with pytest.raises(AlreadyExistsError):
        create_table(first.engine.catalog, TableName("t"), schema, rows=rows)
    assert first("SELECT * FROM t") == second("SELECT * FROM t") == [(2,)]
    assert len(list((root / "t.lance" / "data").iterdir())) == 1
