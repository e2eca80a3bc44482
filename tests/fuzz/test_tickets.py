"""Tickets that nobody gave out, that were used up, or that are too old."""

import random
from pathlib import Path

import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from tests.fuzz.target import Target
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean
from tests.support.processes.servers import GatewayProcess

QUERY = sql.CommandStatementQuery(query="SELECT id FROM orders WHERE id < 2")


def refusal(client: flight.FlightClient, ticket: bytes, kind: type[Exception]) -> str:
    """What a client is told that brings this ticket."""
    with pytest.raises(kind) as caught:
        client.do_get(flight.Ticket(ticket)).read_all()
    assert_clean(str(caught.value))
    return str(caught.value)


def ticket_of(client: flight.FlightClient, message: sql.CommandStatementQuery) -> bytes:
    return bytes(rpc.info(client, message).endpoints[0].ticket.ticket)


@pytest.mark.slow
def test_a_ticket_is_good_for_one_reading(fuzzed: Target) -> None:
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        for _ in range(50):
            ticket = ticket_of(client, QUERY)
            assert client.do_get(flight.Ticket(ticket)).read_all().num_rows == 2
            assert "was used" in refusal(client, ticket, KeyError)


@pytest.mark.slow
def test_tickets_that_are_never_redeemed_leave_nothing(fuzzed: Target) -> None:
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        for _ in range(300):
            ticket_of(client, QUERY)


def test_noise_is_no_ticket(fuzzed: Target) -> None:
    rng = random.Random(3)
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        for size in (0, 1, 16, 200, 100_000):
            refusal(client, rng.randbytes(size), KeyError)


def test_a_statement_that_was_never_planned_is_not_known(fuzzed: Target) -> None:
    forged = own.StatementHandle(query="SELECT 1", statement_id=b"too short")
    ticket = rpc.packed(sql.TicketStatementQuery(statement_handle=forged.SerializeToString()))
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        refusal(client, ticket, KeyError)


def test_a_part_that_has_expired_is_not_found(fuzzed: Target) -> None:
    options = flight.FlightCallOptions(headers=[(b"x-lance-gateway-endpoints", b"2")])
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        info = client.get_flight_info(
            rpc.descriptor(sql.CommandStatementQuery(query="SELECT * FROM orders")), options
        )
        assert len(info.endpoints) == 2
        for endpoint in info.endpoints:
            part = rpc.unpacked(own.PartTicket, endpoint.ticket.ticket)
            part.expires_at = 1
            assert "expired" in refusal(client, rpc.packed(part), KeyError)


@pytest.mark.slow
def test_a_ticket_outlives_its_server_and_not_a_second_reading(fuzz_root: Path) -> None:
    """Tickets say everything: another gateway over the same root redeems them, each of them once."""
    with GatewayProcess(fuzz_root) as server, flight.connect(server.uri) as client:
        ticket = ticket_of(client, QUERY)
    with GatewayProcess(fuzz_root) as other, flight.connect(other.uri) as client:
        assert client.do_get(flight.Ticket(ticket)).read_all().num_rows == 2
        refusal(client, ticket, KeyError)
