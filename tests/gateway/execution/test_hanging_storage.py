"""The object store accepts requests and answers none: statements end all the same, whatever they wait in."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.time_limits import StorageLimits
from lance_gateway.planner.tables.sources.base_table import open_base_table
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.support.lake.tables import key_field
from tests.support.processes.servers import GatewayProcess
from tests.support.sampling import sample
from tests.support.stores.object_stores import ObjectStore, start_moto

pytestmark = pytest.mark.slow

BUCKET = "tables"
ROWS = pa.table([pa.array(range(100), pa.int64())], schema=pa.schema([key_field("id", pa.int64())]))
SHORT = flight.FlightCallOptions(headers=[(b"x-lance-gateway-query_timeout_ms", b"2000")])
# Names of tables that no gateway has opened yet.
NAMES = (f"t{number}" for number in range(1000))


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with start_moto(BUCKET) as server:
        write_table(server, next(NAMES))
        yield server


@pytest.fixture(scope="module")
def gateway(store: ObjectStore) -> Iterator[GatewayProcess]:
    with open_gateway(store) as process:
        yield process


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(gateway.uri) as client:
        yield client


@pytest.fixture
def table(store: ObjectStore) -> str:
    """A table that no gateway knows anything of."""
    name = next(NAMES)
    write_table(store, name)
    return name


def write_table(store: ObjectStore, name: str) -> None:
    lance.write_dataset(ROWS, f"s3://{BUCKET}/{name}.lance", storage_options=store.options)


def open_gateway(store: ObjectStore, *options: str) -> GatewayProcess:
    flags = [part for item in store.options.items() for part in ("--storage-option", "=".join(item))]
    return GatewayProcess(f"s3://{BUCKET}", *flags, *options)  # type: ignore[arg-type]


def ask(text: str) -> flight.FlightDescriptor:
    return rpc.descriptor(sql.CommandStatementQuery(query=text))


def create(client: flight.FlightClient, text: str, options: flight.FlightCallOptions) -> list[Any]:
    request = rpc.packed(sql.ActionCreatePreparedStatementRequest(query=text))
    return list(client.do_action(flight.Action("CreatePreparedStatement", request), options))


def put(client: flight.FlightClient, message: Any, rows: pa.Table, options: flight.FlightCallOptions) -> Any:
    writer, reader = client.do_put(rpc.descriptor(message), rows.schema, options)
    with writer:
        writer.write_table(rows)
        writer.done_writing()
        return reader.read()


CALLS: dict[str, Callable[[flight.FlightClient, str, flight.FlightCallOptions], Any]] = {
    "GetFlightInfo": lambda client, table, options: client.get_flight_info(
        ask(f"SELECT count(*) FROM {table}"), options
    ),
    "CreatePreparedStatement": lambda client, table, options: create(
        client, f"SELECT * FROM {table} WHERE id = ?", options
    ),
    "an update": lambda client, table, options: put(
        client,
        sql.CommandStatementUpdate(query=f"DELETE FROM {table} WHERE id = 1"),
        pa.table({}),
        options,
    ),
    "GetTables": lambda client, _table, options: client.do_get(
        flight.Ticket(rpc.packed(sql.CommandGetTables(include_schema=True))), options
    ),
}


@pytest.mark.parametrize("name", sample(CALLS, 2))
@pytest.mark.soak
def test_a_call_ends_at_the_deadline_of_its_statement(
    store: ObjectStore, client: flight.FlightClient, table: str, name: str
):
    with store.stopped(), pytest.raises(flight.FlightTimedOutError, match="ran longer than it may"):
        CALLS[name](client, table, SHORT)


@pytest.mark.soak
def test_get_schema_ends_at_the_deadline_of_its_statement(
    store: ObjectStore, client: flight.FlightClient, table: str
):
    # pyarrow's server has one status for all errors of this call.
    with store.stopped(), pytest.raises(pa.ArrowException, match="DEADLINE_EXCEEDED"):
        client.get_schema(ask(f"SELECT * FROM {table}"), SHORT)


@pytest.mark.parametrize("phase", sample(["reading", "planning"], 1))
def test_a_stream_ends_at_the_deadline_of_its_statement(
    store: ObjectStore, client: flight.FlightClient, table: str, phase: str
):
    info = client.get_flight_info(ask(f"SELECT id FROM {table}"), SHORT)
    with open_gateway(store) as other, flight.FlightClient(other.uri) as elsewhere:
        # Another gateway has to plan the statement of the ticket.
        reader = elsewhere if phase == "planning" else client
        with store.stopped(), pytest.raises(flight.FlightTimedOutError, match=f"its phase '{phase}'"):
            reader.do_get(info.endpoints[0].ticket).read_all()


@pytest.mark.soak
def test_binding_ends_at_the_deadline_of_its_statement(
    store: ObjectStore, client: flight.FlightClient, table: str
):
    (body,) = create(client, f"SELECT * FROM {table} WHERE id = ?", SHORT)
    created = rpc.unpacked(sql.ActionCreatePreparedStatementResult, body.body.to_pybytes())
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=created.prepared_statement_handle)
    with (
        open_gateway(store) as other,
        flight.FlightClient(other.uri) as elsewhere,
        store.stopped(),
        pytest.raises(flight.FlightTimedOutError, match="its phase 'planning'"),
    ):
        put(elsewhere, command, pa.table({"$1": [7]}), SHORT)


@pytest.mark.soak
def test_a_write_that_has_begun_is_in_doubt_and_may_be_sent_again(
    store: ObjectStore, client: flight.FlightClient
):
    name = next(NAMES)
    rpc.update(client, f"CREATE TABLE {name} (id BIGINT PRIMARY KEY)")
    rpc.update(client, f"INSERT INTO {name} VALUES (1)")
    insert = sql.CommandStatementUpdate(query=f"INSERT INTO {name} VALUES (2)")
    begun = False
    while not begun:
        with store.stopped(), pytest.raises(flight.FlightTimedOutError) as caught:
            put(client, insert, pa.table({}), SHORT)
        begun = "had begun to write" in str(caught.value)
        # On a busy machine, what is known of the table may be too old by then, and is looked up first.
        assert begun or "its phase 'planning'" in str(caught.value)
    rpc.put(client, insert)
    assert rpc.query(client, f"SELECT id FROM {name} ORDER BY id")["id"].to_pylist() == [1, 2]


@pytest.mark.soak
def test_a_bulk_load_ends_at_its_deadline(store: ObjectStore, client: flight.FlightClient, table: str):
    options = sql.CommandStatementIngest.TableDefinitionOptions
    command = sql.CommandStatementIngest(
        table=table,
        table_definition_options=options(
            if_not_exist=options.TABLE_NOT_EXIST_OPTION_FAIL, if_exists=options.TABLE_EXISTS_OPTION_APPEND
        ),
    )
    with store.stopped(), pytest.raises(flight.FlightTimedOutError, match="its phase 'reading'"):
        put(client, command, ROWS, SHORT)


def test_rows_of_a_client_arrive_over_an_object_store(client: flight.FlightClient):
    name = next(NAMES)
    options = sql.CommandStatementIngest.TableDefinitionOptions
    command = sql.CommandStatementIngest(
        table=name,
        table_definition_options=options(
            if_not_exist=options.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=options.TABLE_EXISTS_OPTION_APPEND
        ),
    )
    assert rpc.put(client, command, ROWS, batch_rows=7) == 100
    delete = rpc.prepare(client, f"DELETE FROM {name} WHERE id = ?").prepared_statement_handle
    bound = pa.table({"$1": [3, 4, 5]})
    update = sql.CommandPreparedStatementUpdate(prepared_statement_handle=delete)
    assert rpc.put(client, update, bound, batch_rows=1) == 3
    assert rpc.query(client, f"SELECT count(*) AS n FROM {name}")["n"].to_pylist() == [97]


def test_statements_that_wait_are_listed_and_killed_while_others_are_answered(
    store: ObjectStore, client: flight.FlightClient, table: str
):
    text = f"SELECT max(id) FROM {table}"
    waiting = Waiting(client, text)
    with store.stopped():
        waiting.start()
        (row,) = list_until(client, f"statement = '{text}'")
        assert (row["state"], row["phase"]) == ("running", "planning")
        assert rpc.query(client, "SELECT 1 AS one")["one"].to_pylist() == [1]
        assert rpc.query(client, f"KILL QUERY '{row['query_id']}'")["killed"].to_pylist() == [True]
        waiting.join()
        assert isinstance(waiting.error, flight.FlightCancelledError)
        (row,) = list_until(client, f"statement = '{text}'")
        assert (row["state"], row["phase"]) == ("cancelled", "planning")


@pytest.mark.soak
def test_a_statement_whose_client_left_ends(store: ObjectStore, client: flight.FlightClient, table: str):
    text = f"SELECT min(id) FROM {table}"
    with store.stopped():
        with pytest.raises(flight.FlightTimedOutError):
            client.get_flight_info(ask(text), flight.FlightCallOptions(timeout=1.0))
        (row,) = list_until(client, f"statement = '{text}' AND state = 'cancelled'")
        assert row["phase"] == "planning"


@pytest.mark.soak
def test_the_store_is_asked_again_as_soon_as_it_is_back(
    store: ObjectStore, client: flight.FlightClient, table: str
):
    waiting = Waiting(client, f"SELECT * FROM {table}")
    with store.stopped():
        waiting.start()
        with pytest.raises(flight.FlightTimedOutError):
            client.get_flight_info(ask(f"SELECT count(*) FROM {table}"), SHORT)
    # Less than any of the storage's own limits.
    soon = flight.FlightCallOptions(timeout=4.0)
    info = client.get_flight_info(ask(f"SELECT count(*) AS n FROM {table}"), soon)
    assert client.do_get(info.endpoints[0].ticket, soon).read_all()["n"].to_pylist() == [len(ROWS)]
    waiting.join()
    assert waiting.error is None


@pytest.mark.soak
def test_a_store_that_gives_no_answer_to_lance_is_unavailable_and_no_damage(store: ObjectStore, table: str):
    options = {**store.options, **StorageLimits(1, 10, 10).complete({})}
    with store.stopped(), pytest.raises(UnavailableError, match="storage is reachable"):
        open_base_table(table, Storage.open(f"s3://{BUCKET}/{table}.lance", options), None, None)


@pytest.mark.soak
def test_storage_gives_up_where_a_statement_may_run_for_ever(
    store: ObjectStore, table: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LANCE_GATEWAY_STORAGE__TOTAL_TIMEOUT", "10s")
    monkeypatch.setenv("LANCE_GATEWAY_STORAGE__REQUEST_TIMEOUT", "10s")
    with (
        open_gateway(store) as gateway,
        flight.FlightClient(gateway.uri) as client,
        store.stopped(),
        pytest.raises(flight.FlightUnavailableError),
    ):
        client.get_flight_info(ask(f"SELECT * FROM {table}"))


class Waiting:
    """A statement that is planned in a thread, and how that ended."""

    def __init__(self, client: flight.FlightClient, text: str) -> None:
        self._client, self._text = client, text
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self.start, self.join = self._thread.start, self._thread.join

    def _run(self) -> None:
        try:
            self._client.get_flight_info(ask(self._text))
        except flight.FlightError as error:
            self.error = error


def list_until(client: flight.FlightClient, condition: str) -> list[dict[str, Any]]:
    """The rows of `system.queries` that meet a condition, as soon as there are some."""
    while True:
        rows = rpc.query(client, f"SELECT * FROM system.queries WHERE {condition}")
        if rows.num_rows:
            return rows.to_pylist()
