"""Logging in over the wire, with the clients that people use."""

import base64
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.cli.client import GatewayClient, Login
from lance_gateway.gateway.server import GatewayServer
from tests.gateway import rpc
from tests.gateway.auth.conftest import PASSWORD, Guarded, uri_of

REFUSED = "the user name or the password is wrong"
HEADER = "adbc.flight.sql.rpc.call_header.authorization"


@pytest.fixture
def server(guarded: Guarded, users_file: Path) -> Iterator[GatewayServer]:
    with guarded(users_file=users_file) as server:
        yield server


@pytest.fixture
def client(server: GatewayServer) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(uri_of(server)) as client:
        yield client


def headers(*pairs: tuple[str, str]) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(headers=[(name.encode(), value.encode()) for name, value in pairs])


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_adbc_logs_in_with_a_user_and_a_password(server: GatewayServer) -> None:
    login = {"username": "alice", "password": PASSWORD}
    with flightsql.connect(uri_of(server), db_kwargs=login, autocommit=True) as connection:
        for _ in range(2):
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM orders")
                assert cursor.fetchone() == (1000,)


@pytest.mark.parametrize("login", [("alice", "wrong"), ("nobody", PASSWORD), ("alice", ""), ("", PASSWORD)])
def test_adbc_is_told_that_the_login_is_wrong_and_no_more(
    server: GatewayServer, login: tuple[str, str]
) -> None:
    options = {"username": login[0], "password": login[1]}
    with pytest.raises(adbc_driver_manager.Error) as raised:
        flightsql.connect(uri_of(server), db_kwargs=options, autocommit=True).cursor().execute("SELECT 1")
    if login[0]:
        assert raised.value.status_code == adbc_driver_manager.AdbcStatusCode.UNAUTHENTICATED
        assert REFUSED in str(raised.value)


def test_pyarrow_exchanges_a_password_for_a_token(client: flight.FlightClient) -> None:
    name, value = client.authenticate_basic_token("alice", PASSWORD)
    assert name == b"authorization"
    assert value.startswith(b"Bearer ")
    options = flight.FlightCallOptions(headers=[(name, value)])
    assert list(client.list_actions(options))
    again = client.authenticate_basic_token("alice", PASSWORD)
    assert again[1] != value
    with pytest.raises(flight.FlightUnauthenticatedError, match=REFUSED):
        client.authenticate_basic_token("alice", PASSWORD + " ")


class LegacyLogin(flight.ClientAuthHandler):
    """The older handshake: the password travels in a message, the token in a header of its own."""

    def __init__(self, name: str, password: str) -> None:
        super().__init__()
        self._login = flight.BasicAuth(name, password)
        self._token = b""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        outgoing.write(self._login.serialize())
        self._token = incoming.read()

    def get_token(self) -> bytes:
        return self._token


def test_the_older_handshake_works_as_well(client: flight.FlightClient) -> None:
    client.authenticate(LegacyLogin("alice", PASSWORD))
    assert rpc.query(client, "SELECT 1 AS one").to_pylist() == [{"one": 1}]


@pytest.mark.parametrize("login", [("alice", "wrong"), ("nobody", PASSWORD)])
def test_the_older_handshake_is_refused_alike(client: flight.FlightClient, login: tuple[str, str]) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError, match=REFUSED):
        client.authenticate(LegacyLogin(*login))


class Silent(LegacyLogin):
    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        pass


def test_a_handshake_that_says_nothing_is_refused(client: flight.FlightClient) -> None:
    with pytest.raises(flight.FlightUnauthenticatedError, match="has no user name and password"):
        client.authenticate(Silent("", ""))


def test_a_password_may_come_with_every_call(server: GatewayServer, client: flight.FlightClient) -> None:
    for _ in range(3):
        assert list(client.list_actions(headers(("authorization", basic("alice", PASSWORD)))))
    options = {HEADER: basic("alice", PASSWORD)}
    with (
        flightsql.connect(uri_of(server), db_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


@pytest.mark.parametrize(
    ("presented", "complaint"),
    [
        ([], "authentication is required: send a user name and password, or a bearer token"),
        ([("authorization", basic("alice", "wrong"))], REFUSED),
        ([("authorization", basic("nobody", "wrong"))], REFUSED),
        ([("authorization", "Bearer anonymous")], "token is not valid"),
        ([("authorization", "Bearer a.b.c")], "token is not valid"),
        ([("authorization", "Basic %%%")], "Basic credentials cannot be read"),
        ([("authorization", "Basic " + base64.b64encode(b"alice").decode())], "cannot be read"),
        ([("authorization", "Basic " + base64.b64encode(b"\xff:\xfe").decode())], "cannot be read"),
        ([("authorization", "Digest x")], "send 'Basic"),
        ([("authorization", "Bearer")], "send 'Basic"),
        ([("authorization", "Bearer a"), ("authorization", "Bearer b")], "several authorization headers"),
        ([("auth-token-bin", "token")], "token is not valid"),
    ],
)
def test_calls_without_good_credentials_are_refused(
    client: flight.FlightClient, presented: list[tuple[str, str]], complaint: str
) -> None:
    with pytest.raises(flight.FlightError, match=complaint) as raised:
        list(client.list_actions(headers(*presented)))
    assert "Traceback" not in str(raised.value)


def test_nothing_is_answered_before_the_caller_is_known(client: flight.FlightClient) -> None:
    junk = flight.FlightDescriptor.for_command(b"junk")

    def put() -> None:
        writer, _ = client.do_put(junk, pa.schema([("a", pa.int64())]))
        writer.close()

    def exchange() -> None:
        writer, reader = client.do_exchange(junk)
        with writer:
            writer.done_writing()
            reader.read_chunk()

    attempts = {
        "GetFlightInfo": lambda: client.get_flight_info(junk),
        "GetSchema": lambda: client.get_schema(junk),
        "DoGet": lambda: client.do_get(flight.Ticket(b"junk")).read_all(),
        "DoPut": put,
        "DoExchange": exchange,
        "DoAction": lambda: list(client.do_action(flight.Action("junk", b""))),
        "ListActions": lambda: list(client.list_actions()),
        "ListFlights": lambda: list(client.list_flights()),
    }
    for attempt in attempts.values():
        # pyarrow raises an OSError where the first thing that fails is writing.
        with pytest.raises(
            (flight.FlightUnauthenticatedError, OSError),
            match=r"^authentication is required: send .* token\. Detail: Unauthenticated",
        ):
            attempt()


def test_the_token_of_one_server_means_nothing_to_another(
    guarded: Guarded, users_file: Path, client: flight.FlightClient
) -> None:
    token = client.authenticate_basic_token("alice", PASSWORD)
    options = flight.FlightCallOptions(headers=[token])
    with (
        guarded(users_file=users_file) as other,
        flight.FlightClient(uri_of(other)) as stranger,
        pytest.raises(flight.FlightUnauthenticatedError, match="token is not valid"),
    ):
        list(stranger.list_actions(options))


def test_many_log_in_at_once(server: GatewayServer) -> None:
    start = threading.Barrier(16)

    def login(number: int) -> int:
        name = ("alice", "bob")[number % 2]
        start.wait()
        with flight.FlightClient(uri_of(server)) as client:
            options = flight.FlightCallOptions(headers=[client.authenticate_basic_token(name, PASSWORD)])
            return len(list(client.list_actions(options)))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(login, range(16)))


def test_a_session_belongs_to_its_user(server: GatewayServer) -> None:
    with (
        GatewayClient(uri_of(server), Login("alice", PASSWORD)) as alice,
        GatewayClient(uri_of(server), Login("bob", PASSWORD)) as bob,
    ):
        alice.set_options({"consistency": "flushed"})
        bob._jar.cookies.update(alice._jar.cookies)
        for attempt in (
            lambda: bob.query("SELECT 1"),
            bob.get_options,
            lambda: bob.set_options({"schema": "main"}),
        ):
            with pytest.raises(KeyError, match=r"session .* is not known"):
                attempt()
        assert alice.get_options()["consistency"] == "flushed"


def test_too_many_wrong_passwords_close_the_door_for_a_while(guarded: Guarded, users_file: Path) -> None:
    with (
        guarded(users_file=users_file, max_failures=2, failure_window=3600.0) as server,
        flight.FlightClient(uri_of(server)) as client,
    ):
        token = client.authenticate_basic_token("alice", PASSWORD)
        for name in ("alice", "nobody"):
            for _ in range(2):
                with pytest.raises(flight.FlightUnauthenticatedError, match=REFUSED):
                    client.authenticate_basic_token(name, "wrong")
            # The right password does not help any more: a guess must not learn that it was right.
            with pytest.raises(
                flight.FlightUnauthenticatedError, match=r"too many .* by this user: wait \d+ s"
            ):
                client.authenticate_basic_token(name, PASSWORD)
        assert client.authenticate_basic_token("bob", PASSWORD)
        # Who is in stays in.
        assert list(client.list_actions(flight.FlightCallOptions(headers=[token])))


def test_an_address_that_fails_too_often_is_refused(guarded: Guarded, users_file: Path) -> None:
    with (
        guarded(users_file=users_file, max_failures=3, failure_window=3600.0) as server,
        flight.FlightClient(uri_of(server)) as client,
    ):
        for number in range(3):
            with pytest.raises(flight.FlightUnauthenticatedError, match=REFUSED):
                list(client.list_actions(headers(("authorization", basic(f"user{number}", "wrong")))))
        with pytest.raises(flight.FlightUnauthenticatedError, match="by this address"):
            list(client.list_actions(headers(("authorization", basic("alice", PASSWORD)))))
