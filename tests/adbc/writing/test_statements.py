"""ADBC's DB-API: execute, executemany and their row counts for statements that change something."""

from contextlib import closing
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy
from adbc_driver_flightsql import ConnectionOptions
from adbc_driver_manager import AdbcStatusCode


@pytest.fixture
def notes(cursor: Any, table: str) -> str:
    """An empty table of the test's own."""
    cursor.execute(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, text VARCHAR, score DOUBLE)")
    return table


def rows(cursor: Any, table: str) -> list[Any]:
    cursor.execute(f"SELECT * FROM {table} ORDER BY id")
    return list(cursor.fetchall())


def executions(cursor: Any, table: str) -> list[tuple[str, int]]:
    """What was executed on a table, and how many rows each changed."""
    cursor.execute(
        "SELECT statement, rows_affected FROM system.queries WHERE statement LIKE ? ORDER BY created_at",
        (f"INSERT INTO {table} %",),
    )
    return list(cursor.fetchall())


def test_execute_tells_how_many_rows_it_changed(cursor: Any, notes: str) -> None:
    counts = []
    for text in (
        f"INSERT INTO {notes} VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, NULL)",
        f"UPDATE {notes} SET score = 9 WHERE id < 3",
        f"DELETE FROM {notes} WHERE id = 2",
        f"DELETE FROM {notes} WHERE id = 2",
    ):
        cursor.execute(text)
        counts.append(cursor.rowcount)
        assert cursor.fetchall() == []
    assert counts == [3, 2, 1, 0]
    assert rows(cursor, notes) == [(1, "a", 9.0), (3, None, None)]


def test_a_definition_changes_no_rows(cursor: Any, notes: str) -> None:
    cursor.execute(f"DROP TABLE {notes}")
    assert cursor.rowcount <= 0


def test_each_call_executes_once(cursor: Any, notes: str) -> None:
    text = f"INSERT INTO {notes} VALUES (?, ?, ?)"
    cursor.execute(text, (1, "a", 0.5))
    cursor.executemany(text, [(2, "b", 0.5), (3, "c", None)])
    cursor.adbc_prepare(text)
    cursor.execute(text, pa.table({"1": [4, 5], "2": ["d", "e"], "3": [1.0, 2.0]}))
    assert executions(cursor, notes) == [(text, 1), (text, 2), (text, 2)]
    assert len(rows(cursor, notes)) == 5


@pytest.mark.slow
def test_executemany_takes_any_number_of_rows(cursor: Any, notes: str) -> None:
    many = pa.table({"1": range(100_000), "2": ["x"] * 100_000, "3": [0.5] * 100_000})
    cursor.executemany(f"INSERT INTO {notes} VALUES (?, ?, ?)", many)
    assert cursor.rowcount == 100_000
    cursor.executemany(f"DELETE FROM {notes} WHERE id = ?", [(number,) for number in range(10)])
    assert cursor.rowcount == 10
    cursor.executemany(f"UPDATE {notes} SET text = ? WHERE id = ?", [("y", 10), ("z", 11), ("none", -1)])
    assert cursor.rowcount == 2
    cursor.execute(f"SELECT count(*), max(text) FROM {notes}")
    assert cursor.fetchall() == [(99_990, "z")]


def test_returning_is_a_result(cursor: Any, notes: str) -> None:
    cursor.execute(f"INSERT INTO {notes} VALUES (1, 'a', ?) RETURNING id, score * 2 AS twice", (1.5,))
    assert [column[0] for column in cursor.description] == ["id", "twice"]
    assert cursor.fetchall() == [(1, 3.0)]


def test_an_error_is_clear_and_writes_nothing(cursor: Any, notes: str) -> None:
    for text, said in (
        (f"INSERT INTO {notes} VALUES (NULL, 'x', 1)", "'id'"),
        (f"INSERT INTO {notes} (nope) VALUES (1)", "'nope'"),
        (f"INSERT INTO {notes} (id) VALUES ('x')", "'id'"),
    ):
        with pytest.raises(flightsql.ProgrammingError, match=said) as caught:
            cursor.execute(text)
        assert caught.value.status_code == AdbcStatusCode.INVALID_ARGUMENT
    assert rows(cursor, notes) == []


def test_a_session_may_choose_not_to_wait_for_storage(adbc: Any, cursor: Any, notes: str) -> None:
    option = f"{ConnectionOptions.OPTION_BOOL_SESSION_OPTION_PREFIX.value}durable_writes"
    adbc.adbc_connection.set_options(**{option: "false"})
    try:
        cursor.execute(f"INSERT INTO {notes} VALUES (1, 'a', 1)")
        assert cursor.rowcount == 1
        assert len(rows(cursor, notes)) == 1
    finally:
        adbc.adbc_connection.set_options(**{option: "true"})


def test_an_update_by_its_own_call(cursor: Any, notes: str) -> None:
    cursor.adbc_statement.set_sql_query(f"INSERT INTO {notes} VALUES (1, 'a', 1)")
    assert cursor.adbc_statement.execute_update() == 1
    cursor.adbc_statement.set_sql_query(f"DROP TABLE {notes}")
    assert cursor.adbc_statement.execute_update() == 0


@pytest.mark.slow
def test_sqlalchemy(uri: str, cursor: Any, notes: str) -> None:
    address = uri.removeprefix("grpc://")
    engine = sqlalchemy.create_engine(
        f"adbc+flightsql://{address}?tls=false", connect_args={"autocommit": True}
    )
    table = sqlalchemy.Table(notes, sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:

        def changed(statement: Any, *values: Any) -> int:
            with closing(connection.execute(statement, *values)) as result:
                return int(result.rowcount)

        assert changed(table.insert().values(id=1, text="a", score=0.5)) == 1
        changed(table.insert(), [{"id": 2, "text": "b", "score": 1}, {"id": 3, "text": "c", "score": 2}])
        assert changed(table.update().where(table.c.id > 1).values(text="B")) == 2
        assert changed(table.delete().where(table.c.id == 3)) == 1
        connection.commit()
        found = pd.read_sql(sqlalchemy.select(table).order_by(table.c.id), connection)
    engine.dispose()
    assert found["text"].tolist() == ["a", "B"]
    assert rows(cursor, notes) == [(1, "a", 0.5), (2, "B", 1.0)]
