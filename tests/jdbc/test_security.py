"""Encryption and logging in over JDBC."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from lance_gateway.gateway.auth.gateway_tokens import create_token
from lance_gateway.gateway.auth.users import User, hash_password, write_user
from tests.jdbc import drivers
from tests.jdbc.jvm import Jvm
from tests.support.processes.servers import GatewayProcess

pytestmark = pytest.mark.slow

PASSWORD = "correct horse; battery: staple ü & 100%"
COUNT = "SELECT count(*) FROM orders"
POLICY = """
[roles.analyst]
grants = [
  { tables = ["orders"], rows = "customer = 'customer 3'", hidden = ["amount"] },
]

[roles.everything]
grants = [{ tables = ["*"] }]

[users]
loader = ["everything"]
"""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def folder(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates, users, tokens and policy."""
    path = tmp_path_factory.mktemp("security")
    server = authority.issue_cert("localhost", "127.0.0.1")
    server.private_key_and_cert_chain_pem.write_to_path(path / "server.pem")
    client = authority.issue_cert("loader.example.org")
    client.private_key_pem.write_to_path(path / "client.key")
    client.cert_chain_pems[0].write_to_path(path / "client.pem")
    authority.cert_pem.write_to_path(path / "ca.pem")
    (path / "policy.toml").write_text(POLICY)
    write_user(path / "users.toml", User("alice", hash_password(PASSWORD), (), frozenset({"analyst"})))
    return path


@pytest.fixture(scope="module")
def token(folder: Path) -> str:
    return create_token(folder / "tokens.toml", "report", "report", frozenset({"everything"}), None)


@pytest.fixture(scope="module")
def trust_store(folder: Path, classes: Path) -> Path:  # noqa: ARG001 - what is missing skips here too
    """A Java key store that trusts the authority."""
    path = folder / "trust.p12"
    command = [str(drivers.jdk() / "keytool"), "-importcert", "-noprompt", "-alias", "ca"]
    command += ["-file", str(folder / "ca.pem"), "-keystore", str(path), "-storepass", "changeit"]
    subprocess.run(command, check=True, capture_output=True)
    return path


@contextmanager
def encrypting(root: Path, folder: Path, *settings: str) -> Iterator[str]:
    """Starts a gateway with a certificate; its address, as JDBC spells it."""
    server = folder / "server.pem"
    options = (f"tls.certificate_file={server}", f"tls.key_file={server}", *settings)
    with GatewayProcess(root, *(f"--set={option}" for option in options)) as process:
        yield f"jdbc:arrow-flight-sql://localhost:{process.uri.rpartition(':')[2]}/"


@pytest.fixture(scope="module")
def address(root: Path, folder: Path, token: str) -> Iterator[str]:  # noqa: ARG001 - it writes a file
    """A gateway that asks for passwords or tokens."""
    settings = [f"auth.{name}_file={folder / name}.toml" for name in ("users", "tokens", "policy")]
    with encrypting(root, folder, *settings) as address:
        yield address


@pytest.fixture(scope="module")
def certified(root: Path, folder: Path) -> Iterator[str]:
    """The URL of a gateway that asks for certificates."""
    authority = folder / "ca.pem"
    settings = (f"tls.client_ca_file={authority}", "auth.certificates=true")
    with encrypting(root, folder, *settings) as address:
        yield f"{address}?tlsRootCerts={authority}"


@pytest.fixture(scope="module")
def url(address: str, folder: Path) -> str:
    return f"{address}?tlsRootCerts={folder / 'ca.pem'}"


@pytest.fixture(scope="module")
def login() -> tuple[str, str]:
    return "user=alice", f"password={PASSWORD}"


def test_a_user_sees_what_the_policy_grants(jvm: Jvm, url: str) -> None:
    facts = jvm.run("Grants", url, "alice", PASSWORD)
    assert [row["TABLE_NAME"] for row in facts["tables"]] == ["orders"]
    assert [row["COLUMN_NAME"] for row in facts["columns"]] == ["id", "customer"]
    assert facts["rows"] == [[3, "customer 3"], [10, "customer 3"], [17, "customer 3"]]
    assert "Table 'types' does not exist" in facts.failure("a hidden table").text


def test_a_trust_store_is_trusted(jvm: Jvm, address: str, trust_store: Path, login: tuple[str, str]) -> None:
    parameters = f"trustStore={trust_store}&trustStorePassword=changeit&useSystemTrustStore=false"
    assert jvm.run("Query", f"{address}?{parameters}", COUNT, *login)["rows"] == [[143]]


def test_a_certificate_may_go_unverified(jvm: Jvm, address: str, login: tuple[str, str]) -> None:
    facts = jvm.run("Query", f"{address}?disableCertificateVerification=true", COUNT, *login)
    assert facts["rows"] == [[143]]


def test_a_connection_may_be_encrypted_without_a_login(jvm: Jvm, root: Path, folder: Path) -> None:
    with encrypting(root, folder) as address:
        trusting = f"{address}?tlsRootCerts={folder / 'ca.pem'}"
        assert jvm.run("Query", trusting, COUNT)["rows"] == [[1000]]


def test_a_login_may_go_without_encryption(
    jvm: Jvm, root: Path, folder: Path, login: tuple[str, str]
) -> None:
    settings = [f"--set=auth.{name}_file={folder / name}.toml" for name in ("users", "policy")]
    with GatewayProcess(root, *settings) as process:
        url = f"jdbc:arrow-flight-sql://{process.uri.removeprefix('grpc://')}/?useEncryption=false"
        assert jvm.run("Query", url, COUNT, *login)["rows"] == [[143]]
        refused = jvm.run("Query", url, COUNT, "user=alice", "password=wrong").failure("connect")
        assert "the user name or the password is wrong" in refused.text


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ("", "unable to find valid certification path"),
        ("useEncryption=false", "Network closed for unknown reason"),
    ],
)
def test_without_trust_or_encryption_nothing_is_sent(
    jvm: Jvm, address: str, login: tuple[str, str], parameters: str, complaint: str
) -> None:
    failure = jvm.run("Query", f"{address}?{parameters}", COUNT, *login).failure("connect")
    assert failure.kind == "java.sql.SQLException"
    assert complaint in failure.text


def test_a_token_is_a_login(jvm: Jvm, url: str, token: str) -> None:
    assert jvm.run("Query", url, COUNT, f"token={token}")["rows"] == [[1000]]


@pytest.mark.parametrize(
    "credentials",
    [("user=alice", "password=wrong"), ("user=nobody", f"password={PASSWORD}")],
    ids=["wrong password", "unknown user"],
)
def test_a_wrong_login_says_nothing_about_what_is_wrong(
    jvm: Jvm, url: str, credentials: tuple[str, str]
) -> None:
    failure = jvm.run("Query", url, COUNT, *credentials).failure("connect")
    assert failure.kind == "java.sql.SQLException"
    assert failure.state is None
    assert "the user name or the password is wrong" in failure.text
    assert "Traceback" not in failure.text


def test_a_wrong_token_is_refused_when_connecting(jvm: Jvm, url: str) -> None:
    failure = jvm.run("Query", url, COUNT, "token=lgw_wrong").failure("connect")
    assert "token" in failure.text


def test_without_a_login_the_first_statement_fails(jvm: Jvm, url: str) -> None:
    assert "authentication is required" in jvm.run("Query", url, COUNT).failure("rows").text


def test_a_client_certificate_is_a_login(jvm: Jvm, certified: str, folder: Path) -> None:
    certificate = f"&clientCertificate={folder / 'client.pem'}&clientKey={folder / 'client.key'}"
    assert jvm.run("Query", certified + certificate, COUNT)["rows"] == [[1000]]
    assert jvm.run("Query", certified, COUNT).failure("rows").kind == "java.sql.SQLException"
