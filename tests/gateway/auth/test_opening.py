"""From the configuration to the security of a server: what is on, and when a server may be open."""

import logging
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.gateway.auth.gateway_tokens import create_token
from lance_gateway.gateway.config.sections.auth import AuthSection
from lance_gateway.gateway.config.sections.serving import TlsSection
from lance_gateway.gateway.protocol.identity import ANONYMOUS, Identity
from lance_gateway.gateway.start.opening import open_security
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError
from lance_gateway.planner.access.rights import FULL_ACCESS
from tests.gateway.auth.conftest import QUICK
from tests.gateway.auth.tokens.keys import AUDIENCE, ISSUER

POLICY = '[roles.viewer]\ngrants = [{ tables = ["orders"] }]\n[users]\nanonymous = ["viewer"]\n'


def opened(host: str = "127.0.0.1", tls: TlsSection | None = None, **auth: Any) -> Any:
    return open_security(tls or TlsSection(), AuthSection(**auth), host=host, hasher=QUICK)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_the_loopback_interface_authentication_may_be_off(host: str) -> None:
    security = opened(host)
    assert security.authenticator is None
    assert security.access(ANONYMOUS) is FULL_ACCESS


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "gateway.example.org", "localhost.example.org"]
)
def test_elsewhere_it_must_be_said(host: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PreconditionError, match=r"no authentication is set: .* or say --insecure"):
        opened(host)
    assert opened(host, insecure=True).authenticator is None
    assert "without authentication" in caplog.text


def test_elsewhere_passwords_without_tls_are_warned_about(
    users_file: Path, server_tls: TlsSection, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert opened("0.0.0.0", server_tls, users_file=users_file).authenticator is not None
        assert caplog.text == ""
        assert opened("0.0.0.0", users_file=users_file).authenticator is not None
        assert "without TLS" in caplog.text


def test_a_client_authority_alone_is_no_authentication(server_tls: TlsSection) -> None:
    assert server_tls.certificate_file is not None
    tls = server_tls.model_copy(update={"client_ca_file": server_tls.certificate_file.with_name("ca.pem")})
    with pytest.raises(PreconditionError, match=r"auth\.certificates"):
        opened("0.0.0.0", tls)
    assert opened("0.0.0.0", tls, certificates=True).authenticator.uses_certificates


def test_each_way_turns_authentication_on(users_file: Path, jwks_file: Path, tmp_path: Path) -> None:
    create_token(tmp_path / "tokens.toml", "t", "u", frozenset())
    jwt = {"jwks": str(jwks_file), "issuer": ISSUER, "audience": AUDIENCE}
    for way in ({"users_file": users_file}, {"tokens_file": tmp_path / "tokens.toml"}, {"jwt": jwt}):
        security = opened(**way)
        assert security.authenticator is not None
        assert not security.authenticator.uses_certificates
        assert security.tls == {}


@pytest.mark.parametrize(
    ("auth", "complaint"),
    [
        ({"certificates": True}, "without tls.client_ca_file"),
        ({"users_file": "/no/users.toml"}, "'/no/users.toml' cannot be read"),
        ({"tokens_file": "/no/tokens.toml"}, "'/no/tokens.toml' cannot be read"),
        ({"policy_file": "/no/policy.toml"}, "'/no/policy.toml' cannot be read"),
        (
            {"jwt": {"jwks": "/no/keys.json", "issuer": "i", "audience": "a"}},
            "'/no/keys.json' cannot be read",
        ),
        ({"jwt": {"jwks": "https://id.example.org/keys"}}, "without issuer and audience"),
        ({"jwt": {"jwks": "http://id.example.org/keys", "issuer": "i", "audience": "a"}}, "use https"),
    ],
)
def test_what_cannot_be_is_refused_at_the_beginning(auth: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LanceGatewayError, match=complaint):
        opened(**auth)


def test_a_certificate_needs_its_key(server_tls: TlsSection) -> None:
    with pytest.raises(InvalidInputError, match=r"without tls\.key_file"):
        opened(tls=TlsSection(certificate_file=server_tls.certificate_file))


def test_without_a_policy_everybody_sees_everything(users_file: Path) -> None:
    security = opened(users_file=users_file)
    alice = security.access(Identity("alice", frozenset({"analyst"}), "password"))
    assert (alice.user, alice.is_admin) == ("alice", False)
    assert alice.of("orders").is_unrestricted
    assert security.access(Identity("alice", frozenset({"analyst"}), "password")) is alice
    assert security.access(Identity("root", frozenset({"admin"}), "password")).is_admin


def test_a_policy_counts_with_and_without_authentication(users_file: Path, tmp_path: Path) -> None:
    policy_file = tmp_path / "policy.toml"
    policy_file.write_text(POLICY)
    for security in (opened(policy_file=policy_file), opened(users_file=users_file, policy_file=policy_file)):
        assert security.access(ANONYMOUS).of("orders") is not None
        assert security.access(ANONYMOUS).of("other") is None
        assert security.access(Identity("alice", frozenset(), "password")).of("orders") is None
