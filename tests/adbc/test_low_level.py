"""ADBC's own calls, below the DB-API: database, connection and statement, as other languages make them."""

from collections.abc import Callable, Iterator
from typing import Any

import adbc_driver_flightsql
import adbc_driver_manager as adbc
import pyarrow as pa
import pytest
from adbc_driver_flightsql import StatementOptions
from adbc_driver_manager import AdbcStatusCode, ConnectionOptions, GetObjectsDepth


@pytest.fixture(scope="module")
def connection(uri: str) -> Iterator[adbc.AdbcConnection]:
    with adbc_driver_flightsql.connect(uri) as database, adbc.AdbcConnection(database) as connection:
        yield connection


@pytest.fixture
def statement(connection: adbc.AdbcConnection) -> Iterator[adbc.AdbcStatement]:
    with adbc.AdbcStatement(connection) as statement:
        yield statement


def read(stream: Any) -> list[dict[str, Any]]:
    return list(pa.RecordBatchReader.from_stream(stream).read_all().to_pylist())


def status(call: Callable[..., Any], *arguments: Any) -> AdbcStatusCode:
    with pytest.raises(adbc.Error) as caught:
        call(*arguments)
    return caught.value.status_code


def test_a_query_is_executed(statement: adbc.AdbcStatement) -> None:
    statement.set_sql_query("SELECT id FROM orders WHERE id < 3 ORDER BY id")
    stream, count = statement.execute_query()
    assert count == -1
    assert read(stream) == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_a_statement_serves_again(statement: adbc.AdbcStatement) -> None:
    for number in (1, 2):
        statement.set_sql_query(f"SELECT {number} AS n")
        assert read(statement.execute_query()[0]) == [{"n": number}]


def test_the_schema_is_told_without_executing(statement: adbc.AdbcStatement) -> None:
    statement.set_sql_query("SELECT id, amount FROM orders")
    assert pa.schema(statement.execute_schema()).types == [pa.int64(), pa.float64()]


def test_a_prepared_statement_is_bound_and_executed_with_other_values(statement: adbc.AdbcStatement) -> None:
    statement.set_sql_query("SELECT id FROM orders WHERE id = ? AND customer = ?")
    statement.prepare()
    assert pa.schema(statement.get_parameter_schema()).types == [pa.int64(), pa.string()]
    for number in (7, 8):
        values = {"1": [number], "2": [f"customer {number % 7}"]}
        statement.bind(pa.RecordBatch.from_pydict(values))
        assert read(statement.execute_query()[0]) == [{"id": number}]


def test_a_stream_of_values_runs_a_query_for_each(statement: adbc.AdbcStatement) -> None:
    statement.set_sql_query("SELECT id FROM orders WHERE id = ?")
    statement.prepare()
    statement.bind_stream(pa.table({"1": [5, 6, 7]}).to_reader(max_chunksize=1))
    assert sorted(row["id"] for row in read(statement.execute_query()[0])) == [5, 6, 7]


def test_partitions_are_read_by_their_connection(
    connection: adbc.AdbcConnection, statement: adbc.AdbcStatement
) -> None:
    headers = f"{StatementOptions.RPC_CALL_HEADER_PREFIX.value}x-lance-gateway-endpoints"
    statement.set_options(**{headers: "3"})
    statement.set_sql_query("SELECT id FROM orders")
    partitions, schema, _ = statement.execute_partitions()
    assert pa.schema(schema).names == ["id"]
    rows = [row["id"] for partition in partitions for row in read(connection.read_partition(partition))]
    assert len(partitions) == 3
    assert sorted(rows) == list(range(1000))


def test_what_is_no_partition_is_refused(connection: adbc.AdbcConnection) -> None:
    assert status(connection.read_partition, b"no partition") == AdbcStatusCode.INVALID_ARGUMENT


def test_a_stream_that_is_cancelled_ends_with_an_error(statement: adbc.AdbcStatement) -> None:
    statement.set_sql_query("SELECT a FROM generate_series(1, 1000000000000) AS t(a)")
    reader = pa.RecordBatchReader.from_stream(statement.execute_query()[0])
    assert reader.read_next_batch().num_rows > 0
    statement.cancel()
    with pytest.raises(OSError, match=r"(?i)cancel"):
        for _ in reader:
            pass


def test_listings(connection: adbc.AdbcConnection) -> None:
    (catalog,) = read(
        connection.get_objects(GetObjectsDepth.ALL, db_schema="main", table_name="orders", column_name="id")
    )
    (schema,) = catalog["catalog_db_schemas"]
    (table,) = schema["db_schema_tables"]
    assert [column["column_name"] for column in table["table_columns"]] == ["id"]
    kinds = [row["table_type"] for row in read(connection.get_table_types())]
    assert kinds == ["SYSTEM TABLE", "TABLE", "VIEW"]
    assert pa.schema(connection.get_table_schema(None, "main", "orders")).names == [
        "id",
        "customer",
        "amount",
    ]
    assert {row["info_name"] for row in read(connection.get_info())} >= {0, 1, 2, 100, 101, 102}


def test_the_constraints_of_a_table_are_told(connection: adbc.AdbcConnection) -> None:
    (catalog,) = read(connection.get_objects(GetObjectsDepth.ALL, table_name="orders", db_schema="main"))
    (table,) = catalog["catalog_db_schemas"][0]["db_schema_tables"]
    assert table["table_constraints"] == []  # the driver does not ask for keys


def test_options_of_a_connection(connection: adbc.AdbcConnection) -> None:
    assert connection.get_option("adbc.connection.autocommit") == "true"
    assert connection.get_option(ConnectionOptions.CURRENT_CATALOG.value) == "lance"
    assert connection.get_option(ConnectionOptions.CURRENT_DB_SCHEMA.value) == "main"


def test_in_autocommit_there_is_nothing_to_commit(connection: adbc.AdbcConnection) -> None:
    connection.set_autocommit(True)
    assert status(connection.commit) == status(connection.rollback) == AdbcStatusCode.INVALID_STATE
    connection.set_autocommit(False)
    connection.commit()
    connection.rollback()
    connection.set_autocommit(True)


def test_a_statement_without_text_is_the_drivers_error(statement: adbc.AdbcStatement) -> None:
    assert status(statement.execute_query) == AdbcStatusCode.INVALID_STATE
    assert status(statement.prepare) == AdbcStatusCode.INVALID_STATE


def test_an_error_names_the_call_and_what_was_wrong(statement: adbc.AdbcStatement) -> None:
    statement.set_sql_query("SELECT * FROM ordres")
    for call in (statement.execute_query, statement.execute_schema, statement.execute_partitions):
        with pytest.raises(adbc.ProgrammingError, match="did you mean 'orders'") as caught:
            call()
        assert caught.value.status_code == AdbcStatusCode.NOT_FOUND


def test_a_substrait_plan_is_refused(statement: adbc.AdbcStatement) -> None:
    statement.set_substrait_plan(b"a plan")
    assert status(statement.execute_query) == AdbcStatusCode.NOT_IMPLEMENTED
