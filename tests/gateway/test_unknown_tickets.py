"""Tickets that no gateway gave out."""

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from pyarrow import flight

from protos import gateway_pb2 as own
from tests.gateway import rpc


@pytest.mark.parametrize(
    "ticket", [own.PlanTicket(), own.WriteTicket(), own.PartTicket()], ids=lambda one: type(one).__name__
)
def test_a_ticket_without_a_statement_is_not_found(wire: flight.FlightClient, ticket: Message) -> None:
    with pytest.raises(pa.ArrowKeyError, match="names no statement"):
        wire.do_get(flight.Ticket(rpc.packed(ticket))).read_all()
