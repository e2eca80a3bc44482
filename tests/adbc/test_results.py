"""Results as ADBC hands them on: to Arrow, pandas, polars and DuckDB, whole or in parts."""

from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.adbc.values import VALUES
from tests.support.processes.servers import open_connection

STATEMENT = "SELECT id, customer, amount FROM orders WHERE id < 20 ORDER BY id"


@pytest.fixture
def expected(cursor: Any) -> pa.Table:
    cursor.execute(STATEMENT)
    return cursor.fetch_arrow_table()


def test_rows_are_fetched_one_by_one_and_together(cursor: Any) -> None:
    cursor.execute(STATEMENT)
    assert [column[0] for column in cursor.description] == ["id", "customer", "amount"]
    assert cursor.fetchone() == (0, "customer 0", 0.0)
    assert [row[0] for row in cursor.fetchmany(3)] == [1, 2, 3]
    assert len(cursor.fetchall()) == 16
    assert cursor.fetchone() is None


def test_batches_are_read_as_they_come(cursor: Any) -> None:
    cursor.execute("SELECT a FROM generate_series(1, 300000) AS t(a)")
    sizes = [batch.num_rows for batch in cursor.fetch_record_batch()]
    assert sum(sizes) == 300_000
    assert len(sizes) > 1


def test_every_type_arrives_as_itself(cursor: Any) -> None:
    cursor.execute("SELECT * FROM typed ORDER BY id")
    table = cursor.fetch_arrow_table()
    for name, (kind, value) in VALUES.items():
        assert table.schema.field(name).type == kind
        assert table.column(name).to_pylist() == [value, None]


def test_a_result_without_rows_has_its_columns(cursor: Any) -> None:
    cursor.execute("SELECT * FROM typed WHERE id > 100")
    table = cursor.fetch_arrow_table()
    assert (table.num_rows, table.schema.names) == (0, ["id", *VALUES])


def test_the_schema_of_a_result_is_known_before_it_runs(cursor: Any, expected: pa.Table) -> None:
    assert cursor.adbc_execute_schema(STATEMENT).equals(expected.schema, check_metadata=True)


def test_a_result_is_read_in_partitions_by_another_connection(
    uri: str, cursor: Any, expected: pa.Table
) -> None:
    partitions, schema = cursor.adbc_execute_partitions(STATEMENT)
    assert schema.equals(expected.schema)
    tables = []
    with flightsql.connect(uri, autocommit=True) as other, other.cursor() as reader:
        for partition in partitions:
            reader.adbc_read_partition(partition)
            tables.append(reader.fetch_arrow_table())
    assert pa.concat_tables(tables).equals(expected)


def test_a_partition_is_good_for_once(cursor: Any) -> None:
    (partition,), _ = cursor.adbc_execute_partitions("SELECT 1 AS one")
    cursor.adbc_read_partition(partition)
    assert cursor.fetchall() == [(1,)]
    with pytest.raises(Exception, match="was used") as caught:
        cursor.adbc_read_partition(partition)
    assert caught.value.status_code.name == "NOT_FOUND"


def test_a_session_that_wants_parts_gets_each_row_once(uri: str) -> None:
    with open_connection(uri) as connection:
        connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.endpoints": 3})
        with connection.cursor() as cursor:
            partitions, _ = cursor.adbc_execute_partitions("SELECT id FROM orders")
            assert len(partitions) == 3
            found = []
            for partition in partitions:
                cursor.adbc_read_partition(partition)
                found += [number for (number,) in cursor.fetchall()]
            cursor.execute("SELECT id FROM orders")
            whole = [number for (number,) in cursor.fetchall()]
    assert sorted(found) == sorted(whole) == list(range(1000))


def test_pandas_reads_a_query(adbc: Any, expected: pa.Table) -> None:
    frame = pd.read_sql(STATEMENT, adbc)
    pd.testing.assert_frame_equal(frame, expected.to_pandas(), check_dtype=False)


def test_a_cursor_gives_frames(cursor: Any, expected: pa.Table) -> None:
    cursor.execute(STATEMENT)
    assert cursor.fetch_df().equals(expected.to_pandas())
    cursor.execute(STATEMENT)
    assert cursor.fetch_polars().equals(pl.from_arrow(expected))


@pytest.mark.slow
def test_polars_reads_a_query(adbc: Any, expected: pa.Table) -> None:
    assert pl.read_database(STATEMENT, adbc).equals(pl.from_arrow(expected))
    batches = pl.read_database(STATEMENT, adbc, iter_batches=True, batch_size=7)
    assert pl.concat(batches).equals(pl.from_arrow(expected))


def test_duckdb_queries_a_result_while_it_arrives(cursor: Any) -> None:
    cursor.execute("SELECT id, amount FROM orders")
    lance_orders = cursor.fetch_record_batch()
    with duckdb.connect() as connection:
        connection.register("lance_orders", lance_orders)
        answer = connection.execute("SELECT count(*), max(id), sum(amount) FROM lance_orders").fetchone()
    cursor.execute("SELECT count(*), max(id), sum(amount) FROM orders")
    assert answer == cursor.fetchone()


def test_duckdb_finds_a_result_by_the_name_of_its_variable(cursor: Any) -> None:
    cursor.execute("SELECT customer, amount FROM orders")
    lance_result = cursor.fetch_arrow_table()
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT DISTINCT customer FROM lance_result ORDER BY 1").fetchall()
    assert lance_result.num_rows == 1000
    assert rows == [(f"customer {number}",) for number in range(7)]
