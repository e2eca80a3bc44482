"""SET, RESET, DISCARD, USE and SHOW: what is done, what is accepted by habit, and what is refused."""

from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import flight

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.identity import ANONYMOUS
from lance_gateway.gateway.sessions import DEFAULTS, Sessions
from lance_gateway.gateway.statements.session.statements import SessionStatements
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.access.rights import FULL_ACCESS
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean
from tests.support.processes.servers import open_connection


@pytest.fixture
def client(uri: str) -> Iterator[GatewayClient]:
    with GatewayClient(uri) as client:
        client.get_options()  # opens the session
        yield client


def ask(client: GatewayClient, sql: str) -> list[tuple[Any, ...]]:
    table = client.query(sql).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def shown(client: GatewayClient, name: str) -> str:
    ((value,),) = ask(client, f"SHOW {name}")
    assert isinstance(value, str)
    return value


@pytest.mark.parametrize(
    ("sql", "option", "value"),
    [
        ("SET consistency = 'flushed'", "consistency", "flushed"),
        ("set session max_staleness_ms to 250;", "max_staleness_ms", "250"),
        ("SET /* a comment */ dialect = mysql", "dialect", "mysql"),
        ("SET region_pruning = off", "region_pruning", "false"),
        ("SET statement_timeout = '2min'", "query_timeout_ms", "120000"),
        ("SET statement_timeout TO 1500", "query_timeout_ms", "1500"),
        ("SET statement_timeout = '10us'", "query_timeout_ms", "1"),
        ("SET default_transaction_read_only = on", "read_only", "true"),
        ("SET synchronous_commit = off", "durable_writes", "false"),
        ("SET client_encoding = 'utf8', endpoints = 4", "endpoints", "4"),
    ],
)
def test_set_changes_an_option_of_the_session(
    client: GatewayClient, sql: str, option: str, value: str
) -> None:
    before = client.get_options()
    assert ask(client, sql) == []
    assert client.get_options() == before | {option: value}
    assert shown(client, option) == value


def test_what_is_set_holds_for_the_statements_behind_it(client: GatewayClient) -> None:
    ask(client, "SET dialect = 'mysql'")
    assert ask(client, "SELECT IFNULL(NULL, `id`) FROM orders WHERE id = 3") == [(3,)]
    ask(client, "RESET dialect")
    ask(client, "SET read_only TO true")
    with pytest.raises(pa.ArrowException, match="this session only reads"):
        ask(client, "CREATE VIEW made AS SELECT 1 AS one")


@pytest.mark.parametrize(
    ("set_", "name", "value"),
    [
        ("SET application_name = 'a tool'", "application_name", "a tool"),
        ("SET DateStyle TO 'iso, dmy'", "DateStyle", "ISO, DMY"),
        ("SET DATESTYLE = ISO, YMD", "DateStyle", "ISO, YMD"),
        ("SET extra_float_digits = 3", "extra_float_digits", "3"),
        ("SET client_min_messages TO warning", "client_min_messages", "warning"),
        ("SET NAMES 'utf8mb4'", "client_encoding", "UTF8"),
        ("SET TIME ZONE 'utc'", "TIME ZONE", "UTC"),
        ("SET timezone = 'Etc/UTC'", "TimeZone", "UTC"),
        ("SET standard_conforming_strings = on", "standard_conforming_strings", "on"),
        ('SET search_path TO "$user", main, pg_catalog', "search_path", "main"),
        ("SET transaction_isolation = 'read committed'", "TRANSACTION ISOLATION LEVEL", "read committed"),
        ("SET autocommit = 1", "autocommit", "on"),
        ("SET ROLE none", "role", "none"),
        ("SET statement_timeout = 90000", "statement_timeout", "90s"),
        ("USE lance.main", "schema", "main"),
        ("USE SCHEMA main", "search_path", "main"),
    ],
)
def test_what_clients_say_by_habit_is_told_back(
    client: GatewayClient, set_: str, name: str, value: str
) -> None:
    ask(client, set_)
    assert shown(client, name) == value


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("SET consistency = 'weird'", "'weird' is unknown: choose strong, flushed, snapshot"),
        ("SET consistancy = 'strong'", "no setting 'consistancy': did you mean consistency"),
        (
            "SET datafusion.execution.batch_size = 1",
            "no setting 'datafusion.execution.batch_size': options are",
        ),
        ("SHOW colour", "no setting 'colour'"),
        ("RESET colour", "no setting 'colour'"),
        ("SET TIME ZONE 'Europe/Berlin'", "moments are told in UTC; write AT TIME ZONE"),
        ("SET search_path = main, other", "one schema is searched"),
        ("SET search_path = other", "Schema 'other' does not exist"),
        ("USE other", "Schema 'other' does not exist"),
        ("USE other.main", "catalog 'other' does not exist"),
        ("SET client_encoding = 'latin1'", "texts are UTF-8"),
        ("SET DateStyle = 'German'", "ISO with MDY, DMY or YMD"),
        ("SET extra_float_digits = -3", "no digits are left out"),
        ("SET standard_conforming_strings = off", r"write E'\.\.'"),
        ("SET transaction_isolation = serializable", "each statement reads one snapshot"),
        ("SET TRANSACTION READ ONLY", "no transaction is open"),
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "name them behind BEGIN",
        ),
        ("SET LOCAL statement_timeout = 5", "write SET, which lasts for the session"),
        ("SET autocommit = 0", "transactions begin with BEGIN"),
        ("SET lock_timeout = '5s'", "only 0"),
        ("SET statement_timeout = 'soon'", "a number with a unit"),
        ("SET SESSION AUTHORIZATION admin", "connect as that user"),
        ("SET server_version = '9'", "can't be changed"),
        ("SET consistency", "= or TO is expected behind SET consistency"),
        ("SET consistency = $1", "A value is expected"),
        ("SET consistency = 'strong'; DROP TABLE orders", "Only one statement is allowed"),
        ("DISCARD EVERYTHING", "ALL is expected"),
    ],
)
def test_what_would_change_answers_is_refused_with_the_way_out(
    client: GatewayClient, sql: str, complaint: str
) -> None:
    before = client.get_options()
    with pytest.raises(pa.ArrowException, match=complaint):
        ask(client, sql)
    assert client.get_options() == before


@pytest.mark.parametrize("sql", ["RESET ALL", "DISCARD ALL"])
def test_all_settings_return_to_their_defaults(client: GatewayClient, sql: str) -> None:
    before = client.get_options()
    ask(client, "SET consistency = flushed, statement_timeout = 5, application_name = 'x'")
    ask(client, sql)
    assert client.get_options() == before
    assert shown(client, "application_name") == ""


def test_one_setting_returns_to_its_default(client: GatewayClient) -> None:
    ask(client, "SET consistency = flushed, statement_timeout = 5")
    ask(client, "RESET statement_timeout")
    ask(client, "SET max_staleness_ms TO DEFAULT")
    assert (shown(client, "consistency"), shown(client, "statement_timeout")) == ("flushed", "0")


@pytest.mark.parametrize(
    "sql", ["SET read_only = off", "RESET read_only", "SET default_transaction_read_only = 0"]
)
def test_no_statement_lifts_read_only(client: GatewayClient, sql: str) -> None:
    client.set_options({"read_only": "true"})
    with pytest.raises(pa.ArrowException, match="no SQL lifts that"):
        ask(client, sql)
    ask(client, "DISCARD ALL")
    assert shown(client, "read_only") == "true"
    client.set_options({"read_only": "false"})


def test_what_a_header_chooses_is_not_set_in_vain(uri: str) -> None:
    with GatewayClient(uri, chosen={"consistency": "flushed"}) as client:
        client.get_options()
        with pytest.raises(
            pa.ArrowException, match="a header of this connection chooses consistency = 'flushed'"
        ):
            ask(client, "SET consistency = strong")
        ask(client, "SET consistency = flushed")
        assert shown(client, "consistency") == "flushed"


def test_show_all_lists_what_show_tells(client: GatewayClient) -> None:
    listed = {name: value for name, value, _ in ask(client, "SHOW ALL")}
    assert {name: shown(client, name) for name in listed} == listed
    assert {"consistency", "statement_timeout", "server_version", "TimeZone"} <= listed.keys()


def test_a_driver_that_prepares_gets_a_session_by_that(uri: str) -> None:
    with open_connection(uri) as connection, connection.cursor() as cursor:
        cursor.execute("SET consistency = 'flushed'")
        assert cursor.fetchall() == []
        cursor.execute("SHOW consistency")
        assert cursor.fetchall() == [("flushed",)]


def test_a_client_that_keeps_no_cookies_is_told_so(uri: str) -> None:
    with flightsql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        with pytest.raises(adbc_driver_manager.Error, match="with_cookie_middleware"):
            cursor.execute("SET consistency = 'flushed'")
        # What changes nothing needs no session.
        cursor.execute("SET client_encoding TO 'UTF8'")
        cursor.execute("SET consistency = 'strong'")


def test_an_update_sets_too_and_a_query_is_none(wire: flight.FlightClient) -> None:
    assert rpc.update(wire, "SET statement_timeout = 0") == 0
    with pytest.raises(pa.ArrowException, match="execute it as a query"):
        rpc.update(wire, "SHOW statement_timeout")


def test_a_prepared_set_is_an_update_and_sets_when_it_is_executed(
    uri: str, wire: flight.FlightClient
) -> None:
    created = rpc.prepare(wire, "SET consistency = 'snapshot'")
    assert created.is_update
    assert not created.dataset_schema
    with GatewayClient(uri) as client:
        assert shown(client, "consistency") == "strong"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SHOW CATALOGS", [("lance",)]),
        ("SHOW DATABASES LIKE 'l%'", [("lance",)]),
        ("SHOW DATABASES LIKE 'm%'", []),
        ("SHOW SCHEMAS LIKE 'ma%'", [("main",)]),
        ("SHOW SCHEMAS FROM other", []),
        ("SHOW INDEXES FROM orders", []),
        ("SHOW VIEWS", [("lance", "main", "big_orders", "VIEW")]),
        (
            "SHOW TABLES FROM main",
            [
                ("lance", "main", "big_orders", "VIEW"),
                ("lance", "main", "orders", "BASE TABLE"),
                ("lance", "main", "typed", "BASE TABLE"),
            ],
        ),
        ("SHOW TABLES IN lance.main LIKE '%ped'", [("lance", "main", "typed", "BASE TABLE")]),
    ],
)
def test_show_lists_what_information_schema_has(
    client: GatewayClient, sql: str, rows: list[tuple[str, ...]]
) -> None:
    assert ask(client, sql) == rows


def test_show_tables_leaves_catalogs_out_unless_from_names_them(client: GatewayClient) -> None:
    catalogs = "('information_schema', 'pg_catalog', 'system')"
    listed = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables"
    assert ask(client, "SHOW TABLES") == ask(
        client, f"{listed} WHERE table_schema NOT IN {catalogs} ORDER BY 2, 3"
    )
    assert ("lance", "information_schema", "tables", "VIEW") in ask(
        client, "SHOW TABLES FROM information_schema LIKE 't%'"
    )
    assert ("lance", "information_schema", "views", "VIEW") in ask(
        client, "SHOW VIEWS FROM information_schema"
    )


@pytest.mark.parametrize(
    ("sql", "names", "row"),
    [
        ("SELECT current_user, session_user AS s", ["current_user", "s"], ("anonymous", "anonymous")),
        ("SELECT current_schema, current_catalog", ["current_schema", "current_catalog"], ("main", "lance")),
        (
            "SELECT pg_catalog.current_schema(), current_database()",
            ["current_schema", "current_database"],
            ("main", "lance"),
        ),
        ("SELECT current_schemas(true)", ["current_schemas"], (["pg_catalog", "main"],)),
        (
            "SELECT (SELECT current_user) AS u, upper(current_user) AS v",
            ["u", "v"],
            ("anonymous", "ANONYMOUS"),
        ),
        ("SELECT current_setting('TIMEZONE')", ["current_setting"], ("UTC",)),
        ("SELECT current_setting('colour', true) AS c", ["c"], (None,)),
        ("SELECT count(*) AS n FROM orders WHERE current_schema() IN (current_schema)", ["n"], (1000,)),
        ('SELECT o.current_user, "current_user" FROM (SELECT 1 AS "current_user") o', None, (1, 1)),
        ("SELECT max(user) AS u FROM system.queries", ["u"], ("anonymous",)),
    ],
)
def test_functions_tell_who_asks_and_where(
    client: GatewayClient, sql: str, names: list[str] | None, row: tuple[Any, ...]
) -> None:
    table = client.query(sql).read_all()
    assert [tuple(column.to_pylist()[0] for column in table.columns)] == [row]
    if names is not None:
        assert table.schema.names == names


def test_the_version_names_postgresql_as_its_drivers_look_for_it(client: GatewayClient) -> None:
    table = client.query("SELECT pg_catalog.version()").read_all()
    assert table.schema.names == ["version"]
    assert table.column(0)[0].as_py().endswith("with the catalog of PostgreSQL 16.0")


def test_an_unknown_setting_is_not_told(client: GatewayClient) -> None:
    with pytest.raises(pa.ArrowException, match="current_setting\\(\\) does not know 'colour'"):
        ask(client, "SELECT current_setting('colour')")


FRAGMENTS = (
    "SESSION", "LOCAL", "TIME", "ZONE", "NAMES", "ALL", "DEFAULT", "TO", "=", ",", "-", "'x'", "'", '"x"',
    "1", "on", "consistency", "DateStyle", "statement_timeout", "'5s'", "read_only", ".", "(", ")", "$1",
    "TRANSACTION", ";", "SCHEMA", "AUTHORIZATION", "/*", "\x00",
)  # fmt: skip


@given(
    st.sampled_from(["SET", "RESET", "SHOW", "USE", "DISCARD"]),
    st.lists(st.sampled_from(FRAGMENTS), max_size=6),
)
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(word: str, fragments: list[str]) -> None:
    sessions = Sessions(LimitsSection())
    call = Call("peer", ANONYMOUS, FULL_ACCESS, None, DEFAULTS, lambda _name, _value: None, lambda: False)
    sql = " ".join([word, *fragments])
    try:
        statement = SessionStatements(sessions, lambda _: None).readers[word.lower()](sql, call)
        if statement is not None:
            statement.run(call)
    except LanceGatewayError as error:
        assert_clean(str(error))
