"""Tokens that the gateway makes: issued for a login, or static ones of a file."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import adbc_driver_flightsql.dbapi as flightsql
import pytest
from pyarrow import flight

from lance_gateway.gateway.auth.gateway_tokens import (
    ApiTokens,
    IssuedTokens,
    create_token,
    hash_token,
    parse_tokens,
    revoke_token,
)
from lance_gateway.gateway.auth.users import User, Users
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.errors import InvalidInputError
from tests.gateway.auth.conftest import QUICK, Clock, Guarded, uri_of, utc

HASH = QUICK.hash("a password")
ALICE = User("alice", HASH, (), frozenset({"analyst"}))


class UserFile:
    def __init__(self, *users: User) -> None:
        self.users = users

    def __call__(self) -> Users:
        return Users(MappingProxyType({user.name: user for user in self.users}), MappingProxyType({}))


def test_an_issued_token_stands_for_its_user(clock: Clock) -> None:
    tokens = IssuedTokens(UserFile(ALICE), 600.0, clock=clock)
    token = tokens.issue(ALICE)
    assert tokens.find(token) == Identity("alice", frozenset({"analyst"}), "password")
    assert tokens.find(token[:-1]) is None
    assert tokens.find("") is None


def test_it_ends_after_its_lifetime_used_or_not(clock: Clock) -> None:
    tokens = IssuedTokens(UserFile(ALICE), 600.0, clock=clock)
    token = tokens.issue(ALICE)
    for _ in range(5):
        clock.now += 119.0
        assert tokens.find(token) is not None
    clock.now += 5.0
    assert tokens.find(token) is None


def test_it_ends_with_its_user_and_with_the_password(clock: Clock) -> None:
    file = UserFile(ALICE)
    tokens = IssuedTokens(file, 600.0, clock=clock)
    token = tokens.issue(ALICE)
    file.users = ()
    assert tokens.find(token) is None
    file.users = (User("alice", QUICK.hash("another"), (), ALICE.roles),)
    assert tokens.find(token) is None


def test_it_has_the_roles_of_now(clock: Clock) -> None:
    file = UserFile(ALICE)
    tokens = IssuedTokens(file, 600.0, clock=clock)
    token = tokens.issue(ALICE)
    file.users = (User("alice", HASH, (), frozenset({"other"})),)
    found = tokens.find(token)
    assert found is not None
    assert found.roles == {"other"}


def test_tokens_are_bounded_and_those_in_use_stay(clock: Clock) -> None:
    tokens = IssuedTokens(UserFile(ALICE), 600.0, capacity=3, clock=clock)
    used = tokens.issue(ALICE)
    idle = tokens.issue(ALICE)
    for _ in range(2):
        assert tokens.find(used) is not None
        tokens.issue(ALICE)
    assert tokens.find(idle) is None
    assert tokens.find(used) is not None


def test_a_static_token_is_created_found_and_revoked(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    token = create_token(path, "ci", "builder", frozenset({"b", "a"}))
    assert token not in path.read_text()
    tokens = parse_tokens(path.read_text(), str(path))
    assert token not in repr(tokens)
    assert ApiTokens(lambda: tokens).find(token) == Identity("builder", frozenset({"a", "b"}), "token")
    assert ApiTokens(lambda: tokens).find(hash_token(token)) is None
    with pytest.raises(InvalidInputError, match=r"'ci' is in .* already"):
        create_token(path, "ci", "builder", frozenset())
    revoke_token(path, "ci")
    assert parse_tokens(path.read_text(), str(path)) == {}
    with pytest.raises(InvalidInputError, match="'ci' is not in"):
        revoke_token(path, "ci")


def test_a_static_token_may_end(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    token = create_token(path, "ci", "builder", frozenset(), utc(2026, 3, 1))
    tokens = parse_tokens(path.read_text(), str(path))
    assert ApiTokens(lambda: tokens, now=lambda: utc(2026, 2, 28)).find(token) is not None
    assert ApiTokens(lambda: tokens, now=lambda: utc(2026, 3, 1)).find(token) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[tokens.a]\nsha256 = 'abc'\nuser = 'u'", "'a': sha256 must be 64"),
        (f"[tokens.a]\nsha256 = '{'0' * 64}'", "tokens.a.user: it is missing"),
        (f"[tokens.a]\nsha256 = '{'0' * 64}'\nuser = ''", "name the user"),
        (
            f"[tokens.a]\ntoken = 'secret'\nsha256 = '{'0' * 64}'\nuser = 'u'",
            "tokens.a.token: there is no such key",
        ),
        (
            f"[tokens.a]\nsha256 = '{'0' * 64}'\nuser = 'u'\nexpires = 2026-01-01T00:00:00",
            "append Z or an offset",
        ),
        (
            f"[tokens.a]\nsha256 = '{'0' * 64}'\nuser = 'u'\n[tokens.b]\nsha256 = '{'0' * 64}'\nuser = 'u'",
            "'a' and 'b' are the same token",
        ),
    ],
)
def test_nonsense_is_refused_without_showing_a_secret(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint) as raised:
        parse_tokens(text, "tokens.toml")
    assert "tokens.toml" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_expiry_knows_time_zones() -> None:
    text = f"[tokens.a]\nsha256 = '{hash_token('t')}'\nuser = 'u'\nexpires = 2026-01-01T01:00:00+01:00"
    tokens = parse_tokens(text, "tokens.toml")
    before, after = utc(2025, 12, 31, 23, 59), utc(2026, 1, 1)
    assert ApiTokens(lambda: tokens, now=lambda: before).find("t") is not None
    assert ApiTokens(lambda: tokens, now=lambda: after).find("t") is None
    assert before.tzinfo is dt.UTC


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


@pytest.fixture
def token(token_file: Path) -> str:
    return create_token(token_file, "ci", "builder", frozenset())


@pytest.fixture
def server(guarded: Guarded, token_file: Path, token: str) -> Iterator[GatewayServer]:
    assert token not in token_file.read_text()
    with guarded(tokens_file=token_file) as server:
        yield server


def test_adbc_and_pyarrow_present_it_with_every_call(server: GatewayServer, token: str) -> None:
    options = {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    with (
        flightsql.connect(uri_of(server), db_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT count(*) FROM orders")
        assert cursor.fetchone() == (1000,)
    with flight.FlightClient(uri_of(server)) as client:
        header = (b"authorization", f"Bearer {token}".encode())
        assert list(client.list_actions(flight.FlightCallOptions(headers=[header])))
        legacy = (b"auth-token-bin", token.encode())
        assert list(client.list_actions(flight.FlightCallOptions(headers=[legacy])))


class TokenTrial(flight.ClientAuthHandler):
    """Shakes hands with a header only, as the JDBC driver does with a token."""

    def authenticate(self, outgoing: object, incoming: object) -> None:
        pass

    def get_token(self) -> bytes:
        return b""


@pytest.mark.parametrize("good", [True, False])
def test_a_handshake_may_try_a_token(server: GatewayServer, token: str, good: bool) -> None:
    header = (b"authorization", f"Bearer {token if good else token[1:]}".encode())
    options = flight.FlightCallOptions(headers=[header])
    with flight.FlightClient(uri_of(server)) as client:
        if good:
            client.authenticate(TokenTrial(), options)
        else:
            with pytest.raises(flight.FlightUnauthenticatedError, match="token is not valid"):
                client.authenticate(TokenTrial(), options)
