"""Users, tokens, keys and certificates; servers that ask for them."""

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from argon2 import PasswordHasher

from lance_gateway.gateway.auth.users import User, write_user
from lance_gateway.gateway.config.sections.auth import AuthSection
from lance_gateway.gateway.config.sections.serving import TlsSection
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.gateway.start.opening import open_security
from tests.gateway.auth.tokens.keys import Signer
from tests.gateway.conftest import serving

# What makes a password hash strong makes a test slow.
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD = "correct horse; battery: staple ü"

Guarded = Callable[..., AbstractContextManager[GatewayServer]]


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def users_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """alice the analyst and bob, who may do nothing, have the same password."""
    path = tmp_path_factory.mktemp("users") / "users.toml"
    for name, roles in (("alice", {"analyst"}), ("bob", set())):
        write_user(path, User(name, QUICK.hash(PASSWORD), (), frozenset(roles)))
    return path


@pytest.fixture(scope="session")
def signer() -> Signer:
    """An identity provider's key."""
    return Signer("key-1")


@pytest.fixture(scope="session")
def jwks_file(signer: Signer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jwks") / "jwks.json"
    path.write_text(signer.key_set())
    return path


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Signs the certificates of servers and clients."""
    return trustme.CA()


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> TlsSection:
    """A certificate for localhost."""
    return write_tls(authority, tmp_path_factory.mktemp("tls"))


def write_tls(authority: trustme.CA, folder: Path, **options: Any) -> TlsSection:
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    for number, blob in enumerate(certificate.cert_chain_pems):
        blob.write_to_path(folder / "server.pem", append=number > 0)
    certificate.private_key_pem.write_to_path(folder / "server.key")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return TlsSection(certificate_file=folder / "server.pem", key_file=folder / "server.key", **options)


@pytest.fixture
def guarded(lake: Path) -> Guarded:
    """Starts servers over the lake: the arguments are those of the section `auth`."""

    @contextmanager
    def start(tls: TlsSection | None = None, **auth: Any) -> Iterator[GatewayServer]:
        security = open_security(tls or TlsSection(), AuthSection(**auth), host="127.0.0.1", hasher=QUICK)
        with serving(lake, security=security) as server:
            yield server

    return start


def uri_of(server: GatewayServer, scheme: str = "grpc", host: str = "127.0.0.1") -> str:
    return f"{scheme}://{host}:{server.port}"


def utc(*moment: int) -> dt.datetime:
    return dt.datetime(*moment, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]
