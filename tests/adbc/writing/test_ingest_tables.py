"""`adbc_ingest`: what becomes of tables, and where they may be."""

from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import lance
import pyarrow as pa
import pytest

from tests.adbc.writing.ingesting import ROWS, read, refusal


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


def test_a_table_is_seen_at_once(cursor: Any, adbc: Any, uri: str, table: str) -> None:
    cursor.adbc_ingest(table, ROWS)
    assert adbc.adbc_get_table_schema(table).names == ["ints", "strs"]
    with flightsql.connect(uri, autocommit=True) as other, other.cursor() as reading:
        assert read(reading, table).num_rows == 3


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


def test_columns_of_blobs_are_made_by_their_metadata(cursor: Any, table: str) -> None:
    blob = pa.field("data", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([[1, 2], [b"one", None]], schema=pa.schema([pa.field("id", pa.int64()), blob]))
    cursor.adbc_ingest(table, rows, mode="create")
    cursor.adbc_ingest(table, pa.table({"id": [3], "data": [b"three"]}), mode="append")
    assert read(cursor, table).sort_by("id").to_pylist() == [
        {"id": 1, "data": b"one"},
        {"id": 2, "data": None},
        {"id": 3, "data": b"three"},
    ]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (pa.table({"data": lance.blob_array([b"one"])}), "send its values as large_binary"),
        (pa.table({"a`b": [1]}), "'a`b' can't be the name of a column"),
        (pa.table({"a": pa.nulls(1)}), "column 'a' of the stream is always NULL"),
    ],
    ids=["struct of a blob", "backtick", "null"],
)
def test_what_no_table_can_store_is_named(cursor: Any, table: str, rows: pa.Table, complaint: str) -> None:
    assert complaint in refusal(cursor, table, rows, mode="create")
