"""Schemas over the wire: metadata, sessions, ingestion, handles and tickets, and who sees which."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.auth.policy import find_policy_conflicts, parse_policy
from lance_gateway.gateway.protocol.identity import ANONYMOUS
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.support.processes.servers import fetch, open_connection

POLICY = """
[roles.clerk]
grants = [
  { tables = ["t", "*"] },
  { tables = ["sales.orders"], rows = "v < 3" },
  { tables = ["own.*"], write = true },
]
"""
MADE = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (region_by = 'bucket(id, 2)')",
    "CREATE SCHEMA sales",
    "CREATE SCHEMA secret",
    "CREATE SCHEMA own",
    "CREATE TABLE sales.t (id INT PRIMARY KEY, v INT) WITH (region_by = 'bucket(id, 2)')",
    "CREATE TABLE sales.orders (id INT PRIMARY KEY, v INT REFERENCES sales.t (id) NOT ENFORCED)",
    "CREATE TABLE secret.t (k TEXT PRIMARY KEY)",
    "CREATE VIEW sales.w AS SELECT v FROM t",
    "INSERT INTO t VALUES (1, 1)",
    "INSERT INTO sales.t VALUES (1, 11), (2, 12)",
    "INSERT INTO sales.orders VALUES (1, 1), (2, 2), (3, 3)",
    "INSERT INTO secret.t VALUES ('x')",
)
SYSTEM = ["information_schema", "system"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def uri(lake: Path) -> Iterator[str]:
    """A server over tables of several schemas."""
    with serving(lake) as server:
        uri = f"grpc://127.0.0.1:{server.port}"
        with open_connection(uri) as connection:
            for statement in MADE:
                run(connection, statement)
        yield uri


@pytest.fixture(scope="module")
def clerk(lake: Path, uri: str) -> Iterator[Any]:
    """A connection to another server over the same tables, where all callers are clerks."""
    assert uri
    policy = parse_policy(POLICY, "policy")
    access = policy.access(dataclasses.replace(ANONYMOUS, roles=frozenset({"clerk"})))
    with (
        serving(lake, security=Security(access=lambda _: access)) as server,
        open_connection(f"grpc://127.0.0.1:{server.port}") as connection,
    ):
        yield connection


@pytest.fixture
def adbc(uri: str) -> Iterator[Any]:
    with open_connection(uri) as connection:
        yield connection


@pytest.fixture
def wire(uri: str) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(uri) as client:
        yield client


def run(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def ask(connection: Any, text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in fetch(connection, text).to_pylist())


def list_rows(client: flight.FlightClient, command: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values())[1:] for row in rpc.fetch(client, command).to_pylist()]


def test_schemas_and_their_tables_are_listed(wire: flight.FlightClient) -> None:
    assert list_rows(wire, sql.CommandGetDbSchemas()) == [
        (name,) for name in sorted([*SYSTEM, "main", "own", "sales", "secret"])
    ]
    assert list_rows(wire, sql.CommandGetDbSchemas(db_schema_filter_pattern="s%")) == [
        ("sales",),
        ("secret",),
        ("system",),
    ]
    assert list_rows(wire, sql.CommandGetTables(table_name_filter_pattern="t", table_types=["TABLE"])) == [
        (schema, "t", "TABLE") for schema in ("main", "sales", "secret")
    ]
    columns = sql.CommandGetTables(include_schema=True, db_schema_filter_pattern="sales")
    assert [
        (name, kind, rpc.schema_of(schema).names) for _, name, kind, schema in list_rows(wire, columns)
    ] == [("orders", "TABLE", ["id", "v"]), ("t", "TABLE", ["id", "v"]), ("w", "VIEW", ["v"])]


def test_keys_are_those_of_the_schema(wire: flight.FlightClient) -> None:
    assert list_rows(wire, sql.CommandGetPrimaryKeys(table="t", db_schema="secret")) == [
        ("secret", "t", "k", None, 1)
    ]
    assert [row[:3] for row in list_rows(wire, sql.CommandGetPrimaryKeys(table="t"))] == [
        ("main", "t", "id"),
        ("sales", "t", "id"),
        ("secret", "t", "k"),
    ]
    foreign = [("sales", "t", "id", "lance", "sales", "orders", "v")]
    for command in (
        sql.CommandGetImportedKeys(table="orders", db_schema="sales"),
        sql.CommandGetExportedKeys(table="t", db_schema="sales"),
        sql.CommandGetCrossReference(pk_table="t", fk_table="orders", pk_db_schema="sales"),
    ):
        assert [row[:7] for row in list_rows(wire, command)] == foreign
    assert list_rows(wire, sql.CommandGetExportedKeys(table="t", db_schema="main")) == []


def test_a_session_has_a_schema(adbc: Any) -> None:
    adbc.adbc_current_db_schema = "sales"
    assert adbc.adbc_current_db_schema == "sales"
    assert ask(adbc, "SELECT v FROM t") == [(11,), (12,)]
    assert ask(adbc, "SELECT v FROM main.t UNION ALL SELECT v FROM w") == [(1,), (11,), (12,)]
    with pytest.raises(adbc_driver_manager.ProgrammingError, match="invalid value"):
        adbc.adbc_current_db_schema = "nowhere"
    assert ask(adbc, "SELECT count(*) FROM t") == [(2,)]


def test_statements_choose_the_schema_of_a_session(adbc: Any) -> None:
    assert adbc.adbc_current_db_schema == "main"
    for statement in ("USE sales", "SET search_path = sales", "SET SCHEMA 'sales'"):
        run(adbc, statement)
        assert ask(adbc, "SELECT current_schema() AS s, max(v) AS m FROM t") == [("sales", 12)], statement
        run(adbc, "RESET search_path")
        assert ask(adbc, "SELECT max(v) AS m FROM t") == [(1,)]
    with pytest.raises(adbc_driver_manager.ProgrammingError, match="Schema 'nowhere' does not exist"):
        run(adbc, "USE nowhere")
    assert ("sales",) in ask(adbc, "SHOW SCHEMAS LIKE 's%'")
    assert [row[1:3] for row in ask(adbc, "SHOW TABLES FROM secret")] == [("secret", "t")]


def test_a_header_chooses_the_schema_of_one_call(uri: str) -> None:
    options = flight.FlightCallOptions(headers=[(b"x-lance-gateway-schema", b"sales")])
    with flight.FlightClient(uri) as client:
        command = rpc.descriptor(sql.CommandStatementQuery(query="SELECT max(v) AS m FROM t"))
        info = client.get_flight_info(command, options)
        # The ticket keeps the schema with which its statement was planned.
        assert client.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"m": 12}]


def test_a_prepared_statement_keeps_the_schema_that_it_was_prepared_with(adbc: Any) -> None:
    adbc.adbc_current_db_schema = "sales"
    with adbc.cursor() as reading, adbc.cursor() as writing:
        reading.adbc_prepare("SELECT v FROM t WHERE id = ?")
        writing.adbc_prepare("UPDATE t SET v = v + 0 WHERE id = ?")
        adbc.adbc_current_db_schema = "main"
        reading.execute("SELECT v FROM t WHERE id = ?", (2,))
        assert reading.fetchall() == [(12,)]
        writing.execute("UPDATE t SET v = v + 0 WHERE id = ?", (2,))
    assert ask(adbc, "SELECT count(*) FROM t") == [(1,)]


def test_rows_are_ingested_into_a_schema(adbc: Any) -> None:
    rows = pa.table({"n": [1, 2]})
    with adbc.cursor() as cursor:
        cursor.adbc_ingest("loaded", rows, mode="create", db_schema_name="own", catalog_name="lance")
        cursor.adbc_ingest("loaded", rows, mode="append", db_schema_name="own")
        adbc.adbc_current_db_schema = "own"
        cursor.adbc_ingest("loaded", rows, mode="append")
        with pytest.raises(adbc_driver_manager.Error, match="Schema 'nowhere' does not exist"):
            cursor.adbc_ingest("loaded", rows, mode="create", db_schema_name="nowhere")
        with pytest.raises(adbc_driver_manager.Error, match="takes no tables"):
            cursor.adbc_ingest("tables", rows, mode="append", db_schema_name="system")
    assert ask(adbc, "SELECT count(*) FROM own.loaded") == [(6,)]
    run(adbc, "DROP TABLE own.loaded")


def test_parts_of_a_result_name_the_table_of_the_schema(uri: str) -> None:
    with open_connection(uri) as connection:
        connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.endpoints": "4"})
        with connection.cursor() as cursor:
            partitions, _ = cursor.adbc_execute_partitions("SELECT id, v FROM sales.t")
            assert len(partitions) > 1
            found = []
            for partition in partitions:
                cursor.adbc_read_partition(partition)
                found += cursor.fetchall()
    assert sorted(found) == [(1, 11), (2, 12)]


def test_schemas_without_a_visible_table_do_not_exist(clerk: Any) -> None:
    objects = clerk.adbc_get_objects(depth="tables").read_all().to_pylist()
    (schemas,) = [
        {one["db_schema_name"]: [table["table_name"] for table in one["db_schema_tables"]] for one in found}
        for found in (catalog["catalog_db_schemas"] for catalog in objects)
    ]
    assert {name: tables for name, tables in schemas.items() if name not in SYSTEM} == {
        "main": ["t"],
        "own": [],
        "sales": ["orders"],
    }
    assert ask(clerk, "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 's%'") == [
        ("sales",),
        ("system",),
    ]
    assert ask(clerk, "SELECT table_schema, table_name FROM system.tables") == [
        ("main", "t"),
        ("sales", "orders"),
    ]
    assert ask(clerk, "SELECT v FROM sales.orders") == [(1,), (2,)]
    for name, told in (
        ("secret.t", "Schema 'secret' does not exist"),
        ("nowhere.t", "Schema 'nowhere' does not exist"),
        ("sales.t", r"Table 'sales.t' does not exist.*tables and views: sales.orders\)"),
        ("sales.w", r"Table 'sales.w' does not exist"),
    ):
        with pytest.raises(adbc_driver_manager.ProgrammingError, match=told):
            ask(clerk, f"SELECT * FROM {name}")
    with pytest.raises(adbc_driver_manager.ProgrammingError, match="invalid value"):
        clerk.adbc_current_db_schema = "secret"


def test_a_grant_for_a_schema_is_for_the_tables_it_will_have(clerk: Any) -> None:
    run(clerk, "CREATE TABLE own.t (id INT PRIMARY KEY)")
    run(clerk, "INSERT INTO own.t VALUES (1)")
    run(clerk, "CREATE VIEW own.v AS SELECT * FROM t")
    assert ask(clerk, "SELECT * FROM own.v") == [(1,)]
    run(clerk, "DROP SCHEMA own CASCADE")
    run(clerk, "CREATE SCHEMA own")
    assert ask(clerk, "SELECT table_name FROM system.tables WHERE table_schema = 'own'") == []
    for statement in ("CREATE SCHEMA other", "DROP SCHEMA sales CASCADE", "CREATE TABLE sales.n (id INT)"):
        with pytest.raises(adbc_driver_manager.ProgrammingError, match="an administrator must grant"):
            run(clerk, statement)


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("*", ["t", '"s.t"']),
        ("main.t", ["t"]),
        ("s.t", ["s.t"]),
        ('"s.t"', ['"s.t"']),
        ("s.*", ["s.t", "s.u"]),
        ("*.t", ["t", "s.t", "r.t"]),
        ("*.*", ["t", '"s.t"', "s.t", "s.u", "r.t"]),
        ("[rs].t", ["s.t", "r.t"]),
    ],
)
def test_patterns_of_grants(pattern: str, covered: list[str]) -> None:
    policy = parse_policy(f"[roles.r]\ngrants = [{{ tables = ['{pattern}'] }}]", "policy")
    access = policy.access(dataclasses.replace(ANONYMOUS, roles=frozenset({"r"})))
    assert [name for name in ("t", '"s.t"', "s.t", "s.u", "r.t") if access.of(name) is not None] == covered


def test_a_policy_is_checked_against_tables_of_all_schemas(lake: Path, uri: str) -> None:
    assert uri
    policy = parse_policy("[roles.r]\ngrants = [{ tables = ['sales.*'], hidden = ['zzz'] }]", "policy")
    catalog = Catalog.open(str(lake))
    problems = find_policy_conflicts(policy, catalog)
    catalog.close()
    assert len(problems) == 3
    assert "sales.orders" in problems[0]
