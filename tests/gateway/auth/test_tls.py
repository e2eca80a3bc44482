"""TLS and mutual TLS, with the clients that people use."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pytest
import trustme
from pyarrow import flight

from lance_gateway.gateway.auth.gateway_tokens import create_token
from lance_gateway.gateway.auth.tls import read_tls_arguments
from lance_gateway.gateway.auth.users import User, write_user
from lance_gateway.gateway.cli.client import GatewayClient, Login
from lance_gateway.gateway.config.sections.serving import TlsSection
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.errors import InvalidInputError
from tests.gateway.auth.conftest import PASSWORD, QUICK, Guarded, uri_of, write_tls

SCHEME = "grpc+tls"
ROOT_CERTS = "adbc.flight.sql.client_option.tls_root_certs"
CERTIFICATE = "adbc.flight.sql.client_option.mtls_cert_chain"
KEY = "adbc.flight.sql.client_option.mtls_private_key"


@pytest.fixture
def ca(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


@pytest.fixture(scope="session")
def mutual_tls(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> TlsSection:
    folder = tmp_path_factory.mktemp("mtls")
    return write_tls(authority, folder, client_ca_file=folder / "ca.pem")


def client_certificate(authority: trustme.CA, *names: str, **options: Any) -> dict[str, bytes]:
    issued = authority.issue_cert(*names, **options)
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    return {"cert_chain": chain, "private_key": issued.private_key_pem.bytes()}


def test_adbc_and_pyarrow_log_in_over_tls(
    guarded: Guarded, server_tls: TlsSection, users_file: Path, ca: bytes
) -> None:
    with guarded(server_tls, users_file=users_file) as server:
        options = {"username": "alice", "password": PASSWORD, ROOT_CERTS: ca.decode()}
        with (
            flightsql.connect(uri_of(server, SCHEME), db_kwargs=options, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT count(*) FROM orders")
            assert cursor.fetchone() == (1000,)
        with flight.FlightClient(uri_of(server, SCHEME, "localhost"), tls_root_certs=ca) as client:
            token = client.authenticate_basic_token("alice", PASSWORD)
            assert list(client.list_actions(flight.FlightCallOptions(headers=[token])))


def test_a_certificate_that_the_client_does_not_trust_is_refused(
    guarded: Guarded, server_tls: TlsSection
) -> None:
    other = trustme.CA().cert_pem.bytes()
    with (
        guarded(server_tls) as server,
        flight.FlightClient(uri_of(server, SCHEME), tls_root_certs=other) as client,
        pytest.raises(flight.FlightUnavailableError),
    ):
        list(client.list_actions())


def test_plaintext_gets_no_answer_from_tls(guarded: Guarded, server_tls: TlsSection) -> None:
    with (
        guarded(server_tls) as server,
        flight.FlightClient(uri_of(server)) as client,
        pytest.raises(flight.FlightUnavailableError),
    ):
        list(client.list_actions())


def test_our_own_client_speaks_tls(
    guarded: Guarded, server_tls: TlsSection, users_file: Path, authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with guarded(server_tls, users_file=users_file) as server:
        login = Login("alice", PASSWORD, ca=tmp_path / "ca.pem")
        with GatewayClient(uri_of(server, SCHEME), login) as client:
            assert client.query("SELECT 1 AS one").read_all().to_pylist() == [{"one": 1}]
        with pytest.raises(InvalidInputError, match="certificates need grpc"):
            GatewayClient(uri_of(server), login)
        with pytest.raises(InvalidInputError, match=r"'/no/ca.pem' cannot be read"):
            GatewayClient(uri_of(server, SCHEME), Login(ca=Path("/no/ca.pem")))


@pytest.fixture
def api_token(tmp_path: Path) -> str:
    return create_token(tmp_path / "tokens.toml", "ci", "ci", frozenset())


@pytest.fixture
def mutual(
    guarded: Guarded, mutual_tls: TlsSection, tmp_path: Path, api_token: str
) -> Iterator[GatewayServer]:
    """A server that takes its users from certificates, unless a call presents something else."""
    assert api_token
    users, tokens = tmp_path / "users.toml", tmp_path / "tokens.toml"
    write_user(users, User("loader", None, ("loader.example.org", "Loader"), frozenset({"writer"})))
    write_user(users, User("alice", QUICK.hash(PASSWORD)))
    with guarded(mutual_tls, users_file=users, tokens_file=tokens, certificates=True) as server:
        yield server


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("loader.example.org",), {}),
        # The first of several alternative names; the common name beside them does not count.
        (("loader.example.org", "second.example.org"), {"common_name": "someone"}),
        ((), {"common_name": "Loader"}),
    ],
)
def test_the_name_in_the_certificate_is_the_user(
    mutual: GatewayServer,
    authority: trustme.CA,
    ca: bytes,
    names: tuple[str, ...],
    options: dict[str, str],
) -> None:
    certificate = client_certificate(authority, *names, **options)
    with flight.FlightClient(uri_of(mutual, SCHEME), tls_root_certs=ca, **certificate) as client:
        assert list(client.list_actions())


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("stranger.example.org",), {}),
        (("second.example.org", "loader.example.org"), {}),
        (("stranger.example.org",), {"common_name": "Loader"}),
        ((), {"common_name": "loader"}),
    ],
)
def test_other_names_are_refused(
    mutual: GatewayServer,
    authority: trustme.CA,
    ca: bytes,
    names: tuple[str, ...],
    options: dict[str, str],
) -> None:
    certificate = client_certificate(authority, *names, **options)
    with (
        flight.FlightClient(uri_of(mutual, SCHEME), tls_root_certs=ca, **certificate) as client,
        pytest.raises(flight.FlightUnauthenticatedError, match="name in the client certificate is not known"),
    ):
        list(client.list_actions())


@pytest.mark.slow
def test_adbc_connects_with_a_certificate(mutual: GatewayServer, authority: trustme.CA, ca: bytes) -> None:
    certificate = client_certificate(authority, "loader.example.org")
    options = {
        ROOT_CERTS: ca.decode(),
        CERTIFICATE: certificate["cert_chain"].decode(),
        KEY: certificate["private_key"].decode(),
    }
    with (
        flightsql.connect(uri_of(mutual, SCHEME), db_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT count(*) FROM orders")
        assert cursor.fetchone() == (1000,)
    login = options | {"username": "alice", "password": PASSWORD}
    with pytest.raises(adbc_driver_manager.Error, match="takes names from client certificates"):
        flightsql.connect(uri_of(mutual, SCHEME), db_kwargs=login, autocommit=True).cursor().execute(
            "SELECT 1"
        )


def test_our_own_client_has_a_certificate(
    mutual: GatewayServer, authority: trustme.CA, tmp_path: Path
) -> None:
    certificate = client_certificate(authority, "loader.example.org")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "client.pem").write_bytes(certificate["cert_chain"])
    (tmp_path / "client.key").write_bytes(certificate["private_key"])
    login = Login(ca=tmp_path / "ca.pem", certificate=tmp_path / "client.pem", key=tmp_path / "client.key")
    with GatewayClient(uri_of(mutual, SCHEME), login) as client:
        assert client.query("SELECT 1 AS one").read_all().to_pylist() == [{"one": 1}]


def test_a_header_goes_before_the_certificate(
    mutual: GatewayServer, authority: trustme.CA, ca: bytes, api_token: str
) -> None:
    certificate = client_certificate(authority, "stranger.example.org")
    with flight.FlightClient(uri_of(mutual, SCHEME), tls_root_certs=ca, **certificate) as client:
        good = (b"authorization", f"Bearer {api_token}".encode())
        assert list(client.list_actions(flight.FlightCallOptions(headers=[good])))
        bad = (b"authorization", b"Bearer no")
        with pytest.raises(flight.FlightUnauthenticatedError, match="token is not valid"):
            list(client.list_actions(flight.FlightCallOptions(headers=[bad])))


YESTERDAY, TOMORROW = (dt.datetime.now(dt.UTC) + dt.timedelta(days=days) for days in (-1, 1))


@pytest.mark.parametrize("presents", ["nothing", "another authority's", "an expired one", "one of tomorrow"])
def test_without_a_good_certificate_there_is_no_connection(
    mutual: GatewayServer, authority: trustme.CA, ca: bytes, presents: str
) -> None:
    name = "loader.example.org"
    certificates = {
        "another authority's": lambda: client_certificate(trustme.CA(), name),
        "an expired one": lambda: client_certificate(authority, name, not_after=YESTERDAY),
        "one of tomorrow": lambda: client_certificate(authority, name, not_before=TOMORROW),
    }
    certificate = {} if presents == "nothing" else certificates[presents]()
    with (
        flight.FlightClient(uri_of(mutual, SCHEME), tls_root_certs=ca, **certificate) as client,
        pytest.raises(flight.FlightUnavailableError),
    ):
        list(client.list_actions())


def test_certificates_may_admit_and_passwords_identify(
    guarded: Guarded, mutual_tls: TlsSection, users_file: Path, authority: trustme.CA, ca: bytes
) -> None:
    certificate = client_certificate(authority, "anybody.example.org")
    with (
        guarded(mutual_tls, users_file=users_file) as server,
        flight.FlightClient(uri_of(server, SCHEME), tls_root_certs=ca, **certificate) as client,
    ):
        with pytest.raises(flight.FlightUnauthenticatedError, match="authentication is required"):
            list(client.list_actions())
        token = client.authenticate_basic_token("alice", PASSWORD)
        assert list(client.list_actions(flight.FlightCallOptions(headers=[token])))


def test_without_a_user_file_every_name_is_a_user(
    guarded: Guarded, mutual_tls: TlsSection, authority: trustme.CA, ca: bytes
) -> None:
    certificate = client_certificate(authority, "anybody.example.org")
    with (
        guarded(mutual_tls, certificates=True) as server,
        flight.FlightClient(uri_of(server, SCHEME), tls_root_certs=ca, **certificate) as client,
    ):
        assert list(client.list_actions())


def test_files_that_do_not_fit_are_refused_at_the_beginning(
    server_tls: TlsSection, mutual_tls: TlsSection, tmp_path: Path
) -> None:
    certificate, key = server_tls.certificate_file, server_tls.key_file
    assert certificate is not None
    assert key is not None
    assert mutual_tls.key_file is not None
    assert set(read_tls_arguments(certificate, key)) == {"tls_certificates"}
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    for arguments, complaint in (
        ((certificate, mutual_tls.key_file), "cannot be used: .*MISMATCH"),
        ((junk, key), "cannot be used"),
        ((certificate, tmp_path / "no.key"), "key '.*no.key' cannot be read"),
        ((certificate, key, junk), "client authorities '.*junk.pem' cannot be used"),
    ):
        with pytest.raises(InvalidInputError, match=complaint):
            read_tls_arguments(*arguments)


@pytest.mark.parametrize(
    ("names", "options"),
    [
        # Names that stand for others elsewhere: patterns, parts of names, other spellings and kinds.
        (("*.example.org",), {}),
        (("loader.example.org.evil.example",), {}),
        (("loader@example.org",), {}),
        ((), {"common_name": "loader.example.org\0.evil.example"}),
        ((), {"common_name": "Loader "}),
        ((), {"common_name": "loader.example.org,alice"}),
        # Users without a certificate, and names that the gateway uses itself.
        (("alice",), {}),
        ((), {"common_name": "alice"}),
        ((), {"common_name": "anonymous"}),
        ((), {"common_name": "peer"}),
    ],
)
def test_names_that_only_look_like_a_users_are_refused(
    mutual: GatewayServer,
    authority: trustme.CA,
    ca: bytes,
    names: tuple[str, ...],
    options: dict[str, Any],
) -> None:
    certificate = client_certificate(authority, *names, **options)
    with (
        flight.FlightClient(uri_of(mutual, SCHEME), tls_root_certs=ca, **certificate) as client,
        pytest.raises(flight.FlightUnauthenticatedError, match="client certificate"),
    ):
        list(client.list_actions())


def test_an_authority_of_the_same_name_signs_nobody(
    mutual: GatewayServer, authority: trustme.CA, ca: bytes
) -> None:
    impostor = trustme.CA(organization_name="trustme", organization_unit_name="CA")
    assert impostor.cert_pem.bytes() != authority.cert_pem.bytes()
    certificate = client_certificate(impostor, "loader.example.org")
    with (
        flight.FlightClient(uri_of(mutual, SCHEME), tls_root_certs=ca, **certificate) as client,
        pytest.raises(flight.FlightUnavailableError),
    ):
        list(client.list_actions())
