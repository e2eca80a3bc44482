"""`adbc_ingest`: what ADBC's own validation asks of bulk ingestion, and what comes out of every source."""

import datetime as dt
import itertools
import os
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import adbc_driver_flightsql.dbapi as flightsql
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import flight

from gateway.server import GatewayServer
from protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.gateway.test_errors import assert_clean

T = TypeVar("T")
ROWS = pa.table({"ints": pa.array([42, -42, None], pa.int64()), "strs": ["a", None, "c"]})
_NAMES = (f"t{number}" for number in itertools.count(1))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ingested")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[GatewayServer]:
    with serving(root) as server:
        yield server


@pytest.fixture(scope="module")
def uri(server: GatewayServer) -> str:
    return f"grpc://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def connection(uri: str) -> Iterator[Any]:
    with flightsql.connect(uri, autocommit=True) as connection:
        yield connection


@pytest.fixture
def cursor(connection: Any) -> Iterator[Any]:
    with connection.cursor() as cursor:
        yield cursor


@pytest.fixture
def table() -> str:
    """A name that no table has."""
    return next(_NAMES)


def read(cursor: Any, table: str, order: str = "1") -> pa.Table:
    quoted = table.replace('"', '""')
    cursor.execute(f'SELECT * FROM "{quoted}" ORDER BY {order}')
    return cursor.fetch_arrow_table()


def refusal(cursor: Any, *arguments: Any, **options: Any) -> str:
    """What the gateway says to an ingestion that fails."""
    with pytest.raises(flightsql.Error) as caught:
        cursor.adbc_ingest(*arguments, **options)
    assert_clean(str(caught.value))
    return str(caught.value)


# What becomes of tables.


def test_create_makes_the_table(cursor: Any, table: str) -> None:
    assert cursor.adbc_ingest(table, ROWS, mode="create") == 3
    assert read(cursor, table).to_pylist() == [
        {"ints": -42, "strs": None},
        {"ints": 42, "strs": "a"},
        {"ints": None, "strs": "c"},
    ]


def test_create_refuses_a_table_that_is_there(cursor: Any, table: str) -> None:
    cursor.adbc_ingest(table, ROWS, mode="create")
    assert "exists already" in refusal(cursor, table, ROWS, mode="create")
    assert read(cursor, table).num_rows == 3


def test_append_adds_to_the_table(cursor: Any, table: str) -> None:
    cursor.adbc_ingest(table, ROWS, mode="create")
    assert cursor.adbc_ingest(table, ROWS, mode="append") == 3
    assert read(cursor, table).num_rows == 6


def test_append_refuses_a_table_that_is_not_there(cursor: Any, table: str) -> None:
    assert "does not exist" in refusal(cursor, table, ROWS, mode="append")


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (pa.table({"ints": [1], "others": [2]}), "others"),
        (pa.table({"ints": [["a list"]], "strs": ["x"]}), "ints"),
        (pa.table({"ints": ["no number"], "strs": ["x"]}), "ints"),
    ],
)
def test_append_of_other_columns_names_them(cursor: Any, table: str, rows: pa.Table, complaint: str) -> None:
    cursor.adbc_ingest(table, ROWS, mode="create")
    assert complaint in refusal(cursor, table, rows, mode="append")
    assert read(cursor, table).num_rows == 3


def test_columns_are_matched_by_name(cursor: Any, table: str) -> None:
    cursor.adbc_ingest(table, ROWS, mode="create")
    cursor.adbc_ingest(table, pa.table({"strs": ["swapped"], "ints": [7]}), mode="append")
    cursor.adbc_ingest(table, pa.table({"ints": [8]}), mode="append")
    assert read(cursor, table).slice(1, 2).to_pylist() == [
        {"ints": 7, "strs": "swapped"},
        {"ints": 8, "strs": None},
    ]


def test_replace_makes_the_table_anew(cursor: Any, table: str) -> None:
    other = pa.table({"numbers": [1.5, 2.5]})
    assert cursor.adbc_ingest(table, ROWS, mode="replace") == 3
    assert cursor.adbc_ingest(table, other, mode="replace") == 2
    assert read(cursor, table).to_pydict() == {"numbers": [1.5, 2.5]}


def test_a_stream_that_breaks_off_replaces_nothing(cursor: Any, table: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"numbers": [1.5]})
        raise RuntimeError("no more")

    cursor.adbc_ingest(table, ROWS, mode="create")
    reader = pa.RecordBatchReader.from_batches(pa.schema([("numbers", pa.float64())]), batches())
    with pytest.raises(flightsql.Error, match="no more"):
        cursor.adbc_ingest(table, reader, mode="replace")
    assert read(cursor, table).num_rows == 3


def test_a_stream_that_breaks_off_makes_nothing(cursor: Any, table: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"numbers": [1.5]})
        raise RuntimeError("no more")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("numbers", pa.float64())]), batches())
    with pytest.raises(flightsql.Error, match="no more"):
        cursor.adbc_ingest(table, reader, mode="create")
    cursor.execute("SELECT table_name FROM information_schema.tables")
    assert table not in cursor.fetch_arrow_table()["table_name"].to_pylist()
    assert cursor.adbc_ingest(table, ROWS, mode="create") == 3


def test_create_append_makes_the_table_once(cursor: Any, table: str) -> None:
    for _ in range(2):
        assert cursor.adbc_ingest(table, ROWS, mode="create_append") == 3
    assert read(cursor, table).num_rows == 6


def test_a_table_is_seen_at_once(cursor: Any, connection: Any, uri: str, table: str) -> None:
    cursor.adbc_ingest(table, ROWS)
    assert connection.adbc_get_table_schema(table).names == ["ints", "strs"]
    with flightsql.connect(uri, autocommit=True) as other, other.cursor() as reading:
        assert read(reading, table).num_rows == 3


# Where it may be.


def test_temporary_tables_are_refused(cursor: Any, table: str) -> None:
    assert "temporary" in refusal(cursor, table, ROWS, mode="create", temporary=True)


@pytest.mark.parametrize("place", [{"db_schema_name": "main"}, {"catalog_name": "lance"}])
def test_the_catalog_and_schema_that_there_are(cursor: Any, table: str, place: dict[str, str]) -> None:
    assert cursor.adbc_ingest(table, ROWS, mode="create", **place) == 3


@pytest.mark.parametrize(
    "place", [{"db_schema_name": "system"}, {"db_schema_name": "temp"}, {"catalog_name": "other"}]
)
def test_other_catalogs_and_schemas_are_not_found(cursor: Any, table: str, place: dict[str, str]) -> None:
    assert "NOT_FOUND" in refusal(cursor, table, ROWS, mode="create", **place)


@pytest.mark.parametrize("name", ["Mixed Case", 'quo"ted', "sel;ect", "größe", "1st", "select"])
def test_names_of_tables_and_columns_mean_themselves(cursor: Any, name: str) -> None:
    rows = pa.table({name: [1, 2], f"{name} 2": ["a", "b"]})
    cursor.adbc_ingest(name, rows, mode="replace")
    cursor.adbc_ingest(name, rows, mode="append")
    assert read(cursor, name).column_names == rows.column_names


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 300])
def test_names_that_no_table_can_have(cursor: Any, name: str) -> None:
    refusal(cursor, name, ROWS, mode="create")


# What may be in it.

_DAY = dt.date(2026, 2, 28)
_MOMENT = dt.datetime(2026, 2, 28, 23, 59, 59, 123456)
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "bool": (pa.bool_(), True),
    "int8": (pa.int8(), -8),
    "int16": (pa.int16(), -16),
    "int32": (pa.int32(), -32),
    "int64": (pa.int64(), -64),
    "uint8": (pa.uint8(), 8),
    "uint16": (pa.uint16(), 16),
    "uint32": (pa.uint32(), 32),
    "uint64": (pa.uint64(), 2**64 - 1),
    "halffloat": (pa.float16(), 0.5),
    "float": (pa.float32(), 0.5),
    "double": (pa.float64(), 0.25),
    "decimal128": (pa.decimal128(12, 2), Decimal("12.34")),
    "decimal256": (pa.decimal256(50, 3), Decimal("12345678901234567890123456789012345678901.345")),
    "string": (pa.string(), "grün"),
    "large_string": (pa.large_string(), "large"),
    "string_view": (pa.string_view(), "a view that is longer than twelve bytes"),
    "binary": (pa.binary(), b"\x00\xff"),
    "large_binary": (pa.large_binary(), b"\x01"),
    "binary_view": (pa.binary_view(), b"\x01" * 20),
    "fixed_size_binary": (pa.binary(3), b"abc"),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), "one"),
    "date32": (pa.date32(), _DAY),
    "date64": (pa.date64(), _DAY),
    "time32": (pa.time32("ms"), dt.time(1, 2, 3, 4000)),
    "time64": (pa.time64("us"), dt.time(1, 2, 3, 4)),
    "timestamp": (pa.timestamp("us"), _MOMENT),
    "timestamptz": (pa.timestamp("us", "UTC"), _MOMENT.replace(tzinfo=dt.UTC)),
    "duration": (pa.duration("us"), dt.timedelta(days=1, microseconds=5)),
    "list": (pa.list_(pa.int32()), [1, None, 3]),
    "large_list": (pa.large_list(pa.string()), ["a"]),
    "vector": (pa.list_(pa.float32(), 3), [1.0, 2.0, 3.0]),
    "struct": (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 1, "b": "x"}),
    "list of dictionaries": (pa.list_(pa.dictionary(pa.int8(), pa.string())), ["p", "q"]),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", ["create", pytest.param("append", marks=pytest.mark.slow)])
def test_values_and_nulls_of_every_type(cursor: Any, table: str, kind: str, mode: str) -> None:
    data_type, value = TYPES[kind]
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": pa.array([value, None, value], data_type)})
    if mode == "append":
        cursor.adbc_ingest(table, rows.slice(0, 1), mode="create")
        rows = rows.slice(1)
    assert cursor.adbc_ingest(table, rows, mode=mode) == rows.num_rows
    assert read(cursor, table, "id")["v"].to_pylist() == [value, None, value]


@pytest.mark.parametrize(
    "data_type",
    [pa.null(), pa.month_day_nano_interval()],
    ids=str,
)
def test_types_that_cannot_be_stored_are_refused_by_the_name_of_their_column(
    cursor: Any, table: str, data_type: pa.DataType
) -> None:
    schema = pa.schema([("id", pa.int32()), ("odd", data_type)])
    (batch,) = schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
    assert "odd" in refusal(cursor, table, batch, mode="create")


# Where it comes from.


def test_a_reader_of_many_batches_some_of_them_empty(cursor: Any, table: str) -> None:
    schema = pa.schema([("n", pa.int64())])
    sizes = (0, 1, 0, 5, 1000, 0, 3)
    batches = [pa.record_batch([pa.array(range(size), pa.int64())], schema) for size in sizes]
    for mode in ("create", "append"):
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        assert cursor.adbc_ingest(table, reader, mode=mode) == sum(sizes)
    assert read(cursor, table).num_rows == 2 * sum(sizes)


def test_no_rows_make_an_empty_table(cursor: Any, table: str) -> None:
    batch = pa.RecordBatch.from_pylist([], ROWS.schema)
    assert cursor.adbc_ingest(table, batch, mode="create") == 0
    assert read(cursor, table).schema.names == ["ints", "strs"]
    assert cursor.adbc_ingest(table, batch, mode="append") == 0


def test_the_driver_sends_nothing_of_a_table_without_batches(cursor: Any, table: str) -> None:
    assert "Stream finished before first message" in refusal(
        cursor, table, pa.Table.from_batches([], ROWS.schema), mode="create"
    )


def test_pandas(connection: Any, cursor: Any, table: str) -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["a", None], "at": pd.to_datetime(["2026-02-28", None])})
    assert frame.to_sql(table, connection, index=False) == 2
    assert frame.to_sql(table, connection, index=False, if_exists="append") == 2
    with pytest.raises(ValueError, match="exists"):
        frame.to_sql(table, connection, index=False)
    assert frame.to_sql(table, connection, index=False, if_exists="replace") == 2
    assert read(cursor, table)["name"].to_pylist() == ["a", None]


def test_polars(cursor: Any, connection: Any, table: str) -> None:
    frame = pl.DataFrame(
        {"id": [1, 2], "name": ["a", None], "kind": pl.Series(["x", "y"], dtype=pl.Categorical)}
    )
    assert frame.write_database(table, connection, engine="adbc") == 2
    assert frame.write_database(table, connection, engine="adbc", if_table_exists="append") == 2
    assert frame.write_database(table, connection, engine="adbc", if_table_exists="replace") == 2
    assert read(cursor, table).to_pydict() == {"id": [1, 2], "name": ["a", None], "kind": ["x", "y"]}


# Keys and regions.


def key(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, metadata={"lance-schema:unenforced-primary-key": "true"})


def test_columns_may_be_marked_as_key(cursor: Any, table: str) -> None:
    schema = pa.schema([key("id", pa.int64()), pa.field("v", pa.string())])
    cursor.adbc_ingest(table, pa.table({"id": [1, 2], "v": ["a", "b"]}, schema), mode="create")
    cursor.adbc_ingest(table, pa.table({"id": [2, 3], "v": ["B", "C"]}), mode="append")
    assert read(cursor, table).to_pydict() == {"id": [1, 2, 3], "v": ["a", "B", "C"]}


def test_an_ingestion_into_a_table_with_a_key_lets_the_last_row_win(cursor: Any, table: str) -> None:
    cursor.execute(
        f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, v VARCHAR) WITH (region_by = 'bucket(id, 4)')"
    )
    rows = pa.table({"id": [*range(1000), *range(500)], "v": ["old"] * 1000 + ["new"] * 500})
    assert cursor.adbc_ingest(table, rows, mode="append") == 1500
    cursor.execute(f"SELECT v, count(*) FROM {table} GROUP BY v ORDER BY v")
    assert cursor.fetchall() == [("new", 500), ("old", 500)]


def test_null_in_a_key_is_refused_by_name(cursor: Any, table: str) -> None:
    cursor.execute(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, v VARCHAR)")
    rows = pa.table({"id": pa.array([1, None], pa.int64()), "v": ["a", "b"]})
    assert "id" in refusal(cursor, table, rows, mode="append")
    assert read(cursor, table).num_rows == 0


# By hand.

Options = sql.CommandStatementIngest.TableDefinitionOptions
CREATE, MISSING_FAILS = Options.TABLE_NOT_EXIST_OPTION_CREATE, Options.TABLE_NOT_EXIST_OPTION_FAIL
EXISTING_FAILS, APPEND = Options.TABLE_EXISTS_OPTION_FAIL, Options.TABLE_EXISTS_OPTION_APPEND


def ingest(uri: str, rows: pa.Table, **fields: Any) -> int:
    command = sql.CommandStatementIngest(**fields)
    with flight.connect(uri) as client:
        writer, reader = client.do_put(rpc.descriptor(command), rows.schema)
        with writer:
            writer.write_table(rows)
            writer.done_writing()
            answer = reader.read()
    return sql.DoPutUpdateResult.FromString(answer.to_pybytes()).record_count


def test_options_are_those_of_create_table(uri: str, cursor: Any, table: str) -> None:
    definition = Options(if_not_exist=CREATE, if_exists=EXISTING_FAILS)
    options = {"primary_key": "ints", "region_by": "bucket(ints, 4)"}
    rows = ROWS.slice(0, 2)
    assert ingest(uri, rows, table=table, table_definition_options=definition, options=options) == 2
    cursor.adbc_ingest(table, pa.table({"ints": [42], "strs": ["newer"]}), mode="append")
    assert read(cursor, table)["strs"].to_pylist() == [None, "newer"]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, "must say what becomes"),
        ({"table_definition_options": Options(if_exists=APPEND)}, "must say what becomes"),
        (
            {"table_definition_options": Options(if_not_exist=MISSING_FAILS, if_exists=EXISTING_FAILS)},
            "neither",
        ),
        (
            {
                "table_definition_options": Options(if_not_exist=CREATE, if_exists=APPEND),
                "options": {"colour": "blue"},
            },
            "colour",
        ),
    ],
)
def test_commands_that_contradict_themselves(
    uri: str, table: str, fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=complaint) as caught:
        ingest(uri, ROWS, table=table, **fields)
    assert_clean(str(caught.value))


def test_an_ingestion_of_a_transaction_is_refused(uri: str, table: str) -> None:
    definition = Options(if_not_exist=CREATE, if_exists=APPEND)
    with pytest.raises(NotImplementedError, match="autocommit"):
        ingest(uri, ROWS, table=table, table_definition_options=definition, transaction_id=b"1")


def test_an_ingestion_is_a_statement_like_any_other(cursor: Any, table: str) -> None:
    cursor.adbc_ingest(table, ROWS, mode="create")
    cursor.execute(
        "SELECT state, rows_affected FROM system.queries WHERE statement = ?", (f'INGEST INTO "{table}"',)
    )
    assert cursor.fetchall() == [("finished", 3)]


def test_of_an_append_that_breaks_off_whole_parts_stay(uri: str, cursor: Any, table: str) -> None:
    """The client's deadline passes in the middle of its third part; its statement is cancelled."""
    cursor.execute(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY)")
    definition = Options(if_not_exist=MISSING_FAILS, if_exists=APPEND)
    command = sql.CommandStatementIngest(table=table, table_definition_options=definition)
    part = 65_536
    rows = pa.table({"id": range(2 * part + 10)})
    with flight.connect(uri) as client:
        soon = flight.FlightCallOptions(timeout=1.0)
        writer, reader = client.do_put(rpc.descriptor(command), rows.schema, soon)
        writer.write_table(rows, 8192)
        assert reader.read() is None  # it never says that the stream is over
        with pytest.raises(flight.FlightTimedOutError):
            writer.close()
    question = f"SELECT state FROM system.queries WHERE statement = 'INGEST INTO \"{table}\"'"
    ended = await_that(lambda: [one for one in answers(cursor, question) if one != ("running",)])
    assert ended == [("cancelled",)]
    ((count,),) = answers(cursor, f"SELECT count(*) FROM {table}")
    assert count % part == 0


def test_the_driver_sends_no_batch_above_16_mib(cursor: Any, table: str) -> None:
    rows = pa.table({"text": ["x" * 1000] * 20_000})
    with pytest.raises(flightsql.Error, match="larger than max"):
        cursor.adbc_ingest(table, rows, mode="create")
    assert cursor.adbc_ingest(table, rows.to_reader(1000), mode="create") == 20_000


def answers(cursor: Any, text: str) -> list[Any]:
    cursor.execute(text)
    return list(cursor.fetchall())


def await_that(question: Callable[[], T]) -> T:
    """What it answers as soon as that is something."""
    deadline = time.monotonic() + 30
    while not (found := question()) and time.monotonic() < deadline:
        pass
    return found


@pytest.mark.slow
def test_many_rows(cursor: Any, table: str) -> None:
    count = 300_000
    rows = pa.table({"id": range(count), "text": [os.urandom(8).hex()] * count})
    cursor.execute(
        f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, text VARCHAR) WITH (region_by = 'bucket(id, 2)')"
    )
    assert cursor.adbc_ingest(table, rows, mode="append") == count
    cursor.execute(f"SELECT count(*), min(id), max(id) FROM {table}")
    assert cursor.fetchall() == [(count, 0, count - 1)]
