"""What clients see of failures: the thing, the value, the way out, the right status, never a traceback."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adbc_driver_manager
import lance
import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcStatusCode
from pyarrow import flight

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.protocol.errors import to_client_error, translate_errors
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.errors import (
    CorruptDataError,
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import format_error
from tests.gateway import rpc
from tests.gateway.conftest import ORDER_COUNT, serving

LEAKS = re.compile(r"Traceback|\.pyx?\b|File \"|site-packages|/work|KeyError")


def assert_clean(text: str) -> None:
    assert not LEAKS.search(text), text


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("SELECT * FROM nowhere", AdbcStatusCode.NOT_FOUND, "'nowhere'"),
        ("SELECT * FROM order", AdbcStatusCode.NOT_FOUND, "orders"),
        ("SELECT * FROM orderz", AdbcStatusCode.NOT_FOUND, "orders"),
        ("SELECT colour FROM orders", AdbcStatusCode.INVALID_ARGUMENT, "colour"),
        ("SELEC id FROM orders", AdbcStatusCode.NOT_IMPLEMENTED, "SELEC"),
        ("SELECT id FROM orders WHERE (", AdbcStatusCode.INVALID_ARGUMENT, ""),
        ("SELECT 'open FROM orders", AdbcStatusCode.INVALID_ARGUMENT, ""),
        ("SELECT no_such_function(id) FROM orders", AdbcStatusCode.INVALID_ARGUMENT, "no_such_function"),
        ("INSERT INTO orders VALUES (1, 'a', 2)", AdbcStatusCode.INVALID_ARGUMENT, "has no MemWAL"),
        ("DROP TABLE orderz", AdbcStatusCode.NOT_FOUND, "orders"),
        ("COPY orders TO 'x'", AdbcStatusCode.NOT_IMPLEMENTED, "COPY"),
    ],
)
def test_a_statement_that_cannot_run(cursor: Any, text: str, status: AdbcStatusCode, said: str) -> None:
    with pytest.raises(adbc_driver_manager.Error) as caught:
        cursor.execute(text)
    assert caught.value.status_code == status, str(caught.value)
    assert said in str(caught.value)
    assert_clean(str(caught.value))
    cursor.execute("SELECT count(*) FROM orders")
    assert cursor.fetchone() == (ORDER_COUNT,)


def test_an_empty_statement(wire: flight.FlightClient) -> None:
    with pytest.raises(ValueError, match="empty") as caught:
        rpc.query(wire, " ;")
    assert_clean(str(caught.value))


def test_an_error_while_the_rows_are_computed(cursor: Any) -> None:
    cursor.execute("SELECT CAST(customer AS BIGINT) FROM orders")
    with pytest.raises(adbc_driver_manager.Error, match="customer 0") as caught:
        cursor.fetchall()
    assert caught.value.status_code == AdbcStatusCode.INVALID_ARGUMENT
    assert_clean(str(caught.value))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidInputError("x"), ValueError),
        (PreconditionError("x"), ValueError),
        (NotFoundError("x"), KeyError),
        (UnsupportedError("x"), NotImplementedError),
        (UnavailableError("x"), flight.FlightUnavailableError),
        (CorruptDataError("x"), flight.FlightInternalError),
        (LanceGatewayError("x"), flight.FlightInternalError),
        (pa.ArrowCancelled("x"), flight.FlightCancelledError),
        (flight.FlightUnauthenticatedError("x"), flight.FlightUnauthenticatedError),
    ],
)
def test_each_error_has_its_way_to_the_client(error: Exception, kind: type[Exception]) -> None:
    assert isinstance(to_client_error(error, "DoGet"), kind)


def test_an_answer_is_answered_once() -> None:
    answer = to_client_error(NotFoundError("x"), "DoGet")
    assert to_client_error(answer, "GetFlightInfo") is answer


def test_an_unexpected_error_is_named_by_an_identifier_that_the_log_explains(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = "^the gateway failed while serving DoGet"
    with pytest.raises(flight.FlightInternalError, match=failed) as caught, translate_errors("DoGet"):
        {}["secret detail"]
    (identifier,) = re.findall(r"error ([0-9a-f]{8})", str(caught.value))
    assert "secret" not in str(caught.value)
    assert identifier in caplog.text
    assert "KeyError: 'secret detail'" in caplog.text


class _Failing(flight.FlightServerBase):
    def __init__(self, error: Exception) -> None:
        self._error = error
        super().__init__("grpc://127.0.0.1:0")

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        with translate_errors("GetFlightInfo"):
            raise self._error from OSError("/srv/secret.py")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidInputError("column 'a' is missing: name it."), pa.ArrowInvalid),
        (PreconditionError("column 'a' is missing: name it."), pa.ArrowInvalid),
        (NotFoundError("column 'a' is missing: name it."), pa.ArrowKeyError),
        (UnsupportedError("column 'a' is missing: name it."), pa.ArrowNotImplementedError),
        (UnavailableError("column 'a' is missing: name it."), flight.FlightUnavailableError),
        (CorruptDataError("column 'a' is missing: name it."), flight.FlightInternalError),
    ],
)
def test_the_message_arrives_without_a_trace_of_the_server(error: Exception, kind: type[Exception]) -> None:
    with (
        _Failing(error) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
        pytest.raises(kind) as caught,
    ):
        client.get_flight_info(flight.FlightDescriptor.for_command(b""))
    assert format_error(caught.value) == "column 'a' is missing: name it"
    assert_clean(str(caught.value.args[0]))


@pytest.mark.parametrize(
    ("command", "kind", "said"),
    [
        (b"\xff\xff", ValueError, "cannot be read"),
        (b"", ValueError, "empty"),
        (rpc.packed(sql.TicketStatementQuery()), NotImplementedError, "TicketStatementQuery"),
        (rpc.packed(sql.CommandPreparedStatementQuery()), KeyError, "prepared statement ''"),
    ],
)
def test_a_command_that_is_none(
    wire: flight.FlightClient, command: bytes, kind: type[Exception], said: str
) -> None:
    descriptor = flight.FlightDescriptor.for_command(command)
    for call in (wire.get_flight_info, wire.get_schema):
        with pytest.raises(kind, match=said) as caught:
            call(descriptor)
        assert_clean(str(caught.value.args[0]))


def test_a_path_is_no_command(wire: flight.FlightClient) -> None:
    with pytest.raises(ValueError, match="path"):
        wire.get_flight_info(flight.FlightDescriptor.for_path("orders"))


@pytest.mark.parametrize(
    ("name", "body", "kind"),
    [
        ("BeginTransaction", b"", ValueError),
        ("ResignFromOffice", b"", NotImplementedError),
        ("CreatePreparedStatement", b"\xff", ValueError),
        ("CreatePreparedStatement", b"", ValueError),
        ("ClosePreparedStatement", rpc.packed(sql.CommandGetCatalogs()), ValueError),
        ("SetSessionOptions", b"\xff", ValueError),
    ],
)
def test_an_action_that_is_none(
    wire: flight.FlightClient, name: str, body: bytes, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=name) as caught:
        rpc.act(wire, name, body)
    assert_clean(str(caught.value.args[0]))


def test_the_other_calls_answer_too(wire: flight.FlightClient) -> None:
    assert list(wire.list_flights()) == []
    assert {action.type for action in wire.list_actions()} == {
        "CreatePreparedStatement",
        "ClosePreparedStatement",
        "BeginTransaction",
        "EndTransaction",
        "BeginSavepoint",
        "EndSavepoint",
        "CancelFlightInfo",
        "CancelQuery",
        "RenewFlightEndpoint",
        "SetSessionOptions",
        "GetSessionOptions",
        "CloseSession",
    }
    with pytest.raises(NotImplementedError, match="DoExchange"):
        exchange(wire)


def exchange(client: flight.FlightClient) -> None:
    """Opens a DoExchange and reads; it is refused early, so either step may be the one that is told."""
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b""))
    with writer:
        reader.read_chunk()


def test_a_message_beyond_a_size_is_refused_unread(lake: Path) -> None:
    long = f"SELECT '{'x' * 2000}' AS text"
    with (
        serving(lake, limits=LimitsSection(max_message_bytes=1000)) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        for attempt in (
            lambda: rpc.query(client, long),
            lambda: rpc.prepare(client, long),
            lambda: client.do_get(flight.Ticket(long.encode())).read_all(),
        ):
            with pytest.raises(ValueError, match=r"more than the 1000 that are allowed.*max_message_bytes"):
                attempt()
        assert rpc.query(client, "SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_corrupt_table_is_named_and_the_others_go_on(
    root: Path, open_engine: Callable[[Path], Any]
) -> None:
    lance.write_dataset(pa.table({"id": [1]}), root / "whole.lance")
    lance.write_dataset(pa.table({"id": [1]}), root / "broken.lance")
    (manifest,) = (root / "broken.lance" / "_versions").glob("*.manifest")
    manifest.write_bytes(manifest.read_bytes()[:10])
    server = GatewayServer(open_engine(root))
    try:
        with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
            with pytest.raises(flight.FlightInternalError, match="broken") as caught:
                rpc.query(client, "SELECT * FROM broken")
            assert_clean(str(caught.value))
            assert rpc.query(client, "SELECT * FROM whole").num_rows == 1
            tables = sql.CommandGetTables(include_schema=True, db_schema_filter_pattern="main")
            listed = rpc.fetch(client, tables)
            assert listed.column("table_name").to_pylist() == ["broken", "whole"]
    finally:
        server.shutdown()


@pytest.mark.parametrize("name", ["a\0b", ".", "..", "a/b", "x" * 5000])
def test_a_name_that_no_file_can_have_is_not_found(wire: flight.FlightClient, name: str) -> None:
    with pytest.raises((KeyError, ValueError), match=r"does not exist|NUL character"):
        rpc.query(wire, f'SELECT * FROM "{name}"')
    assert rpc.fetch(wire, sql.CommandGetPrimaryKeys(table=name)).num_rows == 0


def test_a_panic_of_datafusion_is_answered_like_any_failure(caplog: pytest.LogCaptureFixture) -> None:
    class PanicException(BaseException):
        pass

    with pytest.raises(flight.FlightInternalError, match="its log describes"), translate_errors("DoGet"):
        raise PanicException("index out of bounds")
    assert "DataFusion panicked: index out of bounds" in caplog.text
