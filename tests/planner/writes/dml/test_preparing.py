"""Preparing writes nothing; it tells types and plans, and is done once for as long as it holds."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import (
    InvalidInputError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, PreparedWrite, QueryEngine
from tests.planner.writes.dml.lake import TABLES, Lake, make_lake, open_lake


@pytest.fixture
def lake(tmp_path: Path, open_engine: Callable[[Path], QueryEngine]) -> Lake:
    make_lake(tmp_path)
    return Lake(open_engine(tmp_path))


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """For tests that write nothing."""
    made = open_lake(tmp_path_factory.mktemp("lake"))
    yield made
    made.engine.close()


def prepared(lake: Lake, sql: str) -> PreparedWrite:
    found = lake.engine.prepare_statement(sql)
    assert not isinstance(found, PreparedQuery)
    return found


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("INSERT INTO people VALUES ($1, $2, $3, $4)", [pa.int64(), pa.string(), pa.int32(), pa.float64()]),
        ("INSERT INTO people (age, id) VALUES (?, ?), (1, ?)", [pa.int32(), pa.int64(), pa.int64()]),
        ("INSERT INTO people (id, age) VALUES ($1, $2 + 1)", [pa.int64(), pa.int64()]),
        ("INSERT INTO people (id) SELECT id FROM news WHERE age = $1", [pa.int64()]),
        ("UPDATE people SET age = $1, score = $2 WHERE id = $3", [pa.int32(), pa.float64(), pa.int64()]),
        ("DELETE FROM orders WHERE total > $1 AND day = $2", [pa.decimal128(10, 2), pa.date32()]),
        (
            (
                "MERGE INTO people USING news n ON people.id = n.id AND n.age > $2 "
                "WHEN MATCHED THEN UPDATE SET age = $1"
            ),
            [pa.int32(), pa.int64()],
        ),
        (
            "INSERT INTO people (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET age = $1, name = $2 || 'x'",
            [pa.int32(), pa.string()],
        ),
        ("DELETE FROM people WHERE id = 5 RETURNING age + $1 AS later", [pa.int32()]),
    ],
)
def test_parameters_have_the_types_of_what_they_are_for(
    unchanged: Lake, sql: str, types: list[pa.DataType]
) -> None:
    before = {table: unchanged.rows(table) for table in TABLES}
    statement = prepared(unchanged, sql)
    assert statement.parameter_schema.types == types
    assert statement.target in TABLES
    assert {table: unchanged.rows(table) for table in TABLES} == before


def test_what_is_returned_is_known_before(unchanged: Lake) -> None:
    statement = prepared(
        unchanged, "UPDATE people AS p SET age = 1 WHERE id = 1 RETURNING p.id, age * 2.5 AS more"
    )
    assert statement.schema == pa.schema([("id", pa.int64()), ("more", pa.float64())])
    nothing = prepared(unchanged, "UPDATE people SET age = 1 WHERE id = 1")
    assert nothing.schema == pa.schema([])
    assert nothing.digest != statement.digest


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (
            "EXPLAIN INSERT INTO people (id) VALUES (1), (2)",
            "InsertExec: table=people, columns=[id], 2 row(s)",
        ),
        (
            "EXPLAIN INSERT INTO people (id) SELECT id FROM news",
            "rows of a query, replacing rows of the same key",
        ),
        ("EXPLAIN UPDATE people SET age = 1 WHERE id = 7", "the region of each key is claimed"),
        ("EXPLAIN DELETE FROM people WHERE age > 3", "regions that the conditions admit are claimed"),
        (
            "EXPLAIN WITH x AS (SELECT 1 AS i) DELETE FROM people USING x WHERE id = i",
            "DeleteExec: table=people",
        ),
    ],
)
def test_explain_shows_and_does_nothing(unchanged: Lake, sql: str, shown: str) -> None:
    before = {table: unchanged.rows(table) for table in TABLES}
    done = unchanged.write(sql)
    assert done.rows is not None
    plans = dict(zip(*done.rows.to_pydict().values(), strict=True))
    assert shown in plans["write_plan"]
    assert "VALUES" in sql or "DatasetExec" in plans["physical_plan"]
    assert done.affected == -1
    assert {table: unchanged.rows(table) for table in TABLES} == before


def test_a_statement_is_prepared_once(lake: Lake) -> None:
    sql = "UPDATE people SET age = age + $1 WHERE id = $2"
    first = prepared(lake, sql)
    first.execute([pa.scalar(1), pa.scalar(1)])
    assert prepared(lake, sql) is first


def test_a_statement_is_prepared_anew_for_a_table_with_other_columns(lake: Lake) -> None:
    sql = "INSERT INTO people (id, name) VALUES ($1, $2)"
    first = prepared(lake, sql)
    lake.engine.catalog.table("people").writer().flush()
    lake.engine.catalog.table("people").base().dataset.add_columns({"more": "CAST(NULL AS INT)"})
    with pytest.raises(PreconditionError, match="prepare it again"):
        first.execute([pa.scalar(1), pa.scalar("x")])
    second = prepared(lake, sql)
    assert second is not first
    assert second.execute([pa.scalar(1), pa.scalar("x")]).affected == 1


@pytest.mark.parametrize("values", [[], [pa.scalar(1)], [pa.scalar(1)] * 3], ids=len)
def test_as_many_values_as_parameters_are_bound(unchanged: Lake, values: list[Any]) -> None:
    statement = prepared(unchanged, "UPDATE people SET age = $1 WHERE id = $2")
    with pytest.raises(InvalidInputError, match="2 parameter"):
        statement.execute(values)


def test_sets_of_parameters_are_done_one_after_another(lake: Lake) -> None:
    statement = prepared(lake, "UPDATE people SET age = age + $1 WHERE id = $2 RETURNING age")
    done = statement.execute_many(pa.table({"$1": [1, 2, 3], "$2": [0, 0, 99]}))
    assert done.affected == 2
    assert done.rows is not None
    assert done.rows.to_pylist() == [{"age": 21}, {"age": 23}]
    with pytest.raises(InvalidInputError, match="this was set 2 of 2 sets of parameters, and the 1 before"):
        statement.execute_many(pa.table({"$1": [1, 3_000_000_000], "$2": [0, 0]}))


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO people (id) VALUES (555)",
        "UPDATE people SET age = 0",
        "DELETE FROM people WHERE id = 1",
        "MERGE INTO people USING news n ON people.id = n.id WHEN MATCHED THEN DELETE",
    ],
)
def test_what_is_stopped_before_it_writes_writes_nothing(unchanged: Lake, sql: str) -> None:
    before = unchanged.rows("people")
    control = RunControl()
    control.cancel(UnavailableError("stopped by somebody"))
    with pytest.raises(UnavailableError, match="stopped by somebody"):
        prepared(unchanged, sql).execute((), control)
    assert unchanged.rows("people") == before


def test_prepared_statements_are_shared_by_threads(lake: Lake) -> None:
    statement = prepared(lake, "INSERT INTO people (id, name) VALUES ($1, upper($2))")
    threads = [
        threading.Thread(target=statement.execute, args=([pa.scalar(1000 + n), pa.scalar(f"t{n}")],))
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = lake.read("SELECT name FROM people WHERE id >= 1000 ORDER BY id")
    assert [row["name"] for row in found] == [f"T{n}" for n in range(6)]


def test_writes_that_are_not_durable_say_so(lake: Lake) -> None:
    quick = replace(lake, settings=replace(lake.settings, durable_writes=False))
    assert not quick.write("INSERT INTO people (id) VALUES (2000)").is_durable
    assert lake.read("SELECT id FROM people WHERE id = 2000") == [{"id": 2000}]
    assert quick.write("UPDATE people SET age = 5 WHERE id = 2000").is_durable


@pytest.mark.parametrize(
    ("sql", "values", "told"),
    [
        ("UPDATE people SET age = age + $1", [1 << 40], "column 'age' (int32), row 1: 1099511627"),
        (
            "UPDATE people SET age = age + $1 WHERE id = $2",
            [1 << 40, 5],
            "column 'age' (int32), row 1: 1099511627",
        ),
        (
            "UPDATE people SET age = age + $2 WHERE score > $1",
            [0.5, 1 << 40],
            "column 'age' (int32), row 1: 1099511627",
        ),
        (
            "INSERT INTO people (id, age) SELECT id + $1, age + $2 FROM news",
            [1, 1e300],
            "column 'age' (int32), row 1: 1e+300 does not fit",
        ),
        (
            "DELETE FROM people WHERE age = $2 AND name = $1",
            ["x", "y"],
            "parameter $2 is 'y' (string), but int32",
        ),
        (
            "DELETE FROM people WHERE id = $2 AND age > $1",
            [1, "y"],
            "parameter $2 is 'y' (string), but int64",
        ),
    ],
)
def test_a_value_out_of_range_is_named(unchanged: Lake, sql: str, values: list[Any], told: str) -> None:
    before = unchanged.rows("people")
    statement = prepared(unchanged, sql)
    with pytest.raises(InvalidInputError) as refused:
        statement.execute([pa.scalar(value) for value in values])
    assert str(refused.value).startswith(told)
    with pytest.raises(InvalidInputError) as refused:
        statement.execute_many(pa.table({f"${at}": [value] for at, value in enumerate(values, start=1)}))
    assert str(refused.value).startswith(told)
    assert unchanged.rows("people") == before


def test_each_set_of_parameters_decides_what_becomes_of_its_rows(lake: Lake) -> None:
    statement = prepared(
        lake,
        "INSERT INTO people (id, age) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET age = people.age + $2 "
        "RETURNING id, age, $3 || '!' AS note",
    )
    done = statement.execute_many(pa.table({"$1": [1, 2, 100], "$2": [10, 20, 30], "$3": ["a", "b", "c"]}))
    assert done.affected == 3
    assert done.rows is not None
    assert done.rows.to_pylist() == [
        {"id": 1, "age": 31, "note": "a!"},
        {"id": 2, "age": 42, "note": "b!"},
        {"id": 100, "age": 1, "note": "c!"},
    ]


@pytest.mark.parametrize("second", ["59", "59.5"])
def test_times_are_compared_with_their_fractions(lake: Lake, second: str) -> None:
    lake.write("CREATE TABLE moments (id BIGINT PRIMARY KEY, at TIMESTAMP(0), n BIGINT)")
    lake.write("INSERT INTO moments VALUES (1, '2024-02-29 23:59:59', 0)")
    at, is_same = f"at = TIMESTAMP '2024-02-29 23:59:{second}'", second == "59"
    lake.write(f"UPDATE moments SET n = CASE WHEN {at} THEN 1 ELSE 2 END WHERE id = 1")
    assert lake.read("SELECT n FROM moments") == [{"n": 1 if is_same else 2}]
    lake.write(f"UPDATE moments SET n = 3 WHERE id = 1 AND {at}")
    assert lake.read("SELECT n FROM moments") == [{"n": 3 if is_same else 2}]
    lake.write(f"DELETE FROM moments WHERE id = 1 AND {at}")
    assert lake.read("SELECT count(*) AS c FROM moments") == [{"c": 0 if is_same else 1}]
