"""Tickets that no gateway gave out."""

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean

NOISE = {
    "nothing": b"",
    "bytes": b"\xff\xff",
    "a text": b"some ticket of another server",
    "a command": rpc.packed(sql.CommandStatementQuery(query="SELECT 1")),
    "an unknown handle": rpc.packed(sql.TicketStatementQuery(statement_handle=b"zzz")),
}
EMPTY = (
    sql.TicketStatementQuery(),
    own.PreparedTicket(),
    own.WriteTicket(),
    own.PartTicket(),
)


@pytest.mark.parametrize("ticket", NOISE.values(), ids=NOISE)
def test_what_is_no_ticket_is_not_found(wire: flight.FlightClient, ticket: bytes) -> None:
    with pytest.raises(pa.ArrowKeyError, match="the ticket") as caught:
        wire.do_get(flight.Ticket(ticket)).read_all()
    assert_clean(str(caught.value.args[0]))


@pytest.mark.parametrize(
    "ticket", [rpc.packed(one) for one in EMPTY], ids=[type(one).__name__ for one in EMPTY]
)
def test_a_ticket_without_a_statement_is_not_found(wire: flight.FlightClient, ticket: bytes) -> None:
    with pytest.raises(pa.ArrowKeyError, match="names no statement"):
        wire.do_get(flight.Ticket(ticket)).read_all()
