"""ADBC's own calls that write, and what they need of a session, as drivers in other languages make them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import adbc_driver_flightsql
import adbc_driver_manager as adbc
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import AdbcStatusCode, GetObjectsDepth
from adbc_driver_manager import StatementOptions as Options

KEEPS_COOKIES = {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}


@contextmanager
def connecting(uri: str, **options: str) -> Iterator[adbc.AdbcConnection]:
    with adbc_driver_flightsql.connect(uri, options) as database, adbc.AdbcConnection(database) as connection:
        yield connection


@pytest.fixture
def connection(uri: str) -> Iterator[adbc.AdbcConnection]:
    """A connection that keeps cookies, and has no session yet."""
    with connecting(uri, **KEEPS_COOKIES) as connection:
        yield connection


def query(
    connection: adbc.AdbcConnection, text: str, bound: pa.RecordBatch | pa.RecordBatchReader | None = None
) -> pa.Table:
    with adbc.AdbcStatement(connection) as statement:
        _set(statement, text, bound)
        return pa.RecordBatchReader.from_stream(statement.execute_query()[0]).read_all()


def update(
    connection: adbc.AdbcConnection, text: str, bound: pa.RecordBatch | pa.RecordBatchReader | None = None
) -> int:
    with adbc.AdbcStatement(connection) as statement:
        _set(statement, text, bound)
        return int(statement.execute_update())


def _set(
    statement: adbc.AdbcStatement, text: str, bound: pa.RecordBatch | pa.RecordBatchReader | None
) -> None:
    statement.set_sql_query(text)
    if bound is not None:
        statement.prepare()
        bind = statement.bind if isinstance(bound, pa.RecordBatch) else statement.bind_stream
        bind(bound)


def ingest(connection: adbc.AdbcConnection, table: str, mode: str = "create", **columns: Any) -> int:
    temporary = columns.pop("temporary", False)
    with adbc.AdbcStatement(connection) as statement:
        statement.set_options(
            **{
                Options.INGEST_TARGET_TABLE.value: table,
                Options.INGEST_MODE.value: f"adbc.ingest.mode.{mode}",
                Options.INGEST_TEMPORARY.value: str(temporary).lower(),
            }
        )
        statement.bind(pa.record_batch(columns))
        return int(statement.execute_update())


@pytest.mark.parametrize("call", [query, update])
@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SET consistency = 'flushed'", "SHOW consistency"),
        ("CREATE TEMPORARY TABLE first_of_all AS SELECT 'flushed' AS v", "SELECT v FROM first_of_all"),
        ("BEGIN", None),
    ],
)
def test_a_session_begins_with_the_call_that_needs_it(
    connection: adbc.AdbcConnection, call: Any, statement: str, shown: str | None
) -> None:
    call(connection, statement)
    if shown is not None:
        assert query(connection, shown)[0].to_pylist() == ["flushed"]
    else:
        with pytest.raises(adbc.ProgrammingError, match="a transaction is open in this session"):
            call(connection, statement)
        update(connection, "ROLLBACK")


def test_an_ingestion_may_begin_a_session_for_its_temporary_table(
    connection: adbc.AdbcConnection, uri: str, table: str
) -> None:
    assert ingest(connection, table, n=[1, 2], temporary=True) == 2
    assert query(connection, f"SELECT n FROM pg_temp.{table}")[0].to_pylist() == [1, 2]
    with connecting(uri, **KEEPS_COOKIES) as other, pytest.raises(adbc.ProgrammingError) as caught:
        query(other, f"SELECT n FROM {table}")
    assert caught.value.status_code == AdbcStatusCode.NOT_FOUND


def test_an_ingestion_says_whether_its_table_is_temporary(
    connection: adbc.AdbcConnection, table: str
) -> None:
    ingest(connection, table, n=[1], temporary=True)
    ingest(connection, table, "append", n=[2])  # there is no other
    ingest(connection, table, m=["a"])
    ingest(connection, table, "append", n=[3], temporary=True)
    ingest(connection, table, "append", m=["b"])
    ingest(connection, table, "create_append", m=["c"])
    kept = f"SELECT n FROM {table} ORDER BY n", f"SELECT m FROM main.{table} ORDER BY m"
    assert [query(connection, one)[0].to_pylist() for one in kept] == [[1, 2, 3], ["a", "b", "c"]]
    ingest(connection, table, "replace", n=[4], temporary=True)
    ingest(connection, table, "replace", m=["d"])
    assert [query(connection, one)[0].to_pylist() for one in kept] == [[4], ["d"]]


@pytest.mark.parametrize("place", [Options.INGEST_TARGET_DB_SCHEMA, Options.INGEST_TARGET_CATALOG])
def test_a_temporary_table_is_in_no_other_schema(
    connection: adbc.AdbcConnection, table: str, place: Options
) -> None:
    with adbc.AdbcStatement(connection) as statement:
        options = {Options.INGEST_TARGET_TABLE.value: table, Options.INGEST_TEMPORARY.value: "true"}
        statement.set_options(**options, **{place.value: "system"})
        statement.bind(pa.record_batch({"n": [1]}))
        with pytest.raises(adbc.ProgrammingError, match="'system'"):
            statement.execute_update()


ODD = ["create", "tbl_a", "tblxa", "tbl%a", 'say "hi"']


def test_names_are_names_and_no_patterns_or_statements(connection: adbc.AdbcConnection) -> None:
    for place, name in enumerate(ODD):
        ingest(connection, name, **{"index": [42, None], f"c{place}": [1, 2]})
    for place, name in enumerate(ODD):
        assert pa.schema(connection.get_table_schema(None, None, name)).names == ["index", f"c{place}"]
        update(connection, 'DROP TABLE "{}"'.format(name.replace('"', '""')))
    for name in (*ODD, "(SELECT CURRENT_TIME)"):
        with pytest.raises(adbc.ProgrammingError) as caught:
            connection.get_table_schema(None, None, name)
        assert caught.value.status_code == AdbcStatusCode.NOT_FOUND


def test_parameters_need_no_names_and_come_in_several_batches(
    connection: adbc.AdbcConnection, table: str
) -> None:
    update(connection, f"CREATE TABLE {table} (a INTEGER, b TEXT)")
    insert = f"INSERT INTO {table} VALUES (?, ?)"
    numbers = pa.array([None, -123, 123], pa.int32())
    unnamed = pa.RecordBatch.from_arrays([numbers, pa.array(["abc", None, "d"])], ["", ""])
    assert update(connection, insert, unnamed) == 3
    assert update(connection, insert, pa.Table.from_batches([unnamed, unnamed]).to_reader()) == 6
    assert query(connection, f"SELECT DISTINCT a, b FROM {table} ORDER BY a NULLS FIRST").to_pydict() == {
        "a": [None, -123, 123],
        "b": ["abc", None, "d"],
    }
    with adbc.AdbcStatement(connection) as statement:
        statement.set_sql_query(f"DELETE FROM {table} WHERE a > 0")
        stream, count = statement.execute_query()
        assert (count, pa.RecordBatchReader.from_stream(stream).read_all().num_rows) == (3, 0)


@pytest.mark.parametrize("whole_batches", [0, 1])
def test_a_stream_of_parameters_that_breaks_off_changes_nothing(
    connection: adbc.AdbcConnection, table: str, whole_batches: int
) -> None:
    update(connection, f"CREATE TABLE {table} (a BIGINT)")

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(whole_batches):
            yield pa.record_batch({"a": [number]})
        raise RuntimeError("no more of it")

    for call, text in ((update, f"INSERT INTO {table} VALUES (?)"), (query, f"SELECT ? FROM {table}")):
        reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
        with pytest.raises(adbc.Error, match="no more of it"):
            call(connection, text, reader)
    assert query(connection, f"SELECT a FROM {table}").num_rows == 0


def test_rows_of_parameters_may_have_null_where_others_have_values(connection: adbc.AdbcConnection) -> None:
    bound = pa.record_batch({"1": [42, -42, None], "2": ["", None, "bar"]})
    answer = query(connection, "SELECT ?, ?", bound)
    assert answer.schema.types == [pa.int64(), pa.string()]
    assert [tuple(row.values()) for row in answer.to_pylist()] == [(42, ""), (-42, None), (None, "bar")]


@pytest.mark.parametrize("end", [";;;", ";\n-- the end\n;", " ; /* the end */"])
def test_a_statement_may_end_with_semicolons(connection: adbc.AdbcConnection, end: str) -> None:
    assert query(connection, f"SELECT current_date{end}").num_rows == 1


def test_what_is_no_statement_is_refused(connection: adbc.AdbcConnection) -> None:
    for call in (query, update):
        with pytest.raises(adbc.NotSupportedError, match="'this' is not supported"):
            call(connection, "this is not a query")


def test_a_partition_is_read_by_another_connection(connection: adbc.AdbcConnection, uri: str) -> None:
    with adbc.AdbcStatement(connection) as statement, connecting(uri) as other:
        statement.set_sql_query("SELECT 42 AS n")
        partitions, _, _ = statement.execute_partitions()
        streams = [pa.RecordBatchReader.from_stream(other.read_partition(one)) for one in partitions]
        assert [row for stream in streams for row in stream.read_all().to_pylist()] == [{"n": 42}]


def test_listings_have_the_columns_that_adbc_names(connection: adbc.AdbcConnection) -> None:
    everything = pa.RecordBatchReader.from_stream(connection.get_objects(GetObjectsDepth.ALL)).schema
    assert everything.names == ["catalog_name", "catalog_db_schemas"]
    schemas = everything.field("catalog_db_schemas").type.value_type
    tables = schemas.field("db_schema_tables").type.value_type
    assert tables.field("table_name").nullable is tables.field("table_type").nullable is False
    assert tables.field("table_columns").type.value_type.num_fields == 19
    no_kind = connection.get_objects(GetObjectsDepth.TABLES, table_types=["this kind is not there"])
    (catalog,) = pa.RecordBatchReader.from_stream(no_kind).read_all().to_pylist()
    assert all(schema["db_schema_tables"] == [] for schema in catalog["catalog_db_schemas"])
    kinds = pa.RecordBatchReader.from_stream(connection.get_table_types()).schema
    assert kinds == pa.schema([pa.field("table_type", pa.string(), nullable=False)])
