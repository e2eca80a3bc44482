"""Statements of long texts: a worker binds queries, and reads the rows of INSERTs."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pytest

from lance_gateway.planner.plans.query_planner import LONG_STATEMENT
from tests.support.processes.servers import GatewayProcess, open_connection

NUMBERS = ", ".join(map(str, range(5_000)))
KEYS = ", ".join(map(str, range(10, 5_000)))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    root: Path = tmp_path_factory.mktemp("long")
    server = GatewayProcess(root, "--set", "server.workers=1")
    with open_connection(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, n DOUBLE)")
        cursor.execute("INSERT INTO t VALUES (1, 'one', 1.5), (20, 'twenty', NULL), (30, 'thirty', 3.0)")
        cursor.execute("CREATE VIEW named AS SELECT id, name FROM t WHERE n IS NOT NULL")
    yield server
    server.stop()


@pytest.fixture
def cursor(gateway: GatewayProcess) -> Iterator[Any]:
    with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
        yield cursor


def fetch(cursor: Any, statement: str, parameters: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
    assert len(statement) > LONG_STATEMENT
    cursor.execute(statement, parameters)
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (f"SELECT 7 IN ({NUMBERS}), 'x'", [(True, "x")]),
        (f"SELECT id FROM t WHERE id IN ({KEYS}) ORDER BY id", [(20,), (30,)]),
        (f"SELECT name FROM named WHERE id IN ({KEYS})", [("thirty",)]),
        (f"WITH u AS (SELECT 'update' AS word) SELECT word FROM u WHERE 3 IN ({NUMBERS})", [("update",)]),
        (f"SELECT count(*) FROM information_schema.tables WHERE 3 IN ({NUMBERS})", None),
        (
            f"SELECT max(state) FROM system.queries WHERE state = 'running' AND 1 IN ({NUMBERS})",
            [("running",)],
        ),
    ],
)
@pytest.mark.slow
def test_queries_answer_as_short_ones_do(cursor: Any, statement: str, rows: list[Any] | None) -> None:
    for _ in range(2):  # the second time, the plan is kept
        found = fetch(cursor, statement)
        assert found == rows or rows is None


@pytest.mark.slow
def test_parameters_are_bound_to_queries(cursor: Any) -> None:
    statement = f"SELECT name FROM t WHERE id = $1 AND id IN ({KEYS})"
    assert fetch(cursor, statement, (20,)) == [("twenty",)]
    assert fetch(cursor, statement, (1,)) == []


@pytest.mark.slow
def test_a_query_is_planned_again_when_its_view_changes(cursor: Any) -> None:
    statement = f"SELECT * FROM changing WHERE 1 IN ({NUMBERS})"
    cursor.execute("CREATE VIEW changing AS SELECT 1 AS one")
    assert fetch(cursor, statement) == [(1,)]
    cursor.execute("CREATE OR REPLACE VIEW changing AS SELECT 'other' AS another")
    assert fetch(cursor, statement) == [("other",)]
    cursor.execute("DROP VIEW changing")
    with pytest.raises(adbc_driver_manager.Error, match="'changing' does not exist"):
        fetch(cursor, statement)


@pytest.mark.slow
def test_errors_name_their_place(cursor: Any) -> None:
    with pytest.raises(adbc_driver_manager.Error, match="Table 'nothing' does not exist"):
        fetch(cursor, f"SELECT 1 FROM nothing WHERE 1 IN ({NUMBERS})")
    with pytest.raises(adbc_driver_manager.Error, match="line 2, column 1"):
        fetch(cursor, f"SELECT 1 IN ({NUMBERS})\n)")


@pytest.mark.slow
def test_a_value_that_does_not_fit_is_refused(cursor: Any) -> None:
    statement = f"SELECT coalesce(CAST(NULL AS DATE), $1) AS day FROM t WHERE id IN ({KEYS})"
    for _ in range(2):
        with pytest.raises(adbc_driver_manager.ProgrammingError, match=r"parameter \$1 .* date32\[day\] is"):
            fetch(cursor, statement, (datetime(2024, 2, 29, 12),))


@pytest.mark.slow
def test_the_rows_of_an_insert_are_all_written(cursor: Any) -> None:
    cursor.execute("CREATE TABLE filled (id BIGINT PRIMARY KEY, name TEXT)")
    rows = ", ".join(f"({number}, 'name ({number})')" for number in range(1000))
    assert len(f"INSERT INTO filled VALUES {rows}") > LONG_STATEMENT
    cursor.execute(f"INSERT INTO filled VALUES {rows}")
    cursor.execute("SELECT count(*), min(name), max(id) FROM filled")
    assert cursor.fetchall() == [(1000, "name (0)", 999)]
    more = ", ".join(f"('other', {number})" for number in range(998, 2000))
    cursor.execute(f"INSERT INTO filled (name, id) VALUES {more} ON CONFLICT (id) DO NOTHING RETURNING id")
    assert len(cursor.fetchall()) == 1000
    cursor.execute("SELECT count(*), count(*) FILTER (WHERE name = 'other') FROM filled")
    assert cursor.fetchall() == [(2000, 1000)]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"INSERT INTO t VALUES {', '.join(['(1)'] * 5_000)}", r"Row 1 has 1 value\(s\), and 3 are needed"),
        (f"INSERT INTO nothing VALUES {', '.join(['(1)'] * 5_000)}", "'nothing' does not exist"),
        (
            f"INSERT INTO t VALUES {', '.join(['(1, 2, 3)'] * 5_000)} ON CONFLICT (n) DO NOTHING",
            "are noticed",
        ),
        (f"DELETE FROM t WHERE unknown IN ({NUMBERS})", "unknown"),
    ],
)
@pytest.mark.slow
def test_statements_that_write_are_refused(cursor: Any, statement: str, message: str) -> None:
    with pytest.raises(adbc_driver_manager.Error, match=message):
        cursor.execute(statement)
