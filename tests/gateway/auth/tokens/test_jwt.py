"""JSON Web Tokens: which are believed, and whom they stand for."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pyarrow import flight

from lance_gateway.gateway.auth.credentials import UnauthenticatedError
from lance_gateway.gateway.auth.gateway_tokens import hash_token
from lance_gateway.gateway.auth.jwt import JwtVerifier, open_keys
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.errors import InvalidInputError
from tests.gateway.auth.conftest import Clock, Guarded, uri_of
from tests.gateway.auth.tokens.keys import AUDIENCE, ISSUER, Signer, good_claims

HEADER = "adbc.flight.sql.rpc.call_header.authorization"


@pytest.fixture
def verifier(jwks_file: Path) -> JwtVerifier:
    return JwtVerifier(open_keys(str(jwks_file)), ISSUER, AUDIENCE)


def test_a_token_stands_for_a_user_with_roles(verifier: JwtVerifier, signer: Signer) -> None:
    assert verifier.verify(signer.sign()) == Identity("carol", frozenset({"analyst"}), "jwt")


@pytest.mark.parametrize(
    ("claims", "headers"),
    [
        ({"exp": int(time.time()) - 60}, {}),
        ({"exp": None}, {}),
        ({"exp": "soon"}, {}),
        ({"nbf": int(time.time()) + 86_400}, {}),
        ({"iat": int(time.time()) + 86_400}, {}),
        ({"aud": "another-service"}, {}),
        ({"aud": None}, {}),
        ({"iss": "https://evil.example.org"}, {}),
        ({"iss": None}, {}),
        ({"sub": None}, {}),
        ({"sub": ""}, {}),
        ({"sub": "two\nlines"}, {}),
        ({}, {"kid": "key-2"}),
        ({}, {"kid": "../../etc/passwd"}),
        ({}, {"crit": ["x"], "x": 1}),
    ],
)
def test_a_token_that_is_not_right_is_refused_without_a_reason(
    verifier: JwtVerifier, signer: Signer, claims: dict[str, Any], headers: dict[str, Any]
) -> None:
    with pytest.raises(UnauthenticatedError, match=r"^the token is not valid, or no longer$"):
        verifier.verify(signer.sign(headers=headers, **claims))


def test_a_signature_of_another_key_is_refused(verifier: JwtVerifier) -> None:
    with pytest.raises(UnauthenticatedError):
        verifier.verify(Signer("key-1").sign())


def test_a_token_that_was_changed_is_refused(verifier: JwtVerifier, signer: Signer) -> None:
    header, _, signature = signer.sign().split(".")
    body = jwt.utils.base64url_encode(json.dumps(good_claims() | {"sub": "root"}).encode()).decode()
    for forged in (
        f"{header}.{body}.{signature}",
        f"{header}.{body}.",
        "a.b.c",
        "..",
        f"{header}.{header}.{header}",
    ):
        with pytest.raises(UnauthenticatedError):
            verifier.verify(forged)


def test_a_token_without_a_signature_is_refused(verifier: JwtVerifier) -> None:
    for name in ("none", "None", "NONE"):
        token = jwt.encode(good_claims(), "", algorithm="none", headers={"kid": "key-1"})
        _, body, _ = token.split(".")
        header = jwt.utils.base64url_encode(json.dumps({"alg": name, "kid": "key-1"}).encode()).decode()
        with pytest.raises(UnauthenticatedError):
            verifier.verify(f"{header}.{body}.")


def test_a_public_key_is_no_shared_secret(verifier: JwtVerifier, signer: Signer) -> None:
    public = signer.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    body = jwt.utils.base64url_encode(json.dumps(good_claims()).encode()).decode()
    header = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", "kid": "key-1"}).encode()).decode()
    algorithm = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = jwt.utils.base64url_encode(algorithm.sign(f"{header}.{body}".encode(), public)).decode()
    with pytest.raises(UnauthenticatedError):
        verifier.verify(f"{header}.{body}.{signature}")


def test_an_algorithm_that_is_not_listed_is_refused(jwks_file: Path, signer: Signer) -> None:
    with pytest.raises(UnauthenticatedError):
        JwtVerifier(open_keys(str(jwks_file)), ISSUER, AUDIENCE, algorithms=["RS256"]).verify(signer.sign())


def test_rsa_signs_as_well(tmp_path: Path) -> None:
    private = rsa.generate_private_key(65537, 2048)
    key = jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key(), as_dict=True) | {
        "kid": "r",
        "alg": "RS256",
    }
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [key]}))
    verifier = JwtVerifier(open_keys(str(path)), ISSUER, AUDIENCE)
    token = jwt.encode(good_claims(), private, algorithm="RS256", headers={"kid": "r"})
    assert verifier.verify(token).name == "carol"
    # The key is for one algorithm; another of its family is another.
    other = jwt.encode(good_claims(), private, algorithm="RS512", headers={"kid": "r"})
    with pytest.raises(UnauthenticatedError):
        JwtVerifier(open_keys(str(path)), ISSUER, AUDIENCE, algorithms=["RS256", "RS512"]).verify(other)


def test_clocks_may_differ_a_little(jwks_file: Path, signer: Signer) -> None:
    late = signer.sign(exp=int(time.time()) - 20)
    assert JwtVerifier(open_keys(str(jwks_file)), ISSUER, AUDIENCE, leeway=60.0).verify(late).name == "carol"
    with pytest.raises(UnauthenticatedError):
        JwtVerifier(open_keys(str(jwks_file)), ISSUER, AUDIENCE, leeway=0.0).verify(late)


class Source:
    """One key, as a test exchanges it."""

    def __init__(self, signer: Signer) -> None:
        self.key = jwt.PyJWK(signer.public())

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        return self.key if key_id == self.key.key_id else None


def test_a_token_that_was_verified_counts_until_it_ends_or_its_key_goes(signer: Signer) -> None:
    clock, source = Clock(), Source(signer)
    clock.now = time.time()
    verifier = JwtVerifier(source, ISSUER, AUDIENCE, leeway=0.0, now=clock)
    token = signer.sign(exp=int(clock.now) + 600)
    first = verifier.verify(token)
    assert verifier.verify(token) is first
    # The same key, fetched again: verified again.
    source.key = jwt.PyJWK(signer.public())
    assert verifier.verify(token) == first
    clock.now += 601
    assert not verifier._is_current(verifier._verified[hash_token(token)])
    clock.now -= 601
    source.key = jwt.PyJWK(Signer("key-1").public())
    with pytest.raises(UnauthenticatedError):
        verifier.verify(token)


@pytest.mark.parametrize(
    ("roles_claim", "claims", "roles"),
    [
        ("groups", {"groups": ["a", "b", 3]}, {"a", "b"}),
        ("scope", {"scope": "openid a b"}, {"openid", "a", "b"}),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, {"a"}),
        ("https://example.org/roles", {"https://example.org/roles": ["a"]}, {"a"}),
        ("absent", {}, set()),
        ("absent.too", {"absent": "text"}, set()),
        ("roles", {"roles": {"a": 1}}, set()),
    ],
)
def test_roles_come_from_a_claim(
    jwks_file: Path, signer: Signer, roles_claim: str, claims: dict[str, Any], roles: set[str]
) -> None:
    verifier = JwtVerifier(open_keys(str(jwks_file)), ISSUER, AUDIENCE, roles_claim=roles_claim)
    assert verifier.verify(signer.sign(**claims)).roles == roles


def test_the_user_comes_from_a_claim(jwks_file: Path, signer: Signer) -> None:
    verifier = JwtVerifier(open_keys(str(jwks_file)), ISSUER, AUDIENCE, user_claim="email")
    assert verifier.verify(signer.sign(email="c@example.org")).name == "c@example.org"


def test_one_of_several_audiences_is_enough(jwks_file: Path, signer: Signer) -> None:
    verifier = JwtVerifier(open_keys(str(jwks_file)), ISSUER, ["a", "b"])
    assert verifier.verify(signer.sign(aud=["b", "c"])).name == "carol"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"issuer": ""}, "without issuer and audience"),
        ({"audience": ()}, "without issuer and audience"),
        ({"algorithms": ["none"]}, "choose some of"),
        ({"algorithms": ["ES256", "HS256"]}, "choose some of"),
        ({"algorithms": []}, "choose some of"),
    ],
)
def test_checks_that_check_nothing_are_refused(
    jwks_file: Path, change: dict[str, Any], complaint: str
) -> None:
    arguments: dict[str, Any] = {"keys": open_keys(str(jwks_file)), "issuer": ISSUER, "audience": AUDIENCE}
    with pytest.raises(InvalidInputError, match=complaint):
        JwtVerifier(**(arguments | change))


@pytest.fixture
def server(guarded: Guarded, jwks_file: Path) -> Iterator[GatewayServer]:
    with guarded(jwt={"jwks": str(jwks_file), "issuer": ISSUER, "audience": AUDIENCE}) as server:
        yield server


def test_adbc_presents_a_token_with_every_call(server: GatewayServer, signer: Signer) -> None:
    options = {HEADER: f"Bearer {signer.sign()}"}
    with (
        flightsql.connect(uri_of(server), db_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT count(*) FROM orders")
        assert cursor.fetchone() == (1000,)


def test_a_server_that_knows_no_passwords_says_so(server: GatewayServer, signer: Signer) -> None:
    with flight.FlightClient(uri_of(server)) as client:
        with pytest.raises(flight.FlightUnauthenticatedError, match="accepts no passwords: send a token"):
            client.authenticate_basic_token("alice", "password")
        with pytest.raises(flight.FlightUnauthenticatedError, match=r"required: send a bearer token\."):
            list(client.list_actions())
        bad = flight.FlightCallOptions(
            headers=[(b"authorization", f"Bearer {signer.sign(aud='x')}".encode())]
        )
        with pytest.raises(flight.FlightUnauthenticatedError, match="the token is not valid"):
            list(client.list_actions(bad))
