"""Session options: set, read, refused, kept apart, closed."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.identity import ANONYMOUS, Identity
from lance_gateway.gateway.sessions import COOKIE, OFFER, Sessions, read_session
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.engine import SessionSettings
from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.support.processes.servers import open_connection

PREFIX = "adbc.flight.sql.session.option."
FLAG_PREFIX = "adbc.flight.sql.session.optionbool."
DEFAULTS = {
    "catalog": "lance",
    "schema": "main",
    "consistency": "strong",
    "max_staleness_ms": "0",
    "region_pruning": "true",
    "dialect": "postgres",
    "endpoints": "1",
    "query_timeout_ms": "0",
    "types": "auto",
    "durable_writes": "true",
    "read_only": "false",
    "shortcuts": "all",
}


@pytest.fixture
def client(uri: str) -> Iterator[GatewayClient]:
    with GatewayClient(uri) as client:
        yield client


def test_a_new_session_has_the_defaults(client: GatewayClient) -> None:
    assert client.get_options() == DEFAULTS


def test_options_are_set_through_adbc_and_stay(adbc: Any) -> None:
    connection = adbc.adbc_connection
    connection.set_options(**{PREFIX + "consistency": "flushed"})
    connection.set_options(**{PREFIX + "max_staleness_ms": "250"})
    connection.set_options(**{FLAG_PREFIX + "region_pruning": "false"})
    assert connection.get_option(PREFIX + "consistency") == "flushed"
    assert connection.get_option_int(PREFIX + "max_staleness_ms") == 250
    assert connection.get_option(FLAG_PREFIX + "region_pruning") == "false"
    with adbc.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM typed")
        assert cursor.fetchone() == (2,)


def test_the_current_catalog_and_schema_are_options(adbc: Any) -> None:
    assert (adbc.adbc_current_catalog, adbc.adbc_current_db_schema) == ("lance", "main")
    adbc.adbc_current_db_schema = "main"
    with pytest.raises(adbc_driver_manager.ProgrammingError, match="invalid value"):
        adbc.adbc_current_catalog = "other"


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("consistency", "eventual", "invalid value"),
        ("max_staleness_ms", "-1", "invalid value"),
        ("max_staleness_ms", "soon", "invalid value"),
        ("region_pruning", "perhaps", "invalid value"),
        ("schema", "public", "invalid value"),
        ("shortcuts", "direct_scans,detours", "invalid value"),
        ("isolation", "none", "invalid name"),
    ],
)
def test_a_wrong_option_is_refused_by_name(
    adbc: Any, client: GatewayClient, name: str, value: str, complaint: str
) -> None:
    with pytest.raises(adbc_driver_manager.ProgrammingError, match=f"'{name}'.*{complaint}"):
        adbc.adbc_connection.set_options(**{PREFIX + name: value})
    with pytest.raises(InvalidInputError, match=f"{name} = '{value}': {complaint}"):
        client.set_options({name: value})
    assert client.get_options() == DEFAULTS


def test_options_that_are_right_are_set_beside_those_that_are_not(client: GatewayClient) -> None:
    with pytest.raises(InvalidInputError, match="colour"):
        client.set_options({"consistency": "snapshot", "colour": "green"})
    assert client.get_options()["consistency"] == "snapshot"


def test_an_option_without_a_value_returns_to_its_default(sessions: Sessions) -> None:
    session = _Session(sessions)
    session.set(consistency=flight_pb2.SessionOptionValue(string_value="flushed"))
    session.set(consistency=flight_pb2.SessionOptionValue())
    assert session.settings() == SessionSettings()


TEXT = flight_pb2.SessionOptionValue(string_value="some text")
FLAG = flight_pb2.SessionOptionValue(bool_value=False)
WHOLE = flight_pb2.SessionOptionValue(int64_value=7)
NEGATIVE = flight_pb2.SessionOptionValue(int64_value=-1)
REAL = flight_pb2.SessionOptionValue(double_value=7.0)
NO_NUMBER = flight_pb2.SessionOptionValue(double_value=float("nan"))
NONE_LISTED = flight_pb2.SessionOptionValue(string_list_value={})
LIST = flight_pb2.SessionOptionValue(string_list_value={"values": ["main", "flushed", "true", "7"]})
DIGITS = flight_pb2.SessionOptionValue(string_value="7")
TOO_MANY_DIGITS = flight_pb2.SessionOptionValue(string_value="9" * 19)
EVEN_MORE_DIGITS = flight_pb2.SessionOptionValue(string_value="9" * 5000)
EVERY_KIND = [
    TEXT, FLAG, WHOLE, NEGATIVE, REAL, NO_NUMBER, NONE_LISTED, LIST, DIGITS, TOO_MANY_DIGITS,
    EVEN_MORE_DIGITS,
]  # fmt: skip
TAKEN = {
    "region_pruning": [FLAG],
    "durable_writes": [FLAG],
    "read_only": [FLAG],
    "max_staleness_ms": [WHOLE, DIGITS],
    "query_timeout_ms": [WHOLE, DIGITS],
    "endpoints": [WHOLE, DIGITS],
}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(SessionSettings)])
def test_an_option_takes_values_of_its_kind_and_no_others(sessions: Sessions, name: str) -> None:
    session = _Session(sessions)
    for value in EVERY_KIND:
        errors = {key: error.value for key, error in session.set(**{name: value}).errors.items()}
        refused = (
            {} if value in TAKEN.get(name, []) else {name: flight_pb2.SetSessionOptionsResult.INVALID_VALUE}
        )
        assert errors == refused, value


@pytest.mark.parametrize("value", EVERY_KIND)
def test_a_name_that_is_none_is_refused_with_every_value(
    sessions: Sessions, value: flight_pb2.SessionOptionValue
) -> None:
    result = _Session(sessions).set(colour=value)
    assert result.errors["colour"].value == flight_pb2.SetSessionOptionsResult.INVALID_NAME


@pytest.mark.parametrize(
    "value",
    [
        flight_pb2.SessionOptionValue(bool_value=True),
        flight_pb2.SessionOptionValue(double_value=1.5),
        flight_pb2.SessionOptionValue(
            string_list_value=flight_pb2.SessionOptionValue.StringListValue(values=["1"])
        ),
    ],
)
def test_a_value_of_another_kind_is_refused(sessions: Sessions, value: flight_pb2.SessionOptionValue) -> None:
    session = _Session(sessions)
    result = session.set(max_staleness_ms=value)
    assert result.errors["max_staleness_ms"].value == flight_pb2.SetSessionOptionsResult.INVALID_VALUE


def test_sessions_are_kept_apart(uri: str, client: GatewayClient) -> None:
    client.set_options({"consistency": "snapshot"})
    with GatewayClient(uri) as other:
        assert other.get_options()["consistency"] == "strong"
    assert client.get_options()["consistency"] == "snapshot"


def test_a_closed_session_is_not_found(client: GatewayClient) -> None:
    client.set_options({"consistency": "flushed"})
    cookies = dict(client._jar.cookies)
    result = flight_pb2.CloseSessionResult.FromString(
        client._run_action("CloseSession", flight_pb2.CloseSessionRequest())
    )
    assert result.status == flight_pb2.CloseSessionResult.CLOSED
    # The answer took the cookie away, so the connection goes on with the defaults.
    assert client._jar.cookies == {}
    assert client.query("SELECT 1 AS one").read_all().to_pylist() == [{"one": 1}]
    client._jar.cookies.update(cookies)
    with pytest.raises(KeyError, match=r"session .* is not known"):
        client.query("SELECT 1")


def test_closing_without_a_session_succeeds(wire: flight.FlightClient) -> None:
    (body,) = rpc.act(wire, "CloseSession", b"")
    assert flight_pb2.CloseSessionResult.FromString(body).status == flight_pb2.CloseSessionResult.CLOSED


def test_a_connection_closes_its_session(uri: str, gateway: Any) -> None:
    before = len(gateway.sessions)
    with open_connection(uri) as connection:
        connection.adbc_connection.set_options(**{PREFIX + "consistency": "flushed"})
        assert len(gateway.sessions) == before + 1
    assert len(gateway.sessions) == before


def test_sessions_are_bounded_in_number(sessions: Sessions) -> None:
    opened = [_Session(sessions) for _ in range(3)]
    for session in opened:
        session.set(consistency=flight_pb2.SessionOptionValue(string_value="flushed"))
    with pytest.raises(NotFoundError, match="connect again"):
        opened[0].settings()
    assert opened[2].settings().consistency == "flushed"


def test_a_user_name_and_password_are_accepted(uri: str) -> None:
    with (
        flightsql.connect(
            uri, db_kwargs={"username": "me", "password": "secret"}, autocommit=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_a_basic_handshake_is_answered_with_a_token(uri: str) -> None:
    with flight.FlightClient(uri) as bare:
        name, token = bare.authenticate_basic_token("me", "secret")
        assert (name, token) == (b"authorization", b"Bearer anonymous")
        options = flight.FlightCallOptions(headers=[(name, token)])
        assert list(bare.list_actions(options))


def test_an_option_in_a_header_is_for_its_call_alone(uri: str) -> None:
    request = flight_pb2.SetSessionOptionsRequest()
    request.session_options["max_staleness_ms"].int64_value = 7
    with GatewayClient(uri) as client:
        client.get_options()
        (cookie,) = client._jar.cookies.items()
        headers = [(b"cookie", "=".join(cookie).encode()), (b"consistency", b"flushed")]
        with flight.FlightClient(uri) as bare:
            options = flight.FlightCallOptions(headers=headers)
            (told,) = bare.do_action(flight.Action("GetSessionOptions", b""), options)
            effective = flight_pb2.GetSessionOptionsResult.FromString(told.body.to_pybytes())
            assert effective.session_options["consistency"].string_value == "flushed"
            list(bare.do_action(flight.Action("SetSessionOptions", request.SerializeToString()), options))
        assert client.get_options()["consistency"] == "strong"
        assert client.get_options()["max_staleness_ms"] == "7"


def test_other_cookies_are_no_session(uri: str) -> None:
    with flight.FlightClient(uri) as bare:
        options = flight.FlightCallOptions(headers=[(b"cookie", b"theme=dark; arrow_flight_session_id=")])
        assert list(bare.do_action(flight.Action("GetSessionOptions", b""), options))


@pytest.fixture
def sessions() -> Sessions:
    """A place for two sessions."""
    return Sessions(LimitsSection(max_sessions=2))


class _Session:
    """Calls the actions as the server does, and keeps the cookie as a client does."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._actions = {action.name: action for action in sessions.list_handlers()}
        self._session_id: str | None = None

    def settings(self) -> SessionSettings:
        return self._sessions.find_settings(self._session_id, ANONYMOUS.name)

    def set(self, **options: flight_pb2.SessionOptionValue) -> flight_pb2.SetSessionOptionsResult:
        call = Call(
            "ipv4:127.0.0.1:1",
            ANONYMOUS,
            FULL_ACCESS,
            self._session_id,
            self.settings(),
            self._receive,
            lambda: False,
        )
        request = flight_pb2.SetSessionOptionsRequest(session_options=options)
        body = self._actions["SetSessionOptions"].run(request, call)
        assert body is not None
        return flight_pb2.SetSessionOptionsResult.FromString(body)

    def _receive(self, name: str, value: str) -> None:
        assert name == "set-cookie"
        self._session_id = value.partition("=")[2]


def _create_call(user: str, offered: str | None, cookies: dict[str, str]) -> Call:
    def receive(_name: str, value: str) -> None:
        name, _, cookies[name] = value.partition("=")

    identity = Identity(user, frozenset(), "password")
    return Call(
        "ipv4:127.0.0.1:1",
        identity,
        FULL_ACCESS,
        None,
        SessionSettings(),
        receive,
        lambda: False,
        offered=offered,
    )


def test_a_session_begins_under_the_id_that_was_offered(sessions: Sessions) -> None:
    cookies: dict[str, str] = {}
    sessions.offer(_create_call("ada", None, cookies))
    offered = cookies.pop(OFFER)
    assert read_session({"cookie": [f"theme=dark; {OFFER}={offered}"]}).offered == offered
    assert read_session({"cookie": [f"{OFFER}=guess"]}).offered is None
    assert sessions.find_offered(offered, "ada") is None
    call = _create_call("ada", offered, cookies)
    assert sessions.open(call).session_id == sessions.open(call).session_id == offered == cookies[COOKIE]
    assert sessions.find_offered(offered, "ada") == offered
    assert len(sessions) == 1
    # The session of another user is none.
    other = _create_call("bob", offered, cookies)
    assert sessions.open(other).session_id is None
    assert (cookies[COOKIE] != offered, sessions.find_offered(offered, "bob")) == (True, None)
    assert sessions.find_offered(offered, "ada") == offered


def _headers(**chosen: str) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(
        headers=[(name.encode(), value.encode()) for name, value in chosen.items()]
    )


def test_a_header_chooses_for_its_call(wire: flight.FlightClient) -> None:
    chosen = _headers(consistency="flushed", max_staleness_ms="250", region_pruning="false")
    body = flight_pb2.GetSessionOptionsRequest().SerializeToString()
    (told,) = wire.do_action(flight.Action("GetSessionOptions", body), chosen)
    options = flight_pb2.GetSessionOptionsResult.FromString(told.body.to_pybytes()).session_options
    assert options["consistency"].string_value == "flushed"
    assert options["max_staleness_ms"].int64_value == 250
    assert options["region_pruning"].bool_value is False


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("consistency", "eventual", "consistency 'eventual' is unknown"),
        ("max_staleness_ms", "soon", "'soon' is not a whole number"),
        ("types", "odbc", "types 'odbc' is unknown: choose auto, arrow, jdbc"),
        (
            "shortcuts",
            "detours",
            "no shortcut 'detours'; give 'all', 'none', or some of direct_scans",
        ),
    ],
)
def test_a_header_with_a_wrong_value_is_refused(
    wire: flight.FlightClient, name: str, value: str, complaint: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=complaint):
        wire.get_flight_info(
            rpc.descriptor(sql.CommandStatementQuery(query="SELECT 1")), _headers(**{name: value})
        )


@pytest.mark.parametrize(
    ("agent", "chosen", "kind"),
    [
        ("grpc-java-netty/1.71.0", {}, pa.int16()),
        ("JDBC Flight SQL Driver 19.0.0 grpc-java-netty/1.79.0", {}, pa.int16()),
        ("grpc-java-netty/1.71.0", {"types": "arrow"}, pa.uint8()),
        ("grpc-go/1.84.0", {}, pa.uint8()),
        ("grpc-go/1.84.0", {"types": "jdbc"}, pa.int16()),
    ],
)
def test_types_are_those_that_the_client_can_read(
    wire: flight.FlightClient, agent: str, chosen: dict[str, str], kind: pa.DataType
) -> None:
    found = read_session({"user-agent": [agent], **{name: [value] for name, value in chosen.items()}})
    types = found.apply_to(SessionSettings()).type_set
    query = sql.CommandStatementQuery(query="SELECT utiny FROM typed")
    info = wire.get_flight_info(rpc.descriptor(query), _headers(types=types))
    assert info.schema.field("utiny").type == kind
    assert wire.do_get(info.endpoints[0].ticket).read_all().schema == info.schema
