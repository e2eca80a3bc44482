"""`adbc_ingest`: readers, batches and data frames, large and empty."""

import os
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.adbc.writing.ingesting import ROWS, read, refusal


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


@pytest.mark.slow
def test_pandas(adbc: Any, cursor: Any, table: str) -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["a", None], "at": pd.to_datetime(["2026-02-28", None])})
    assert frame.to_sql(table, adbc, index=False) == 2
    assert frame.to_sql(table, adbc, index=False, if_exists="append") == 2
    with pytest.raises(ValueError, match="exists"):
        frame.to_sql(table, adbc, index=False)
    assert frame.to_sql(table, adbc, index=False, if_exists="replace") == 2
    assert read(cursor, table)["name"].to_pylist() == ["a", None]


def test_polars(cursor: Any, adbc: Any, table: str) -> None:
    frame = pl.DataFrame(
        {"id": [1, 2], "name": ["a", None], "kind": pl.Series(["x", "y"], dtype=pl.Categorical)}
    )
    assert frame.write_database(table, adbc, engine="adbc") == 2
    assert frame.write_database(table, adbc, engine="adbc", if_table_exists="append") == 2
    assert frame.write_database(table, adbc, engine="adbc", if_table_exists="replace") == 2
    assert read(cursor, table).to_pydict() == {"id": [1, 2], "name": ["a", None], "kind": ["x", "y"]}


@pytest.mark.slow
def test_the_driver_sends_no_batch_above_16_mib(cursor: Any, table: str) -> None:
    rows = pa.table({"text": ["x" * 1000] * 20_000})
    with pytest.raises(flightsql.Error, match="larger than max"):
        cursor.adbc_ingest(table, rows, mode="create")
    assert cursor.adbc_ingest(table, rows.to_reader(1000), mode="create") == 20_000


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
