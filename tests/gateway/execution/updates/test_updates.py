"""Changes by CommandStatementUpdate and CommandPreparedStatementUpdate: rows in, a count out."""

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.execution.updates import DURABLE_HEADER
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.execution.updates.tables import bound, count


def test_an_update_answers_how_many_rows_it_changed(client: flight.FlightClient, notes: str) -> None:
    assert rpc.update(client, f"INSERT INTO {notes} (id, score) VALUES (1, 0.5), (2, 1.5), (3, 2.5)") == 3
    assert rpc.update(client, f"UPDATE {notes} SET score = score + 1 WHERE id > 1") == 2
    assert rpc.update(client, f"DELETE FROM {notes} WHERE score > 3") == 1
    assert rpc.query(client, f"SELECT id, score FROM {notes} ORDER BY id").to_pydict() == {
        "id": [1, 2],
        "score": [0.5, 2.5],
    }


def test_a_prepared_update_takes_its_parameters_as_they_arrive(
    client: flight.FlightClient, notes: str
) -> None:
    handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)").prepared_statement_handle
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    assert rpc.put(client, command, bound(2_000), batch_rows=7) == 2_000
    assert count(client, notes) == 2_000
    assert rpc.put(client, command, bound(0)) == 0


def test_an_update_without_rows_uses_what_was_bound(client: flight.FlightClient, notes: str) -> None:
    handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)").prepared_statement_handle
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    with pytest.raises(pa.ArrowInvalid, match="2 parameters and 0 were bound"):
        rpc.put(client, command)
    rpc.bind(client, handle, bound(3))
    assert rpc.put(client, command) == 3


def test_rows_for_a_statement_without_parameters_are_refused(client: flight.FlightClient, notes: str) -> None:
    created = rpc.prepare(client, f"INSERT INTO {notes} (id) VALUES (1)")
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=created.prepared_statement_handle)
    with pytest.raises(pa.ArrowInvalid, match="0 parameters and 2 were bound"):
        rpc.put(client, command, bound(1))
    assert count(client, notes) == 0
    assert rpc.put(client, command) == 1


def test_an_error_in_the_middle_says_what_was_executed_before(
    client: flight.FlightClient, notes: str
) -> None:
    """Rows after 65,536 others are a write of their own."""
    handle = rpc.prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)").prepared_statement_handle
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    numbers = pa.array([*range(65_536), None], pa.int64())
    rows = pa.table({"1": numbers, "2": pa.nulls(len(numbers), pa.string())})
    with pytest.raises(pa.ArrowInvalid, match="the 65536 rows of parameters before these were executed"):
        rpc.put(client, command, rows)
    assert count(client, notes) == 65_536


@pytest.mark.parametrize("text", ["SELECT 1", "VALUES (1)"])
def test_a_query_is_no_update(client: flight.FlightClient, text: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match="execute it as a query"):
        rpc.update(client, text)


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
