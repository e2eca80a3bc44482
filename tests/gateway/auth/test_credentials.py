"""Whatever a caller presents is understood or refused, and never a failure of the gateway."""

import base64
import json
from pathlib import Path

import jwt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lance_gateway.gateway.auth.credentials import (
    LEGACY_HEADER,
    Basic,
    Bearer,
    UnauthenticatedError,
    read_credentials,
)
from lance_gateway.gateway.auth.jwt import JwtVerifier, open_keys
from tests.gateway.auth.tokens.keys import AUDIENCE, ISSUER, Signer, good_claims

SIGNER = Signer("key-1")


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@pytest.mark.parametrize(
    ("headers", "credentials"),
    [
        ({}, None),
        ({"authorization": []}, None),
        ({LEGACY_HEADER: [b""]}, None),
        ({"authorization": ["Bearer t"]}, Bearer("t")),
        ({"authorization": [" bearer  t "]}, Bearer("t")),
        ({"authorization": ["Bearer t", "Bearer t"]}, Bearer("t")),
        ({"authorization": ["BASIC " + encoded("u:p")]}, Basic("u", "p")),
        ({"authorization": ["Basic " + encoded("u:p:q")]}, Basic("u", "p:q")),
        ({"authorization": ["Basic " + encoded("ü:")]}, Basic("ü", "")),
        ({"authorization": ["Basic " + encoded("u:pw").rstrip("=")]}, Basic("u", "pw")),
        ({LEGACY_HEADER: [b"t"]}, Bearer("t")),
        ({"authorization": ["Bearer t"], LEGACY_HEADER: [b"other"]}, Bearer("t")),
    ],
)
def test_headers_are_read(headers: dict[str, list[str | bytes]], credentials: Basic | Bearer | None) -> None:
    assert read_credentials(headers) == credentials


def test_secrets_are_not_shown() -> None:
    assert repr(Basic("u", "secret")) == "Basic(name='u')"
    assert repr(Bearer("secret")) == "Bearer()"


@pytest.mark.slow
@given(st.lists(st.text(st.characters(max_codepoint=126))), st.lists(st.binary()))
def test_any_header_is_read_or_refused(texts: list[str], tokens: list[bytes]) -> None:
    for prefix in ("", "Basic ", "Bearer "):
        try:
            read_credentials({"authorization": [prefix + text for text in texts], LEGACY_HEADER: tokens})
        except UnauthenticatedError:
            continue


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> JwtVerifier:
    path: Path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_text(SIGNER.key_set())
    return JwtVerifier(open_keys(str(path)), ISSUER, AUDIENCE)


@given(
    header=st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "zip"]), json_values)
    | json_values,
    valid=st.booleans(),
    body=json_values | st.binary(),
    signature=st.binary(max_size=80),
)
@pytest.mark.slow
def test_any_token_is_refused(
    verifier: JwtVerifier, header: object, valid: bool, body: object, signature: bytes
) -> None:
    if valid and isinstance(header, dict):
        header = header | {"alg": "ES256", "kid": "key-1"}
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    parts = (json.dumps(header).encode(), payload, signature)
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    with pytest.raises(UnauthenticatedError):
        verifier.verify(token)


@pytest.mark.parametrize("part", [0, 1])
def test_a_token_that_is_nested_without_end_is_refused(verifier: JwtVerifier, part: int) -> None:
    parts = [encoded(json.dumps({"alg": "ES256", "kid": "key-1"})), encoded("{}"), encoded("s")]
    parts[part] = encoded("[" * 8000)
    with pytest.raises(UnauthenticatedError):
        verifier.verify(".".join(parts).replace("=", ""))


@pytest.mark.slow
@example(claims={"exp": float("inf")})
@example(claims={"exp": 10**400})
@example(claims={"nbf": float("nan")})
@given(
    claims=st.dictionaries(st.sampled_from(["sub", "exp", "nbf", "iat", "aud", "iss", "roles"]), json_values)
)
def test_any_claims_that_are_signed_are_taken_or_refused(
    verifier: JwtVerifier, claims: dict[str, object]
) -> None:
    # PyJWT would check some of these before it signs.
    payload = json.dumps(good_claims() | claims).encode()
    token = jwt.api_jws.encode(payload, SIGNER.private, "ES256", {"kid": "key-1"})
    try:
        verifier.verify(token)
    except UnauthenticatedError:
        return
