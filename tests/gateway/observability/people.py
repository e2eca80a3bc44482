"""A gateway with three users: alice, bob, and root, who is an administrator."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from argon2 import PasswordHasher
from pyarrow import flight

from lance_gateway.gateway.auth.users import User, write_user
from lance_gateway.gateway.config.sections.auth import AuthSection
from lance_gateway.gateway.config.sections.serving import TlsSection
from lance_gateway.gateway.start.opening import open_security
from tests.gateway.conftest import serving

# What makes a password hash strong makes a test slow.
_QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

Connect = Callable[[str], AbstractContextManager[flight.FlightClient]]


class _AsUser(flight.ClientMiddlewareFactory):
    """Presents the token of a user with every call."""

    def __init__(self) -> None:
        super().__init__()
        self.headers: dict[str, str] = {}

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        return _Token(self.headers)


class _Token(flight.ClientMiddleware):
    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__()
        self._headers = headers

    def sending_headers(self) -> dict[str, str]:
        return self._headers


@contextmanager
def guarded(root: Path, folder: Path) -> Iterator[Connect]:
    """Serves a root; what it yields connects as one of the users."""
    users = folder / "users.toml"
    for name, roles in (("alice", set[str]()), ("bob", set[str]()), ("root", {"admin"})):
        write_user(users, User(name, _QUICK.hash(name), (), frozenset(roles)))
    security = open_security(TlsSection(), AuthSection(users_file=users), host="127.0.0.1", hasher=_QUICK)
    with serving(root, security=security) as server:

        @contextmanager
        def connect(user: str) -> Iterator[flight.FlightClient]:
            token = _AsUser()
            with flight.FlightClient(f"grpc://127.0.0.1:{server.port}", middleware=[token]) as client:
                name, value = client.authenticate_basic_token(user, user)
                token.headers[name.decode()] = value.decode()
                yield client

        yield connect
