"""CancelFlightInfo and CancelQuery: a FlightInfo that comes back stops its statement."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.execution.query import QueryState
from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.execution.test_running_queries import ENDLESS, TRICKLE, Background, observed

Cancel = Callable[[flight.FlightClient, flight.FlightInfo], str]


def cancel_flight_info(client: flight.FlightClient, info: flight.FlightInfo) -> str:
    """As newer clients do it: messages travel bare."""
    request = flight_pb2.CancelFlightInfoRequest(info=flight_pb2.FlightInfo.FromString(info.serialize()))
    (body,) = rpc.act(client, "CancelFlightInfo", request.SerializeToString())
    status = flight_pb2.CancelFlightInfoResult.FromString(body).status
    return flight_pb2.CancelStatus.Name(status).removeprefix("CANCEL_STATUS_")


def cancel_query(client: flight.FlightClient, info: flight.FlightInfo) -> str:
    """As older clients do it: messages travel packed in Any, and the FlightInfo as bytes."""
    (body,) = rpc.act(client, "CancelQuery", rpc.packed(sql.ActionCancelQueryRequest(info=info.serialize())))
    result = rpc.unpacked(sql.ActionCancelQueryResult, body).result
    return sql.ActionCancelQueryResult.CancelResult.Name(result).removeprefix("CANCEL_RESULT_")


BOTH = pytest.mark.parametrize("cancel", [cancel_flight_info, cancel_query])


@pytest.mark.slow
@BOTH
def test_a_statement_that_runs_is_stopped(lake: Path, cancel: Cancel) -> None:
    with observed(lake) as (_, client, observer):
        running = Background(client, ENDLESS)
        observer.await_start()
        assert cancel(client, running.info) == "CANCELLING"
        error = running.ended()
        assert isinstance(error, flight.FlightCancelledError)
        assert "was cancelled on request" in str(error)
        assert observer.await_end().state is QueryState.CANCELLED
        assert cancel(client, running.info) == "CANCELLED"


@BOTH
def test_a_ticket_that_was_not_redeemed_becomes_useless(wire: flight.FlightClient, cancel: Cancel) -> None:
    info = rpc.info(wire, sql.CommandStatementQuery(query="SELECT 1"))
    assert cancel(wire, info) == "CANCELLED"
    with pytest.raises(KeyError, match="was used, or the statement was cancelled"):
        wire.do_get(info.endpoints[0].ticket).read_all()


@BOTH
def test_a_statement_that_has_ended_cannot_be_cancelled(lake: Path, cancel: Cancel) -> None:
    with observed(lake) as (_, client, observer):
        info = rpc.info(client, sql.CommandStatementQuery(query="SELECT 1"))
        client.do_get(info.endpoints[0].ticket).read_all()
        observer.await_end()
        assert cancel(client, info) == "NOT_CANCELLABLE"


def test_the_execution_of_a_prepared_statement_is_stopped(lake: Path) -> None:
    with observed(lake) as (_, client, observer):
        handle = rpc.prepare(client, TRICKLE).prepared_statement_handle
        info = rpc.info(client, sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))
        reader = client.do_get(info.endpoints[0].ticket)
        reader.read_chunk()
        assert cancel_flight_info(client, info) == "CANCELLING"
        with pytest.raises(flight.FlightCancelledError, match="on request"):
            for _ in reader:
                pass
        assert observer.await_end().state is QueryState.CANCELLED


def test_all_parts_of_a_result_are_withdrawn_together(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": range(30)}), tmp_path / "items.lance", max_rows_per_file=10)
    with observed(tmp_path) as (_, client, _):
        command = rpc.descriptor(sql.CommandStatementQuery(query="SELECT id FROM items"))
        wanted = flight.FlightCallOptions(headers=[(b"endpoints", b"3")])
        info = client.get_flight_info(command, wanted)
        assert len(info.endpoints) > 1
        assert cancel_flight_info(client, info) == "CANCELLED"
        for endpoint in info.endpoints:
            with pytest.raises(KeyError, match="was cancelled"):
                client.do_get(endpoint.ticket).read_all()


def test_a_listing_cannot_be_cancelled(wire: flight.FlightClient) -> None:
    assert cancel_flight_info(wire, rpc.info(wire, sql.CommandGetTables())) == "NOT_CANCELLABLE"


def info_with(*tickets: bytes) -> flight_pb2.FlightInfo:
    return flight_pb2.FlightInfo(
        endpoint=[flight_pb2.FlightEndpoint(ticket=flight_pb2.Ticket(ticket=ticket)) for ticket in tickets]
    )


def test_one_info_may_have_several_tickets(wire: flight.FlightClient) -> None:
    tickets = [
        rpc.info(wire, sql.CommandStatementQuery(query=text)).endpoints[0].ticket.ticket
        for text in ("SELECT 1", "SELECT 2")
    ]
    request = flight_pb2.CancelFlightInfoRequest(info=info_with(*tickets))
    (body,) = rpc.act(wire, "CancelFlightInfo", request.SerializeToString())
    assert flight_pb2.CancelFlightInfoResult.FromString(body).status == flight_pb2.CANCEL_STATUS_CANCELLED
    for ticket in tickets:
        with pytest.raises(KeyError, match="was cancelled"):
            wire.do_get(flight.Ticket(ticket)).read_all()


@pytest.mark.parametrize(
    ("info", "kind", "said"),
    [
        (info_with(), ValueError, "no endpoints"),
        (info_with(b"\xff\xff"), ValueError, "the ticket cannot be read"),
        (
            info_with(rpc.packed(sql.TicketStatementQuery(statement_handle=b"\xff"))),
            ValueError,
            "cannot be read",
        ),
        (info_with(rpc.packed(sql.TicketStatementQuery())), ValueError, "names no statement"),
    ],
)
def test_a_flight_info_that_is_none_is_refused(
    wire: flight.FlightClient, info: Any, kind: type[Exception], said: str
) -> None:
    request = flight_pb2.CancelFlightInfoRequest(info=info)
    with pytest.raises(kind, match=said):
        rpc.act(wire, "CancelFlightInfo", request.SerializeToString())


def test_a_statement_that_nobody_remembers_is_not_found(wire: flight.FlightClient) -> None:
    info = rpc.info(wire, sql.CommandStatementQuery(query="SELECT 1"))
    assert cancel_flight_info(wire, info) == "CANCELLED"
    with pytest.raises(KeyError, match="is not known"):
        cancel_flight_info(wire, info)
