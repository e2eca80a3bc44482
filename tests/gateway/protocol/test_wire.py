"""The messages are those of the protocol, to the number of each field."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.gateway.protocol.commands import decode_settings, encode_settings
from lance_gateway.gateway.protocol.wire import decode, unpack
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.engine import SessionSettings
from lance_gateway.protos import flight_pb2, gateway_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import pack

SQL = "type.googleapis.com/arrow.flight.protocol.sql."
# message -> the name under which it is packed, and its bytes by the protocol's field numbers
GOLDEN: list[tuple[Message, str, str]] = [
    (sql.CommandGetSqlInfo(info=[8]), SQL + "CommandGetSqlInfo", "0a0108"),
    (sql.CommandGetCatalogs(), SQL + "CommandGetCatalogs", ""),
    (
        sql.CommandGetDbSchemas(catalog="c", db_schema_filter_pattern="s"),
        SQL + "CommandGetDbSchemas",
        "0a0163120173",
    ),
    (
        sql.CommandGetTables(
            catalog="c",
            db_schema_filter_pattern="s",
            table_name_filter_pattern="t",
            table_types=["V"],
            include_schema=True,
        ),
        SQL + "CommandGetTables",
        "0a01631201731a01742201562801",
    ),
    (sql.CommandGetTableTypes(), SQL + "CommandGetTableTypes", ""),
    (
        sql.CommandGetPrimaryKeys(catalog="c", db_schema="s", table="t"),
        SQL + "CommandGetPrimaryKeys",
        "0a01631201731a0174",
    ),
    (
        sql.CommandStatementQuery(query="q", transaction_id=b"t"),
        SQL + "CommandStatementQuery",
        "0a0171120174",
    ),
    (sql.TicketStatementQuery(statement_handle=b"h"), SQL + "TicketStatementQuery", "0a0168"),
    (
        sql.CommandStatementUpdate(query="q", transaction_id=b"t"),
        SQL + "CommandStatementUpdate",
        "0a0171120174",
    ),
    (
        sql.ActionCreatePreparedStatementRequest(query="q", transaction_id=b"t"),
        SQL + "ActionCreatePreparedStatementRequest",
        "0a0171120174",
    ),
    (
        sql.ActionCreatePreparedStatementResult(
            prepared_statement_handle=b"h", dataset_schema=b"d", parameter_schema=b"p"
        ),
        SQL + "ActionCreatePreparedStatementResult",
        "0a01681201641a0170",
    ),
    (
        sql.ActionClosePreparedStatementRequest(prepared_statement_handle=b"h"),
        SQL + "ActionClosePreparedStatementRequest",
        "0a0168",
    ),
    (
        sql.CommandPreparedStatementQuery(prepared_statement_handle=b"h"),
        SQL + "CommandPreparedStatementQuery",
        "0a0168",
    ),
    (
        sql.CommandPreparedStatementUpdate(prepared_statement_handle=b"h"),
        SQL + "CommandPreparedStatementUpdate",
        "0a0168",
    ),
    (
        sql.CommandGetExportedKeys(catalog="c", db_schema="s", table="t"),
        SQL + "CommandGetExportedKeys",
        "0a01631201731a0174",
    ),
    (
        sql.CommandGetImportedKeys(catalog="c", db_schema="s", table="t"),
        SQL + "CommandGetImportedKeys",
        "0a01631201731a0174",
    ),
    (
        sql.CommandGetCrossReference(
            pk_catalog="a", pk_db_schema="b", pk_table="c", fk_catalog="d", fk_db_schema="e", fk_table="f"
        ),
        SQL + "CommandGetCrossReference",
        "0a01611201621a01632201642a0165320166",
    ),
    (sql.CommandGetXdbcTypeInfo(data_type=-5), SQL + "CommandGetXdbcTypeInfo", "08fbffffffffffffffff01"),
    (
        sql.CommandStatementSubstraitPlan(
            plan=sql.SubstraitPlan(plan=b"p", version="v"), transaction_id=b"t"
        ),
        SQL + "CommandStatementSubstraitPlan",
        "0a060a0170120176120174",
    ),
    (
        sql.ActionCreatePreparedSubstraitPlanRequest(plan=sql.SubstraitPlan(plan=b"p")),
        SQL + "ActionCreatePreparedSubstraitPlanRequest",
        "0a030a0170",
    ),
    (sql.ActionBeginTransactionRequest(), SQL + "ActionBeginTransactionRequest", ""),
    (
        sql.ActionEndTransactionRequest(transaction_id=b"t", action=2),
        SQL + "ActionEndTransactionRequest",
        "0a01741002",
    ),
    (
        sql.ActionBeginSavepointRequest(transaction_id=b"t", name="n"),
        SQL + "ActionBeginSavepointRequest",
        "0a017412016e",
    ),
    (
        sql.ActionEndSavepointRequest(savepoint_id=b"s", action=1),
        SQL + "ActionEndSavepointRequest",
        "0a01731001",
    ),
    (sql.ActionCancelQueryRequest(info=b"i"), SQL + "ActionCancelQueryRequest", "0a0169"),
    (sql.ActionCancelQueryResult(result=3), SQL + "ActionCancelQueryResult", "0803"),
]


@pytest.mark.parametrize(
    ("message", "url", "body"), GOLDEN, ids=[message.DESCRIPTOR.name for message, _, _ in GOLDEN]
)
def test_a_message_has_the_name_and_the_bytes_of_the_protocol(message: Any, url: str, body: str) -> None:
    value = bytes.fromhex(body)
    assert message.SerializeToString(deterministic=True) == value
    expected = b"\x0a" + bytes([len(url)]) + url.encode()
    if value:
        expected += b"\x12" + bytes([len(value)]) + value
    assert pack(message) == expected
    assert unpack(type(message), expected, "it") == message


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (flight_pb2.SessionOptionValue(string_value="s"), "0a0173"),
        (flight_pb2.SessionOptionValue(bool_value=True), "1001"),
        (flight_pb2.SessionOptionValue(int64_value=-2), "19feffffffffffffff"),
        (flight_pb2.SessionOptionValue(double_value=1.0), "21000000000000f03f"),
        (
            flight_pb2.SessionOptionValue(
                string_list_value=flight_pb2.SessionOptionValue.StringListValue(values=["s"])
            ),
            "2a030a0173",
        ),
    ],
)
def test_the_messages_of_sessions_have_the_bytes_of_the_protocol(value: Any, body: str) -> None:
    entry = bytes.fromhex("0a016e12") + bytes([len(body) // 2]) + bytes.fromhex(body)
    request = b"\x0a" + bytes([len(entry)]) + entry
    assert flight_pb2.SetSessionOptionsRequest(session_options={"n": value}).SerializeToString() == request
    assert flight_pb2.GetSessionOptionsResult(session_options={"n": value}).SerializeToString() == request


def test_the_messages_of_a_flight_have_the_bytes_of_the_protocol() -> None:
    moment = pa.scalar(dt.datetime(2026, 1, 2, tzinfo=dt.UTC), pa.timestamp("ns", "UTC"))
    endpoint = flight.FlightEndpoint(b"ticket", ["grpc://host:1"], moment, b"app")
    command = flight.FlightDescriptor.for_command(b"command")
    info = flight.FlightInfo(pa.schema([]), command, [endpoint], 5, 6, True, b"metadata")
    message = flight_pb2.FlightInfo.FromString(info.serialize())
    assert message.SerializeToString() == info.serialize()
    (sent,) = message.endpoint
    assert (sent.ticket.ticket, sent.location[0].uri, sent.app_metadata) == (
        b"ticket",
        "grpc://host:1",
        b"app",
    )
    assert sent.expiration_time.ToDatetime(dt.UTC) == dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    assert sent.SerializeToString() == endpoint.serialize()
    assert (message.total_records, message.total_bytes, message.ordered) == (5, 6, True)
    assert message.flight_descriptor.cmd == b"command"
    # Field 1, its length in two bytes, and the message.
    packed = info.serialize()
    field = bytes([0x0A, len(packed) % 128 + 128, len(packed) // 128])
    assert flight_pb2.CancelFlightInfoRequest(info=message).SerializeToString() == field + packed


def test_the_status_of_a_cancellation_has_the_numbers_of_the_protocol() -> None:
    for name, number in (("CANCELLED", 1), ("CANCELLING", 2), ("NOT_CANCELLABLE", 3)):
        assert flight_pb2.CancelStatus.Value(f"CANCEL_STATUS_{name}") == number
        assert sql.ActionCancelQueryResult.CancelResult.Value(f"CANCEL_RESULT_{name}") == number
    result = flight_pb2.CancelFlightInfoResult(status=flight_pb2.CANCEL_STATUS_CANCELLING)
    assert result.SerializeToString() == b"\x08\x02"


def test_an_option_error_and_a_closed_session_have_the_numbers_of_the_protocol() -> None:
    result = flight_pb2.SetSessionOptionsResult()
    result.errors["n"].value = flight_pb2.SetSessionOptionsResult.INVALID_VALUE
    assert result.SerializeToString() == bytes.fromhex("0a070a016e12020802")
    assert (
        flight_pb2.CloseSessionResult(status=flight_pb2.CloseSessionResult.CLOSED).SerializeToString()
        == b"\x08\x01"
    )


@pytest.mark.parametrize(
    "code",
    [("FLIGHT_SQL_SERVER_TRANSACTION", 8), ("SQL_DDL_CATALOG", 500), ("SQL_LOCATORS_UPDATE_COPY", 575)],
)
def test_codes_have_the_numbers_of_the_protocol(code: tuple[str, int]) -> None:
    name, number = code
    assert sql.SqlInfo.Value(name) == number


def test_settings_travel_whole() -> None:
    settings = SessionSettings(consistency="snapshot", max_staleness_ms=5, region_pruning=False)
    assert decode_settings(encode_settings(settings)) == settings


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="catalog"):
        decode_settings(b"")


def test_settings_of_any_size_are_not_remembered() -> None:
    # A field that nobody knows, 2,000 bytes long.
    with pytest.raises(InvalidInputError, match="2003 bytes: send it back unchanged"):
        decode_settings(b"\xfa\x01\xd0\x0f"[:3] + b"\x0f" + bytes(1999))


def test_bytes_that_are_no_message_are_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match=r"the ticket cannot be read: 2 bytes .*PreparedTicket"):
        decode(gateway_pb2.PreparedTicket, b"\xff\xff", "the ticket")
    with pytest.raises(InvalidInputError, match=r"the body holds .*CommandGetCatalogs; it must hold"):
        unpack(sql.CommandGetTables, pack(sql.CommandGetCatalogs()), "the body")
