"""A change that is asked for like a query is made once, however often its ticket is redeemed."""

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.execution.updates import RESULT_SECONDS, Results, SealedRows
from lance_gateway.memwal.errors import NotFoundError
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from tests.gateway import rpc
from tests.gateway.execution.updates.tables import bound, count
from tests.gateway.protocol.test_errors import assert_clean
from tests.support.lake.written import NOTES


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


def test_flight_info_executes_it_once_and_tells_how_many_rows_it_changed(
    client: flight.FlightClient, notes: str
) -> None:
    info = rpc.info(client, sql.CommandStatementQuery(query=f"INSERT INTO {notes} (id) VALUES (1), (2)"))
    assert (info.total_records, info.schema) == (2, pa.schema([]))
    assert count(client, notes) == 2


def test_its_ticket_may_be_redeemed_again_and_again(client: flight.FlightClient, notes: str) -> None:
    text = f"INSERT INTO {notes} (id, text) VALUES (1, 'a'), (2, 'b') RETURNING id, upper(text) AS loud"
    info = rpc.info(client, sql.CommandStatementQuery(query=text))
    rpc.update(client, f"DELETE FROM {notes} WHERE id = 1")
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
    asked = rpc.info(client, sql.CommandStatementQuery(query="SELECT 1")).endpoints[0].ticket
    ticket = rpc.unpacked(sql.TicketStatementQuery, asked.ticket)
    handle = own.StatementHandle.FromString(ticket.statement_handle)
    handle.query = f"INSERT INTO {notes} (id) VALUES (1)"
    handle.schema_digest = _digest(client, handle.query)
    forged = sql.TicketStatementQuery(statement_handle=handle.SerializeToString())
    with pytest.raises(pa.ArrowInvalid, match="cannot execute"):
        client.do_get(flight.Ticket(rpc.packed(forged))).read_all()
    assert count(client, notes) == 0


def _digest(client: flight.FlightClient, text: str) -> bytes:
    created = rpc.prepare(client, text)
    return own.PreparedHandle.FromString(created.prepared_statement_handle).schema_digest


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


def test_rows_in_a_ticket_are_for_their_user_and_their_statement() -> None:
    sealed = SealedRows()
    ticket = sealed.seal(b"1" * 16, "olga", b"payroll")
    assert b"payroll" not in ticket
    assert sealed.open(b"1" * 16, "olga", ticket) == b"payroll"
    others = (
        lambda: sealed.open(b"1" * 16, "otto", ticket),
        lambda: sealed.open(b"2" * 16, "olga", ticket),
        lambda: sealed.open(b"1" * 16, "olga", ticket[:-1]),
        lambda: sealed.open(b"1" * 16, "olga", b""),
        lambda: SealedRows().open(b"1" * 16, "olga", ticket),
    )
    for attempt in others:
        with pytest.raises(NotFoundError, match="what was changed stays"):
            attempt()


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
