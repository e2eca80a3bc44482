"""Whatever bytes a client sends, it gets a clear answer, and the server goes on."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as Envelope
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean

COMMANDS: list[Message] = [
    sql.CommandGetCatalogs(),
    sql.CommandGetDbSchemas(catalog="lance", db_schema_filter_pattern="%"),
    sql.CommandGetTables(catalog="lance", table_types=["TABLE"], include_schema=True),
    sql.CommandGetTableTypes(),
    sql.CommandGetPrimaryKeys(table="orders"),
    sql.CommandGetExportedKeys(table="orders"),
    sql.CommandGetImportedKeys(table="orders"),
    sql.CommandGetCrossReference(pk_table="orders", fk_table="typed"),
    sql.CommandGetXdbcTypeInfo(data_type=-5),
    sql.CommandGetSqlInfo(info=[0, 8]),
    sql.CommandStatementQuery(query="SELECT 1"),
    sql.CommandPreparedStatementQuery(prepared_statement_handle=b"handle"),
]
PACKED_ACTIONS: list[tuple[str, Message]] = [
    ("CreatePreparedStatement", sql.ActionCreatePreparedStatementRequest(query="SELECT 1")),
    ("ClosePreparedStatement", sql.ActionClosePreparedStatementRequest(prepared_statement_handle=b"h")),
    ("BeginTransaction", sql.ActionBeginTransactionRequest()),
    ("EndTransaction", sql.ActionEndTransactionRequest(transaction_id=b"t")),
    ("BeginSavepoint", sql.ActionBeginSavepointRequest(name="s")),
    ("EndSavepoint", sql.ActionEndSavepointRequest(savepoint_id=b"s")),
    ("CancelQuery", sql.ActionCancelQueryRequest(info=b"info")),
]
INFO = flight_pb2.FlightInfo(endpoint=[flight_pb2.FlightEndpoint(ticket=flight_pb2.Ticket(ticket=b"t"))])
OPTION = flight_pb2.SessionOptionValue(string_value="main")
BARE_ACTIONS: list[tuple[str, Message]] = [
    ("CancelFlightInfo", flight_pb2.CancelFlightInfoRequest(info=INFO)),
    ("SetSessionOptions", flight_pb2.SetSessionOptionsRequest(session_options={"schema": OPTION})),
]
EXPECTED = (ValueError, KeyError, NotImplementedError)


def damaged(data: bytes) -> Iterator[bytes]:
    """Cut short after every third byte, with a byte flipped at as many places, and with something behind."""
    for place in range(len(data)):
        if place % 3 == 0:
            yield data[:place]
        elif place % 3 == 1:
            yield data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
    yield data + b"\xff"


def attempt(call: Any, *arguments: Any) -> bool:
    """Whether the call was answered; if it was refused, then cleanly."""
    try:
        call(*arguments)
    except EXPECTED as error:
        assert_clean(str(error.args[0]))
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=[type(one).__name__ for one in COMMANDS])
def test_a_damaged_command_is_refused_cleanly(wire: flight.FlightClient, command: Message) -> None:
    answers = [
        attempt(wire.get_flight_info, flight.FlightDescriptor.for_command(data))
        for data in damaged(rpc.packed(command))
    ]
    assert answers.count(False) > len(answers) // 4
    assert rpc.query(wire, "SELECT 1").num_rows == 1


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS[:11], ids=[type(one).__name__ for one in COMMANDS[:11]])
def test_a_damaged_ticket_is_refused_cleanly(wire: flight.FlightClient, command: Message) -> None:
    ticket = rpc.info(wire, command).endpoints[0].ticket.ticket
    for data in damaged(ticket):
        attempt(lambda ticket: wire.do_get(ticket).read_all(), flight.Ticket(data))
    assert rpc.query(wire, "SELECT 1").num_rows == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "body"), PACKED_ACTIONS, ids=[name for name, _ in PACKED_ACTIONS])
def test_a_damaged_body_is_refused_cleanly(wire: flight.FlightClient, name: str, body: Message) -> None:
    for data in damaged(rpc.packed(body)):
        attempt(rpc.act, wire, name, data)


@pytest.mark.parametrize(("name", "body"), BARE_ACTIONS, ids=[name for name, _ in BARE_ACTIONS])
def test_a_damaged_bare_body_is_refused_cleanly(wire: flight.FlightClient, name: str, body: Message) -> None:
    for data in damaged(body.SerializeToString()):
        attempt(rpc.act, wire, name, data)


@pytest.mark.parametrize("name", [name for name, _ in PACKED_ACTIONS])
def test_another_message_in_a_body_is_named(wire: flight.FlightClient, name: str) -> None:
    with pytest.raises(ValueError, match=rf"the body of {name} holds .*CommandGetCatalogs; it must hold"):
        rpc.act(wire, name, rpc.packed(sql.CommandGetCatalogs()))


@pytest.mark.parametrize(("name", "body"), PACKED_ACTIONS, ids=[name for name, _ in PACKED_ACTIONS])
def test_a_body_that_is_not_packed_is_refused(wire: flight.FlightClient, name: str, body: Message) -> None:
    with pytest.raises(ValueError, match=f"the body of {name}"):
        rpc.act(wire, name, body.SerializeToString())


def test_a_type_that_nobody_knows_is_named(wire: flight.FlightClient) -> None:
    unknown = Envelope(type_url="type.googleapis.com/arrow.flight.protocol.sql.CommandGetWeather")
    with pytest.raises(NotImplementedError, match=r"CommandGetWeather; it answers .*CommandGetCatalogs"):
        wire.get_flight_info(flight.FlightDescriptor.for_command(unknown.SerializeToString()))


def test_a_bulk_ingestion_that_says_nothing_is_refused(wire: flight.FlightClient) -> None:
    with pytest.raises(ValueError, match="the ingestion must say what becomes of a table") as caught:
        rpc.put(wire, sql.CommandStatementIngest())
    assert_clean(str(caught.value))
