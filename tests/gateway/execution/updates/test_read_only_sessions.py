"""A session that only reads: nothing that changes something is executed, whichever way it comes."""

from collections.abc import Callable, Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.execution.updates.tables import bound
from tests.gateway.protocol.test_errors import assert_clean
from tests.support.processes.servers import open_connection

ONLY_READS = r"was not executed, since this session only reads: set the session option read_only to false"
CHANGES = (
    "INSERT INTO {t} (id) VALUES (2)",
    "INSERT INTO {t} (id) VALUES (2) RETURNING id",
    "/* reads */ -- nothing\n insert into {t} (id) SELECT id + 1 FROM {t}",
    "INSERT INTO {t} (id) VALUES (1) ON CONFLICT DO NOTHING",
    "WITH more AS (SELECT 2 AS id) INSERT INTO {t} (id) SELECT id FROM more",
    "WITH old AS (SELECT 1 AS id) DELETE FROM {t} WHERE id IN (SELECT id FROM old)",
    "UPDATE {t} SET text = 'x' WHERE id = 1 RETURNING text",
    "DELETE FROM {t} WHERE false",
    "TRUNCATE {t}",
    "MERGE INTO {t} USING (SELECT 1 AS id) s ON {t}.id = s.id WHEN MATCHED THEN DELETE",
    "CREATE TABLE made (id BIGINT PRIMARY KEY)",
    "CREATE TABLE made AS SELECT * FROM {t}",
    "CREATE OR REPLACE TABLE {t} (id BIGINT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS {t} (id BIGINT PRIMARY KEY)",
    "CREATE VIEW made AS SELECT 1 AS one",
    "CREATE INDEX ON {t} (text)",
    "ALTER TABLE {t} ADD COLUMN more BIGINT",
    "ALTER TABLE {t} SET (memwal = true)",
    "ALTER TABLE {t} RENAME TO other",
    "COMMENT ON TABLE {t} IS 'other'",
    "DROP TABLE {t}",
    "DROP TABLE IF EXISTS {t}",
    "OPTIMIZE {t}",
    "FLUSH TABLE {t}",
    "ANALYZE {t}",
    "KILL QUERY '0'",
)
"""Statements that another session executes, or that are none of the gateway's."""
REFUSED_ANYWAY = (
    "SELECT 1; DELETE FROM {t}",
    "DELETE FROM {t}; SELECT 1",
    "WITH gone AS (DELETE FROM {t} RETURNING id) SELECT * FROM gone",
    "SELECT * FROM (DELETE FROM {t} RETURNING id)",
    "EXPLAIN ANALYZE DELETE FROM {t}",
    "EXPLAIN ANALYZE VERBOSE INSERT INTO {t} (id) VALUES (2)",
    "SELECT 2 AS id INTO made",
    "COPY {t} TO '/tmp/made.csv'",
    "PREPARE gone AS DELETE FROM {t}",
    "SET read_only = false",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "BEGIN TRANSACTION READ WRITE",
    "CALL optimize('{t}')",
)
"""What no session executes: ways around that must not open."""
READS = (
    "SELECT count(*) FROM {t}",
    "WITH one AS (SELECT 1 AS id) SELECT * FROM {t} JOIN one USING (id)",
    "EXPLAIN ANALYZE SELECT * FROM {t}",
    "EXPLAIN INSERT INTO {t} (id) VALUES (2)",
    "EXPLAIN DELETE FROM {t}",
    "SHOW TABLES",
    "DESCRIBE {t}",
)


class _Headers(flight.ClientMiddlewareFactory):
    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        return _Header()


class _Header(flight.ClientMiddleware):
    def sending_headers(self) -> dict[str, str]:
        return {"x-lance-gateway-read_only": "true"}


@pytest.fixture
def reader(server: GatewayServer) -> Iterator[flight.FlightClient]:
    """A client whose calls all bear the header of a session that only reads."""
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}", middleware=[_Headers()]) as client:
        yield client


@pytest.fixture
def filled(client: flight.FlightClient, notes: str) -> str:
    rpc.update(client, f"INSERT INTO {notes} VALUES (1, 'one', 0.5)")
    return notes


@pytest.fixture
def unchanged(client: flight.FlightClient, filled: str) -> Iterator[None]:
    """Fails where the test changed the table, its columns, or which tables there are."""

    def look() -> tuple[Any, ...]:
        tables = rpc.fetch(client, sql.CommandGetTables(include_schema=True))
        return rpc.query(client, f"SELECT * FROM {filled}").to_pylist(), tables.to_pylist()

    before = look()
    yield
    assert look() == before


def _update(client: flight.FlightClient, text: str) -> object:
    return rpc.update(client, text)


def _query(client: flight.FlightClient, text: str) -> object:
    return rpc.info(client, sql.CommandStatementQuery(query=text))


def _schema(client: flight.FlightClient, text: str) -> object:
    return client.get_schema(rpc.descriptor(sql.CommandStatementQuery(query=text)))


PATHS: tuple[Callable[[flight.FlightClient, str], object], ...] = (_update, _query, _schema, rpc.prepare)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("text", CHANGES)
def test_a_change_is_refused_whichever_way_it_comes(
    reader: flight.FlightClient, filled: str, text: str
) -> None:
    for path in PATHS:
        # pyarrow finds no Flight error in the answer to GetSchema.
        kind = pa.ArrowException if path is _schema else flight.FlightUnauthorizedError
        with pytest.raises(kind, match=ONLY_READS) as caught:
            path(reader, text.format(t=filled))
        assert_clean(str(caught.value))


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("text", REFUSED_ANYWAY)
def test_there_is_no_way_around(reader: flight.FlightClient, filled: str, text: str) -> None:
    for path in PATHS:
        with pytest.raises((pa.ArrowException, flight.FlightError, KeyError, NotImplementedError)):
            path(reader, text.format(t=filled))


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("text", READS)
def test_queries_and_plans_are_answered(
    reader: flight.FlightClient, client: flight.FlightClient, filled: str, text: str
) -> None:
    answer = rpc.query(reader, text.format(t=filled))
    assert answer.num_rows
    assert answer.schema == rpc.query(client, text.format(t=filled)).schema


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("returning", ["", " RETURNING id"])
def test_what_another_session_prepared_is_not_executed(
    reader: flight.FlightClient, client: flight.FlightClient, filled: str, returning: str
) -> None:
    text = f"INSERT INTO {filled} (id, text) VALUES (?, ?){returning}"
    handle = rpc.prepare(client, text).prepared_statement_handle
    held = rpc.bind(client, handle, bound(1))
    with pytest.raises(flight.FlightUnauthorizedError, match=ONLY_READS):
        rpc.bind(reader, handle, bound(1))
    with pytest.raises(flight.FlightUnauthorizedError, match=ONLY_READS):
        rpc.info(reader, sql.CommandPreparedStatementQuery(prepared_statement_handle=held))
    for rows in (None, bound(1)):
        with pytest.raises(flight.FlightUnauthorizedError, match=ONLY_READS):
            rpc.put(reader, sql.CommandPreparedStatementUpdate(prepared_statement_handle=held), rows)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("exists", ["FAIL", "APPEND", "REPLACE"])
def test_an_ingestion_is_refused(reader: flight.FlightClient, filled: str, exists: str) -> None:
    options = sql.CommandStatementIngest.TableDefinitionOptions
    definition = options(
        if_not_exist=options.TABLE_NOT_EXIST_OPTION_CREATE,
        if_exists=getattr(options, f"TABLE_EXISTS_OPTION_{exists}"),
    )
    for table in (filled, "made"):
        command = sql.CommandStatementIngest(table=table, table_definition_options=definition)
        with pytest.raises(flight.FlightUnauthorizedError, match=ONLY_READS):
            rpc.put(reader, command, pa.table({"id": [1]}))


def test_a_handle_of_a_reader_is_executed_by_a_session_that_writes(
    reader: flight.FlightClient, client: flight.FlightClient, filled: str
) -> None:
    handle = rpc.prepare(reader, f"SELECT text FROM {filled}").prepared_statement_handle
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
    assert (
        rpc.fetch(client, command).to_pylist() == rpc.fetch(reader, command).to_pylist() == [{"text": "one"}]
    )


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("session", "header"), [("false", "true"), ("true", "false"), ("true", "true")])
def test_either_the_session_or_the_header_is_enough(
    server: GatewayServer, filled: str, session: str, header: str
) -> None:
    chosen = {"read_only": header}
    with GatewayClient(f"grpc://127.0.0.1:{server.port}", chosen=chosen) as client:
        client.set_options({"read_only": session})
        assert client.get_options()["read_only"] == "true"
        with pytest.raises(flight.FlightUnauthorizedError, match=ONLY_READS):
            client.execute(f"DELETE FROM {filled}")


def test_a_session_without_the_header_may_change_its_mind(server: GatewayServer, filled: str) -> None:
    option = "adbc.flight.sql.session.optionbool.read_only"
    with open_connection(f"grpc://127.0.0.1:{server.port}") as connection:
        connection.adbc_connection.set_options(**{option: "true"})
        with connection.cursor() as cursor:
            with pytest.raises(adbc_driver_manager.Error, match=ONLY_READS) as caught:
                cursor.execute(f"DELETE FROM {filled}")
            assert caught.value.status_code == adbc_driver_manager.AdbcStatusCode.UNAUTHORIZED
            with pytest.raises(adbc_driver_manager.Error, match=ONLY_READS):
                cursor.adbc_ingest("made", pa.table({"id": [1]}), mode="create")
        connection.adbc_connection.set_options(**{option: "false"})
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {filled}")
            assert cursor.rowcount == 1


@pytest.mark.usefixtures("unchanged")
def test_adbc_sends_the_header_of_a_connection_with_every_call(server: GatewayServer, filled: str) -> None:
    header = {"adbc.flight.sql.rpc.call_header.x-lance-gateway-read_only": "true"}
    with (
        flightsql.connect(f"grpc://127.0.0.1:{server.port}", db_kwargs=header, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        with pytest.raises(adbc_driver_manager.Error, match=ONLY_READS):
            cursor.execute(f"DELETE FROM {filled}")
        with pytest.raises(adbc_driver_manager.Error, match=ONLY_READS):
            cursor.executemany(f"DELETE FROM {filled} WHERE id = ?", [(1,)])


def test_a_session_that_only_reads_is_told_so(
    reader: flight.FlightClient, client: flight.FlightClient, filled: str
) -> None:
    def tell(caller: flight.FlightClient) -> tuple[list[bool], set[bytes]]:
        codes = [sql.FLIGHT_SQL_SERVER_READ_ONLY, sql.FLIGHT_SQL_SERVER_BULK_INGESTION]
        info = rpc.fetch(caller, sql.CommandGetSqlInfo(info=codes))["value"].to_pylist()
        command = sql.CommandGetTables(table_name_filter_pattern=filled, include_schema=True)
        (schema,) = rpc.fetch(caller, command)["table_schema"].to_pylist()
        return info, {field.metadata[b"ARROW:FLIGHT:SQL:IS_READ_ONLY"] for field in rpc.schema_of(schema)}

    assert tell(reader) == ([True, False], {b"1"})
    assert tell(client) == ([False, True], {b"0"})
