"""The command behind `adbc_ingest`, by hand: its options, and ingestions that break off."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.adbc.writing.ingesting import ROWS, read
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean

T = TypeVar("T")
Options = sql.CommandStatementIngest.TableDefinitionOptions
CREATE, MISSING_FAILS = Options.TABLE_NOT_EXIST_OPTION_CREATE, Options.TABLE_NOT_EXIST_OPTION_FAIL
EXISTING_FAILS, APPEND = Options.TABLE_EXISTS_OPTION_FAIL, Options.TABLE_EXISTS_OPTION_APPEND


def ingest(uri: str, rows: pa.Table, **fields: Any) -> int:
    with flight.connect(uri) as client:
        return rpc.put(client, sql.CommandStatementIngest(**fields), rows)


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


def test_an_ingestion_is_a_statement_like_any_other(cursor: Any, table: str) -> None:
    cursor.adbc_ingest(table, ROWS, mode="create")
    cursor.execute(
        "SELECT state, rows_affected FROM system.queries WHERE statement = ?", (f'INGEST INTO "{table}"',)
    )
    assert cursor.fetchall() == [("finished", 3)]


@pytest.mark.slow
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


def answers(cursor: Any, text: str) -> list[Any]:
    cursor.execute(text)
    return list(cursor.fetchall())


def await_that(question: Callable[[], T]) -> T:
    """What it answers as soon as that is something."""
    deadline = time.monotonic() + 30
    while not (found := question()) and time.monotonic() < deadline:
        pass
    return found
