"""COMMENT ON, and comments in CREATE: they are shown wherever tables and columns are listed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import lance
import pytest
from pyarrow import flight

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, PermissionDeniedError
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.protos import flight_sql_pb2
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.support.judging.principals import ALL, Principal

Sql = Any
LISTED = (
    "SELECT comment FROM system.tables WHERE table_name = 't'",
    "SELECT obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class c WHERE c.relname = 't'",
)
COLUMNS = (
    "SELECT column_name, comment FROM system.columns WHERE table_name = 't' ORDER BY column_name",
    (
        "SELECT a.attname, col_description(a.attrelid, a.attnum) FROM pg_catalog.pg_attribute a "
        "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid WHERE c.relname = 't' AND a.attnum > 0 ORDER BY 1"
    ),
)


@pytest.fixture
def lake(sql: Sql) -> Sql:
    sql("CREATE TABLE t (id INT PRIMARY KEY COMMENT 'the key', n INT) COMMENT 'made so'")
    sql("INSERT INTO t VALUES (1, 2)")
    return sql


def test_comments_of_create_are_listed_and_can_be_changed(
    lake: Sql, root: Path, open_gateway: Callable[..., Sql]
) -> None:
    other = open_gateway(root)
    other("INSERT INTO t VALUES (2, 3)")  # holds a region
    assert [lake(query) for query in LISTED] == [[("made so",)]] * 2
    assert [lake(query) for query in COLUMNS] == [[("id", "the key"), ("n", None)]] * 2
    assert lake("COMMENT ON TABLE lance.main.t IS 'it''s other'") == -1
    lake("COMMENT ON COLUMN t.n IS 'how many'")
    lake("COMMENT ON COLUMN main.t.id IS NULL")
    for gateway in (lake, other):
        assert [gateway(query) for query in LISTED] == [[("it's other",)]] * 2
        assert [gateway(query) for query in COLUMNS] == [[("id", None), ("n", "how many")]] * 2
        gateway("UPDATE t SET n = n + 1")
    assert other("SELECT * FROM t ORDER BY id") == [(1, 4), (2, 5)]
    lake("COMMENT ON TABLE t IS NULL")
    assert [lake(query) for query in LISTED] == [[(None,)]] * 2


def test_a_comment_that_another_program_wrote_is_replaced(lake: Sql) -> None:
    dataset = lance.dataset(lake.root / "t.lance")
    dataset.update_field_metadata({"n": {"Description": "theirs"}})
    assert lake(COLUMNS[0]) == [("id", "the key"), ("n", "theirs")]
    lake("COMMENT ON COLUMN t.n IS 'ours'")
    assert lake(COLUMNS[0]) == [("id", "the key"), ("n", "ours")]
    lake("COMMENT ON COLUMN t.n IS NULL")
    assert lake(COLUMNS[0]) == [("id", "the key"), ("n", None)]


def test_a_view_has_a_comment_which_moves_with_it(lake: Sql) -> None:
    views = "SELECT view_name, comment FROM system.views"
    lake("CREATE VIEW v COMMENT 'first\nsecond' AS SELECT id FROM t")
    assert lake(views) == [("v", "first\nsecond")]
    lake("COMMENT ON VIEW v IS 'über\n-- all'")
    lake("ALTER VIEW v RENAME TO w")
    assert lake(views) == [("w", "über\n-- all")]
    assert lake("SELECT * FROM w") == [(1,)]
    lake("COMMENT ON VIEW w IS NULL")
    assert lake(views) == [("w", None)]
    assert (lake.root / "w.view.sql").read_text() == "SELECT id FROM t"
    (lake.root / "x.view.sql").write_text("-- comment: of somebody else\nSELECT 5 AS n")
    assert lake("SELECT n FROM x") == [(5,)]


def test_a_comment_is_on_what_there_is(lake: Sql) -> None:
    lake("CREATE VIEW v AS SELECT id FROM t")
    for statement, error, said in (
        ("COMMENT ON TABLE x IS 'a'", NotFoundError, "'x' does not exist"),
        ("COMMENT ON COLUMN t.nn IS 'a'", NotFoundError, "did you mean n"),
        ("COMMENT ON COLUMN n IS 'a'", InvalidInputError, "table.column"),
        ("COMMENT ON TABLE v IS 'a'", InvalidInputError, "COMMENT ON VIEW v"),
        ("COMMENT ON COLUMN v.id IS 'a'", InvalidInputError, "its columns have none"),
        ("COMMENT ON VIEW t IS 'a'", InvalidInputError, "COMMENT ON TABLE t"),
        ("COMMENT ON INDEX i IS 'a'", InvalidInputError, "TABLE, VIEW, COLUMN"),
        ("COMMENT ON TABLE t IS 5", InvalidInputError, "single quotes"),
    ):
        with pytest.raises(error, match=said):
            lake(statement)


def test_who_may_not_write_says_nothing_and_who_is_restricted_reads_nothing_hidden(lake: Sql) -> None:
    lake("COMMENT ON COLUMN t.n IS 'hidden'")
    reader = Principal({"t": ALL})
    with pytest.raises(PermissionDeniedError):
        lake("COMMENT ON TABLE t IS 'a'", reader)
    assert lake(LISTED[1], reader) == [("made so",)]
    restricted = Principal({"t": TableAccess(hidden_columns=frozenset({"n"}))})
    assert [lake(query, restricted) for query in LISTED] == [[(None,)]] * 2
    assert [lake(query, restricted) for query in COLUMNS] == [[("id", "the key")]] * 2


@pytest.mark.slow
def test_drivers_are_told_of_comments_on_columns(lake: Sql) -> None:
    lake.engine.close()
    with (
        serving(lake.root) as server,
        flightsql.connect(f"grpc://127.0.0.1:{server.port}", autocommit=True) as connection,
        connection.cursor() as cursor,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as wire,
    ):
        cursor.execute("COMMENT ON COLUMN t.n IS 'how many'")
        command = flight_sql_pb2.CommandGetTables(table_name_filter_pattern="t", include_schema=True)
        (stored,) = rpc.fetch(wire, command).column("table_schema").to_pylist()
        schema = rpc.schema_of(stored)
        assert schema.field("n").metadata[b"ARROW:FLIGHT:SQL:REMARKS"] == b"how many"
