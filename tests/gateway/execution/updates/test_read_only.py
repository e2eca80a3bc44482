"""A gateway that only reads refuses every change, and says so."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.server import GatewayServer
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.execution.updates.tables import count
from tests.gateway.protocol.test_errors import assert_clean


@pytest.fixture(scope="module")
def reading(root: Path) -> Iterator[flight.FlightClient]:
    """A client of a gateway that takes no writes."""
    engine = QueryEngine(Catalog.open(str(root), writing=None))
    server = GatewayServer(engine)
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        yield client
    server.shutdown()
    engine.close()


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO {notes} (id) VALUES (1)",
        "UPDATE {notes} SET text = 'x'",
        "DELETE FROM {notes}",
        "CREATE TABLE made (id BIGINT)",
        "CREATE VIEW made AS SELECT 1 AS one",
        "DROP TABLE {notes}",
        "OPTIMIZE {notes}",
        "FLUSH TABLE {notes}",
    ],
)
def test_a_gateway_that_only_reads_says_so(reading: flight.FlightClient, notes: str, text: str) -> None:
    statement = text.format(notes=notes)
    with pytest.raises((pa.ArrowException, flight.FlightError), match="read") as caught:
        rpc.update(reading, statement)
    assert_clean(str(caught.value))
    with pytest.raises((pa.ArrowException, flight.FlightError), match="read"):
        rpc.info(reading, sql.CommandStatementQuery(query=statement))
    assert count(reading, notes) == 0


@pytest.mark.parametrize("table", ["made", "notes"])
def test_a_gateway_that_only_reads_takes_no_ingestion(
    reading: flight.FlightClient, notes: str, table: str
) -> None:
    options = sql.CommandStatementIngest.TableDefinitionOptions
    command = sql.CommandStatementIngest(
        table=notes if table == "notes" else table,
        table_definition_options=options(
            if_not_exist=options.TABLE_NOT_EXIST_OPTION_CREATE,
            if_exists=options.TABLE_EXISTS_OPTION_REPLACE,
        ),
    )
    with pytest.raises((pa.ArrowException, flight.FlightError), match="read") as caught:
        rpc.put(reading, command, pa.table({"id": [1]}))
    assert_clean(str(caught.value))
    assert count(reading, notes) == 0


@pytest.mark.parametrize(("which", "expected"), [("reading", [True, False]), ("client", [False, True])])
def test_the_server_says_whether_it_takes_writes(
    request: pytest.FixtureRequest, which: str, expected: list[bool]
) -> None:
    codes = [sql.FLIGHT_SQL_SERVER_READ_ONLY, sql.FLIGHT_SQL_SERVER_BULK_INGESTION]
    table = rpc.fetch(request.getfixturevalue(which), sql.CommandGetSqlInfo(info=codes))
    assert table["value"].to_pylist() == expected
