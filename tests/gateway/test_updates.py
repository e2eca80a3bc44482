"""Statements that change something are executed once, whatever a client asks before, after and instead."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from gateway.queries import QueryState
from gateway.server import GatewayServer
from gateway.updates import DURABLE_HEADER, RESULT_SECONDS, Results
from memwal.errors import NotFoundError
from planner.catalog import Catalog
from planner.engine import QueryEngine
from protos import flight_sql_pb2 as sql
from protos import gateway_pb2 as own
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.gateway.test_errors import assert_clean
from tests.gateway.test_queries import TRICKLE, observed
from tests.support.written import NOTES, make_notes

_NAMES = (f"notes{number}" for number in itertools.count(1))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("updates")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[GatewayServer]:
    with serving(root) as server:
        yield server


@pytest.fixture
def client(server: GatewayServer) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        yield client


@pytest.fixture
def notes(root: Path) -> str:
    """An empty table of the test's own."""
    return make_notes(root, next(_NAMES))


def count(client: flight.FlightClient, table: str) -> int:
    return int(rpc.query(client, f'SELECT count(*) AS n FROM "{table}"')["n"][0].as_py())


def update(client: flight.FlightClient, text: str) -> int:
    """Sends CommandStatementUpdate; the number of rows that it answers."""
    return put(client, sql.CommandStatementUpdate(query=text), None)


def put(client: flight.FlightClient, command: Any, rows: pa.Table | None, batch_rows: int = 100_000) -> int:
    """Sends rows with a command of DoPut; the number of rows that it answers."""
    schema = pa.schema([]) if rows is None else rows.schema
    writer, reader = client.do_put(rpc.descriptor(command), schema)
    with writer:
        if rows is not None:
            writer.write_table(rows, batch_rows)
        writer.done_writing()
        answer = reader.read()
    return sql.DoPutUpdateResult.FromString(answer.to_pybytes()).record_count


def bound(rows: int) -> pa.Table:
    return pa.table({"1": range(rows), "2": [f"note {number}" for number in range(rows)]})


# Asking.


def test_asking_for_the_schema_executes_nothing(client: flight.FlightClient, notes: str) -> None:
    command = sql.CommandStatementQuery(query=f"INSERT INTO {notes} (id) VALUES (1)")
    assert client.get_schema(rpc.descriptor(command)).schema == pa.schema([])
    assert count(client, notes) == 0


def test_preparing_and_binding_execute_nothing(client: flight.FlightClient, notes: str) -> None:
    created = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)")
    rpc.bind(client, created.prepared_statement_handle, bound(3))
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=created.prepared_statement_handle)
    client.get_schema(rpc.descriptor(command))
    assert count(client, notes) == 0


def test_a_prepared_update_says_that_it_is_one(client: flight.FlightClient, notes: str) -> None:
    created = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)")
    assert created.is_update
    assert not created.dataset_schema
    assert rpc.schema_of(created.parameter_schema).types == [pa.int64(), pa.string()]
    assert not rpc.prepare(client, f"SELECT * FROM {notes}").is_update


# Like a query.


def test_flight_info_executes_it_once_and_tells_how_many_rows_it_changed(
    client: flight.FlightClient, notes: str
) -> None:
    info = rpc.info(client, sql.CommandStatementQuery(query=f"INSERT INTO {notes} (id) VALUES (1), (2)"))
    assert (info.total_records, info.schema) == (2, pa.schema([]))
    assert count(client, notes) == 2


def test_its_ticket_may_be_redeemed_again_and_again(client: flight.FlightClient, notes: str) -> None:
    text = f"INSERT INTO {notes} (id, text) VALUES (1, 'a'), (2, 'b') RETURNING id, upper(text) AS loud"
    info = rpc.info(client, sql.CommandStatementQuery(query=text))
    update(client, f"DELETE FROM {notes} WHERE id = 1")
    ticket = info.endpoints[0].ticket
    expected = {"id": [1, 2], "loud": ["A", "B"]}
    for _ in range(3):
        table = client.do_get(ticket).read_all()
        assert (table.to_pydict(), table.schema) == (expected, info.schema)
    assert count(client, notes) == 1


def test_bound_parameters_are_executed_once_each(client: flight.FlightClient, notes: str) -> None:
    handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)").prepared_statement_handle
    rpc.bind(client, handle, bound(5))
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
    assert rpc.info(client, command).total_records == 5
    assert count(client, notes) == 5
    assert rpc.info(client, command).total_records == 5  # again, on demand


def test_a_query_ticket_cannot_be_made_to_write(client: flight.FlightClient, notes: str) -> None:
    ticket = sql.TicketStatementQuery.FromString(
        rpc_value(rpc.info(client, sql.CommandStatementQuery(query="SELECT 1")).endpoints[0].ticket.ticket)
    )
    handle = own.StatementHandle.FromString(ticket.statement_handle)
    handle.query = f"INSERT INTO {notes} (id) VALUES (1)"
    handle.schema_digest = _digest(client, handle.query)
    forged = sql.TicketStatementQuery(statement_handle=handle.SerializeToString())
    with pytest.raises(pa.ArrowInvalid, match="cannot execute"):
        client.do_get(flight.Ticket(rpc.packed(forged))).read_all()
    assert count(client, notes) == 0


def rpc_value(packed: bytes) -> bytes:
    from google.protobuf.any_pb2 import Any as Envelope  # noqa: PLC0415

    return Envelope.FromString(packed).value


def _digest(client: flight.FlightClient, text: str) -> bytes:
    created = rpc.prepare(client, text)
    return own.PreparedHandle.FromString(created.prepared_statement_handle).schema_digest


# What is returned.


def test_rows_that_are_too_many_for_a_ticket_are_kept_for_it(client: flight.FlightClient, notes: str) -> None:
    handle = rpc.prepare(
        client,
        f"INSERT INTO {notes} (id, text) SELECT a, repeat('x', 100) FROM generate_series(1, 5000) t(a) "
        "RETURNING id, text",
    ).prepared_statement_handle
    info = rpc.info(client, sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))
    (endpoint,) = info.endpoints
    assert len(endpoint.ticket.ticket) < 4000
    assert endpoint.expiration_time is not None
    for _ in range(2):
        assert client.do_get(endpoint.ticket).read_all()["id"].to_pylist() == list(range(1, 5001))


def test_kept_rows_are_for_their_user_for_a_while_and_within_bounds() -> None:
    now = [1000.0]
    results = Results(capacity=1000, clock=lambda: now[0])
    rows = pa.table({"text": ["x" * 600]})
    results.put(b"1", "olga", rows)
    assert results.get(b"1", "olga") is rows
    with pytest.raises(NotFoundError, match="for the same user"):
        results.get(b"1", "otto")
    results.put(b"2", "olga", rows)  # makes the first leave
    with pytest.raises(NotFoundError):
        results.get(b"1", "olga")
    now[0] += RESULT_SECONDS
    with pytest.raises(NotFoundError, match="what was changed stays"):
        results.get(b"2", "olga")


@pytest.mark.parametrize(
    "ticket",
    [
        own.WriteTicket(statement_id=b"x" * 16, schema=NOTES.serialize().to_pybytes(), is_kept=True),
        own.WriteTicket(schema=b"nonsense"),
        own.WriteTicket(schema=NOTES.serialize().to_pybytes(), rows=b"nonsense"),
    ],
)
def test_a_ticket_that_nobody_made_is_refused(client: flight.FlightClient, ticket: own.WriteTicket) -> None:
    with pytest.raises((pa.ArrowInvalid, KeyError)) as caught:
        client.do_get(flight.Ticket(rpc.packed(ticket))).read_all()
    assert_clean(str(caught.value))


# As an update.


def test_an_update_answers_how_many_rows_it_changed(client: flight.FlightClient, notes: str) -> None:
    assert update(client, f"INSERT INTO {notes} (id, score) VALUES (1, 0.5), (2, 1.5), (3, 2.5)") == 3
    assert update(client, f"UPDATE {notes} SET score = score + 1 WHERE id > 1") == 2
    assert update(client, f"DELETE FROM {notes} WHERE score > 3") == 1
    assert rpc.query(client, f"SELECT id, score FROM {notes} ORDER BY id").to_pydict() == {
        "id": [1, 2],
        "score": [0.5, 2.5],
    }


def test_a_prepared_update_takes_its_parameters_as_they_arrive(
    client: flight.FlightClient, notes: str
) -> None:
    handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)").prepared_statement_handle
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    assert put(client, command, bound(2_000), batch_rows=7) == 2_000
    assert count(client, notes) == 2_000
    assert put(client, command, bound(0)) == 0


def test_an_update_without_rows_uses_what_was_bound(client: flight.FlightClient, notes: str) -> None:
    handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)").prepared_statement_handle
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    with pytest.raises(pa.ArrowInvalid, match="2 parameters and 0 were bound"):
        put(client, command, None)
    rpc.bind(client, handle, bound(3))
    assert put(client, command, None) == 3


def test_rows_for_a_statement_without_parameters_are_refused(client: flight.FlightClient, notes: str) -> None:
    created = rpc.prepare(client, f"INSERT INTO {notes} (id) VALUES (1)")
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=created.prepared_statement_handle)
    with pytest.raises(pa.ArrowInvalid, match="0 parameters and 2 were bound"):
        put(client, command, bound(1))
    assert count(client, notes) == 0
    assert put(client, command, None) == 1


def test_an_error_in_the_middle_says_what_was_executed_before(
    client: flight.FlightClient, notes: str
) -> None:
    """Rows after 65,536 others are a write of their own."""
    handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)").prepared_statement_handle
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    numbers = pa.array([*range(65_536), None], pa.int64())
    rows = pa.table({"1": numbers, "2": pa.nulls(len(numbers), pa.string())})
    with pytest.raises(pa.ArrowInvalid, match="the 65536 rows of parameters before these were executed"):
        put(client, command, rows)
    assert count(client, notes) == 65_536


@pytest.mark.parametrize("text", ["SELECT 1", "VALUES (1)"])
def test_a_query_is_no_update(client: flight.FlightClient, text: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match="execute it as a query"):
        update(client, text)


def test_an_update_of_a_transaction_is_refused(client: flight.FlightClient, notes: str) -> None:
    text = f"INSERT INTO {notes} (id) VALUES (1)"
    with pytest.raises(NotImplementedError, match="autocommit"):
        put(client, sql.CommandStatementUpdate(query=text, transaction_id=b"1"), None)
    with pytest.raises(NotImplementedError, match="autocommit"):
        rpc.info(client, sql.CommandStatementQuery(query=text, transaction_id=b"1"))
    assert count(client, notes) == 0


# As a statement of the server.


def test_it_is_remembered_with_the_rows_that_it_changed(root: Path, notes: str) -> None:
    with observed(root) as (server, client, observer):
        text = f"INSERT INTO {notes} (id) VALUES (1), (2)"
        rpc.query(client, text)
        query = observer.await_end()
        assert server.queries.finished() == (query,)
    assert (query.sql, query.state, query.affected) == (text, QueryState.FINISHED, 2)
    assert query.rows == 0


def test_it_waits_for_its_turn_and_can_be_stopped_before_it_writes(root: Path, notes: str) -> None:
    with observed(root, max_concurrent_queries=1) as (server, client, observer):
        reader = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
        reader.read_chunk()
        observer.await_start()
        errors: list[Exception] = []

        def insert() -> None:
            try:
                update(client, f"INSERT INTO {notes} (id) VALUES (1)")
            except Exception as error:  # noqa: BLE001 - looked at below
                errors.append(error)

        waiting = threading.Thread(target=insert)
        waiting.start()
        while len(server.queries.active()) < 2:
            threading.Event().wait(0.01)
        (query,) = [one for one in server.queries.active() if one.state is QueryState.QUEUED]
        with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as operator:
            kill = sql.CommandStatementUpdate(query=f"KILL QUERY '{query.id}'")
            assert put(operator, kill, None) == 1
        waiting.join(120)
        assert isinstance(errors[0], flight.FlightCancelledError)
        reader.cancel()
        observer.await_end()
    with serving(root) as server, flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        assert count(client, notes) == 0


def test_a_client_that_gave_up_waiting_has_written_nothing_or_everything(root: Path, notes: str) -> None:
    """Its deadline passes while the statement waits for its turn: nothing is written then."""
    with observed(root, max_concurrent_queries=1) as (_, client, observer):
        reader = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
        reader.read_chunk()
        observer.await_start()
        command = sql.CommandStatementQuery(query=f"INSERT INTO {notes} (id) VALUES (1), (2)")
        with pytest.raises(flight.FlightTimedOutError):
            client.get_flight_info(rpc.descriptor(command), flight.FlightCallOptions(timeout=0.3))
        assert observer.await_end().state is QueryState.CANCELLED
        reader.cancel()
        observer.await_end()
        assert count(client, notes) == 0


def test_a_client_that_sends_slowly_does_not_keep_others_waiting(
    root: Path, notes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.queries._STALL_SECONDS", 0.2)
    with observed(root, max_concurrent_queries=1) as (server, client, observer):
        handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)")
        command = sql.CommandPreparedStatementUpdate(
            prepared_statement_handle=handle.prepared_statement_handle
        )
        writer, reader = client.do_put(rpc.descriptor(command), bound(1).schema)
        writer.write_table(bound(1))
        observer.await_start()
        assert rpc.query(client, "SELECT 1 AS one").to_pydict() == {"one": [1]}
        assert len(server.queries.active()) == 1
        with writer:
            writer.write_table(bound(3))
            writer.done_writing()
            assert sql.DoPutUpdateResult.FromString(reader.read().to_pybytes()).record_count == 4


def test_an_upload_that_is_killed_ends_with_its_next_batch_and_writes_nothing(root: Path, notes: str) -> None:
    with observed(root) as (server, client, observer):
        handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)")
        command = sql.CommandPreparedStatementUpdate(
            prepared_statement_handle=handle.prepared_statement_handle
        )
        writer, _ = client.do_put(rpc.descriptor(command), bound(1).schema)
        writer.write_table(bound(3))
        observer.await_start()
        (query,) = server.queries.active()
        assert update(client, f"KILL QUERY '{query.id}'") == 1
        writer.done_writing()
        with pytest.raises(flight.FlightCancelledError, match="was killed"):
            writer.close()
        assert observer.await_end().state is QueryState.CANCELLED
        assert count(client, notes) == 0


class _Headers(flight.ClientMiddlewareFactory):
    """Remembers what a server sends back."""

    def __init__(self) -> None:
        super().__init__()
        self.received: dict[str, list[str]] = {}

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        return _Receiver(self.received)


class _Receiver(flight.ClientMiddleware):
    def __init__(self, received: dict[str, list[str]]) -> None:
        super().__init__()
        self._received = received

    def received_headers(self, headers: dict[str, list[str]]) -> None:
        self._received.update(headers)


@pytest.mark.parametrize("as_update", [True, False])
def test_an_answer_says_when_a_write_may_still_be_lost(
    server: GatewayServer, notes: str, *, as_update: bool
) -> None:
    headers = _Headers()
    chosen = flight.FlightCallOptions(headers=[(b"x-lance-gateway-durable_writes", b"false")])
    text = f"INSERT INTO {notes} (id) VALUES (1)"
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}", middleware=[headers]) as client:
        rpc.info(client, sql.CommandStatementQuery(query=f"INSERT INTO {notes} (id) VALUES (2)"))
        assert DURABLE_HEADER not in headers.received
        if as_update:
            descriptor = rpc.descriptor(sql.CommandStatementUpdate(query=text))
            writer, reader = client.do_put(descriptor, pa.schema([]), chosen)
            with writer:
                writer.done_writing()
                reader.read()
        else:
            client.get_flight_info(rpc.descriptor(sql.CommandStatementQuery(query=text)), chosen)
        assert headers.received[DURABLE_HEADER] == ["false"]
        assert count(client, notes) == 2


# Where nothing may be changed.


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
    ],
)
def test_a_gateway_that_only_reads_says_so(reading: flight.FlightClient, notes: str, text: str) -> None:
    statement = text.format(notes=notes)
    with pytest.raises((pa.ArrowException, flight.FlightError), match="read") as caught:
        update(reading, statement)
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
        put(reading, command, pa.table({"id": [1]}))
    assert_clean(str(caught.value))
    assert count(reading, notes) == 0


@pytest.mark.parametrize(("which", "expected"), [("reading", [True, False]), ("client", [False, True])])
def test_the_server_says_whether_it_takes_writes(
    request: pytest.FixtureRequest, which: str, expected: list[bool]
) -> None:
    codes = [sql.FLIGHT_SQL_SERVER_READ_ONLY, sql.FLIGHT_SQL_SERVER_BULK_INGESTION]
    table = rpc.fetch(request.getfixturevalue(which), sql.CommandGetSqlInfo(info=codes))
    assert table["value"].to_pylist() == expected
