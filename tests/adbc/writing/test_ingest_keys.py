"""`adbc_ingest`: tables with a key."""

from typing import Any

import pyarrow as pa

from tests.adbc.writing.ingesting import read, refusal


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
