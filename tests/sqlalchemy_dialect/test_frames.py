"""Frames of pandas and polars, through an engine."""

import datetime as dt
from typing import Any

import pandas as pd
import polars as pl
import pytest
import sqlalchemy as sa

FRAME = pd.DataFrame(
    {
        "id": [1, 2, 3],
        "name": ["a", None, "c"],
        "share": [0.5, None, 1.5],
        "seen": pd.to_datetime(["2026-02-28 01:02:03.000004", None, "2026-03-01 00:00:00.0"]).as_unit("us"),
        "flag": [True, False, True],
    }
)


@pytest.fixture(autouse=True)
def cleaned(engine: sa.Engine, name: str) -> Any:
    yield
    with engine.connect() as connection:
        connection.execute(sa.text(f"DROP TABLE IF EXISTS {name}"))


def test_pandas_writes_and_reads_a_table(engine: sa.Engine, name: str) -> None:
    assert FRAME.to_sql(name, engine, index=False) == 3
    for read in (
        pd.read_sql_table(name, engine),
        pd.read_sql(name, engine),
        pd.read_sql(sa.text(f"SELECT * FROM {name} ORDER BY id"), engine),
        pd.read_sql(f"SELECT * FROM {name} ORDER BY id", engine),
    ):
        pd.testing.assert_frame_equal(read.sort_values("id", ignore_index=True), FRAME, check_dtype=False)
    found = pd.read_sql_query(
        sa.text(f"SELECT id FROM {name} WHERE name = :name"), engine, params={"name": "c"}
    )
    assert found["id"].tolist() == [3]


def test_pandas_fails_replaces_and_appends(engine: sa.Engine, name: str) -> None:
    FRAME.to_sql(name, engine, index=False)
    with pytest.raises(ValueError, match=f"Table '{name}' already exists"):
        FRAME.to_sql(name, engine, index=False, if_exists="fail")
    FRAME.to_sql(name, engine, index=False, if_exists="append")
    assert sorted(pd.read_sql_table(name, engine)["id"]) == [1, 1, 2, 2, 3, 3]
    FRAME[["id"]].to_sql(name, engine, index=False, if_exists="replace")
    assert pd.read_sql_table(name, engine).to_dict("list") == {"id": [1, 2, 3]}


def test_pandas_deletes_rows_and_keeps_the_table(engine: sa.Engine, name: str) -> None:
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, name VARCHAR(9))"))
        connection.execute(sa.text(f"INSERT INTO {name} VALUES (9, 'z')"))
    FRAME[["id", "name"]].to_sql(name, engine, index=False, if_exists="delete_rows")
    assert sorted(pd.read_sql_table(name, engine)["id"]) == [1, 2, 3]
    assert sa.inspect(engine).get_pk_constraint(name)["constrained_columns"] == ["id"]


def test_pandas_reads_chunks_with_parameters_and_dates(engine: sa.Engine, name: str) -> None:
    FRAME.to_sql(name, engine, index=False)
    statement = sa.text(f"SELECT id, '2026-01-02' AS day FROM {name} WHERE id >= :low ORDER BY id")
    parts = pd.read_sql(statement, engine, params={"low": 1}, parse_dates=["day"], chunksize=2)
    read = list(parts)
    assert [part["id"].tolist() for part in read] == [[1, 2], [3]]
    assert {day for part in read for day in part["day"]} == {pd.Timestamp("2026-01-02")}


def test_pandas_writes_an_index_in_chunks_and_in_one_statement(engine: sa.Engine, name: str) -> None:
    frame = FRAME.set_index("id")
    frame.to_sql(name, engine, chunksize=2, method="multi", dtype={"name": sa.String(9)})
    told = {column["name"]: column["type"] for column in sa.inspect(engine).get_columns(name)}
    assert isinstance(told["name"], sa.VARCHAR)
    assert told["name"].length == 9
    parts = list(pd.read_sql_table(name, engine, index_col="id", columns=["name"], chunksize=2))
    assert sorted(key for part in parts for key in part.index) == [1, 2, 3]


def test_pandas_appends_to_a_table_with_a_key(engine: sa.Engine, name: str) -> None:
    """Rows whose keys are there are replaced."""
    with engine.connect() as connection:
        connection.execute(
            sa.text(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, name VARCHAR, seen TIMESTAMP)")
        )
    for names in (["a", "b", "c"], ["x", "y", "z"]):
        frame = FRAME[["id", "seen"]].assign(name=names)
        frame.to_sql(name, engine, index=False, if_exists="append")
    found = pd.read_sql(f"SELECT name FROM {name} ORDER BY id", engine)
    assert found["name"].tolist() == ["x", "y", "z"]


def test_polars_writes_and_reads(engine: sa.Engine, name: str) -> None:
    frame = pl.DataFrame(
        {"id": [1, 2], "name": ["a", None], "day": [dt.date(2026, 1, 1), None], "share": [0.5, 1.0]}
    )
    for mode in ("fail", "append", "replace"):
        frame.write_database(name, engine, engine="sqlalchemy", if_table_exists=mode)  # type: ignore[arg-type]
    with engine.connect() as connection:
        read = pl.read_database(f"SELECT * FROM {name} ORDER BY id", connection)
        assert read["id"].to_list() == [1, 2]
        assert read["name"].to_list() == ["a", None]
        statement = sa.text(f"SELECT share FROM {name} WHERE id = :id")
        found = pl.read_database(statement, connection, execute_options={"parameters": {"id": 2}})
        assert found["share"].to_list() == [1.0]
    read = pl.read_database(sa.text(f"SELECT day FROM {name} ORDER BY id"), engine)
    assert read["day"].to_list() == [dt.date(2026, 1, 1), None]
