"""Temporary tables and views: of one session, before permanent ones, bounded, and gone with the session."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi as flightsql
from pyarrow import flight

from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.auth.policy import parse_policy
from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.protocol.identity import ANONYMOUS
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.local.temporary import TemporaryOptions, TemporaryTables
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.support.processes.servers import GatewayProcess, fetch, open_connection

POLICY = """
[roles.clerk]
grants = [{ tables = ["t"], rows = "v < 30", masks = { w = "'***'" } }]
"""
PERMANENT = [{"id": number, "v": 10 * number} for number in (1, 2, 3)]
ERROR = adbc_driver_manager.Error


@contextmanager
def serving(tmp: Path, options: TemporaryOptions | None = None, **arguments: Any) -> Iterator[GatewayServer]:
    """A gateway whose temporary tables are in a directory of the test."""
    root = tmp / "lake"
    root.mkdir(exist_ok=True)
    tables = TemporaryTables(options or TemporaryOptions(tmp / "temporary"))
    engine = QueryEngine(Catalog.open(str(root), cache_bytes=64 << 20, temporary=tables))
    server = GatewayServer(engine, "127.0.0.1", 0, **arguments)
    try:
        yield server
    finally:
        server.shutdown()
        engine.close()


def uri_of(server: GatewayServer) -> str:
    return f"grpc://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def server(tmp: Path) -> Iterator[GatewayServer]:
    with serving(tmp) as server:
        with open_connection(uri_of(server)) as connection:
            run(connection, "CREATE TABLE t (id INT PRIMARY KEY, v INT, w TEXT)")
            run(connection, "INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')")
            run(connection, "CREATE VIEW totals AS SELECT sum(v) AS v FROM t")
        yield server


@pytest.fixture
def one(server: GatewayServer) -> Iterator[Any]:
    with open_connection(uri_of(server)) as connection:
        yield connection


@pytest.fixture
def other(server: GatewayServer) -> Iterator[Any]:
    with open_connection(uri_of(server)) as connection:
        yield connection


def run(connection: Any, *statements: str) -> None:
    for statement in statements:
        with connection.cursor() as cursor:
            try:
                cursor.execute(statement)
            except ERROR as error:
                # The driver notes the cookie of an answer in a thread of its own: it may miss the next call.
                if "execute it again" not in str(error):
                    raise
                cursor.execute(statement)


def ask(connection: Any, text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in fetch(connection, text).to_pylist())


def list_files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and path.name != "lock"]


def test_a_session_sees_its_tables_before_permanent_ones(one: Any, other: Any) -> None:
    run(one, "CREATE TEMP TABLE t AS SELECT id + 100 AS id, v FROM t WHERE v > 10")
    assert ask(one, "SELECT id FROM t") == ask(one, "SELECT pg_temp.t.id FROM pg_temp.t") == [(102,), (103,)]
    assert ask(one, "SELECT id FROM main.t") == ask(other, "SELECT id FROM t") == [(1,), (2,), (3,)]
    # Each of them is planned once more than it is asked: a plan that is kept names the tables that it means.
    assert ask(one, "SELECT count(*) FROM t JOIN main.t AS m ON t.id = m.id + 100") == [(2,)]
    run(one, "DROP TABLE t")
    assert ask(one, "SELECT id FROM t") == [(1,), (2,), (3,)]
    with pytest.raises(ERROR, match="Schema 'pg_temp' does not exist"):
        ask(other, "SELECT * FROM pg_temp.t")


def test_a_name_of_another_session_does_not_exist(one: Any, other: Any) -> None:
    run(one, "CREATE TEMPORARY TABLE mine (i INT)")
    ((schema,),) = ask(one, "SELECT table_schema FROM information_schema.tables WHERE table_name = 'mine'")
    assert ask(one, f"SELECT * FROM {schema}.mine") == []
    for statement in (
        f"SELECT * FROM {schema}.mine",
        f"INSERT INTO {schema}.mine VALUES (1)",
        f"DROP TABLE {schema}.mine",
        "SELECT * FROM mine",
    ):
        with pytest.raises(ERROR, match="does not exist"):
            run(other, statement)
    with pytest.raises(ERROR, match="may not make a table"):
        run(other, f"CREATE TABLE {schema}.more (i INT)")
    with pytest.raises(ERROR, match="another meaning"):
        run(other, "CREATE SCHEMA pg_temp_1")


def test_all_statements_write_them(one: Any) -> None:
    run(
        one,
        "CREATE TEMP TABLE k (id INT PRIMARY KEY, v TEXT DEFAULT 'new') ON COMMIT PRESERVE ROWS",
        "CREATE LOCAL TEMPORARY TABLE n AS SELECT 1 AS i UNION ALL SELECT 2",
        "INSERT INTO k (id) VALUES (1), (2), (3)",
        "MERGE INTO k USING n ON k.id = n.i WHEN MATCHED THEN UPDATE SET v = 'seen' "
        "WHEN NOT MATCHED THEN INSERT VALUES (n.i, 'x')",
        "DELETE FROM k WHERE id = 2",
        "UPDATE n SET i = i * 10",
        "ALTER TABLE k ADD COLUMN more INT",
        "CREATE OR REPLACE TEMP TABLE n AS SELECT i + 1 AS i FROM n",
        "ALTER TABLE n RENAME TO numbers",
    )
    assert ask(one, "SELECT id, v FROM k") == [(1, "seen"), (3, "new")]
    assert ask(one, "SELECT i FROM numbers") == [(11,), (21,)]
    with one.cursor() as cursor:
        cursor.adbc_ingest("numbers", pa.table({"i": pa.array([5], pa.int64())}), mode="append")
        cursor.adbc_ingest("made", pa.table({"x": [1]}), mode="create", temporary=True)
    assert ask(one, "SELECT i, x FROM numbers, made WHERE i < 10") == [(5, 1)]
    for statement, reason in (
        ("ALTER TABLE k RENAME TO main.k", "temporary tables stay temporary"),
        ("CREATE TEMP TABLE main.k (i INT)", "in no other schema"),
        ("CREATE TEMP TABLE k (i INT)", "exists already"),
        ("CREATE TEMP TABLE z (i INT) ON COMMIT DELETE ROWS", "ON COMMIT PRESERVE ROWS"),
    ):
        with pytest.raises(ERROR, match=reason):
            run(one, statement)


def test_what_is_made_without_the_word_is_permanent(one: Any, other: Any) -> None:
    run(one, "CREATE TEMP TABLE p (i INT)", "CREATE TABLE p (i INT, j INT)", "INSERT INTO p VALUES (7)")
    assert ask(other, "SELECT * FROM p") == []
    assert ask(one, "SELECT * FROM p") == [(7,)]
    run(one, "DROP TABLE p", "DROP TABLE p")
    with pytest.raises(ERROR, match="'p' does not exist"):
        ask(one, "SELECT * FROM p")


def test_views_mean_what_their_names_meant(one: Any, other: Any) -> None:
    run(
        one,
        "CREATE TEMP VIEW before AS SELECT max(v) AS v FROM t",
        "CREATE TEMP TABLE t AS SELECT 0 AS v, 1 AS id",
        "CREATE TEMP VIEW after AS SELECT max(v) AS v FROM t",
        "CREATE TEMP VIEW totals AS SELECT 5 AS v",
    )
    assert ask(one, "SELECT * FROM before UNION ALL SELECT * FROM after") == [(0,), (30,)]
    assert ask(one, "SELECT * FROM main.totals UNION ALL SELECT * FROM totals") == [(5,), (60,)]
    # Subqueries that become joins of values inline views by another way.
    assert ask(one, "SELECT (SELECT sum(m.v) FROM main.totals m WHERE m.v > t.v) FROM t") == [(60,)]
    assert ask(one, "SELECT (SELECT sum(m.v) FROM before m WHERE m.v > t.v) FROM t") == [(30,)]
    run(one, "DROP VIEW totals", "DROP VIEW before")
    assert ask(one, "SELECT * FROM totals") == [(60,)]
    with pytest.raises(ERROR, match="'after' does not exist"):
        ask(other, "SELECT * FROM after")
    with pytest.raises(ERROR, match="does not exist"):  # what others read can't read what is temporary
        run(one, "CREATE VIEW shown AS SELECT * FROM pg_temp.t")


def test_metadata_lists_them_for_their_session_alone(one: Any, other: Any) -> None:
    run(one, "CREATE TEMP TABLE listed (i INT)", "CREATE TEMP VIEW seen AS SELECT i FROM listed")
    objects = [connection.adbc_get_objects().read_all().to_pylist() for connection in (one, other)]
    found = [
        {
            (table["table_name"], table["table_type"])
            for catalog in catalogs
            for schema in catalog["catalog_db_schemas"]
            if schema["db_schema_name"].startswith("pg_temp")
            for table in schema["db_schema_tables"]
        }
        for catalogs in objects
    ]
    assert found == [{("listed", "TABLE"), ("seen", "VIEW")}, set()]
    text = "SELECT count(*) FROM pg_catalog.pg_class WHERE relname IN ('listed', 'seen')"
    assert (ask(one, text), ask(other, text)) == ([(2,)], [(0,)])
    assert ask(other, "SELECT * FROM system.tables WHERE table_name = 'listed'") == []


def test_they_go_with_their_session(tmp_path: Path) -> None:
    with serving(tmp_path, limits=LimitsSection(max_sessions=1)) as server:
        with open_connection(uri_of(server)) as closed:
            run(closed, "CREATE TEMP TABLE t AS SELECT 1 AS i")
            assert list_files(tmp_path / "temporary")
        assert not list_files(tmp_path / "temporary")
        with open_connection(uri_of(server)) as left, open_connection(uri_of(server)) as newer:
            run(left, "CREATE TEMP TABLE t AS SELECT 1 AS i")
            run(newer, "CREATE TEMP TABLE u AS SELECT 2 AS i")  # there is room for one session
            assert ask(newer, "SELECT * FROM u") == [(2,)]
            with pytest.raises(ERROR, match=r"session .* is not known"):
                ask(left, "SELECT * FROM t")
            assert not [path for path in list_files(tmp_path / "temporary") if "t.lance" in path.parts]
    assert not list((tmp_path / "temporary").iterdir())


def test_discarding_drops_them(one: Any) -> None:
    for statement, is_left in (
        ("RESET ALL", True),
        ("DISCARD PLANS", True),
        ("DISCARD TEMP", False),
        ("DISCARD ALL", False),
    ):
        run(one, "CREATE TEMP TABLE IF NOT EXISTS d AS SELECT 1 AS i", statement)
        listed = ask(one, "SELECT table_name FROM information_schema.tables WHERE table_name = 'd'")
        assert listed == [("d",)] * is_left
        if not is_left:
            with pytest.raises(ERROR, match="does not exist"):
                ask(one, "SELECT * FROM d")


def test_a_call_without_a_session_makes_none(server: GatewayServer) -> None:
    with flightsql.connect(uri_of(server), autocommit=True) as connection, connection.cursor() as cursor:
        with pytest.raises(ERROR, match=r"of a session.*with_cookie_middleware"):
            cursor.execute("CREATE TEMP TABLE t (i INT)")
        with pytest.raises(ERROR, match=r"keep cookies .* connect again"):
            cursor.adbc_ingest("t", pa.table({"i": [1]}), mode="create", temporary=True)
    with (
        serving_read_only(server) as only,
        open_connection(uri_of(only)) as connection,
        pytest.raises(ERROR, match="started read-only"),
    ):
        run(connection, "CREATE TEMP TABLE t (i INT)")


@contextmanager
def serving_read_only(server: GatewayServer) -> Iterator[GatewayServer]:
    root = server.temporary._catalog.storage.root
    engine = QueryEngine(Catalog.open(root, writing=None))
    read_only = GatewayServer(engine, "127.0.0.1", 0)
    try:
        yield read_only
    finally:
        read_only.shutdown()
        engine.close()


@pytest.mark.usefixtures("server")
def test_who_may_read_may_keep_what_they_see(tmp: Path) -> None:
    policy = parse_policy(POLICY, "policy")
    access = policy.access(dataclasses.replace(ANONYMOUS, roles=frozenset({"clerk"})))
    with (
        serving(tmp, security=Security(access=lambda _: access)) as clerks,
        open_connection(uri_of(clerks)) as clerk,
    ):
        run(clerk, "SET read_only = true", "CREATE TEMP TABLE mine AS SELECT * FROM t")
        assert ask(clerk, "SELECT * FROM mine") == [(1, 10, "***"), (2, 20, "***")]
        run(clerk, "DELETE FROM mine WHERE id = 1", "CREATE TEMP VIEW w AS SELECT * FROM t")
        assert ask(clerk, "SELECT count(*) FROM mine UNION ALL SELECT count(*) FROM w") == [(1,), (2,)]
        with pytest.raises(ERROR, match="may not write"):
            run(clerk, "INSERT INTO main.t VALUES (4, 4, 'd')")


def test_sessions_have_so_much_room(tmp_path: Path) -> None:
    options = TemporaryOptions(tmp_path / "temporary", max_bytes=1_000_000, max_all_bytes=1_500_000)
    rows = "SELECT CAST(random() * 9e18 AS BIGINT) AS i FROM generate_series(1, {})"
    with (
        serving(tmp_path, options) as server,
        open_connection(uri_of(server)) as one,
        open_connection(uri_of(server)) as other,
    ):
        with pytest.raises(
            ERROR, match=r"this session would have .* 1000000 are allowed.*max_temporary_bytes"
        ):
            run(one, f"CREATE TEMP TABLE t AS {rows.format(200_000)}")
        run(one, f"CREATE TEMP TABLE t AS {rows.format(100_000)}")
        for writes in ("INSERT INTO t", "CREATE TEMP TABLE k (i BIGINT PRIMARY KEY)", "INSERT INTO k"):
            if writes.startswith("CREATE"):
                run(one, writes)
                continue
            with pytest.raises(ERROR, match="this session would have"):
                run(one, f"{writes} {rows.format(50_000)}")
        with pytest.raises(ERROR, match=r"of all sessions would have .* max_all_temporary_bytes"):
            run(other, f"CREATE TEMP TABLE t AS {rows.format(100_000)}")
        run(one, "DROP TABLE t")
        run(other, f"CREATE TEMP TABLE t AS {rows.format(100_000)}")
        run(one, f"CREATE TABLE kept AS {rows.format(200_000)}")  # permanent ones have no limit


def test_what_was_planned_in_a_session_is_executed_in_it(server: GatewayServer) -> None:
    """Elsewhere its names would mean other tables of the same columns."""
    with GatewayClient(uri_of(server)) as session, flight.FlightClient(uri_of(server)) as client:
        session.get_options()
        session.execute("CREATE TEMP TABLE t AS SELECT * FROM t WHERE id = 3")
        (cookie,) = session._jar.cookies.items()
        options = flight.FlightCallOptions(headers=[(b"cookie", "=".join(cookie).encode())])
        command = rpc.descriptor(sql.CommandStatementQuery(query="SELECT * FROM t"))
        ticket, again = (client.get_flight_info(command, options).endpoints[0].ticket for _ in range(2))
        with pytest.raises(KeyError, match="prepared in a session with temporary tables"):
            client.do_get(ticket).read_all()
        assert client.do_get(ticket, options).read_all().column("id").to_pylist() == [3]
        session.execute("DROP TABLE t")
        with pytest.raises(KeyError, match="prepared in a session with temporary tables"):
            client.do_get(again, options).read_all()


def test_a_session_follows_tables_of_both_kinds(server: GatewayServer) -> None:
    with GatewayClient(uri_of(server)) as session:
        session.get_options()
        session.execute("CREATE TEMP TABLE t (id INT PRIMARY KEY, x INT)")
        session.execute("INSERT INTO t VALUES (7, 70)")
        for name, columns in (("t", "id, x"), ("main.t", "id, v")):
            follow = f"SELECT {columns} FROM lance_changes('{name}', since => 1, follow => true)"
            reader = session.query(follow)
            row, *_ = next(batch.to_pylist() for batch in reader if batch.num_rows)
            reader.cancel()
            assert row in ([{"id": 7, "x": 70}] if name == "t" else PERMANENT)


def test_workers_read_them_and_a_killed_gateway_leaves_none(tmp_path: Path) -> None:
    temporary, config = tmp_path / "temporary", tmp_path / "gateway.toml"
    (tmp_path / "lake").mkdir()
    config.write_text(f"[server]\nworkers = 1\ntemporary_directory = {json.dumps(str(temporary))}\n")
    options = ("--config", str(config))
    with GatewayProcess(tmp_path / "lake", *options) as gateway, open_connection(gateway.uri) as connection:
        run(
            connection,
            "CREATE TABLE t (id BIGINT PRIMARY KEY)",
            "INSERT INTO t VALUES (1)",
            "CREATE TEMP TABLE t AS SELECT value AS id FROM generate_series(1, 1000)",
            "CREATE TEMP VIEW w AS SELECT count(*) AS n FROM t",
            "INSERT INTO t SELECT id + 1000 FROM t",
        )
        assert ask(connection, "SELECT n, (SELECT count(*) FROM main.t) FROM w") == [(2000, 1)]
        long = "id > 0 AND id IN (" + ", ".join(map(str, range(1, 3000))) + ")"
        assert ask(connection, f"SELECT count(*) FROM t WHERE {long}") == [(2000,)]
        assert not any("pg_temp" in str(path) for path in (tmp_path / "lake").rglob("*"))
        gateway.kill()
        assert list_files(temporary)
        with GatewayProcess(tmp_path / "lake", *options):
            assert not list_files(temporary)


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir(mode=0o755)
    with serving(tmp_path) as server, open_connection(uri_of(server)) as connection:
        with pytest.raises(ERROR, match=r"server\.temporary_directory .*others may enter it \(mode 755\)"):
            run(connection, "CREATE TEMP TABLE t AS SELECT 1 AS i")
        assert ask(connection, "SELECT 1 AS i") == [(1,)]
