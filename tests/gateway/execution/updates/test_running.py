"""A change is a statement of the server: remembered, queued, killed, and nobody waits for its client."""

import threading
from pathlib import Path

import pytest
from pyarrow import flight

from lance_gateway.gateway.execution.query import QueryState
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.gateway.execution.test_running_queries import TRICKLE, observed
from tests.gateway.execution.updates.tables import bound, count


def test_it_is_remembered_with_the_rows_that_it_changed(root: Path, notes: str) -> None:
    with observed(root) as (server, client, observer):
        text = f"INSERT INTO {notes} (id) VALUES (1), (2)"
        rpc.query(client, text)
        query = observer.await_end()
        assert server.queries.list_finished() == (query,)
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
                rpc.update(client, f"INSERT INTO {notes} (id) VALUES (1)")
            except Exception as error:  # noqa: BLE001 - looked at below
                errors.append(error)

        waiting = threading.Thread(target=insert)
        waiting.start()
        # While it is planned, it is listed as well, and runs.
        while not (queued := [one for one in server.queries.list_active() if one.state is QueryState.QUEUED]):
            threading.Event().wait(0.01)
        (query,) = queued
        with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as operator:
            assert rpc.update(operator, f"KILL QUERY '{query.id}'") == 1
        waiting.join(120)
        assert isinstance(errors[0], flight.FlightCancelledError)
        reader.cancel()
        observer.await_end()
    with serving(root) as server, flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        assert count(client, notes) == 0


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_client_that_sends_slowly_does_not_keep_others_waiting(
    root: Path, notes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lance_gateway.gateway.execution.running_queries._STALL_SECONDS", 0.2)
    with observed(root, max_concurrent_queries=1) as (server, client, observer):
        handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)")
        command = sql.CommandPreparedStatementUpdate(
            prepared_statement_handle=handle.prepared_statement_handle
        )
        writer, reader = client.do_put(rpc.descriptor(command), bound(1).schema)
        writer.write_table(bound(1))
        observer.await_start()
        assert rpc.query(client, "SELECT 1 AS one").to_pydict() == {"one": [1]}
        assert len(server.queries.list_active()) == 1
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
        (query,) = server.queries.list_active()
        assert rpc.update(client, f"KILL QUERY '{query.id}'") == 1
        writer.done_writing()
        with pytest.raises(flight.FlightCancelledError, match="was killed"):
            writer.close()
        assert observer.await_end().state is QueryState.CANCELLED
        assert count(client, notes) == 0
